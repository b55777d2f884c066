"""The topic of captures against the segments: each capture is in it once, without a gap.

Operators choose how long the topic keeps its rows, so the comparison begins with the first row that
it still has.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from lycosa.base.system.frames import UNREADABLE
from lycosa.inspect.audit.audit_report import Check, OnAuditProgress
from lycosa.inspect.audit.capture_index import place_key
from lycosa.state.shard.view import CrawlView
from lycosa.state.store import layout
from lycosa.state.store.journal import JournalError
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.render_facts import RENDER_LINE
from lycosa.state.store.segments_port import StoredSegment

_STEP = 5000


class _FeedRow(msgspec.Struct):
    """What identifies a capture in a row."""

    url: str
    segment: str
    offset: int
    fetch_number: int = 1


_DECODER = msgspec.json.Decoder(_FeedRow)
ReadFeed = Callable[[int], Iterator[bytes | None]]
"""The rows of a shard in the topic, as they are stored."""


def check_feed(read_feed: ReadFeed, view: CrawlView, progress: OnAuditProgress) -> Check:
    """Compare the topic with the committed captures. Memory: 16 bytes a capture of one shard."""
    check = Check("pages feed", "rows of the topic of captures against the journals, both ways")
    for shard in sorted(view.seen.shards):
        _check_shard(check, read_feed, view, shard, progress)
    return check


def _check_shard(
    check: Check, read_feed: ReadFeed, view: CrawlView, shard: int, progress: OnAuditProgress
) -> None:
    fed = array("Q")
    first: tuple[str, int] | None = None
    foreign = 0
    for done, value in enumerate(read_feed(shard), 1):
        if not value:
            continue  # such a record means nothing
        try:
            row = _DECODER.decode(value)
        except UNREADABLE:
            foreign += 1  # if it stands in the place of a row, the capture of that row is missing
            continue
        if first is None:
            first = row.segment, row.offset
        fed.append(place_key(row.url, row.fetch_number, row.segment, row.offset))
        if done % _STEP == 0:
            progress("rows of the feed", done, 0)
    if foreign:
        check.add_note(f"shard {shard}: {foreign} rows are not of this crawl: not readable")
    keys = np.sort(np.frombuffer(fed, dtype=np.uint64)) if fed else np.empty(0, np.uint64)
    twice = int((keys[1:] == keys[:-1]).sum())
    check.expect(not twice, f"shard {shard}: {twice} rows are in the topic twice")
    if first is None:
        check.add_note(f"shard {shard}: the topic has no row")
        return
    stored = array("Q")
    for segment in view.list_segments():
        if layout.segment_worker(segment.name) != shard or segment.name < first[0]:
            continue
        try:
            for each in _fed_rows(view, segment):
                if (each.segment, each.offset) >= first:
                    stored.append(place_key(each.url, each.fetch_number, each.segment, each.offset))
        except JournalError as error:
            # The rows that were read before the damage are compared all the same.
            check.add_breach(str(error))
    wanted = np.sort(np.frombuffer(stored, dtype=np.uint64)) if stored else keys[:0]
    missing = len(np.setdiff1d(wanted, keys))
    check.checked += len(wanted)
    check.expect(not missing, f"shard {shard}: {missing} captures are missing in the topic")
    # the crawl may continue while the topic is read, so only a final state has no more rows
    if view.seen.shards[shard].is_final:
        more = len(np.setdiff1d(keys, wanted))
        check.expect(not more, f"shard {shard}: {more} rows are of no capture")


def _fed_rows(view: CrawlView, segment: StoredSegment) -> Iterator[JournalRow]:
    """The rows that the topic has: captures, and renders with the better text; none is private."""
    for row in view.read_rows(segment):
        if not row.is_private:
            yield row
    for row in view.read_rows(segment, RENDER_LINE):
        if row.render is not None and row.render.is_better and not row.is_private:
            yield row
