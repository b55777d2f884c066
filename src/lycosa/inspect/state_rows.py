"""URL records and visit states as table rows: ``urls`` and ``hosts`` of ``export`` and ``sql``."""

from __future__ import annotations

from base64 import b32encode
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from lycosa.base.model.url_state import History
from lycosa.base.preferences.preference_words import counts_words
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import host_of
from lycosa.inspect.committed_state import CrawlReader, HostEntry, UrlEntry
from lycosa.inspect.wall_time import wall_of
from lycosa.stages.frontier.due import became_due_at
from lycosa.state.store.parquet import TableWriter

_TEXT, _INT, _LONG, _REAL = pa.string(), pa.int32(), pa.int64(), pa.float64()
_TIME = pa.timestamp("us")
_BATCH = 5000
_NO_HISTORY = History()

StateColumn = tuple[str, pa.DataType, Callable[[CrawlReader, Any], Any]]
"""Name and type of a column, and how to get its value from an entry of a crawl."""


def _time(seconds: float) -> datetime | None:
    """Seconds since 1970, without a zone as in the other tables; 0 is never."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None) if seconds else None


def _reason(reason: Reason) -> str | None:
    return reason.label if reason else None


def _past(entry: UrlEntry) -> History:
    return entry.record.history or _NO_HISTORY


def _digest(_: CrawlReader, entry: UrlEntry) -> str | None:
    digest = _past(entry).digest
    return b32encode(digest).decode() if digest else None


def _via(_: CrawlReader, entry: UrlEntry) -> str | None:
    """The full URL of the page it was found on.

    A record shortens it to its target when both are on the same host.
    """
    via = entry.record.via
    if via.startswith("/"):
        return entry.url[: entry.url.index("/", 8)] + via
    return via or None


def _seconds(value: float) -> float | None:
    return value if value >= 0 else None


def _wall(reader: CrawlReader, time: float) -> float:
    """A stored wait on the wall clock of the last commit."""
    return wall_of(time, reader.last_time - reader.last_commit)


URL_COLUMNS: list[StateColumn] = [
    ("url", _TEXT, lambda _, e: e.url),
    ("host", _TEXT, lambda _, e: host_of(e.url)),
    ("site", _TEXT, lambda r, e: r.sites.site_of(host_of(e.url))),
    ("state", _TEXT, lambda _, e: e.state.label),
    ("reason", _TEXT, lambda _, e: _reason(e.record.reason)),
    ("detail", _TEXT, lambda _, e: e.record.detail or None),
    ("depth", _INT, lambda _, e: e.record.depth),
    ("priority", _REAL, lambda _, e: round(e.record.priority / 255, 4)),
    ("kind", _TEXT, lambda _, e: e.record.kind.name.lower()),
    ("via", _TEXT, _via),
    ("hops", _INT, lambda _, e: e.record.hops),
    ("tries", _INT, lambda _, e: e.record.tries),
    ("found_at", _TIME, lambda _, e: _time(e.record.found_at)),
    ("due_at", _TIME, lambda r, e: _time(_wall(r, became_due_at(e.record)))),
    ("fetches", _INT, lambda _, e: _past(e).fetches),
    ("fetched_at", _TIME, lambda _, e: _time(_past(e).fetched_at)),
    ("status", _INT, lambda _, e: _past(e).status or None),
    ("digest", _TEXT, _digest),
    ("etag", _TEXT, lambda _, e: _past(e).etag or None),
    ("last_modified", _TEXT, lambda _, e: _past(e).last_modified or None),
    ("changes", _INT, lambda _, e: _past(e).changes),
    ("interval_s", _LONG, lambda _, e: _past(e).interval_s or None),
    ("redirect_to", _TEXT, lambda _, e: _past(e).redirect_to or None),
    ("duplicate_of", _TEXT, lambda _, e: _past(e).duplicate_of or None),
    ("warc_segment", _TEXT, lambda _, e: _past(e).segment or None),
    ("warc_record_offset", _LONG, lambda _, e: _past(e).offset if _past(e).segment else None),
    ("body_segment", _TEXT, lambda _, e: _past(e).body_place[0] or None),
    ("body_record_offset", _LONG, lambda _, e: _past(e).body_place[1] or None),
    ("partition", _INT, lambda _, e: e.partition),
    ("url_hash", _TEXT, lambda _, e: e.url8.hex()),
]

HOST_COLUMNS: list[StateColumn] = [
    ("host", _TEXT, lambda _, e: e.record.host),
    ("site", _TEXT, lambda r, e: r.sites.site_of(e.record.host)),
    ("state", _TEXT, lambda _, e: e.record.state.label),
    ("reason", _TEXT, lambda _, e: _reason(e.record.reason)),
    ("detail", _TEXT, lambda _, e: e.record.detail or None),
    ("waiting", _INT, lambda _, e: e.record.waiting),
    ("retrying", _INT, lambda _, e: e.record.retrying),
    ("parked", _INT, lambda _, e: e.record.parked),
    ("next_at", _TIME, lambda r, e: _time(_wall(r, e.record.next_at))),
    ("parked_until", _TIME, lambda r, e: _time(_wall(r, e.record.parked_until))),
    ("captures", _INT, lambda _, e: e.record.usage.captures),
    ("bytes", _LONG, lambda _, e: e.record.usage.bytes),
    ("time_s", _REAL, lambda _, e: e.record.usage.time_s),
    ("discovered", _LONG, lambda _, e: e.record.usage.discovered),
    ("crawl_delay_s", _REAL, lambda _, e: _seconds(e.record.pace.crawl_delay_s)),
    ("last_duration_s", _REAL, lambda _, e: e.record.pace.last_duration_s),
    ("failures", _INT, lambda _, e: e.record.failures),
    ("dns_failures", _INT, lambda _, e: e.record.dns_failures),
    ("errors", _LONG, lambda _, e: e.record.errors),
    ("last_error", _TEXT, lambda _, e: _reason(e.record.last_error)),
    ("address", _TEXT, lambda _, e: e.record.address or None),
    ("refused_links", _LONG, lambda _, e: sum(e.record.refused.values())),
    ("scripted", _LONG, lambda _, e: e.record.scripted),
    ("importance", _REAL, lambda _, e: e.record.importance),
    ("preferences", _TEXT, lambda _, e: counts_words(e.record.stated) or None),
    ("partition", _INT, lambda _, e: e.partition),
    ("host_hash", _TEXT, lambda _, e: e.host8.hex()),
]

STATE_COLUMNS = {"urls": URL_COLUMNS, "hosts": HOST_COLUMNS}


def state_rows(reader: CrawlReader, kind: str) -> Iterator[tuple[Any, ...]]:
    """The rows of ``urls`` or ``hosts``, streaming."""
    columns = STATE_COLUMNS[kind]
    entries: Iterable[UrlEntry | HostEntry] = reader.urls() if kind == "urls" else reader.hosts()
    for entry in entries:
        yield tuple(column[2](reader, entry) for column in columns)


def write_state(reader: CrawlReader, kind: str, path: Path, is_empty: bool = False) -> None:
    """Write ``urls`` or ``hosts`` to a Parquet file in bounded memory; empty when ``is_empty``."""
    schema = pa.schema([pa.field(name, type_) for name, type_, _ in STATE_COLUMNS[kind]])
    rows = iter(()) if is_empty else state_rows(reader, kind)
    with TableWriter(path, schema) as writer:
        while batch := list(islice(rows, _BATCH)):
            arrays = [
                pa.array(column, field.type)
                for column, field in zip(zip(*batch, strict=True), schema, strict=True)
            ]
            writer.add_batch(pa.record_batch(arrays, schema=schema))
