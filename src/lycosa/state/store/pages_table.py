"""The table of pages: one row per capture, with Common Crawl's index columns before ours.

The first columns have the names, order and types of Common Crawl's URL index (cc-index-table, flat
schema), so queries written for it run unchanged. Common Crawl's ``integer`` has 32 bits, so a
segment never grows beyond 2 GiB.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from lycosa.base.model.capture import RobotsDecision
from lycosa.base.preferences.preference_model import NOTHING_STATED, Preferences, Use
from lycosa.base.urls.url_parts import is_address
from lycosa.state.store import languages
from lycosa.state.store.journal_rows import JournalRow, SegmentHeader
from lycosa.state.store.layout import WARC, file_name
from lycosa.state.store.parquet import RowWriter

_ROWS = 1000
_TEXT, _INT, _LONG, _SHORT, _REAL, _FLAG, _TIME = (
    pa.string(),
    pa.int32(),
    pa.int64(),
    pa.int16(),
    pa.float64(),
    pa.bool_(),
    pa.timestamp("us"),
)
_STATEMENTS = pa.list_(pa.struct([("source", _TEXT), ("line", _INT), ("text", _TEXT)]))


class RowParts:
    """A row with its URL and host split once for all columns."""

    __slots__ = (
        "crawl", "host", "labels", "license", "may_use", "price", "privacy", "robots", "row",
        "split",
        "statements", "use_ai_input", "use_ai_train", "use_search",
    )  # fmt: skip

    def __init__(self, row: JournalRow, header: SegmentHeader) -> None:
        self.row, self.crawl = row, header.crawl
        policy = header.policy
        self.may_use = policy.allows(row.preferences) if policy.purpose else None
        self.use_search: bool | None = None
        self.use_ai_train: bool | None = None
        self.use_ai_input: bool | None = None
        self.statements: list[dict[str, Any]] | None = None
        self.license: str | None = None
        self.price: str | None = None
        self.privacy = row.privacy.name.lower() if row.privacy else None
        if row.preferences != NOTHING_STATED:
            self._take(row.preferences)
        self.split = urlsplit(row.url)
        # not the row's host, which includes a port other than the default of the scheme
        self.host = self.split.hostname or ""
        self.labels = [] if is_address(self.host) else self.host.split(".")
        self.robots: RobotsDecision | None = row.robots

    def _take(self, stated: Preferences) -> None:
        answer = stated.answers.get
        self.use_search = answer(Use.SEARCH)
        self.use_ai_train, self.use_ai_input = answer(Use.AI_TRAIN), answer(Use.AI_INPUT)
        self.license, self.price = stated.license or None, stated.price or None
        self.statements = [
            {"source": each.source.label, "line": each.line or None, "text": each.text}
            for each in stated.statements
        ] or None

    def label(self, last: int) -> str | None:
        """A label of the host, counted from its end (1 = top-level domain)."""
        return self.labels[-last] if len(self.labels) >= last else None

    def below(self, suffix: str) -> str | None:
        """The host's domain one label below a public suffix.

        ``None`` when the host is the suffix or has none.
        """
        size = suffix.count(".") + 2
        return ".".join(self.labels[-size:]) if suffix and len(self.labels) >= size else None


def subset(row: JournalRow) -> str:
    """Common Crawl's three subsets: files about an origin, successful captures, everything else."""
    if row.kind.is_of_origin:
        return "robotstxt"
    return "warc" if row.status == 200 else "crawldiagnostics"


def short(status: int) -> int:
    """A status as 16 bits, because a server may send any number."""
    return max(0, min(status, 32767))


PagesColumn = tuple[str, pa.DataType, bool, Callable[[RowParts], Any]]
"""Name, type, whether it may be null, and its value from a row."""

COMMON_CRAWL_COLUMNS: list[PagesColumn] = [
    ("url_surtkey", _TEXT, False, lambda v: v.row.surt),
    ("url", _TEXT, False, lambda v: v.row.url),
    ("url_host_name", _TEXT, False, lambda v: v.host),
    ("url_host_tld", _TEXT, True, lambda v: v.label(1)),
    ("url_host_2nd_last_part", _TEXT, True, lambda v: v.label(2)),
    ("url_host_3rd_last_part", _TEXT, True, lambda v: v.label(3)),
    ("url_host_4th_last_part", _TEXT, True, lambda v: v.label(4)),
    ("url_host_5th_last_part", _TEXT, True, lambda v: v.label(5)),
    ("url_host_registry_suffix", _TEXT, True, lambda v: v.row.registry_suffix or None),
    ("url_host_registered_domain", _TEXT, True, lambda v: v.below(v.row.registry_suffix)),
    ("url_host_private_suffix", _TEXT, True, lambda v: v.row.private_suffix or None),
    ("url_host_private_domain", _TEXT, True, lambda v: v.below(v.row.private_suffix)),
    ("url_host_name_reversed", _TEXT, True, lambda v: ".".join(reversed(v.labels)) or None),
    ("url_protocol", _TEXT, False, lambda v: v.split.scheme),
    ("url_port", _INT, True, lambda v: v.split.port),
    ("url_path", _TEXT, False, lambda v: v.split.path),
    ("url_query", _TEXT, True, lambda v: v.split.query or None),
    ("fetch_time", _TIME, False, lambda v: v.row.date_us),
    ("fetch_status", _SHORT, False, lambda v: short(v.row.status)),
    ("fetch_redirect", _TEXT, True, lambda v: v.row.location or None),
    ("content_digest", _TEXT, True, lambda v: v.row.digest.removeprefix("sha1:") or None),
    ("content_mime_type", _TEXT, True, lambda v: v.row.media_type or None),
    ("content_mime_detected", _TEXT, True, lambda v: v.row.media_type_detected or None),
    ("content_charset", _TEXT, True, lambda v: v.row.charset or None),
    ("content_languages", _TEXT, True, lambda v: languages.three_letter(v.row.language) or None),
    (
        "content_truncated",
        _TEXT,
        True,
        lambda v: v.row.truncated or ("length" if v.row.is_cut else None),
    ),
    ("warc_filename", _TEXT, False, lambda v: file_name(WARC, v.row.segment)),
    ("warc_record_offset", _INT, False, lambda v: v.row.offset),
    ("warc_record_length", _INT, False, lambda v: v.row.length),
    ("warc_segment", _TEXT, False, lambda v: v.row.segment),
    ("crawl", _TEXT, False, lambda v: v.crawl),
    ("subset", _TEXT, False, lambda v: subset(v.row)),
]

# Add new columns only at the end: a table without the last columns is of an older version, but
# one without another column is damaged.
OWN_COLUMNS: list[PagesColumn] = [
    ("kind", _TEXT, False, lambda v: v.row.kind.name.lower()),
    ("site", _TEXT, False, lambda v: v.row.site),
    ("warc_record_id", _TEXT, False, lambda v: v.row.record_id),
    ("fetch_number", _INT, False, lambda v: v.row.fetch_number),
    ("depth", _INT, False, lambda v: v.row.depth),
    ("via", _TEXT, True, lambda v: v.row.via or None),
    ("link_kind", _TEXT, False, lambda v: v.row.link_kind.name.lower()),
    ("first_url", _TEXT, False, lambda v: v.row.chain[0] if v.row.chain else v.row.url),
    ("redirect_chain", pa.list_(_TEXT), False, lambda v: v.row.chain),
    ("fetch_reason", _TEXT, True, lambda v: v.row.reason.label if v.row.reason else None),
    (
        "parse_reason",
        _TEXT,
        True,
        lambda v: v.row.parse_reason.label if v.row.parse_reason else None,
    ),
    ("revisit_profile", _TEXT, True, lambda v: v.row.revisit or None),
    ("duplicate_of", _TEXT, True, lambda v: v.row.original.url if v.row.original else None),
    (
        "duplicate_of_time",
        _TIME,
        True,
        lambda v: v.row.original.date_us if v.row.original else None,
    ),
    (
        "near_duplicate_of",
        _TEXT,
        True,
        lambda v: v.row.near_duplicate_of.url if v.row.near_duplicate_of else None,
    ),
    (
        "near_duplicate_of_time",
        _TIME,
        True,
        lambda v: v.row.near_duplicate_of.date_us if v.row.near_duplicate_of else None,
    ),
    ("simhash", pa.uint64(), True, lambda v: v.row.simhash or None),
    ("title", _TEXT, True, lambda v: v.row.title or None),
    ("description", _TEXT, True, lambda v: v.row.description or None),
    ("canonical_url", _TEXT, True, lambda v: v.row.canonical or None),
    ("language", _TEXT, True, lambda v: v.row.language or None),
    ("last_modified", _TEXT, True, lambda v: v.row.last_modified or None),
    ("etag", _TEXT, True, lambda v: v.row.etag or None),
    ("outlinks", _INT, False, lambda v: v.row.outlinks),
    ("refused_links", _INT, False, lambda v: sum(v.row.refused_links.values())),
    ("text_characters", _INT, False, lambda v: v.row.text_characters),
    ("noindex", _FLAG, False, lambda v: v.row.noindex),
    ("nofollow", _FLAG, False, lambda v: v.row.nofollow),
    ("noarchive", _FLAG, False, lambda v: v.row.noarchive),
    ("robots_allowed", _FLAG, True, lambda v: v.robots and v.robots.allowed),
    ("robots_version", _TEXT, True, lambda v: v.robots and (v.robots.version or None)),
    ("robots_status", _SHORT, True, lambda v: v.robots and short(v.robots.status)),
    ("robots_group", _TEXT, True, lambda v: v.robots and (v.robots.group or None)),
    ("robots_line", _INT, True, lambda v: v.robots and (v.robots.line or None)),
    ("robots_rule", _TEXT, True, lambda v: v.robots and (v.robots.rule or None)),
    ("address", _TEXT, True, lambda v: v.row.address or None),
    ("protocol", _TEXT, True, lambda v: v.row.protocol or None),
    ("tls", _TEXT, True, lambda v: v.row.tls or None),
    ("body_bytes", _LONG, False, lambda v: v.row.body_bytes),
    ("decoded_bytes", _LONG, False, lambda v: v.row.decoded_bytes),
    ("first_byte_s", _REAL, False, lambda v: v.row.first_byte_s),
    ("duration_s", _REAL, False, lambda v: v.row.duration_s),
    ("parse_s", _REAL, False, lambda v: v.row.parse_s),
    # of few captures, so these cost no call
    ("use_search", _FLAG, True, attrgetter("use_search")),
    ("use_ai_train", _FLAG, True, attrgetter("use_ai_train")),
    ("use_ai_input", _FLAG, True, attrgetter("use_ai_input")),
    ("preferences", _STATEMENTS, True, attrgetter("statements")),
    ("license", _TEXT, True, attrgetter("license")),
    ("payment_price", _TEXT, True, attrgetter("price")),
    ("may_use", _FLAG, True, attrgetter("may_use")),
    ("change", _TEXT, True, lambda v: v.row.change.label if v.row.change else None),
    ("change_distance", _SHORT, True, lambda v: v.row.change_distance),
    ("privacy", _TEXT, True, attrgetter("privacy")),
]

PAGES_COLUMNS = COMMON_CRAWL_COLUMNS + OWN_COLUMNS
PAGES_SCHEMA = pa.schema(
    [pa.field(name, kind, nullable=nullable) for name, kind, nullable, _ in PAGES_COLUMNS]
)


class PagesBuilder:
    """Builds the pages file of one segment."""

    def __init__(self, path: Path, header: SegmentHeader) -> None:
        self._writer = RowWriter(path, PAGES_SCHEMA, _ROWS)
        self._header = header

    def add_row(self, row: JournalRow) -> None:
        """Add a capture; of it only the values of the columns are kept, not text and links."""
        if row.render is None:
            self._writer.add_row(values(row, self._header))

    def close(self) -> None:
        """Complete the file."""
        self._writer.close()


def values(row: JournalRow, header: SegmentHeader) -> tuple[Any, ...]:
    """The columns of one capture, in order; ``header`` is that of its segment."""
    view = RowParts(row, header)
    return tuple([column[3](view) for column in PAGES_COLUMNS])
