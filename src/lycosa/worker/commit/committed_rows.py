"""The rows that a commit gives to readers outside the crawl: its captures, and dead letters.

They are made from what the commit contains anyway, on the thread that writes it, and only where the
log has such readers: a crawl on one machine pays nothing for them. The fields are in
docs/formats.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lycosa.base.model.dead_letter import DeadLetter
from lycosa.base.preferences.use_policy import RECORD_ONLY, UsePolicy
from lycosa.state.commit import FeedRow
from lycosa.state.store.feed_rows import DEAD_LETTERS, PAGES, dead_letter_row, page_row
from lycosa.state.store.pending import SegmentPart


def feed_rows(
    parts: Sequence[tuple[SegmentPart, int]],
    given_up: Sequence[DeadLetter],
    policy: UsePolicy = RECORD_ONLY,
) -> list[FeedRow]:
    """The rows of one commit. ``parts`` are those of its ``PendingWrite``.

    ``policy`` is that of the settings, which the segments of this run have.
    """
    return [
        *_capture_rows(parts, policy),
        *(FeedRow(DEAD_LETTERS, *dead_letter_row(letter)) for letter in given_up),
    ]


def _capture_rows(parts: Sequence[tuple[SegmentPart, int]], policy: UsePolicy) -> Iterator[FeedRow]:
    for part, journal_start in parts:
        # the first line of a journal is its header
        for line in part.lines if journal_start else part.lines[1:]:
            if (found := page_row(line, policy)) is not None:
                yield FeedRow(PAGES, *found)
