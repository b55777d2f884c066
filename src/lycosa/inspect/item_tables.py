"""The tables of items in DuckDB: ``items.NAME`` with every item, and the view ``NAME``.

``items.NAME`` has each item that an extractor made, of each capture, in the version that readers
see (``store.item_versions``). ``NAME`` has the items of each URL as they are now: those of its
newest capture that says something about the content. A capture has no items itself when its
body is one that the URL had before: after a 304 those of the capture before count, and a body that
came back has the items of the capture that it is a revisit of. ``_fetched`` is the newest time. So
when a product was taken from a page, or the page is gone, ``NAME`` does not have it any more, and
``items.NAME`` still has.

As for other tables, segments without a table are read from their row journals, so nothing is
missing while the crawl runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lycosa.base.model.item_schema import ItemSchema
from lycosa.base.preferences.use_policy import UsePolicy
from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.text_choice import BETTER
from lycosa.state.shard.item_source import ItemSource
from lycosa.state.store.derived_files import ITEMS, begin_file, item_kind
from lycosa.state.store.item_versions import CurrentVersion, ItemListing, has_tables, seen_version
from lycosa.state.store.items_table import items_schema
from lycosa.state.store.journal_rows import Extractor, SegmentHeader
from lycosa.state.store.parquet import RowWriter
from lycosa.state.store.segments_port import StoredSegment

_SAYS_SOMETHING = "fetch_status BETWEEN 200 AND 299 OR fetch_status IN (301, 304, 308, 404, 410)"
# Errors that pass, and redirects for the moment, say nothing about what the page has.


class _Files(NamedTuple):
    """Parquet files of one version: from ``items/``, and made now from journals."""

    tables: list[Path]
    made: list[Path]


class ItemTables:
    """The items of a crawl, for the tables of a query.

    ``wanted`` are words of a query; tables that it does not name have only columns. ``policy`` is
    what the purpose allows, and if it ``is_other`` than that of the crawl, items of the journal
    come from the journals.
    """

    def __init__(
        self,
        reader: CrawlReader,
        wanted: Collection[str],
        work: Path,
        policy: UsePolicy,
        is_other: bool,
    ) -> None:
        self._reader, self._work = reader, work
        self._policy, self._is_other = policy, is_other
        self._source: ItemSource | None = reader.origin.items
        self._listing, self._headers = ItemListing(), dict[str, SegmentHeader]()
        self._current: dict[str, CurrentVersion] = {}
        self.files: list[Path] = []
        """The files that the tables read."""
        self.names: list[str] = []
        """The extractors that have tables."""
        self.wanted: list[str] = []
        """Those whose tables are filled."""
        if self._source is not None:
            self._listing = self._source.list_tables()
            self.names = self._find_names(self._source)
            named = {each.removeprefix(f"{ITEMS}.") for each in wanted}
            self.wanted = [each for each in self.names if each in named]

    def create(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the tables and views. The table ``fetches`` and the views of ``text_choice`` must
        be there, and filled if any extractor is ``wanted``.
        """
        connection.execute(f"CREATE SCHEMA {ITEMS}")
        has_renders = bool(connection.execute(f"SELECT 1 FROM {BETTER} LIMIT 1").fetchone())
        for name in self.names:
            files = self._files_of(name) if name in self.wanted else []
            files = files or [_Files([], [self._empty(name)])]
            for each in files:
                self.files += each.tables + each.made
            select = _union(connection, [self._select(*each) for each in files])
            connection.execute(f'CREATE VIEW {ITEMS}."{name}" AS {select}')
            select = (_WITH_RENDERS if has_renders else _OF_PAGES).format(name=name)
            view = _NEWEST.format(name=name, says_something=_SAYS_SOMETHING, chosen=select)
            connection.execute(view)

    def _find_names(self, source: ItemSource) -> list[str]:
        """Extractors with tables, and those of open segments and of others without tables."""
        names = set(self._listing.tables)
        there = {
            segment
            for versions in self._listing.tables.values()
            for segments in versions.values()
            for segment in segments
        }
        for segment in self._segments():
            is_sealed = segment.is_closed and self._reader.origin.is_cluster
            if segment.name not in there and not is_sealed:
                names |= {each.name for each in self._extractors(source, segment)}
        return sorted(names)

    def _segments(self) -> list[StoredSegment]:
        listed = self._reader.source.list_segments()
        return [each for each in listed if each.journal_length is not None]

    def _extractors(self, source: ItemSource, segment: StoredSegment) -> Sequence[Extractor]:
        """The extractors whose items a segment has with their columns."""
        if segment.name not in self._headers:
            self._headers[segment.name] = source.read_header(segment)
        return [each for each in self._headers[segment.name].extractors if each.fields]

    def _files_of(self, name: str) -> list[_Files]:
        """The files of a name, those of one version and the same columns together."""
        source, found = self._source, dict[tuple[int, str], _Files]()
        assert source is not None
        self._current[name] = source.current_version(self._listing, name)
        for segment in self._segments():
            seen, own = self._seen(source, name, segment)
            version = max(seen or 0, own or 0)
            if not version:
                continue
            is_table = seen == version and not (self._is_other and own == version)
            if is_table:
                table = self._listing.tables[name][version][segment.name]
                path = source.local_table(table, self._work)
            else:
                path = self._made(item_kind(name, version), segment)
            # A crawl may begin a version of the number that was given to items that were extracted
            # again, with other columns.
            is_shared = version in self._listing.made.get(name, set())
            columns = _columns(path) if is_shared else ""
            files = found.setdefault((version, columns), _Files([], []))
            (files.tables if is_table else files.made).append(path)
        return list(found.values())

    def _seen(
        self, source: ItemSource, name: str, segment: StoredSegment
    ) -> tuple[int | None, int | None]:
        """The version of a segment's table that readers see, and that of its journal.

        The second is looked up only where it matters.
        """
        seen = seen_version(self._listing, name, self._current[name], segment.name, None)
        if segment.is_closed and not self._is_other:
            if seen is not None:
                return seen, None
            # A sealed segment of a cluster has all of its tables.
            if self._reader.origin.is_cluster and not has_tables(self._listing, name, segment.name):
                return None, None
        versions = [x.version for x in self._extractors(source, segment) if x.name == name]
        own = max(versions, default=None)
        return seen_version(self._listing, name, self._current[name], segment.name, own), own

    def _made(self, kind: str, segment: StoredSegment) -> Path:
        """A temporary file with the items of a segment's journal."""
        path = self._path(kind, segment.name)
        header = msgspec.structs.replace(self._headers[segment.name], policy=self._policy)
        builder = begin_file(kind, path, header)
        try:
            for row in self._reader.source.read_rows(segment, b'"items":'):
                builder.add_row(row)
        finally:
            builder.close()
        return path

    def _empty(self, name: str) -> Path:
        """A file without rows that has the columns of the newest version."""
        path = self._path(item_kind(name, 1), "empty")
        schemas = [
            schema
            for header in self._headers.values()
            for each in header.extractors
            if each.name == name and (schema := each.columns()) is not None
        ]
        if schemas:
            newest: ItemSchema = max(schemas, key=lambda each: each.version)
            RowWriter(path, items_schema(newest), 1).close()
            return path
        assert self._source is not None
        versions = self._listing.tables[name]
        table = next(iter(versions[max(versions)].values()))
        columns = pq.read_schema(self._source.local_table(table, self._work))
        RowWriter(path, columns, 1).close()
        return path

    def _path(self, kind: str, segment: str) -> Path:
        folder = self._work / "made" / kind
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{segment}.parquet"

    def _select(self, tables: Sequence[Path], made: Sequence[Path]) -> str:
        """The rows of one version."""
        parts = []
        if tables:
            # Those of another purpose were left out of tables only as the crawl's purpose says.
            only = _ALLOWED if self._is_other else ""
            parts.append(f"SELECT * FROM {_parquet(tables)}{only}")
        if made:
            parts.append(f"SELECT * FROM {_parquet(made)}")
        return " UNION ALL BY NAME ".join(parts)


_ALLOWED = (
    " WHERE _capture IN (SELECT warc_record_id FROM fetches WHERE may_use IS DISTINCT FROM false)"
)
# Each column has the name of its table: the fields of an item may have any names.
_OF_PAGES = """
SELECT source.url AS _url, source.seen_at AS _fetched, made.* EXCLUDE (_url, _fetched)
FROM source JOIN items."{name}" made
    ON made._url = source.url AND made._fetched = source.made_at
"""
# Of a page that was rendered, the items of the document, unless the code found none there.
_WITH_RENDERS = f"""
, rendered AS (
    SELECT source.url, source.seen_at, r.warc_record_id
    FROM source JOIN {BETTER} r ON r.url = source.url AND r.fetch_time = source.body_at
    WHERE r.warc_record_id IN (SELECT _capture FROM items."{{name}}")
)
{_OF_PAGES} WHERE source.url NOT IN (SELECT url FROM rendered)
UNION ALL
SELECT rendered.url AS _url, rendered.seen_at AS _fetched, made.* EXCLUDE (_url, _fetched)
FROM rendered JOIN items."{{name}}" made ON made._capture = rendered.warc_record_id
"""
_NEWEST = """
CREATE VIEW "{name}" AS
WITH said AS (SELECT * FROM fetches WHERE kind = 'page' AND ({says_something})),
content AS (
    SELECT url, fetch_time AS made_at, duplicate_of_time, duplicate_of = url AS is_own
    FROM said WHERE fetch_status <> 304
    QUALIFY row_number() OVER (PARTITION BY url ORDER BY fetch_time DESC, fetch_number DESC) = 1
),
seen AS (
    SELECT url, max(fetch_time) AS seen_at, arg_max(coalesce(may_use, true), fetch_time) AS is_used
    FROM said GROUP BY url
),
source AS (
    SELECT content.url, seen.seen_at,
    coalesce(content.duplicate_of_time, content.made_at) AS body_at,
    CASE WHEN content.is_own AND NOT EXISTS (
        SELECT 1 FROM items."{name}" own
        WHERE own._url = content.url AND own._fetched = content.made_at
    ) THEN content.duplicate_of_time ELSE content.made_at END AS made_at
    FROM content JOIN seen ON seen.url = content.url WHERE seen.is_used
)
{chosen}
"""


def _columns(path: Path) -> str:
    """The columns of a table; empty if it is damaged, which the query reports."""
    try:
        return str(pq.read_schema(path))
    except (pa.ArrowException, OSError):
        return ""


def _parquet(paths: Sequence[Path]) -> str:
    files = ", ".join("'" + str(path).replace("'", "''") + "'" for path in paths)
    return f"read_parquet([{files}], union_by_name = true)"


def _union(connection: duckdb.DuckDBPyConnection, selects: Sequence[str]) -> str:
    """The rows of all versions. A column that is a list in one and none in another becomes text."""
    if len(selects) == 1:
        return selects[0]
    columns = [_types(connection, each) for each in selects]
    kinds: dict[str, set[bool]] = {}
    for each in columns:
        for name, type_ in each.items():
            kinds.setdefault(name, set()).add(type_.endswith("[]"))
    mixed = {name for name, found in kinds.items() if len(found) > 1}
    return " UNION ALL BY NAME ".join(
        _as_text(select, [name for name in types if name in mixed])
        for select, types in zip(selects, columns, strict=True)
    )


def _types(connection: duckdb.DuckDBPyConnection, select: str) -> dict[str, str]:
    rows: Callable[[], list[tuple[str, ...]]] = connection.execute(f"DESCRIBE {select}").fetchall
    return {name: kind for name, kind, *_ in rows()}


def _as_text(select: str, columns: Sequence[str]) -> str:
    if not columns:
        return f"SELECT * FROM ({select})"
    casts = ", ".join(f'CAST("{each}" AS VARCHAR) AS "{each}"' for each in columns)
    return f"SELECT * REPLACE ({casts}) FROM ({select})"
