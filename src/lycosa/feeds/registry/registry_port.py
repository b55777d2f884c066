"""The port between a registry and the database that has its tables, and its errors.

    RegistryPlace.open ──► RegistryTables ──► write, write_captures, complete ──► close

A step's rows and the positions up to which they were written change as one: after a failure at any
moment, a position that is in the database has all its rows there too. A row is replaced only by
the row of a later commit. So repeated and late steps change nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from lycosa.feeds.projector_source import JournalPosition
from lycosa.feeds.registry.registry_rows import HostSummary, Row, RowTime
from lycosa.state.commit import Mark
from lycosa.state.shard.view import CrawlOrigin

REGISTRY_FORMAT = 2


class RegistryError(Exception):
    """The registry cannot be written, and waiting does not help."""


class DatabaseAway(Exception):
    """The database does not answer, or has ended the connection."""


class PositionsMoved(Exception):
    """Another projector has written to the registry."""


class DeletedRow(NamedTuple):
    """A row that a commit deleted; ``key`` is that of the record of the URL or host."""

    key: bytes
    host: HostSummary
    when: RowTime


@dataclass(frozen=True, slots=True)
class RegistryStep:
    """Rows, and the positions that they reach.

    ``deleted`` are URLs and hosts without a record. ``recovered`` are URLs that were dead letters
    in an earlier commit of the step, or before its state, and are in another state now.
    ``is_whole``: the rows are those of a state that is read whole. The rows of all URLs of a host
    follow, so a changed status of the host need not be carried to them.
    """

    hosts: Iterable[Row] = ()
    urls: Iterable[Row] = ()
    deleted: Collection[DeletedRow] = ()
    recovered: Collection[DeletedRow] = ()
    positions: Mapping[int, RowTime] = field(default_factory=dict)
    is_whole: bool = False


class CaptureStep(NamedTuple):
    """Rows of the crawl log from one segment's journal, read from ``before`` to byte ``end``."""

    segment: str
    rows: Iterator[Row]
    before: JournalPosition
    end: int
    is_closed: bool


class RegistryTables(Protocol):
    """An opened registry. All calls block and may raise ``DatabaseAway`` and ``RegistryError``.

    ``positions`` has the last commit of each partition that is whole, ``journals`` how much of each
    segment's journal the crawl log has; both as found on opening and written since.
    """

    positions: dict[int, Mark]
    journals: dict[str, JournalPosition]
    is_complete: bool

    def write(self, step: RegistryStep, forgotten: int | None = None) -> dict[bytes, str]:
        """Write a step, and delete the position of the partition ``forgotten``.

        Returns the hosts whose queued URLs got another status by it. Raises ``PositionsMoved`` when
        the positions in the database are not those that were found or written.
        """
        ...

    def write_captures(self, step: CaptureStep) -> int:
        """Add captures and move the position of their journal. Returns their number."""
        ...

    def find_hosts(self, host8s: Collection[bytes]) -> dict[bytes, HostSummary]:
        """The facts of these hosts; it may not know all."""
        ...

    def complete(self) -> None:
        """Note that the whole crawl has been written once, and do what was put off until then."""
        ...

    def close(self) -> None:
        """Close the connection. What was not written as a whole is written again later."""
        ...


class RegistryPlace(Protocol):
    """Where the tables of one crawl's registry are."""

    @property
    def name(self) -> str:
        """The place for messages, without a password."""
        ...

    def open(self, origin: CrawlOrigin, is_rebuilt: bool) -> RegistryTables:
        """Connect, create the tables that are missing, and read the positions.

        ``is_rebuilt`` deletes the tables first. Raises ``DatabaseAway``, and ``RegistryError`` when
        the place has another crawl's registry.
        """
        ...


def check_owner(
    place: str, origin: CrawlOrigin, found: tuple[int, str, str], another: str, is_rebuilt: bool
) -> None:
    """Refuse another crawl's registry, and the format of a newer version.

    A registry of an older format gets the columns that it lacks (``added_since``).

    ``found`` is the format of a registry, the id of its crawl and its name; ``another`` says how to
    choose another place. Raises ``RegistryError``.
    """
    number, crawl, name = found
    if crawl != origin.manifest.crawl:
        raise RegistryError(
            f"{place} has the registry of another crawl, {name} ({crawl}); choose another {another}"
        )
    if number > REGISTRY_FORMAT and not is_rebuilt:
        raise RegistryError(
            f"{place} has a registry of format {number}, and this version writes"
            f" {REGISTRY_FORMAT}; use the newer version, or --rebuild"
        )


def counted_rows(rows: Iterable[Row], count: list[int]) -> Iterator[Row]:
    """The same rows, while ``count[0]`` grows by one for each."""
    for row in rows:
        count[0] += 1
        yield row
