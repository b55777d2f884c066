"""Hosts with waiting URLs that are not on the workbench: one FIFO queue per priority band.

**Bound.** A turn goes to the band whose number is the number of trailing zeros of a counter. Band 0
has every second turn, band 1 every fourth, band ``b`` one in any ``2 ** (b + 1)`` consecutive
turns. The turn of an empty band goes to the best band that is not empty. So a host with the
``n``-th place of band ``b``, counted from the band's head, is pulled after at most ``n * 2 ** (b +
1)`` turns, however many hosts enter better bands meanwhile. A host may move to a better band only
if its new place needs no more turns than the old one, so moving never breaks the bound.
``Frontier`` defines what a turn is for a worker.

**Memory.** A band is a range of dense sequence numbers in the table, like a lane of a back queue.
Only the first few hosts are in memory, and the numbers of the hosts that were pulled and are on the
workbench. ``save`` writes where each band begins and how many rows it has, so a start reads one row
and not all hosts.

Rows stay in the table until their host is removed. So hosts that were on the workbench are found
again after a crash.
"""

from __future__ import annotations

from collections import deque

import msgspec

from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import (
    LINE_PREFIX,
    encode_record,
    meta_key,
    place_of,
    prefix_end,
    waiting_key,
)

FRONT_KEY = meta_key("front")
_HEAD = 64  # hosts of one band in memory


class Range(msgspec.Struct, array_like=True):
    """The persisted range of one band: ``rows`` rows from ``first`` to before ``next``."""

    first: int = 0
    next: int = 0
    rows: int = 0


class _Band:
    """One band.

    ``head`` waits in memory and ``taken`` was pulled. Every number before ``loaded`` is in one of
    them or was removed.
    """

    __slots__ = ("head", "loaded", "range", "taken")

    def __init__(self, kept: Range) -> None:
        self.range = kept
        self.loaded = kept.first
        self.head: deque[tuple[int, bytes]] = deque()
        self.taken: dict[int, None] = {}  # in order, as numbers are pulled in order

    @property
    def waiting(self) -> int:
        return self.range.rows - len(self.taken)

    @property
    def first_waiting(self) -> int:
        return self.head[0][0] if self.head else self.loaded


class FrontQueues:
    """The front queues of one partition, or with an ``address`` the line of that address.

    ``count`` is the number of hosts that wait.
    """

    def __init__(self, table: Overlay, bands: int, address: str = "") -> None:
        self._table = table
        self._address = address
        self._bands = [
            _Band(kept)
            for kept in (_line_ranges(table, bands, address) if address else _ranges(table, bands))
        ]
        self.count = sum(band.waiting for band in self._bands)
        self._turn = 0
        self._is_changed = False

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"<FrontQueues waiting={self.waiting_by_band()} in_memory={self.in_memory}>"

    @property
    def rows(self) -> int:
        """Number of hosts with a row: waiting, or on the workbench and pulled from here."""
        return sum(band.range.rows for band in self._bands)

    @property
    def in_memory(self) -> int:
        """Number of entries in memory: heads, and numbers of hosts that were pulled."""
        return sum(len(band.head) + len(band.taken) for band in self._bands)

    def waiting_by_band(self) -> list[int]:
        """Number of hosts that wait, by band."""
        return [band.waiting for band in self._bands]

    def push_host(self, host8: bytes, band: int) -> tuple[int, int]:
        """Put a host at the end of a band; return its place, for ``remove_host``."""
        line = self._bands[band]
        seq = line.range.next
        line.range.next = seq + 1
        line.range.rows += 1
        self.count += 1
        self._is_changed = True
        self._table.put(waiting_key(self._address, band, seq), host8)
        # In memory only if everything in front of it is, because the head is read from its end on.
        if line.loaded == seq and len(line.head) < _HEAD:
            line.head.append((seq, host8))
            line.loaded = seq + 1
        return band, seq

    def remove_host(self, place: tuple[int, int]) -> None:
        """Remove a host that has nothing waiting any more or moves, once for each ``push_host``."""
        band, seq = place
        line = self._bands[band]
        line.range.rows -= 1
        self._is_changed = True
        self._table.delete(waiting_key(self._address, band, seq))
        # It was pulled, and its row stayed for a crash; it waits here no longer.
        if seq in line.taken:
            del line.taken[seq]
            return
        self.count -= 1
        if seq < line.loaded:
            line.head = deque(entry for entry in line.head if entry[0] != seq)

    def is_better(self, band: int, place: tuple[int, int]) -> bool:
        """Whether the end of ``band`` is above a place and needs no more turns than it."""
        if band >= place[0]:
            return False
        return self.turns_to(band, self._bands[band].range.next) <= self.turns_to(*place)

    def pull_hosts(self, want: int) -> list[bytes]:
        """Take up to ``want`` hosts, one a turn; their rows stay in the table until removed."""
        taken: list[bytes] = []
        while len(taken) < want and self.count > 0:
            host8 = self._take(self._choose())
            if host8 is not None:
                taken.append(host8)
        return taken

    def firsts(self) -> list[bytes]:
        """The host that has waited longest in each band, as far as it is in memory."""
        return [line.head[0][1] for line in self._bands if line.head]

    def save(self) -> None:
        """Put what a start needs into the open batch, if it changed."""
        if not self._is_changed:
            return
        self._is_changed = False
        for line in self._bands:
            # Rows of pulled hosts count: after a crash these hosts wait again.
            line.range.first = min(next(iter(line.taken), line.loaded), line.first_waiting)
        if self._address and not self.rows:
            self._table.delete(LINE_PREFIX + self._address.encode())
        else:
            key = LINE_PREFIX + self._address.encode() if self._address else FRONT_KEY
            self._table.put(key, encode_record([line.range for line in self._bands]))

    def turns_to(self, band: int, seq: int) -> int:
        """Turns until a place is reached.

        These are the turns to the band's next own turn, and ``2 ** (band + 1)`` for each place
        before it.
        """
        period = 2 << band
        own = (period // 2 - self._turn) % period or period
        return own + (seq - self._bands[band].first_waiting) * period

    def _choose(self) -> int:
        self._turn += 1
        # The lowest bit of the turn: band 0 has every second turn, band 1 every fourth, and none
        # starves.
        band = (self._turn & -self._turn).bit_length() - 1
        if band < len(self._bands) and self._bands[band].waiting:
            return band
        return next(number for number, line in enumerate(self._bands) if line.waiting)

    def _take(self, band: int) -> bytes | None:
        line = self._bands[band]
        if not line.head:
            self._refill(band)
        if not line.head:
            # Rows are missing: correct the counts to the rows that exist.
            self.count -= line.waiting
            line.range.rows, self._is_changed = len(line.taken), True
            return None
        seq, host8 = line.head.popleft()
        line.taken[seq] = None
        self.count -= 1
        return host8

    def _refill(self, band: int) -> None:
        line = self._bands[band]
        end = line.range.next
        while not line.head and line.loaded < end:
            numbers = range(line.loaded, min(line.loaded + _HEAD, end))
            values = self._table.get_many(
                [waiting_key(self._address, band, seq) for seq in numbers]
            )
            line.head.extend(
                (seq, host8)
                for seq, host8 in zip(numbers, values, strict=True)
                if host8 is not None
            )
            line.loaded = numbers.stop
            if not line.head and line.loaded < end:
                # After a restart there is a hole for each host that left the workbench while an
                # earlier one stayed.
                first, last = (waiting_key(self._address, band, seq) for seq in (line.loaded, end))
                line.loaded = next(
                    (place_of(key)[2] for key, _ in self._table.scan(first, last, 1)), end
                )


def _line_ranges(table: Overlay, bands: int, address: str) -> list[Range]:
    value = table.get(LINE_PREFIX + address.encode())
    return (
        msgspec.msgpack.decode(value, type=list[Range])
        if value is not None
        else [Range() for _ in range(bands)]
    )


def _ranges(table: Overlay, bands: int) -> list[Range]:
    """Where the bands of a table begin and end.

    In a table of an older program, which did not store this, the rows are counted once.
    """
    value = table.get(FRONT_KEY)
    if value is not None:
        return msgspec.msgpack.decode(value, type=list[Range])
    found = [Range() for _ in range(bands)]
    for band, kept in enumerate(found):
        prefix = b"F" + band.to_bytes(1, "big")
        for key, _ in table.scan(prefix, prefix_end(prefix)):
            seq = int.from_bytes(key[2:], "big")
            kept.first = kept.first if kept.rows else seq
            kept.next = seq + 1
            kept.rows += 1
    return found
