"""The machine's memory of addresses: when each may next be asked, and how many requests to it are
open.

The promise: a request to an address starts no sooner than ``address_delay_s`` after the one before
it, and only while fewer than ``address_slots`` are open, whatever number of hosts share the
address, whatever number of processes and crawls share the table, and whenever any of them is
killed. Each process holds its own settings against what all of them did.

How. The table is a memory-mapped file. Each address belongs by its hash to a bucket of eight
entries; an entry holds the hash, the last start and one cell per slot, which names the process that
holds it. Nothing waits and nothing leaks:

* ``take`` changes a bucket only under the lock of its stripe, a byte-range lock of the kernel,
  which a dying process
  cannot keep. Who does not get the lock at once is told to come again, so a stopped process never
  stops another's loop.
* A cell is one aligned word that only its holder clears, so ``release`` needs no lock.
* Every open table holds, for as long as it lives, a lock on a row of its own, and its cells carry
  row and generation. A
  cell whose row is not locked, or has another generation, is dead and is reclaimed; no process id
  can be mistaken.

Times are on a machine-wide monotonic clock, which starts anew with the machine: a start that lies
ahead by more than a second counts as one of this moment. An entry is kept for the longest delay of
those who share the file. Two addresses with one hash (2**-64) share an entry. When all eight
entries of a bucket are in use, the bucket's ninth serves all further addresses together, until it
is idle; both errors wait longer, never less.
"""

from __future__ import annotations

import mmap
import os
import struct
from math import inf
from pathlib import Path

import xxhash

from lycosa.config.sections import PolitenessSection
from lycosa.politeness.byte_locks import ByteLocks
from lycosa.system.durable import named

_MAGIC = 0x4C59434144445232  # "LYCADDR2"
_WORD = 8
_ENTRIES = 8  # of a bucket; a ninth is shared
_ROWS = 512  # tables open at once
# magic, buckets, cells, barrier, longest delay, spare; one generation per row
_HEADER_WORDS = 8 + _ROWS
_BARRIER = 3
_LONGEST = 4
_FIRST_ROW = 8
STRIPES = 256
_OPENING_LOCK, _ROW_LOCKS, STRIPE_LOCKS = 0, 1024, 4096  # byte offsets of locks
_MAX_CELLS = 64
_LOCK_TRIES = 20
_LOCKED_OUT_S = 0.005
_NO_SLOT_S = 0.05
_SEEN_SHARE = 0.5
_STALE_S = 1.0
_SHARED = _ENTRIES
_NEVER = 0.0  # no start yet
_EARLIEST = 1e-9
MACHINE_ENTRIES, MACHINE_SLOTS = 16384, _MAX_CELLS
"""The layout of a table that crawls with different settings share."""


class AddressTable:
    """One process's view of the table. ``path`` ``None`` is private memory, for a single process.

    Open it after forking, and one per process and file. It is for one thread. ``entries`` is how
    many addresses are told apart when all are in use at once, ``most_slots`` how many requests to
    one of them can be counted (64 at most, and by default as many as ``address_slots`` asks for);
    they can change only while nobody has the file open.
    """

    __slots__ = (
        "_base",
        "_bucket_words",
        "_buckets",
        "_cells",
        "_delay_s",
        "_held",
        "_locks",
        "_memory",
        "_path",
        "_row",
        "_slots",
        "_tag",
        "_times",
        "_words",
    )

    def __init__(
        self,
        path: Path | None,
        section: PolitenessSection,
        entries: int = 65536,
        most_slots: int = 0,
    ) -> None:
        self._path = path
        self._delay_s = section.address_delay_s
        self._slots = min(section.address_slots, _MAX_CELLS)
        # in steps, so that most changes of the setting keep the layout
        self._cells = -(-max(self._slots, most_slots) // _WORD) * _WORD
        self._buckets = max(entries // _ENTRIES, 1)
        self._bucket_words = (_ENTRIES + 1) * (2 + self._cells)
        self._held: dict[str, list[int]] = {}
        self._locks = ByteLocks(path)
        try:
            self._memory = self._map()
        except BaseException:
            self._locks.close()
            raise
        view = memoryview(self._memory)
        self._words = view.cast("Q")
        self._times = view.cast("d")
        self._times[_LONGEST] = max(self._times[_LONGEST], self._delay_s)
        # Drawn, not counted: after a power loss a counter could come back from disk and match an
        # old cell.
        generation = int.from_bytes(os.urandom(6), "little") or 1
        self._words[_FIRST_ROW + self._row] = generation
        self._tag = generation << 16 | (self._row + 1)

    def __repr__(self) -> str:
        held = sum(len(cells) for cells in self._held.values())
        return (
            f"<AddressTable {self._path or 'private'} {held} slots held of {len(self._held)}"
            " addresses>"
        )

    def take(self, address: str, now: float) -> float:
        """0.0: the request may start now, a slot is taken. Else seconds after which to ask again;
        nothing is taken.

        ``now`` is on the machine-wide monotonic clock, in seconds.
        """
        key = xxhash.xxh3_64_intdigest(address.encode()) or 1
        bucket = key % self._buckets
        lock = STRIPE_LOCKS + bucket % STRIPES
        for _ in range(_LOCK_TRIES):
            if self._locks.acquire(lock):
                break
        else:
            return _LOCKED_OUT_S
        try:
            if self._times[_BARRIER]:
                wait_s = self._barrier(now)
                if wait_s > 0:
                    return wait_s
            return self._enter(address, key, _HEADER_WORDS + bucket * self._bucket_words, now)
        finally:
            self._locks.release(lock)

    def started(self, address: str, at: float, answered: float = 0.0) -> None:
        """The request that ``take`` allowed left at ``at``, and its answer began at ``answered``:
        the next start counts from there.

        Between ``take`` and ``at`` lie the work of a busy loop and the making of a connection,
        which differ from request to request; without this two starts could lie that much closer
        together. A busy server reads a request still later, at ``answered`` at the latest; up to
        half a delay is given for that. ``KeyError`` when this table holds no slot of ``address``.
        """
        seen = max(at, min(answered, at + self._delay_s * _SEEN_SHARE))
        place = self._held[address][-1] - _HEADER_WORDS
        bucket, word = divmod(place, self._bucket_words)
        entry = (word - 2 * (_ENTRIES + 1)) // self._cells
        time_at = _HEADER_WORDS + bucket * self._bucket_words + _ENTRIES + 1 + entry
        lock = STRIPE_LOCKS + bucket % STRIPES
        # A lock that somebody keeps costs a little precision and never a wait.
        if any(self._locks.acquire(lock) for _ in range(_LOCK_TRIES)):
            self._times[time_at] = max(self._times[time_at], seen)
            self._locks.release(lock)

    def release(self, address: str, now: float) -> None:
        """The request that ``take`` allowed has ended. ``KeyError`` when this table holds no
        slot of ``address``.
        """
        cells = self._held[address]
        self._words[cells.pop()] = 0
        if not cells:
            del self._held[address]

    def snapshot(self) -> dict[str, int]:
        """Addresses remembered and slots in use by anyone; walks the whole table."""
        remembered = used = 0
        for bucket in range(self._buckets):
            base = _HEADER_WORDS + bucket * self._bucket_words
            remembered += sum(1 for word in self._words[base : base + _ENTRIES] if word)
            cells = base + 2 * (_ENTRIES + 1)
            used += sum(1 for word in self._words[cells : base + self._bucket_words] if word)
        return {
            "addresses": remembered,
            "slots_used": used,
            "slots_held": sum(map(len, self._held.values())),
        }

    def close(self) -> None:
        """Give back all slots and forget the file."""
        for cells in self._held.values():
            for cell in cells:
                self._words[cell] = 0
        self._held.clear()
        self._words.release()
        self._times.release()
        self._memory.close()
        self._locks.close()

    def _enter(self, address: str, key: int, base: int, now: float) -> float:
        entry = self._find(key, base, now)
        time_at = base + _ENTRIES + 1 + entry
        wait_s = self._since(time_at, now) + self._delay_s - now
        if wait_s > 0:
            return wait_s
        first = base + 2 * (_ENTRIES + 1) + entry * self._cells
        if not self._has_slot(first) and not self._reclaim(first):
            return max(_NO_SLOT_S, min(self._delay_s, 1.0))
        cell = first + self._words[first : first + self._cells].tolist().index(0)
        # The time first: who dies between the two has started nothing.
        self._times[time_at] = max(now, _EARLIEST)
        self._words[cell] = self._tag
        self._held.setdefault(address, []).append(cell)
        return 0.0

    def _since(self, time_at: int, now: float) -> float:
        """The last start, infinitely long ago when there was none."""
        last = self._times[time_at]
        # A little ahead: another process started while this one waited for the lock, with a clock
        # that it had read before.
        if last > now + _STALE_S:
            # Written down, or a time from before a reboot would be one delay away for ever.
            last = self._times[time_at] = max(now, _EARLIEST)
        return last if last != _NEVER else -inf

    def _has_slot(self, first: int) -> bool:
        """Whether one more request of ours may be open; those of others count, whatever they
        allow themselves.
        """
        used = self._cells - self._words[first : first + self._cells].tolist().count(0)
        return used < self._slots

    def _find(self, key: int, base: int, now: float) -> int:
        """The entry of ``key``, made if need be; the shared one when there is no room."""
        keys = self._words[base : base + _ENTRIES].tolist()
        if key in keys:
            return keys.index(key)
        # While the shared entry is in use this address may be one of its users, and must not get a
        # second memory.
        if not self._is_idle(_SHARED, base, now):
            return _SHARED
        for entry in range(_ENTRIES):
            if not keys[entry] or self._is_idle(entry, base, now):
                self._words[base + entry] = key
                self._times[base + _ENTRIES + 1 + entry] = _NEVER
                return entry
        return _SHARED

    def _is_idle(self, entry: int, base: int, now: float) -> bool:
        if self._since(base + _ENTRIES + 1 + entry, now) + self._times[_LONGEST] > now:
            return False
        first = base + 2 * (_ENTRIES + 1) + entry * self._cells
        if not any(self._words[first : first + self._cells]):
            return True
        self._reclaim(first)
        return not any(self._words[first : first + self._cells])

    def _reclaim(self, first: int) -> bool:
        """Clear the cells of dead holders; whether one of ours to use became free."""
        for cell in range(first, first + self._cells):
            tag = self._words[cell]
            if tag and not self._is_alive(tag):
                self._words[cell] = 0
        return self._has_slot(first)

    def _is_alive(self, tag: int) -> bool:
        row, generation = (tag & 0xFFFF) - 1, tag >> 16
        if not 0 <= row < _ROWS or self._words[_FIRST_ROW + row] != generation:
            return False
        return row == self._row or self._locks.is_held(_ROW_LOCKS + row)

    def _barrier(self, now: float) -> float:
        """After the layout changed nobody knows who was asked last: all addresses wait one
        delay.
        """
        changed = self._times[_BARRIER]
        changed = now if changed < 0 else min(changed, now)
        self._times[_BARRIER] = (
            max(changed, _EARLIEST) if changed + self._times[_LONGEST] > now else 0.0
        )
        return max(changed + self._delay_s - now, 0.0)

    def _map(self) -> mmap.mmap:
        """The file, created or brought to our layout, and a row in it."""
        size = (_HEADER_WORDS + self._buckets * self._bucket_words) * _WORD
        header = struct.pack("=QQQd", _MAGIC, self._buckets, self._cells, 0.0)
        descriptor = self._locks.descriptor
        if descriptor < 0:
            memory = mmap.mmap(-1, size)
            memory[: len(header)] = header
            self._row = 0
            return memory
        self._locks.wait_for(_OPENING_LOCK)
        try:
            found = os.pread(descriptor, len(header), 0)
            if found[: 3 * _WORD] != header[: 3 * _WORD] or os.fstat(descriptor).st_size != size:
                if any(self._locks.is_held(_ROW_LOCKS + row) for row in range(_ROWS)):
                    raise ValueError(f"{self._path} is in use with other settings")
                os.ftruncate(descriptor, 0)
                # a full disk is an error here, not a SIGBUS in ``take``
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(descriptor, 0, size)
                else:
                    os.ftruncate(descriptor, size)
                os.pwrite(
                    descriptor, header[: 3 * _WORD] + struct.pack("=d", -1.0 if found else 0.0), 0
                )
            self._row = next(
                (row for row in range(_ROWS) if self._locks.acquire(_ROW_LOCKS + row)), -1
            )
            if self._row < 0:
                raise ValueError(f"{self._path} is in use by {_ROWS} processes")
            return mmap.mmap(descriptor, size)
        except OSError as error:
            raise (named(error, self._path) if self._path else error) from error
        finally:
            self._locks.release(_OPENING_LOCK)
