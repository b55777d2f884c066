"""The items of an extractor as rows of one table, whichever versions of it made them.

The table has the columns of all versions that are known. A row of another one, which a running
crawl may begin at any time, ends the export with ``TableChanged``; it begins again with the wider
table, behind the last row that was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from lycosa.base.model.item_schema import ItemColumn, ItemSchema
from lycosa.feeds.export_port import ExportColumn, ExportTable, TableChanged, TargetError
from lycosa.feeds.items_feed import ItemFeed
from lycosa.feeds.journal_lines import JournalLines

_OURS = (
    ExportColumn("_url", "text"),
    ExportColumn("_fetched", "time"),
    ExportColumn("_capture", "text"),
    ExportColumn("_version", "integer"),
    ExportColumn("_item", "integer"),
)


class _Row(msgspec.Struct):
    version: int = msgspec.field(name="_version")


_decode = msgspec.json.Decoder(_Row).decode


class KnownVersions:
    """The columns of the versions of an extractor that were met so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.schemas: dict[int, ItemSchema] = {}

    def table(self) -> ExportTable:
        """The columns of all, those of the newest version first. Raises ``TargetError``."""
        newest_first = [self.schemas[number] for number in sorted(self.schemas, reverse=True)]
        columns = tuple(
            ExportColumn(each.name, each.type) for each in _union(self.name, newest_first)
        )
        return ExportTable(
            f"items.{self.name}",
            (*_OURS, *columns),
            key=("_capture", "_item"),
            capture="_capture",
            version="_version",
            url="_url",
        )


def _union(name: str, schemas: Iterable[ItemSchema]) -> Iterable[ItemColumn]:
    found: dict[str, tuple[ItemColumn, int]] = {}
    for schema in schemas:
        for each in schema.columns:
            other, version = found.setdefault(each.name.lower(), (each, schema.version))
            if other.type != each.type:
                raise TargetError(
                    f"{name}: the field {each.name} is {each.type} in version {schema.version} and"
                    f" {other.type} in version {version}, so their items have no common table;"
                    " `lycosa extract --again` makes all of one version, and"
                    " `lycosa export` writes it"
                )
    return [column for column, _ in found.values()]


class ItemsExport:
    """The items after a position, as an ``ExportFeed``.

    ``known`` outlives the feed. Raises ``BadPosition`` or ``BadSchema``.
    """

    def __init__(self, lines: JournalLines, known: KnownVersions, after: str = "") -> None:
        self._lines, self._known, self.crawl = lines, known, lines.crawl
        self.feed = ItemFeed(lines, known.name, after)

    def learn_versions(self) -> bool:
        """Learn the versions that the journals name; whether there is one."""
        for header in self._lines.headers():
            for each in header.extractors:
                if each.name == self._known.name and (schema := each.columns()) is not None:
                    self._known.schemas.setdefault(each.version, schema)
        return bool(self._known.schemas)

    @property
    def table(self) -> ExportTable:
        """What the rows are. Raises ``TargetError``."""
        return self._known.table()

    @property
    def position(self) -> str:
        return self.feed.position

    @property
    def is_behind(self) -> bool:
        return self.feed.is_behind

    def names(self) -> list[str]:
        """The extractors that segments name."""
        return self.feed.names()

    def new_rows(self) -> Iterator[bytes]:
        """See ``RowFeed``. Raises ``TableChanged`` at an item of a version that is not known."""
        for row in self.feed.new_rows():
            if _decode(row).version not in self._known.schemas:
                self.learn_versions()
                raise TableChanged
            yield row
