"""Which exporter a text such as ``sqlite:products.db?table=shop`` means."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode

from lycosa.feeds.export_port import Exporter, ExportTable, TargetError
from lycosa.feeds.exporters.line_files import csv_file, json_lines_file
from lycosa.feeds.exporters.opensearch_target import OpenSearchTarget
from lycosa.feeds.exporters.sqlite_target import SqliteTarget

_ENDINGS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".db": "sqlite",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
}
_KINDS = "jsonl, csv, sqlite, postgresql, opensearch, parquet or iceberg"
POSTGRES_DSN = "LYCOSA_POSTGRES_DSN"
_LIBPQ = {"PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE"}


class NamedTarget(NamedTuple):
    """A kind of target, where it is, and options."""

    kind: str
    place: str
    options: Mapping[str, str]


def read_target(text: str) -> NamedTarget:
    """The parts of a text ``KIND:PLACE?OPTION=VALUE&...``. Raises ``TargetError``.

    A file needs no kind if its name ends as files of this kind do.
    """
    kind, colon, place = text.partition(":")
    if kind in _READERS and colon:
        known = _READERS[kind][1]
        where, options = _divided(place, known)
        found = NamedTarget(kind, where, options)
    elif (ending := Path(text.partition("?")[0]).suffix.lower()) in _ENDINGS and "://" not in text:
        kind = _ENDINGS[ending]
        found = NamedTarget(kind, *_divided(text, _READERS[kind][1]))
    else:
        raise TargetError(
            f"{text} is not a target: write {_KINDS}, then : and the place, as"
            " sqlite:products.db, or a file whose name ends with .jsonl, .csv or .db"
        )
    if not found.place and kind not in ("postgres", "postgresql"):
        raise TargetError(f"{text}: give a place after {kind}:")
    return found


def _divided(place: str, known: frozenset[str]) -> tuple[str, dict[str, str]]:
    """The place without the options that are ours; a database keeps its own parameters."""
    before, mark, query = place.partition("?")
    if not mark:
        return place, {}
    pairs = parse_qsl(query, keep_blank_values=True)
    ours = {name: value for name, value in pairs if name in known}
    others = [(name, value) for name, value in pairs if name not in known]
    if others and "://" not in place:
        raise TargetError(
            f"{place}: there is no option {others[0][0]}"
            f" ({', '.join(sorted(known)) if known else 'none'} here)"
        )
    return before + (f"?{urlencode(others)}" if others else ""), ours


def exporter_for(text: str, table: ExportTable, crawl: str) -> Exporter:
    """The exporter of a text. Raises ``TargetError``, or ``ImportError`` without its extra."""
    target = read_target(text)
    return _READERS[target.kind][0](target, table, crawl)


def extra_of(text: str) -> tuple[str, str]:
    """The name of a target's database, and the extra that it needs; empty if none."""
    kind = read_target(text).kind
    found = {"postgres": ("PostgreSQL", "postgres"), "iceberg": ("Iceberg", "iceberg")}
    return found.get("postgres" if kind == "postgresql" else kind, ("", ""))


def table_name(table: ExportTable, options: Mapping[str, str]) -> str:
    """The name of a table in a database: that of the feed, or of the items."""
    return options.get("table") or table.name.rpartition(".")[2]


def _json_lines(target: NamedTarget, table: ExportTable, crawl: str) -> Exporter:
    return json_lines_file(Path(target.place))


def _csv(target: NamedTarget, table: ExportTable, crawl: str) -> Exporter:
    return csv_file(Path(target.place), table, target.options.get("raw", "") in ("1", "true"))


def _sqlite(target: NamedTarget, table: ExportTable, crawl: str) -> Exporter:
    return SqliteTarget(Path(target.place), table, crawl, table_name(table, target.options))


def _postgres(target: NamedTarget, table: ExportTable, crawl: str) -> Exporter:
    from lycosa.feeds.exporters.postgres_target import PostgresTarget

    dsn = f"postgresql:{target.place}" if target.place else os.environ.get(POSTGRES_DSN, "")
    if not dsn and not _LIBPQ.intersection(os.environ):
        raise TargetError(
            f"no database given: write postgresql://USER@HOST/DATABASE, or set {POSTGRES_DSN} or"
            " PGHOST"
        )
    schema = target.options.get("schema") or "lycosa"
    return PostgresTarget(dsn, schema, table, crawl, table_name(table, target.options))


def _opensearch(target: NamedTarget, table: ExportTable, crawl: str) -> Exporter:
    key = target.options.get("key", "row")
    if key not in ("row", "url"):
        raise TargetError("?key= is row (each row is a document) or url (the newest row of a URL)")
    secrets = {
        "password": os.environ.get("LYCOSA_OPENSEARCH_PASSWORD", ""),
        "api_key": os.environ.get("LYCOSA_OPENSEARCH_API_KEY", ""),
    }
    return OpenSearchTarget(target.place, table, crawl, key == "url", secrets)


def _parquet(target: NamedTarget, table: ExportTable, crawl: str) -> Exporter:
    # Here, because Arrow takes longer to load than all the rest.
    from lycosa.feeds.exporters.parquet_folder import DEFAULT_SPLITS, ParquetFolder, read_splits

    splits = target.options.get("splits")
    return ParquetFolder(
        Path(target.place), table, crawl, read_splits(splits) if splits else DEFAULT_SPLITS
    )


def _iceberg(target: NamedTarget, table: ExportTable, crawl: str) -> Exporter:
    from lycosa.feeds.exporters.iceberg_target import IcebergTarget

    return IcebergTarget(target.place, table, crawl)


_Reader = Callable[[NamedTarget, ExportTable, str], Exporter]
_READERS: Mapping[str, tuple[_Reader, frozenset[str]]] = {
    "jsonl": (_json_lines, frozenset()),
    "csv": (_csv, frozenset({"raw"})),
    "sqlite": (_sqlite, frozenset({"table"})),
    "postgresql": (_postgres, frozenset({"table", "schema"})),
    "postgres": (_postgres, frozenset({"table", "schema"})),
    "opensearch": (_opensearch, frozenset({"key"})),
    "elasticsearch": (_opensearch, frozenset({"key"})),
    "parquet": (_parquet, frozenset({"splits"})),
    "iceberg": (_iceberg, frozenset()),
}
