"""The rows that a commit gives to readers outside the crawl: its captures, and dead letters.

They are made from what the commit contains anyway, on the thread that writes it, and only where the
log has such readers: a crawl on one machine pays nothing for them. The fields are in
docs/formats.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from lycosa.commit import FeedRow
from lycosa.reasons import Reason
from lycosa.store.pending import SegmentPart
from lycosa.urls.identity import hash8

PAGES, DEAD_LETTERS = "pages", "dlq"
_LEFT_OUT = ("links", "text")  # large, and in the segment
_KEPT = ("url", "date_us", "status", "segment", "offset", "length", "record_id", "kind")
_MOST_BYTES = 800_000  # of a row; a record of the topics has at most 1 MB
_decode_line = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode


class DeadLetter(msgspec.Struct, frozen=True):
    """A URL that was given up, after ``tries`` tries, at ``wall`` (seconds since 1970)."""

    url: str
    reason: Reason
    detail: str
    tries: int
    wall: float


def feed_rows(
    parts: Sequence[tuple[SegmentPart, int]], given_up: Sequence[DeadLetter]
) -> list[FeedRow]:
    """The rows of one commit. ``parts`` are those of its ``PendingWrite``."""
    return [*_capture_rows(parts), *map(_dead_letter_row, given_up)]


def _capture_rows(parts: Sequence[tuple[SegmentPart, int]]) -> Iterator[FeedRow]:
    for part, journal_start in parts:
        # the first line of a journal is its header
        for line in part.lines if journal_start else part.lines[1:]:
            row: dict[str, Any] = _decode_line(line)
            key = hash8(_decode_text(row["url"]))
            for name in _LEFT_OUT:
                row.pop(name, None)
            row["url8"] = key.hex()
            row.setdefault("fetch_number", 1)
            value = _encode(row)
            if len(value) > _MOST_BYTES:
                kept = (*_KEPT, "url8", "fetch_number")
                value = _encode({name: row[name] for name in kept if name in row})
            yield FeedRow(PAGES, key, value)


def _dead_letter_row(letter: DeadLetter) -> FeedRow:
    key = hash8(letter.url)
    row = {
        "url": letter.url,
        "url8": key.hex(),
        "reason": letter.reason.label,
        "detail": letter.detail,
        "tries": letter.tries,
        "date_us": int(letter.wall * 1_000_000),
    }
    return FeedRow(DEAD_LETTERS, key, _encode(row))
