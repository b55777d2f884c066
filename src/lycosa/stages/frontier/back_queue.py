"""One host's waiting URLs, by priority band: the tail on disk, only the head in memory.

A lane is a band's range of rows with dense sequence numbers. ``cursor`` is the first row that is
not finished, ``next`` the number of the next new row. New rows go to the end. So a refill reads a
range of keys from a known number, and does not seek past the tombstones of finished rows. (Measured
with such seeks: 25 to 120 us a pop and rising; from a cursor: 0.6 us.)

A row has the URLs that came between two commits, up to sixteen. ``save`` writes what is left of it.
Most of a page's new links are on one host, and most URLs that a host finishes between two commits
are of one row. So a URL costs a quarter of a write, where separate rows would cost two writes.

New pages and due pages have separate bands, and share the turns of their host (``turn_shares``).
Among new pages the best band is emptied first. Among due pages no band starves: probes have one
turn in twenty, so the ``n``-th probe is popped after at most ``20 * n`` turns of due pages. Of the
other turns the ``n``-th entry of due band ``b``, counted from 0, needs at most ``n * 2 ** (b +
1)``.

Invariant: an entry stays in its row until its lease has ended, and ``cursor`` passes neither an
open lease nor a waiting entry. So every URL that was in flight is still queued after a crash.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, insort
from collections.abc import Collection, Mapping

import msgspec

from lycosa.stages.frontier.turn_shares import (
    FIRST_DUE,
    LAST_DUE,
    PROBE_TURNS,
    SharedTurns,
    is_probe_turn,
    next_turn,
    ruler_band,
)
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import (
    PARKED_BAND,
    SET_BACK_BAND,
    SPECULATIVE_BAND,
    queue_key,
    row_urls,
)

ROW_URLS = 16  # maximum of a row, which is rewritten when one of them is finished
_ROWS_READ = 8  # rows that a refill reads at a time
_DUE_TURNS = 8 * PROBE_TURNS  # after so many, probes and bands have their turns in the same order
_EVEN = SharedTurns()
_WORTH_A_THREAD = 4  # rows, 64 URLs: they share the cost of a thread (0.1 ms)


class QueueDamaged(Exception):
    """A host's visit state counts URLs that its back queue does not have."""

    def __init__(self, host: str, count: int) -> None:
        super().__init__(
            f"{host}: its visit state counts {count} waiting URLs, but its back queue is empty: the"
            " table is not the one that was committed (`lycosa audit` shows what else is wrong)"
        )


class Lane(msgspec.Struct, array_like=True):
    """One band's persisted range of rows."""

    cursor: int = 0
    next: int = 0


class QueueEntry(msgspec.Struct, frozen=True, gc=False):
    """A waiting URL, its row, and its place among all entries in memory."""

    band: int
    seq: int
    url8: bytes
    place: int


class _Line:
    """One band in memory.

    ``head`` waits. ``rows`` are the loaded rows, in order, with their unfinished URLs. ``tail`` are
    later rows that are not in the table yet.
    """

    __slots__ = ("changed", "head", "lane", "loaded", "rows", "tail")

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.loaded = lane.cursor  # rows before it are in ``rows`` or finished
        self.head: list[
            QueueEntry
            # A list, because it is short, and an empty deque takes 600 bytes for each band of each
            # host in memory.
        ] = []
        self.rows: dict[int, list[bytes]] = {}
        self.tail: dict[int, list[bytes]] = {}
        self.changed: dict[int, None] = {}  # rows that ``save`` has to write


class BackQueue:
    """Entries are pushed at the end of a band and popped from the band whose turn it is.

    A popped entry is open until it is finished or restored. ``save`` is due after a change.
    """

    __slots__ = (
        "_has_due",
        "_head",
        "_host8",
        "_lines",
        "_order",
        "_places",
        "_returned",
        "_supplied",
        "due_turn",
        "lanes",
        "open_leases",
        "turn",
    )

    def __init__(
        self, host8: bytes, lanes: dict[int, Lane], head: int, turn: int = 0, due_turn: int = 0
    ) -> None:
        """``turn`` is the number of the last turn for which both kinds waited, ``due_turn`` that of
        due pages for which several bands did.
        """
        self.lanes, self.turn, self.due_turn = lanes, turn, due_turn
        self._host8 = host8
        self._head = head  # approximate number of entries in memory
        self._places = 0
        self._supplied: dict[
            bytes, bytes | None
        ] = {}  # rows for the next refill that were read already, by key
        self._lines = {band: _Line(lanes[band]) for band in sorted(lanes)}
        self._has_due = any(FIRST_DUE <= band <= LAST_DUE for band in lanes)
        self.open_leases = 0  # entries popped and not finished
        # Open entries that had a turn of two kinds or bands, by place, and those that were given
        # back: they are popped first again, in their order, without another turn.
        self._order: dict[int, int] = {}
        self._returned: list[tuple[int, int]] = []

    def __repr__(self) -> str:
        lanes = " ".join(
            f"{band}:{lane.cursor}-{lane.next}" for band, lane in sorted(self.lanes.items())
        )
        return f"<BackQueue {lanes} in_memory={self.in_memory} open={self.open_leases}>"

    @property
    def in_memory(self) -> int:
        return sum(len(line.head) for line in self._lines.values())

    @property
    def best_bands(self) -> list[int]:
        """The best band of each kind with a waiting or open entry; ``[0]`` if there is none."""
        found: list[int] = []
        for band, line in self._lines.items():
            if band == PARKED_BAND:
                break
            if line.lane.cursor < line.lane.next and band != SPECULATIVE_BAND:
                if band == SET_BACK_BAND and found:
                    break  # only where nothing else waits
                if band >= FIRST_DUE:
                    found.append(band)
                    break
                if not found:
                    found.append(band)
        return found or [0]

    def has_as_good(self, band: int) -> bool:
        """Whether an entry of this kind waits or is open in this band or a better one."""
        first = FIRST_DUE if band >= FIRST_DUE else 0
        # a loop, because a generator would be a call for each band, at every visit
        for each, line in self._lines.items():
            if first <= each <= band and line.lane.cursor < line.lane.next:
                return True
        return False

    def has_waiting(self, first: int, last: int) -> bool:
        """Whether an entry waits in a band from ``first`` to ``last``."""
        return any(
            line.head or line.loaded < line.lane.next
            for band, line in self._lines.items()
            if first <= band <= last
        )

    @property
    def has_new(self) -> bool:
        """Whether pages wait that were never fetched."""
        return self.has_waiting(0, FIRST_DUE - 1)

    def push(self, band: int, url8: bytes) -> None:
        """Add a URL at the end of a band."""
        line = self._lines.get(band) or self._new_line(band)
        seq = line.lane.next - 1
        in_head, has_room = seq < line.loaded, len(line.head) < self._head
        row = (line.rows if in_head else line.tail).get(seq) if seq in line.changed else None
        # A row that is stored already is not appended to: it would have to be read, and the head
        # may have a part of it.
        if row is None or len(row) == ROW_URLS or (in_head and not has_room):
            seq, row = seq + 1, []
            in_head = line.loaded == seq and has_room
            line.lane.next = seq + 1
            line.changed[seq] = None
            if in_head:
                line.loaded, line.rows[seq] = seq + 1, row
            else:
                line.tail[seq] = row
        row.append(url8)
        if in_head:
            self._places += 1
            line.head.append(QueueEntry(band, seq, url8, self._places))

    def rows_wanted(self) -> list[bytes]:
        """Keys of the rows that the next ``pop`` would read.

        Empty if they are few, because reading a few rows does not delay the loop.
        """
        for band, line in self._lines.items():
            if line.head or band == PARKED_BAND:
                break
            if band == SPECULATIVE_BAND:
                continue
            if line.loaded < line.lane.next:
                stored = [seq for seq in self._next_rows(line) if seq not in line.tail]
                return (
                    [queue_key(self._host8, band, seq) for seq in stored]
                    if len(stored) >= _WORTH_A_THREAD
                    else []
                )
        return []

    def supply_rows(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Supply the rows of ``rows_wanted`` for the next refill.

        A row in the table does not change before it is loaded.
        """
        self._supplied = dict(rows)

    def pop(self, table: Overlay, bands: int, share: SharedTurns = _EVEN) -> QueueEntry | None:
        """Take the first entry of the band whose turn it is; ``None`` if no URL waits.

        ``bands`` is the number of bands of new pages. The entry is open until ``finish_entry`` or
        ``restore_entry``.
        """
        if self._returned:
            order, band = self._returned.pop(0)
            entry = self.pop_band(table, band)
            if entry is not None:
                self._order[entry.place] = order
                return entry
        new, due = -1, list[int]()
        for band, line in self._lines.items():
            if line.head or line.loaded < line.lane.next:
                if band < bands:
                    new = band if new < 0 else new
                elif FIRST_DUE <= band <= LAST_DUE:
                    due.append(band)
            if new >= 0 and not self._has_due:
                break
        if due and (new < 0 or self._gives_due_turn(share)):
            band = self._due_band(due)
        elif new >= 0:
            band = new
        else:
            return None
        entry = self.pop_band(table, band)
        if entry is None:  # rows are missing, of which the next look knows
            return self.pop(table, bands, share)
        if due:
            self._order[entry.place] = self._places = self._places + 1
        return entry

    def _gives_due_turn(self, share: SharedTurns) -> bool:
        self.turn = next_turn(self.turn)
        return share.is_due_turn(self.turn)

    def _due_band(self, waiting: list[int]) -> int:
        """The band of due pages whose turn it is, among those in which some wait."""
        if len(waiting) == 1:
            return waiting[0]
        turn = self.due_turn = self.due_turn % _DUE_TURNS + 1
        if waiting[-1] == LAST_DUE:
            if is_probe_turn(turn):
                return LAST_DUE
            waiting = waiting[:-1]
        # Turns of probes are not turns of the others.
        band = FIRST_DUE + ruler_band(turn - turn // PROBE_TURNS)
        return band if band in waiting else waiting[0]

    def pop_band(self, table: Overlay, band: int) -> QueueEntry | None:
        """Take the first entry of one band."""
        line = self._lines.get(band)
        if line is None:
            return None
        if not line.head:
            self._refill(table, band, line)
            if not line.head:
                return None
        self.open_leases += 1
        return line.head.pop(0)

    def first_in(self, table: Overlay, band: int) -> bytes | None:
        """The URL of a band that is popped first, by its ``url8``; ``None`` if none waits there."""
        line = self._lines.get(band)
        if line is None:
            return None
        if not line.head:
            self._refill(table, band, line)
        return line.head[0].url8 if line.head else None

    def pop_chosen(
        self, table: Overlay, chosen: Collection[bytes], only: int = -1
    ) -> list[QueueEntry]:
        """Take the entries of chosen URLs (``url8``), wherever they wait, also in the parked band.

        ``only`` is the one band in which they are looked for; -1 is all.

        They are open as those of ``pop``. The rows of a band are read until all are found.
        """
        left, taken = set(chosen), list[QueueEntry]()
        for band, line in self._lines.items():
            if only not in (-1, band):
                continue
            for _ in range(2):  # first in memory, then after the rest of the band was read
                found = [entry for entry in line.head if entry.url8 in left]
                if found:
                    line.head = [entry for entry in line.head if entry.url8 not in left]
                    left.difference_update([entry.url8 for entry in found])
                    taken += found
                if not left or line.loaded >= line.lane.next:
                    break
                self._refill(table, band, line, sys.maxsize)
        self.open_leases += len(taken)
        return taken

    def finish_entry(self, entry: QueueEntry) -> None:
        """Remove an entry whose lease has ended."""
        # A row stays until all of its URLs are finished. Leases may end in any order, and a crash
        # brings back the open ones.
        line = self._lines[entry.band]
        row = line.rows[entry.seq]
        row.remove(entry.url8)
        line.changed[entry.seq] = None
        if not row:
            del line.rows[entry.seq]
            _advance(line)
        self.open_leases -= 1
        if self._order:
            self._order.pop(entry.place, None)

    def restore_entry(self, entry: QueueEntry) -> None:
        """Put an entry back at its old place, because its lease was not used."""
        head = self._lines[entry.band].head
        # By its place and not in front: others that were leased after it may be back before.
        head.insert(bisect_left(head, entry.place, key=_place_of), entry)
        self.open_leases -= 1
        order = self._order.pop(entry.place, 0)
        if order:
            insort(self._returned, (order, entry.band))

    def save(self, table: Overlay) -> None:
        """Put the changed rows into the open batch."""
        for band, line in self._lines.items():
            for seq in line.changed:
                row = line.rows.get(seq) or line.tail.get(seq)
                if row:
                    table.put(queue_key(self._host8, band, seq), b"".join(row))
                else:
                    table.delete(queue_key(self._host8, band, seq))
            line.changed.clear()
            # From the next commit on the table has these rows; until then the overlay does.
            line.tail.clear()

    def _new_line(self, band: int) -> _Line:
        lane = self.lanes[band] = Lane()
        line = self._lines[band] = _Line(lane)
        self._has_due |= FIRST_DUE <= band <= LAST_DUE
        self._lines = dict(sorted(self._lines.items()))  # the best band first
        return line

    def _refill(self, table: Overlay, band: int, line: _Line, most: int = 0) -> None:
        supplied, self._supplied = self._supplied, {}
        # Half full is enough: reading on for the last places would read rows of which most do not
        # fit.
        while 2 * len(line.head) < (most or self._head) and line.loaded < line.lane.next:
            numbers, tail = self._next_rows(line), line.tail
            stored = [seq for seq in numbers if seq not in tail] if tail else numbers
            keys = [queue_key(self._host8, band, seq) for seq in stored]
            is_read = bool(supplied) and supplied.keys() >= set(keys)
            values = [supplied[key] for key in keys] if is_read else table.get_many(keys)
            rows = dict(zip(stored, values, strict=True))
            for seq in numbers:
                value = rows.get(seq)
                row = row_urls(value) if value else tail.pop(seq, None)
                if row:  # else a hole: a row whose leases ended out of order before a restart
                    line.rows[seq] = row
                    place = self._places
                    self._places = place + len(row)
                    line.head.extend(
                        [QueueEntry(band, seq, url8, place + at) for at, url8 in enumerate(row, 1)]
                    )
            line.loaded = numbers.stop
            if is_read and line.head:
                break  # further rows would have to be read on the loop
        _advance(line)

    @staticmethod
    def _next_rows(line: _Line) -> range:
        return range(line.loaded, min(line.loaded + _ROWS_READ, line.lane.next))


def _advance(line: _Line) -> None:
    """Set the cursor to the first unfinished row."""
    line.lane.cursor = next(iter(line.rows), line.loaded)


def _place_of(entry: QueueEntry) -> int:
    return entry.place
