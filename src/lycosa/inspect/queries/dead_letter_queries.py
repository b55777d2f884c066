"""The present dead letters of one partition, newest first.

Dead letters are numbered, so the newest are found without reading the others: the rows are read
backwards in blocks, from the cursor on. A row stays when its URL is queued again, so each is
compared with the URL's record and with the operators' decisions. A URL that failed again without a
decision has two rows; the older one is left out of a piece that has the newer one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from lycosa.base.calls import DeadLettersQuery
from lycosa.base.model.url_state import UrlState
from lycosa.base.urls.identity import hash8, join_url
from lycosa.inspect.committed_state import TableView
from lycosa.stages.frontier.dead_letters import (
    DeadLetterRecord,
    decisions_of,
    decode_letter,
    is_decided,
    number_of,
)
from lycosa.state.kv.table_records import dead_letter_key, meta_key

_LAST = meta_key("dead_letters")
_BLOCK = 64
_LATEST_US = (1 << 62) - 1


class DeadLetterLister:
    """Lists dead letters for one question; ``position`` is the cursor behind the last one read."""

    def __init__(self, view: TableView, query: DeadLettersQuery) -> None:
        self._view, self._query = view, query
        self._host8 = hash8(query.host.lower()) if query.host else b""
        self._newer: set[bytes] = set()
        self.position = query.after

    def letters(self) -> Iterator[dict[str, Any]]:
        """The dead letters that are meant, behind the cursor. May raise ``OutOfTime``."""
        for number, letter in self.read_dead_letters():
            mark = self._mark(number, letter)
            is_newest = letter.url not in self._newer
            self._newer.add(letter.url)
            if mark <= self._query.after:
                continue
            self.position = mark
            if not is_newest or not self._is_meant(letter):
                continue
            row = self._row(number, letter)
            if row is not None:
                row.update(order=mark, cursor=mark)
                yield row

    def read_dead_letters(self) -> Iterator[tuple[int, DeadLetterRecord]]:
        """All dead letters with their numbers, the newest first, from about the cursor on."""
        last = self._first_behind_cursor()
        while last > 0:
            first = max(last - _BLOCK + 1, 1)
            block = list(self._view.scan(dead_letter_key(first), dead_letter_key(last + 1)))
            for key, row in reversed(block):
                yield number_of(key), decode_letter(row)
            last = first - 1

    def _mark(self, number: int, letter: DeadLetterRecord) -> str:
        return f"{_LATEST_US - letter.date_us:016x}{self._view.number:06x}{number:012x}"

    def _first_behind_cursor(self) -> int:
        """The number to begin with: dead letters with a greater one come before the cursor.

        The cursor may be of another partition, so the number is searched for by the date. Dates
        grow with the numbers, except after a clock was set back; a block more is read for that.
        """
        value = self._view.get(_LAST)
        behind, before = 0, (int(msgspec.msgpack.decode(value)) if value is not None else 0) + 1
        most = before - 1
        while before - behind > 1:
            middle = (behind + before) // 2
            row = self._view.get(dead_letter_key(middle))
            if row is None or self._mark(middle, decode_letter(row)) > self._query.after:
                behind = middle
            else:
                before = middle
        return min(behind + _BLOCK, most)

    def _is_meant(self, letter: DeadLetterRecord) -> bool:
        reason = self._query.reason
        return (not reason or letter.reason.label == reason) and (
            not self._host8 or letter.url[:8] == self._host8
        )

    def _row(self, number: int, letter: DeadLetterRecord) -> dict[str, Any] | None:
        """The row of a dead letter; ``None`` when its URL is no dead letter any more."""
        host8, url8 = letter.url[:8], letter.url[8:]
        record, host = self._view.url_record(host8, url8), self._view.host_record(host8)
        if record is None or host is None or record.state is not UrlState.FAILED:
            return None
        if is_decided(decisions_of(self._view.get, letter.url), number):
            return None
        return {
            "url": join_url("https" if record.secure else "http", host.host, record.target),
            "id": letter.url.hex(),
            "url_hash": url8.hex(),
            "host": host.host,
            "partition": self._view.number,
            "number": number,
            "reason": letter.reason.label,
            "meaning": letter.reason.meaning,
            "detail": letter.detail,
            "tries": letter.tries,
            "date": letter.date_us / 1e6,
        }
