"""The port to which the rows of a feed are exported: rows and position, written as one.

An exporter is the only part with effects outside the crawl's own files. It is a separate process
that reads what was committed, so a slow or dead target never holds the crawl up.

**Once.** ``write(rows, before, after)`` changes the target only if the position that is stored
there equals ``before``, and stores ``after`` in the same transaction. A process that is killed
leaves rows and position, or neither. Of two exporters to one target, as during a rolling restart,
the second of each step gets ``Overtaken``, reads the position again and continues behind it.

A target without transactions (OpenSearch) gets the rows first and the position after them. Writing
a row there a second time changes nothing, because its key and version are those of the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import msgspec

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class ExportColumn(NamedTuple):
    """A column. ``type`` is one of those of items (``base.model.item_schema``).

    ``default`` is the value in rows that leave the field out.
    """

    name: str
    type: str
    default: Any = None


class ExportTable(msgspec.Struct, frozen=True, dict=True):
    """What the rows of a feed are.

    ``key`` identifies a row. If ``capture`` names a column, all rows with one value of it belong
    together and come one after the other in a feed; they replace those that the target has of it.
    ``version`` names a column of whole numbers: of two rows with one key the greater counts.
    ``url`` names the column with the page's URL.
    """

    name: str
    columns: tuple[ExportColumn, ...]
    key: tuple[str, ...]
    capture: str = ""
    version: str = ""
    url: str = "url"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(each.name for each in self.columns)

    def index(self, name: str) -> int:
        """The place of a column."""
        return self.names.index(name)


class ExportRow:
    """A row of a feed: its line as JSON, and its values in the order of the columns."""

    __slots__ = ("line", "values")

    def __init__(self, table: ExportTable, line: bytes) -> None:
        given = _decode(line)
        self.line = line
        self.values = [given.get(name, default) for name, _, default in table.columns]


class Batch(NamedTuple):
    """When rows are written: as soon as one of these is reached, and at the end of a feed.

    ``seconds`` is how long rows of a crawl that is followed may wait for others. ``moves``: a
    position is stored without rows as well, when a feed has left rows out.
    """

    rows: int = 2000
    bytes: int = 16_000_000
    seconds: float = 0.0
    moves: bool = False


class TargetError(Exception):
    """A target cannot be written, and waiting does not help. The message says what to do."""


class TargetAway(Exception):
    """A target does not answer, or not now."""


class Overtaken(Exception):
    """The position in the target is not the one that the rows follow: another exporter wrote."""


class TableChanged(Exception):
    """A row has columns that the table lacks: the feed now has a wider table."""


class Exporter(Protocol):
    """A target of one feed. Every call may raise ``TargetAway``, ``TargetError`` or ``OSError``."""

    @property
    def name(self) -> str:
        """The target for messages, without a password."""
        ...

    @property
    def batch(self) -> Batch:
        """How many rows are best written at once."""
        ...

    def open(self) -> str:
        """Connect, create what is missing, and return the stored position, empty if none is."""
        ...

    def write(self, rows: Sequence[ExportRow], before: str, after: str) -> None:
        """Write rows and the position ``after`` as one, if the stored one is ``before``.

        Raises ``Overtaken``.
        """
        ...

    def close(self) -> None:
        """Release the target. It may be opened again."""
        ...
