"""What a registry must hold, by what the commands that read a crawl say of it."""

from __future__ import annotations

from base64 import b32decode
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lycosa.inspect.committed_state import CrawlReader, read_folder
from lycosa.inspect.state_rows import STATE_COLUMNS, state_rows
from lycosa.state.store.journal_rows import JournalRow
from registry_databases import RegistryDatabase

# Columns of a registry, and the columns of ``lycosa sql`` that they must equal.
URLS = {
    "url": "url",
    "host": "host",
    "site": "site",
    "status": "state",
    "error": "reason",
    "detail": "detail",
    "depth": "depth",
    "retry_count": "tries",
    "first_seen": "found_at",
    "next_crawl": "due_at",
    "fetch_count": "fetches",
    "last_crawled": "fetched_at",
    "http_status": "status",
    "content_hash": "digest",
    "etag": "etag",
    "last_modified": "last_modified",
    "change_count": "changes",
    "partition": "partition",
    "url_hash": "url_hash",
}
HOSTS = {
    "host": "host",
    "site": "site",
    "status": "state",
    "error": "reason",
    "detail": "detail",
    "waiting": "waiting",
    "retrying": "retrying",
    "parked": "parked",
    "next_crawl": "next_at",
    "parked_until": "parked_until",
    "captures": "captures",
    "bytes": "bytes",
    "time_s": "time_s",
    "discovered": "discovered",
    "crawl_delay_s": "crawl_delay_s",
    "failures": "failures",
    "dns_failures": "dns_failures",
    "error_count": "errors",
    "last_error": "last_error",
    "address": "address",
    "importance": "importance",
    "partition": "partition",
    "host_hash": "host_hash",
}
CAPTURES = ("record_id", "fetched_at", "url", "http_status", "fetch_number", "body_bytes")
Rows = Iterable[tuple[Any, ...]]


def differences(database: RegistryDatabase, folder: Path, schema: str = "lycosa") -> list[str]:
    """What a registry has otherwise than the crawl in a folder; empty when they are equal."""
    return differences_from(database, read_folder(folder), schema)


def differences_from(
    database: RegistryDatabase, reader: CrawlReader, schema: str = "lycosa", near_s: float = 1.5
) -> list[str]:
    """What a registry has otherwise than the crawl that this reader shows. Times may differ by
    ``near_s``: crawl time and wall time of a commit differ a little, and by seconds after a
    takeover.
    """
    parts = (
        ("urls", tuple(URLS), *_state(database, reader, schema, "urls", URLS)),
        ("hosts", tuple(HOSTS), *_state(database, reader, schema, "hosts", HOSTS)),
        ("crawl_log", CAPTURES, *_captures(database, reader, schema)),
    )
    near = timedelta(seconds=near_s)
    wrong = [each for part in parts for each in _compared(*part, near)]
    return wrong + database.disagreements(schema)


def _state(
    database: RegistryDatabase,
    reader: CrawlReader,
    schema: str,
    table: str,
    columns: dict[str, str],
) -> tuple[Rows, Rows]:
    names = [name for name, _, _ in STATE_COLUMNS[table]]
    places = [names.index(each) for each in columns.values()]
    expected = (tuple(row[at] for at in places) for row in state_rows(reader, table))
    found = database.state_rows(table, ", ".join(columns), schema)
    return expected, found


def _captures(database: RegistryDatabase, reader: CrawlReader, schema: str) -> tuple[Rows, Rows]:
    view = reader.source
    rows = (row for segment in view.list_segments() for row in view.read_rows(segment))
    found = database.state_rows("crawl_log", ", ".join(CAPTURES), schema)
    return map(_capture, rows), found


def _capture(row: JournalRow) -> tuple[Any, ...]:
    at = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=row.date_us)
    number = row.record_id.removeprefix("urn:uuid:")
    return number, at, row.url, row.status or None, row.fetch_number, row.body_bytes


def _compared(
    table: str, columns: tuple[str, ...], expected: Rows, found: Rows, near: timedelta
) -> list[str]:
    """Rows are compared by their first column."""
    wanted = {str(row[0]): row for row in expected}
    there: dict[str, tuple[Any, ...]] = {}
    wrong = []
    for row in found:
        if str(row[0]) in there:
            wrong.append(f"{table}: {row[0]} twice")
        there[str(row[0])] = row
    wrong += [f"{table}: {key} is missing" for key in wanted.keys() - there.keys()]
    wrong += [f"{table}: {key} is not in the crawl" for key in there.keys() - wanted.keys()]
    for key in wanted.keys() & there.keys():
        for name, right, value in zip(columns, wanted[key], there[key], strict=True):
            if not _is_equal(right, value, near):
                wrong.append(f"{table}: {key}: {name} is {value!r}, in the crawl {right!r}")
    return sorted(wrong)


def _is_equal(right: Any, value: Any, near: timedelta) -> bool:
    if isinstance(right, datetime) and isinstance(value, datetime):
        return abs(right.replace(tzinfo=UTC) - value) < near
    if isinstance(value, bytes):
        return value in (_decoded(right), _hex(right))
    return bool(right == value) or str(right) == str(value)


def _decoded(text: Any) -> bytes | None:
    try:
        return b32decode(text)
    except ValueError:
        return None


def _hex(text: Any) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None
