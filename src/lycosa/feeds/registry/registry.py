"""A crawl's registry: writes the rows of its commits to any database behind ``RegistryTables``.

Rows and the position up to which they were written change as one, so the registry is always the
state after some commit of each partition. The URLs of a partition that is read whole are written
while its later commits are followed; its position is set when all of them are there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping

from lycosa.base.model.url_state import UrlState
from lycosa.feeds.projector_source import UNREAD, CaptureLines, JournalPosition
from lycosa.feeds.registry.changed_rows import Changes, WrittenValue
from lycosa.feeds.registry.registry_port import (
    CaptureStep,
    DeletedRow,
    RegistryPlace,
    RegistryStep,
    RegistryTables,
)
from lycosa.feeds.registry.registry_rows import (
    HostSummary,
    Row,
    RowTime,
    lost_host,
    registry_capture,
    registry_host,
    registry_url,
    summary_of_host,
)
from lycosa.stages.frontier.visit_state import VisitRecord, decode_visit
from lycosa.state.commit import Mark
from lycosa.state.kv.table_records import decode_url
from lycosa.state.shard.view import CrawlOrigin
from lycosa.state.store.journal import is_render
from lycosa.state.store.journal_rows import is_private_line
from lycosa.state.store.render_facts import RENDER_LINE

_CACHED_HOSTS = 50_000


class Registry:
    """The registry of one crawl in one place. Calls block.

    Every call may raise ``DatabaseAway``, after which ``open`` connects again, and
    ``RegistryError``.
    """

    def __init__(self, place: RegistryPlace, origin: CrawlOrigin) -> None:
        self._place, self._origin = place, origin
        self._sites = origin.sites()
        self._tables: RegistryTables | None = None
        self._hosts: OrderedDict[bytes, HostSummary] = OrderedDict()
        self._loading: dict[int, RowTime] = {}
        self.turned: dict[bytes, str] = {}
        """Hosts that got another status while the URLs of their partition are read whole."""

    @property
    def place(self) -> str:
        """Where the registry is, for messages."""
        return self._place.name

    @property
    def positions(self) -> Mapping[int, Mark]:
        """The last commit of each partition that the registry has whole."""
        return self._tables.positions if self._tables else {}

    @property
    def followed(self) -> dict[int, Mark]:
        """The last commit of each partition that is whole, or whose URLs are being read."""
        return {**self.positions, **{number: when.mark for number, when in self._loading.items()}}

    @property
    def journals(self) -> Mapping[str, JournalPosition]:
        """How much of each segment's journal the crawl log has."""
        return self._tables.journals if self._tables else {}

    @property
    def is_complete(self) -> bool:
        """Whether the whole crawl has been written once."""
        return self._opened.is_complete

    def open(self, is_rebuilt: bool = False) -> None:
        """Connect, create what is missing, and read the positions.

        ``is_rebuilt`` deletes the tables first. Raises ``RegistryError`` when the place has another
        crawl's registry.
        """
        self.close()
        self._tables = self._place.open(self._origin, is_rebuilt)

    def close(self) -> None:
        """Close the connection. What was not committed is lost."""
        if self._tables is not None:
            self._tables.close()
        self._tables = None
        self._hosts.clear()
        self._loading.clear()

    def write_changes(self, changes: Changes) -> None:
        """Write the changes of some commits and the new positions.

        Raises ``PositionsMoved``.
        """
        hosts = {
            key: (each, decode_visit(each.value))
            for key, each in changes.hosts.items()
            if each.value is not None
        }
        facts = self._facts(hosts, {key[1:9] for key in (*changes.urls, *changes.hosts)})
        loading = changes.positions.keys() & self._loading.keys()
        turned = self._opened.write(
            RegistryStep(
                hosts=(
                    registry_host(each.partition, key, record, facts[key[1:]], each.when)
                    for key, (each, record) in hosts.items()
                ),
                urls=_url_rows(changes, facts),
                deleted=_deleted_rows(changes, facts),
                recovered=_recovered_rows(changes, facts),
                positions={n: each for n, each in changes.positions.items() if n not in loading},
            )
        )
        loaded = {key[1:] for key, (each, _) in hosts.items() if each.partition in self._loading}
        self.turned |= {host8: state for host8, state in turned.items() if host8 in loaded}
        self._loading |= {number: changes.positions[number] for number in loading}
        self._cache(facts, changes)

    def write_part(self, hosts: Iterable[Row], urls: Iterable[Row]) -> None:
        """Write rows of a state that is read whole; the position does not change yet."""
        self._opened.write(RegistryStep(hosts=hosts, urls=urls, is_whole=True))

    def write_recovered(self, rows: Collection[DeletedRow]) -> None:
        """Note URLs that were dead letters before the state that is read whole, and are not now."""
        self._opened.write(RegistryStep(recovered=rows, is_whole=True))

    def begin_urls(self, partition: int, when: RowTime) -> None:
        """Note that all hosts of a partition are there, as of a commit, and its URLs are written
        next. From now on later commits of the partition may be written in between.
        """
        self._loading = {partition: when}
        self.turned.clear()

    def finish_urls(self, partition: int) -> None:
        """Set the position of a partition whose URLs were all written.

        Nothing is deleted: a crawl never forgets a URL or a host.
        """
        self._opened.write(RegistryStep(positions={partition: self._loading[partition]}))
        del self._loading[partition]

    def forget_position(self, partition: int) -> None:
        """Note that a partition must be read whole."""
        if self._loading.pop(partition, None) is None:
            self._opened.write(RegistryStep(), forgotten=partition)

    def write_captures(self, new: CaptureLines) -> int:
        """Add the captures of new lines to the crawl log, but private ones.

        Returns the number of lines.
        """
        before = self.journals.get(new.segment, UNREAD)
        rows = (
            registry_capture(line)
            for line in new.lines
            if (RENDER_LINE not in line or not is_render(line)) and not is_private_line(line)
        )
        return self._opened.write_captures(
            CaptureStep(new.segment, rows, before, new.end, new.is_closed)
        )

    def complete(self) -> None:
        """Note that the whole crawl has been written once."""
        self._opened.complete()

    @property
    def _opened(self) -> RegistryTables:
        assert self._tables is not None, "the registry is not open"
        return self._tables

    def _facts(
        self, written: Mapping[bytes, tuple[WrittenValue, VisitRecord]], wanted: set[bytes]
    ) -> dict[bytes, HostSummary]:
        """The facts of the hosts that were written, and of the others that are wanted."""
        facts = {
            key[1:]: summary_of_host(record, self._sites) for key, (_, record) in written.items()
        }
        facts |= {
            host8: self._hosts[host8] for host8 in wanted - facts.keys() if host8 in self._hosts
        }
        if unknown := wanted - facts.keys():
            facts |= self._opened.find_hosts(unknown)
        return facts

    def _cache(self, facts: Mapping[bytes, HostSummary], changes: Changes) -> None:
        for host8, each in facts.items():
            self._hosts[host8] = each
            self._hosts.move_to_end(host8)
        for key, written in changes.hosts.items():
            if written.value is None:
                self._hosts.pop(key[1:], None)
        while len(self._hosts) > _CACHED_HOSTS:
            self._hosts.popitem(last=False)


def _url_rows(changes: Changes, facts: Mapping[bytes, HostSummary]) -> Iterator[Row]:
    for key, each in changes.urls.items():
        assert each.value is not None  # see ``Changes``
        host = facts.get(key[1:9]) or lost_host()
        yield registry_url(each.partition, key, decode_url(each.value), host, each.when)


def _recovered_rows(changes: Changes, facts: Mapping[bytes, HostSummary]) -> list[DeletedRow]:
    """The URLs that became dead letters in one of the commits and were queued again in a later."""
    found = []
    for key in changes.letters & changes.urls.keys():
        value = changes.urls[key].value
        if value is not None and decode_url(value).state is not UrlState.FAILED:
            host = facts.get(key[1:9]) or lost_host()
            found.append(DeletedRow(key, host, changes.urls[key].when))
    return found


def _deleted_rows(changes: Changes, facts: Mapping[bytes, HostSummary]) -> list[DeletedRow]:
    return [
        DeletedRow(key, facts.get(key[1:9]) or lost_host(), each.when)
        for key, each in changes.hosts.items()
        if each.value is None
    ]
