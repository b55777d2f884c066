"""The dead letters of one partition, in the order in which their URLs failed, and decisions.

Each has a row with a number that grows by one (``Z number6``). So a reader that keeps the last
number it has read finds those after it, once, without a clock and however long it was away. A row
is never changed. Whether a URL is still a dead letter is in its record: a refetch, a seed or an
operator may have queued it again. An operator's decisions are kept by URL (``z host8 url8``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from lycosa.base.model.dead_letter import DeadLetter, DecidedDeadLetter
from lycosa.base.reasons import Reason
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import (
    SEQ_BYTES,
    dead_letter_key,
    decision_key,
    encode_record,
    meta_key,
)

LETTERS, DECISIONS = b"Z", b"z"
_LAST = meta_key("dead_letters")
_MAX_DECISIONS = 20  # kept of one URL, the newest ones


class DeadLetterRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A dead letter in the table. ``url`` is its host8 and url8, the date in microseconds."""

    url: bytes
    date_us: int
    reason: Reason
    detail: str
    tries: int


decode_letter = msgspec.msgpack.Decoder(DeadLetterRecord).decode
_decode_decisions = msgspec.msgpack.Decoder(list[DecidedDeadLetter]).decode


class DeadLetters:
    """Adds dead letters and decisions to a partition's table."""

    def __init__(self, table: Overlay) -> None:
        self._table = table
        self._last = int(msgspec.msgpack.decode(table.get(_LAST) or b"\0", type=int))

    @property
    def last(self) -> int:
        """The number of the newest dead letter; 0 when there is none."""
        return self._last

    def add(self, url: bytes, letter: DeadLetter) -> None:
        """Add the dead letter of ``url`` (host8 and url8, as in all methods)."""
        self._last += 1
        row = DeadLetterRecord(
            url, int(letter.wall * 1_000_000), letter.reason, letter.detail, letter.tries
        )
        self._table.put(dead_letter_key(self._last), encode_record(row))
        self._table.put(_LAST, encode_record(self._last))

    def note_decision(self, url: bytes, decision: DecidedDeadLetter) -> None:
        """Keep an operator's decision about the URL."""
        key = decision_key(url[:8], url[8:])
        kept = [*decisions_of(self._table.get, url), decision][-_MAX_DECISIONS:]
        self._table.put(key, encode_record(kept))


def decisions_of(get: Callable[[bytes], bytes | None], url: bytes) -> list[DecidedDeadLetter]:
    """The operators' decisions about a URL, oldest first; ``get`` reads its partition's table."""
    value = get(decision_key(url[:8], url[8:]))
    return _decode_decisions(value) if value is not None else []


def is_decided(decisions: Sequence[DecidedDeadLetter], number: int) -> bool:
    """Whether an operator has decided about a dead letter or about a later one of its URL."""
    return any(each.number >= number for each in decisions)


def number_of(key: bytes) -> int:
    """The number of the dead letter in a row with this key."""
    return int.from_bytes(key[-SEQ_BYTES:], "big")
