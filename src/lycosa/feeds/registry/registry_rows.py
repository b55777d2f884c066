"""Records of a crawl as rows of a registry: one function for each table, and its columns.

Types are named as in PostgreSQL; other databases translate them. Texts come from the web, and
PostgreSQL refuses NUL, so it is replaced.
Times are those of the wall clock; waits are stored in crawl time, which may be ahead of it.
"""

from __future__ import annotations

import binascii
from base64 import b32decode
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec

from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.preferences.preference_model import NOTHING_STATED, Preferences, Use
from lycosa.base.preferences.preference_words import counts_words
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Sites, hash8, join_url
from lycosa.stages.frontier.due import became_due_at
from lycosa.stages.frontier.visit_state import VisitRecord, counted_as
from lycosa.state.commit import Mark
from lycosa.state.kv.table_records import UrlRecord

NO_HOST = "unknown.invalid"
"""The host of a URL whose host's record is lost, which only damage can cause."""
_NO_HISTORY = History()
_CLOCKS_AGREE_S = 1.0
_LATEST = 253_402_300_799.0  # the end of the year 9999

Row = tuple[Any, ...]


class RowTime(NamedTuple):
    """The commit that wrote some rows: mark, wall time, and how far crawl time was ahead.

    After a takeover in a cluster, crawl time may be behind, and ``ahead_s`` is negative.
    """

    mark: Mark
    wall: float
    ahead_s: float = 0.0


def row_time(mark: Mark, wall: float, time: float) -> RowTime:
    """The commit with this mark, wall time and crawl time (0 = the same).

    The two clocks differ by microseconds in every commit, which would show in every stored wait.
    """
    ahead_s = time - wall if time else 0.0
    return RowTime(mark, wall, ahead_s if abs(ahead_s) >= _CLOCKS_AGREE_S else 0.0)


class HostSummary(NamedTuple):
    """What rows of URLs need of their host; ``state`` is that of its queued URLs."""

    host: str
    site: str
    state: str


def summary_of_host(record: VisitRecord, sites: Sites) -> HostSummary:
    return HostSummary(record.host, sites.site_of(record.host), counted_as(record.state).label)


def lost_host() -> HostSummary:
    """The facts of a host without a record."""
    return HostSummary(NO_HOST, NO_HOST, UrlState.QUEUED.label)


REGISTRY_URLS = {
    "url_hash": "bytea",
    "host_hash": "bytea",
    "url": "text",
    "host": "text",
    "site": "text",
    "path": "text",
    "status": "text",
    "depth": "int4",
    "priority": "float4",
    "first_seen": "timestamptz",
    "last_crawled": "timestamptz",
    "next_crawl": "timestamptz",
    "http_status": "int2",
    "content_hash": "bytea",
    "simhash": "int8",
    "etag": "text",
    "last_modified": "text",
    "fetch_count": "int4",
    "change_count": "int4",
    "change_rate": "float4",
    "error": "text",
    "detail": "text",
    "retry_count": "int4",
    "is_queued": "bool",
}
"""Columns and types of ``urls``; those of the commit that wrote a row follow them."""

COMMIT_COLUMNS = {
    "partition": "int4",
    "term": "int4",
    "sequence": "int8",
    "changed_at": "timestamptz",
}
ALL_URL_COLUMNS = REGISTRY_URLS | COMMIT_COLUMNS


def registry_url(
    partition: int, key: bytes, record: UrlRecord, host: HostSummary, when: RowTime
) -> Row:
    """The row of a URL; ``key`` is that of its record."""
    past = record.history or _NO_HISTORY
    is_queued = record.state is UrlState.QUEUED
    refetches = past.fetches - 1
    return (
        key[9:],
        key[1:9],
        _text(join_url("https" if record.secure else "http", host.host, record.target)),
        host.host,
        host.site,
        _text(record.target),
        host.state if is_queued else record.state.label,
        record.depth,
        round(record.priority / 255, 4),
        _time(record.found_at),
        _time(past.fetched_at),
        _wait(became_due_at(record), when),
        past.status or None,
        past.digest or None,
        _signed(past.simhash),
        _text(past.etag),
        _text(past.last_modified),
        past.fetches,
        past.changes,
        past.changes / refetches if refetches > 0 else None,
        _reason(record.reason),
        _text(record.detail),
        record.tries,
        is_queued,
        *_written(partition, when),
    )


REGISTRY_HOSTS = {
    "host_hash": "bytea",
    "host": "text",
    "site": "text",
    "status": "text",
    "error": "text",
    "detail": "text",
    "waiting": "int4",
    "retrying": "int4",
    "parked": "int4",
    "next_crawl": "timestamptz",
    "parked_until": "timestamptz",
    "captures": "int4",
    "bytes": "int8",
    "time_s": "float8",
    "discovered": "int8",
    "crawl_delay_s": "float8",
    "failures": "int4",
    "dns_failures": "int4",
    "error_count": "int8",
    "last_error": "text",
    "address": "text",
    "importance": "float8",
    "url_status": "text",
    "preferences": "text",
}
"""Columns and types of ``hosts``; those of the commit that wrote a row follow them."""

ALL_HOST_COLUMNS = REGISTRY_HOSTS | COMMIT_COLUMNS


def registry_host(
    partition: int, key: bytes, record: VisitRecord, facts: HostSummary, when: RowTime
) -> Row:
    """The row of a host; ``key`` is that of its record."""
    usage, delay_s = record.usage, record.pace.crawl_delay_s
    return (
        key[1:],
        facts.host,
        facts.site,
        record.shown_state.label,
        _reason(record.reason),
        _text(record.detail),
        record.waiting,
        record.retrying,
        record.parked,
        _wait(record.next_at, when),
        _wait(record.parked_until, when),
        usage.captures,
        usage.bytes,
        usage.time_s,
        usage.discovered,
        delay_s if delay_s >= 0 else None,
        record.failures,
        record.dns_failures,
        record.errors,
        _reason(record.last_error),
        _text(record.address),
        record.importance,
        facts.state,
        counts_words(record.stated) or None,
        *_written(partition, when),
    )


REGISTRY_LOG = {
    "fetched_at": "timestamptz",
    "record_id": "uuid",
    "url_hash": "bytea",
    "url": "text",
    "host": "text",
    "site": "text",
    "kind": "text",
    "fetch_number": "int4",
    "http_status": "int2",
    "error": "text",
    "detail": "text",
    "depth": "int4",
    "media_type": "text",
    "content_hash": "bytea",
    "simhash": "int8",
    "revisit": "text",
    "body_bytes": "int8",
    "duration_s": "float8",
    "address": "text",
    "warc_segment": "text",
    "warc_offset": "int8",
    "warc_length": "int8",
    "use_search": "bool",
    "use_ai_train": "bool",
    "use_ai_input": "bool",
    "license": "text",
}
"""Columns and types of ``crawl_log``."""

ADDED_COLUMNS: Mapping[int, Mapping[str, dict[str, str]]] = {
    2: {
        "hosts": {"preferences": "text"},
        "crawl_log": {name: REGISTRY_LOG[name] for name in list(REGISTRY_LOG)[-4:]},
    },
}
"""The columns that a format added, by table. Rows from before have nulls in them."""


def added_since(number: int) -> Iterator[tuple[str, str, str]]:
    """Table, column and type of what the formats after ``number`` added."""
    for later in sorted(each for each in ADDED_COLUMNS if each > number):
        for table, columns in ADDED_COLUMNS[later].items():
            for name, kind in columns.items():
                yield table, name, kind


class _Capture(msgspec.Struct, frozen=True, gc=False):
    """The fields of a ``JournalRow`` that the crawl log has: decoding all would take ten times
    as long, because of the links."""

    url: str
    host: str
    site: str
    date_us: int
    status: int
    segment: str
    offset: int
    length: int
    record_id: str
    kind: FetchKind = FetchKind.PAGE
    digest: str = ""
    revisit: str = ""
    reason: Reason = Reason.NONE
    detail: str = ""
    media_type: str = ""
    simhash: int = 0
    depth: int = 0
    fetch_number: int = 1
    address: str = ""
    body_bytes: int = 0
    duration_s: float = 0.0
    preferences: Preferences = NOTHING_STATED


_decode_capture = msgspec.json.Decoder(_Capture).decode


def registry_capture(line: bytes) -> Row:
    """The row of a capture from a line of a row journal.

    Raises one of ``system.frames.UNREADABLE``.
    """
    row = _decode_capture(line)
    stated = row.preferences
    return (
        datetime.fromtimestamp(row.date_us // 1_000_000, UTC).replace(
            microsecond=row.date_us % 1_000_000
        ),
        _uuid(row.record_id),
        hash8(row.url),
        _text(row.url),
        row.host,
        row.site,
        row.kind.name.lower(),
        row.fetch_number,
        row.status or None,
        _reason(row.reason),
        _text(row.detail),
        row.depth,
        _text(row.media_type),
        _digest(row.digest),
        _signed(row.simhash),
        _text(row.revisit),
        row.body_bytes,
        row.duration_s,
        _text(row.address),
        row.segment,
        row.offset,
        row.length,
        stated.answers.get(Use.SEARCH),
        stated.answers.get(Use.AI_TRAIN),
        stated.answers.get(Use.AI_INPUT),
        _text(stated.license),
    )


def _written(partition: int, when: RowTime) -> Row:
    return partition, when.mark.term, when.mark.sequence, _time(when.wall)


def _text(value: str) -> str | None:
    """A text that PostgreSQL accepts; an empty one is unknown."""
    return value.replace("\0", "\ufffd") or None


def _time(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def _wait(time: float, when: RowTime) -> datetime | None:
    """The end of a wait by the wall clock; 0 is none."""
    if not time:
        return None
    return datetime.fromtimestamp(min(max(time - when.ahead_s, 1.0), _LATEST), UTC)


def _reason(reason: Reason) -> str | None:
    return reason.label if reason else None


def _signed(simhash: int) -> int | None:
    """64 bits as the signed integer that PostgreSQL has; 0 is no fingerprint."""
    return (simhash - (1 << 64) if simhash >> 63 else simhash) if simhash else None


def _uuid(record_id: str) -> UUID:
    try:
        return UUID(record_id.removeprefix("urn:uuid:"))
    except ValueError:
        # No UUID: one that depends on the id alone, so that a repetition writes the same row.
        return uuid5(NAMESPACE_URL, record_id)


def _digest(text: str) -> bytes | None:
    """The bytes of a digest such as ``sha1:`` and base32."""
    try:
        return b32decode(text.rpartition(":")[2]) or None
    except binascii.Error:
        return None
