"""What changed in one partition, in the order of its commits, for readers that ask now and then.

Each capture that is new, changed, gone or back adds a row with a number that grows by one (``G
number6``), in the commit of the capture. So a reader that keeps the last number it has read of each
partition gets every later change once, across restarts and crashes, without a clock.

A row has about 40 bytes and names the URL by its hashes; what else is known is in the record of the
URL and in the journal. Rows are kept for some days, then dropped, the oldest first: the state must
not grow with the number of fetches.

An import numbers the rows again, because their hosts go to other partitions. Each row then keeps
its earlier ``places``, so a cursor from before the import still says which rows were read
(``inspect.queries.changed_list``).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lycosa.base.model.capture import Change
from lycosa.base.model.url_state import NotedChange
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import SEQ_BYTES, change_key, encode_record, meta_key

CHANGES = b"G"
CHANGE_BOUNDS = meta_key("changes")
_TRIM_EVERY, _TRIMMED = 32, 64  # rows added between two steps, and rows dropped in one
ChangePlace = tuple[int, int, int]
"""Generation (the number of imports before), partition, and number of a change in it."""


class ChangeRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A change in the table.

    ``url`` is its host8 and url8. ``noted_s`` (wall time) never decreases from row to row.
    ``date_us`` and ``status`` are those of the capture. ``distance`` is its number of differing
    SimHash bits. ``places`` are those in the divisions of the state before imports, the oldest
    first.
    """

    url: bytes
    noted_s: int
    date_us: int
    change: Change
    status: int
    distance: int | None = None
    places: tuple[ChangePlace, ...] = ()


class ChangeBounds(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The numbers of the last row, of the first one that is kept, and of the last imported one.

    ``dropped`` are the greatest numbers that were dropped of the divisions before imports.
    """

    last: int = 0
    first: int = 1
    imported: int = 0
    dropped: tuple[ChangePlace, ...] = ()


decode_change = msgspec.msgpack.Decoder(ChangeRow).decode
_decode_bounds = msgspec.msgpack.Decoder(ChangeBounds).decode


def bounds_in(get: Callable[[bytes], bytes | None]) -> ChangeBounds:
    """The bounds in a partition's table, which ``get`` reads."""
    value = get(CHANGE_BOUNDS)
    return _decode_bounds(value) if value is not None else ChangeBounds()


def change_number(key: bytes) -> int:
    """The number of the change in a row with this key."""
    return int.from_bytes(key[-SEQ_BYTES:], "big")


class ChangeLog:
    """Adds changes to a partition's table, and drops those that are older than ``keep_s``.

    With 0 none are added.
    """

    def __init__(self, table: Overlay, keep_s: float) -> None:
        self._table, self._keep_s = table, keep_s
        self._bounds = bounds_in(table.get)
        last = table.get(change_key(self._bounds.last))
        self._noted_s = decode_change(last).noted_s if last is not None else 0

    def __repr__(self) -> str:
        return f"<ChangeLog {self._bounds}>"

    def add(self, url: bytes, noted: NotedChange) -> None:
        """Add the change of ``url`` (host8 and url8)."""
        if not self._keep_s:
            return
        # A clock that was set back must not hide a row from a search by time.
        self._noted_s = max(self._noted_s, noted.noted_s)
        number = self._bounds.last + 1
        row = ChangeRow(
            url, self._noted_s, noted.date_us, noted.change, noted.status, noted.distance
        )
        self._table.put(change_key(number), encode_record(row))
        self._bounds = msgspec.structs.replace(self._bounds, last=number)
        if number % _TRIM_EVERY == 0:
            self._drop_old()
        self._table.put(CHANGE_BOUNDS, encode_record(self._bounds))

    def _drop_old(self) -> None:
        """Drop some rows that are old enough; there are more only while many were added at once."""
        first, dropped = self._bounds.first, self._bounds.dropped
        end = min(first + _TRIMMED, self._bounds.last)
        for key, value in list(self._table.scan(change_key(first), change_key(end))):
            row = decode_change(value)
            if row.noted_s >= self._noted_s - self._keep_s:
                break
            self._table.delete(key)
            first = change_number(key) + 1
            dropped = merged_places(dropped, row.places) if row.places else dropped
        self._bounds = msgspec.structs.replace(self._bounds, first=first, dropped=dropped)


def merged_places(
    one: tuple[ChangePlace, ...], other: tuple[ChangePlace, ...]
) -> tuple[ChangePlace, ...]:
    """The greatest number of each partition, of two lists."""
    found = {place[:2]: place for place in sorted((*one, *other))}
    return tuple(found.values())
