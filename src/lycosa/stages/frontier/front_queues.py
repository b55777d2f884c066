"""Hosts with waiting URLs that are not on the workbench: one FIFO queue per priority band.

Hosts wait for their new pages or for their due pages, in bands of either kind. While hosts of both
kinds wait, due pages have a stated share of the turns (``turn_shares``).

**Bound.** A turn of a kind goes to the band whose number is the number of trailing zeros of a
counter. Band 0 has every second turn, band 1 every fourth, band ``b`` one in any ``2 ** (b + 1)``
consecutive turns of its kind; the bands of due pages count from 0 too. The turn of an empty band
goes to the best band that is not empty. So a host with the ``n``-th place of band ``b``, counted
from the band's head, is pulled after at most ``n * 2 ** (b + 1)`` turns of its kind, however many
hosts enter better bands meanwhile, and ``m`` turns of a kind are among at most ``ceil(m / its
share)`` turns in all. A host may move to another band only if its new place needs no more turns
than the old one, so moving never breaks the bound. ``Frontier`` defines what a turn is for a
worker.

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

from lycosa.base.model.due_band import DueBand
from lycosa.stages.frontier.turn_shares import FIRST_DUE, SharedTurns, next_turn, ruler_band
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
_EVEN = SharedTurns()


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

    def __init__(
        self, table: Overlay, bands: int, address: str = "", share: SharedTurns = _EVEN
    ) -> None:
        """``bands`` is the number of bands of new pages, ``share`` that of due pages in turns."""
        self._table = table
        self._address = address
        self._share, self._new_bands = share, bands
        ranges = _line_ranges(table, address) if address else _ranges(table, bands)
        self._bands = {
            band: _Band(ranges.get(at, Range())) for at, band in enumerate(_band_numbers(bands))
        }
        self.count = sum(band.waiting for band in self._bands.values())
        self._due_count = sum(self._bands[band].waiting for band in DueBand)
        self._turn = 0  # of those for which hosts of both kinds waited
        self._turns = [0, 0]  # of new pages, and of due pages
        self._is_changed = False

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"<FrontQueues waiting={self.waiting_by_band()} in_memory={self.in_memory}>"

    @property
    def rows(self) -> int:
        """Number of hosts with a row: waiting, or on the workbench and pulled from here."""
        return sum(band.range.rows for band in self._bands.values())

    @property
    def in_memory(self) -> int:
        """Number of entries in memory: heads, and numbers of hosts that were pulled."""
        return sum(len(band.head) + len(band.taken) for band in self._bands.values())

    def waiting_by_band(self) -> dict[int, int]:
        """Number of hosts that wait, by band; bands of due pages are in it where any wait."""
        return {
            number: band.waiting
            for number, band in self._bands.items()
            if number < FIRST_DUE or band.waiting
        }

    def push_host(self, host8: bytes, band: int) -> tuple[int, int]:
        """Put a host at the end of a band; return its place, for ``remove_host``."""
        line = self._bands[band]
        seq = line.range.next
        line.range.next = seq + 1
        line.range.rows += 1
        self._count_waiting(band, 1)
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
        self._count_waiting(band, -1)
        if seq < line.loaded:
            line.head = deque(entry for entry in line.head if entry[0] != seq)

    def is_better(self, band: int, place: tuple[int, int]) -> bool:
        """Whether the end of ``band`` is in another band than a place, and needs no more turns.

        Of the same kind it has to be the better band.
        """
        is_same_kind = (band >= FIRST_DUE) is (place[0] >= FIRST_DUE)
        if band == place[0] or (is_same_kind and band > place[0]):
            return False
        return self.turns_to(band, self._bands[band].range.next) <= self.turns_to(*place)

    def soonest(self, bands: list[int]) -> int:
        """The band of these whose end needs the fewest turns."""
        return min(bands, key=lambda band: self.turns_to(band, self._bands[band].range.next))

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
        return [line.head[0][1] for line in self._bands.values() if line.head]

    def save(self) -> None:
        """Put what a start needs into the open batch, if it changed."""
        if not self._is_changed:
            return
        self._is_changed = False
        for line in self._bands.values():
            # Rows of pulled hosts count: after a crash these hosts wait again.
            line.range.first = min(next(iter(line.taken), line.loaded), line.first_waiting)
        if self._address and not self.rows:
            self._table.delete(LINE_PREFIX + self._address.encode())
        else:
            key = LINE_PREFIX + self._address.encode() if self._address else FRONT_KEY
            ranges = {band: line.range for band, line in self._bands.items() if line.range.next}
            self._table.put(key, encode_record(stored_ranges(ranges, self._new_bands)))

    def turns_to(self, band: int, seq: int) -> int:
        """Turns until a place is reached, while hosts of both kinds wait.

        Of the kind of the band these are the turns to the band's next own turn, and ``2 ** (b +
        1)`` for each place before it.
        """
        is_due = band >= FIRST_DUE
        period = 2 << (band - FIRST_DUE if is_due else band)
        own = (period // 2 - self._turns[is_due]) % period or period
        wanted = own + (seq - self._bands[band].first_waiting) * period
        return self._share.turns_until(self._turn, wanted, is_due)

    def _choose(self) -> int:
        is_due = self._due_count == self.count
        if self._due_count and not is_due:
            self._turn = next_turn(self._turn)
            is_due = self._share.is_due_turn(self._turn)
        self._turns[is_due] += 1
        # Band 0 has every second turn, band 1 every fourth, and none starves.
        band = ruler_band(self._turns[is_due]) + (FIRST_DUE if is_due else 0)
        if (line := self._bands.get(band)) is not None and line.waiting:
            return band
        return next(
            number
            for number, line in self._bands.items()
            if line.waiting and (number >= FIRST_DUE) is is_due
        )

    def _count_waiting(self, band: int, change: int) -> None:
        self.count += change
        if band >= FIRST_DUE:
            self._due_count += change

    def _take(self, band: int) -> bytes | None:
        line = self._bands[band]
        if not line.head:
            self._refill(band)
        if not line.head:
            # Rows are missing: correct the counts to the rows that exist.
            self._count_waiting(band, -line.waiting)
            line.range.rows, self._is_changed = len(line.taken), True
            return None
        seq, host8 = line.head.popleft()
        line.taken[seq] = None
        self._count_waiting(band, -1)
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


def _band_numbers(bands: int) -> list[int]:
    """The bands in the order of their stored ranges: of new pages, and of due pages."""
    return [*range(bands), *DueBand]


def stored_ranges(ranges: dict[int, Range], bands: int) -> list[Range]:
    """The value of a row with these ranges by band.

    Those of due pages are in it where there are any: a crawl without refetches, or under older
    formats, has none.
    """
    has_due = any(band >= FIRST_DUE for band in ranges)
    numbers = _band_numbers(bands) if has_due else range(bands)
    return [ranges.get(band, Range()) for band in numbers]


def _line_ranges(table: Overlay, address: str) -> dict[int, Range]:
    value = table.get(LINE_PREFIX + address.encode())
    return dict(enumerate(_decode(value))) if value is not None else {}


def _ranges(table: Overlay, bands: int) -> dict[int, Range]:
    """Where the bands of a table begin and end, by their order.

    In a table of an older program, which did not store this, the rows are counted once.
    """
    value = table.get(FRONT_KEY)
    if value is not None:
        return dict(enumerate(_decode(value)))
    found: dict[int, Range] = {}
    for at, band in enumerate(_band_numbers(bands)):
        kept = found[at] = Range()
        prefix = b"F" + band.to_bytes(1, "big")
        for key, _ in table.scan(prefix, prefix_end(prefix)):
            seq = int.from_bytes(key[2:], "big")
            kept.first = kept.first if kept.rows else seq
            kept.next = seq + 1
            kept.rows += 1
    return found


_decode = msgspec.msgpack.Decoder(list[Range]).decode
