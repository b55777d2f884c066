"""How two captures of a URL differ: their visible text line by line, and facts such as the status.

The index of captures is the row journals: each row has the text (unless ``store.text`` is off), and
an open segment has a journal too, while an index (CDXJ) has neither. In a folder the CDXJ indexes
of closed segments say which journals to read. In object storage an index is as far away as the
journal, so there the journals are read, the newest first, until the captures that are wanted are
found.

A capture without change has the text of the capture before it. Where no row has the text, the
stored body is parsed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.model.capture import Change
from lycosa.base.model.parsed import ParseInput
from lycosa.base.system.clock import SystemClock
from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.queries.capture_queries import decoded_body, segments_with
from lycosa.inspect.text_diff import lines_of, unified
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.stages.parse.parser_pair import ParserPair
from lycosa.state.store.journal_rows import UNCHANGED, JournalRow
from lycosa.state.store.segments_port import StoredSegment
from lycosa.state.store.stored_bodies import record_with_body
from lycosa.state.store.stored_data import RecordError, StoredRecord

_FACTS = (
    *("status", "title", "canonical", "location", "etag", "last_modified", "media_type"),
    *("language", "noindex", "nofollow", "digest", "text_characters"),
)
"""Fields of the row that are compared together with the text."""

ParseText = Callable[[JournalRow, StoredRecord], str]
"""Gives the visible text of a stored body."""


class NoSuchCapture(Exception):
    """A capture that was asked for does not exist, or there is nothing to compare it with."""


class CaptureDiff(msgspec.Struct, frozen=True):
    """Two captures, the facts that differ (name, before, after), and the lines of the difference.

    ``is_cut``: a text was longer than the bound, or a stored body could not be read.
    """

    before: JournalRow
    after: JournalRow
    facts: list[tuple[str, str, str]]
    lines: list[str]
    is_cut: bool = False


def captures_of_url(reader: CrawlReader, url: str, wanted: int = 0) -> list[JournalRow]:
    """The captures of a canonical URL, oldest first.

    On a cluster at least the ``wanted`` newest ones, of all when 0. Raises ``JournalError`` or
    ``OSError``.
    """
    entry = reader.find_url(url)
    history = entry.record.history if entry is not None else None
    if entry is None or history is None:
        return []
    found: list[JournalRow] = []
    for segment in _segments(reader, url):
        found += (row for row in reader.source.read_rows(segment, url.encode()) if row.url == url)
        is_enough = wanted and len(found) >= wanted and reader.origin.is_cluster
        if is_enough or len(found) >= history.fetches:
            break
    return sorted(found, key=lambda row: (row.fetch_number, row.date_us))


def _segments(reader: CrawlReader, url: str) -> Iterator[StoredSegment]:
    """The segments that may have captures of the URL, the newest first."""
    known = segments_with(reader.origin.folder, url)
    # A name ends with the time at which the segment was begun.
    segments = sorted(
        reader.source.list_segments(), key=lambda each: each.name.rpartition("-")[2], reverse=True
    )
    for each in segments:
        # No index has what was fetched with credentials.
        if not each.is_closed or not known or each.name in known:
            yield each


def choose(rows: Sequence[JournalRow], before: str, after: str) -> tuple[JournalRow, JournalRow]:
    """The two captures to compare, by number of the fetch or by time (the last one up to it).

    By default the last change, and the capture before it. Raises ``NoSuchCapture``.
    """
    if not rows:
        raise NoSuchCapture("the crawl has no capture of this URL")
    later = _at(rows, after) if after else _last_change(rows)
    earlier = [row for row in rows if row.fetch_number < later.fetch_number]
    if before:
        return _at(rows, before), later
    if not earlier:
        raise NoSuchCapture(
            f"fetch {later.fetch_number} is the first capture of this URL that is stored, so there"
            " is nothing to compare it with"
        )
    return earlier[-1], later


def _last_change(rows: Sequence[JournalRow]) -> JournalRow:
    changed = (Change.CHANGED, Change.GONE, Change.BACK)
    return next((row for row in reversed(rows) if row.change in changed), rows[-1])


def _at(rows: Sequence[JournalRow], wanted: str) -> JournalRow:
    if wanted.isdecimal() and len(wanted) < 9:
        found = [row for row in rows if row.fetch_number == int(wanted)]
        if not found:
            numbers = ", ".join(str(row.fetch_number) for row in rows[-20:])
            raise NoSuchCapture(
                f"no content of fetch {wanted} of this URL is stored; there are {numbers} (one that"
                " is missing was answered with 304: nothing has changed)"
            )
        return found[-1]
    seconds = float(wanted)
    found = [row for row in rows if row.date_us <= seconds * 1e6]
    if not found:
        raise NoSuchCapture("there is no capture of this URL up to that time")
    return found[-1]


def visible_text(
    reader: CrawlReader, rows: Sequence[JournalRow], row: JournalRow, parse: ParseText
) -> str | None:
    """The visible text of a capture; ``None`` when neither a row nor a record has it."""
    while row.revisit == UNCHANGED:
        # the text of the capture that the server called unchanged
        earlier = [each for each in rows if each.fetch_number < row.fetch_number]
        if not earlier:
            break
        row = earlier[-1]
    if row.text or (not row.text_characters and not row.revisit):
        return row.text
    places = [(row.body_segment or row.segment, row.body_offset)] if row.body_offset else []
    try:
        record = record_with_body(reader.source.read_record, [*places, (row.segment, row.offset)])
    except (RecordError, OSError):
        return None
    return parse(row, record) if record.body else ("" if not row.body_bytes else None)


def compared(
    before: JournalRow, after: JournalRow, texts: tuple[str | None, str | None]
) -> CaptureDiff:
    """The difference of two captures with these texts."""
    (old, is_old_cut), (new, is_new_cut) = (lines_of(each or "") for each in texts)
    one, other = (f"fetch {each.fetch_number}" for each in (before, after))
    lines = unified(old, new, one, other)
    is_cut = is_old_cut or is_new_cut or None in texts
    facts = []
    for name in _FACTS:
        was, now = str(getattr(before, name)), str(getattr(after, name))
        if was != now:
            facts.append((name, was, now))
    return CaptureDiff(before, after, facts, lines, is_cut)


def parsed_text(config: Config, row: JournalRow, record: StoredRecord) -> str:
    """The visible text of a stored body, parsed in a child that a hostile document may kill."""
    body = decoded_body(record).body
    document = ParseInput(row.url, row.status, [("content-type", row.media_type_detected)], body)
    limits = ParserConfig(config.parse, config.canonical, config.agent.product)

    async def parse() -> str:
        parser = ParserPair(limits, SystemClock())
        try:
            return (await parser.parse(document)).text
        finally:
            await parser.close()

    return asyncio.run(parse())
