"""The machine's table of addresses: when each may be requested again, and its open requests.

The promise: a request to an address starts no sooner than ``address_delay_s`` after the previous
one, and only while fewer than ``address_slots`` are open. This holds however many hosts share the
address, however many processes and crawls share the table, and whenever any of them is killed. Each
process applies its own settings to the requests of all of them.

How it works. The table is a memory-mapped file. The hash of an address selects a bucket of eight
entries; an entry holds the hash, the last start and one cell per slot, which identifies the process
that holds the slot. No call waits, and no slot leaks:

* ``take_slot`` changes a bucket only under the lock of its stripe, a byte-range lock that the
  kernel
  releases when the process dies. A caller that does not get the lock at once is told to try again,
  so a stopped process never stops another's loop.
* A cell is one aligned word that only its holder clears, so ``release_slot`` needs no lock.
* Every open table holds a lock on one row for as long as it lives, and its cells contain that row
  and a generation. A cell whose row is not locked, or has another generation, is dead and is
  reclaimed. Process ids are not used, so their reuse cannot cause an error.
* The row has a time until which its slots count. A process renews it while it holds slots
  (``renew``), so it passes only when the process has stood still for longer than a request lasts,
  as a suspended one does. Its slots then count no more for others. They stay its own, and count
  again when it continues: it takes none while too many are open, and others wait for it.

Times are on a machine-wide monotonic clock, which starts again at every boot: a start more than a
second in the future counts as happening now. An entry is kept for the longest delay of all
processes that share the file. Two addresses with the same hash (probability 2**-64) share an entry.
When all eight entries of a bucket are in use, the bucket's ninth entry serves all further addresses
together until it is idle. Both errors only make requests wait longer.
"""

from __future__ import annotations

import mmap
import os
import struct
from math import inf
from pathlib import Path

import xxhash

from lycosa.base.config.sections import PolitenessSection
from lycosa.base.ports import SlotNote
from lycosa.base.system.durable import named
from lycosa.stages.politeness.byte_locks import ByteLocks

_MAGIC = 0x4C59434144445233  # "LYCADDR3"
_WORD = 8
_ENTRIES = 8  # per bucket; a ninth is shared
_ROWS = 512  # maximum number of tables open at once
# magic, buckets, cells, barrier, longest delay, identity, spare; then one generation per row, and
# per row the time until which its slots count
_HEADER_WORDS = 8 + 2 * _ROWS
_BARRIER = 3
_LONGEST = 4
_IDENTITY = 5
_FIRST_ROW = 8
_FIRST_TIME = _FIRST_ROW + _ROWS
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
SLOT_LATE_S = 15.0
"""How late a process that is not suspended may end a request."""
_EARLIEST = 1e-9
MACHINE_ENTRIES, MACHINE_SLOTS = 16384, _MAX_CELLS
"""The layout of a table that crawls with different settings share."""
OWN_SLOT = SlotNote(0.001)
"""What holds for a slot of a table in memory. A request that starts later could be too close to
the next one, of another worker that took its slot in the meantime.
"""


class AddressTable:
    """One process's view of the table. With ``path`` ``None`` it is in private memory.

    Open it after forking, once per process and file, and use it from one thread. ``entries`` is the
    number of addresses that can be in use at once and still be told apart. ``max_slots`` is the
    number of requests to one address that can be counted (at most 64; by default as many as
    ``address_slots`` needs). Both can change only while no process has the file open. ``request_s``
    is the longest time that a request of this process may take.
    """

    __slots__ = (
        "_base",
        "_bucket_words",
        "_buckets",
        "_cells",
        "_delay_s",
        "_held",
        "_hold_s",
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
        max_slots: int = 0,
        request_s: float = 60.0,
    ) -> None:
        self._path = path
        self._hold_s = request_s + SLOT_LATE_S
        self._delay_s = section.address_delay_s
        self._slots = min(section.address_slots, _MAX_CELLS)
        # rounded up, so that most changes of the setting keep the layout
        self._cells = -(-max(self._slots, max_slots) // _WORD) * _WORD
        self._buckets = max(entries // _ENTRIES, 1)
        self._bucket_words = (_ENTRIES + 1) * (2 + self._cells)
        self._held: dict[str, list[int]] = {}
        self._locks = ByteLocks(path)
        try:
            self._memory = self._map()
        except BaseException:
            # The lock file is open; without this its descriptor would stay until the end of the
            # process.
            self._locks.close()
            raise
        view = memoryview(self._memory)
        self._words = view.cast("Q")
        self._times = view.cast("d")
        self._times[_LONGEST] = max(self._times[_LONGEST], self._delay_s)
        # Random and not counted: after a power loss an old counter value could come back from disk
        # and match an old cell.
        generation = int.from_bytes(os.urandom(6), "little") or 1
        self._words[_FIRST_ROW + self._row] = generation
        self._times[_FIRST_TIME + self._row] = 0.0
        self._tag = generation << 16 | (self._row + 1)

    def __repr__(self) -> str:
        held = sum(len(cells) for cells in self._held.values())
        return (
            f"<AddressTable {self._path or 'private'} {held} slots held of {len(self._held)}"
            " addresses>"
        )

    def take_slot(self, address: str, now: float) -> float:
        """Take a slot and return 0.0 if the request may start now.

        Otherwise nothing is taken, and the result is the number of seconds to wait before asking
        again. ``now`` is on the machine-wide monotonic clock, in seconds.
        """
        key = xxhash.xxh3_64_intdigest(address.encode()) or 1
        bucket = key % self._buckets
        lock = STRIPE_LOCKS + bucket % STRIPES
        for _ in range(_LOCK_TRIES):
            if self._locks.acquire(lock):
                break
        else:
            # Another process holds the stripe for a few microseconds. Waiting in the kernel would
            # stop the event loop, so the caller asks again.
            return _LOCKED_OUT_S
        try:
            # A change of the layout lost the last starts: every address waits a delay from then on.
            if self._times[_BARRIER]:
                wait_s = self._barrier(now)
                if wait_s > 0:
                    return wait_s
            return self._enter(address, key, _HEADER_WORDS + bucket * self._bucket_words, now)
        finally:
            self._locks.release(lock)

    @property
    def identity(self) -> int:
        """A random number that all who share the table see, and no other table has.

        Neither a path nor the name of a machine tells tables apart: two containers may have both in
        common.
        """
        return self._words[_IDENTITY]

    def wait_s(self, address: str, now: float) -> float:
        """The seconds that ``take_slot`` would return, as far as can be seen without a lock."""
        key = xxhash.xxh3_64_intdigest(address.encode()) or 1
        base = _HEADER_WORDS + key % self._buckets * self._bucket_words
        keys = self._words[base : base + _ENTRIES].tolist()
        if key not in keys:
            return 0.0
        entry = keys.index(key)
        wait_s = self._times[base + _ENTRIES + 1 + entry] + self._delay_s - now
        if 0 < wait_s <= self._delay_s:
            return wait_s
        # Slots of processes that died are found by ``take_slot`` only.
        return 0.0

    def set_limits(self, delay_s: float, slots: int) -> None:
        """Change the limits that this process applies from now on."""
        self._delay_s, self._slots = delay_s, min(slots, self._cells)
        self._times[_LONGEST] = max(self._times[_LONGEST], delay_s)

    def record_start(self, address: str, at: float, answered: float = 0.0) -> None:
        """Move the start of the request that ``take_slot`` allowed to ``at``, when it really left.

        The next delay counts from there. Its response began at ``answered``. Between ``take_slot``
        and ``at`` the loop was busy and the connection was made, which takes a different time for
        each request; without this call two starts could be that much closer together. A busy server
        reads a request even later, but before ``answered``; up to half a delay is added for that.
        Raises ``KeyError`` when this table holds no slot of ``address``.
        """
        seen = max(at, min(answered, at + self._delay_s * _SEEN_SHARE))
        place = self._held[address][-1] - _HEADER_WORDS
        bucket, word = divmod(place, self._bucket_words)
        entry = (word - 2 * (_ENTRIES + 1)) // self._cells
        time_at = _HEADER_WORDS + bucket * self._bucket_words + _ENTRIES + 1 + entry
        lock = STRIPE_LOCKS + bucket % STRIPES
        # If another process holds the lock, skip the correction: a small loss of precision, no
        # wait.
        if any(self._locks.acquire(lock) for _ in range(_LOCK_TRIES)):
            self._times[time_at] = max(self._times[time_at], seen)
            self._locks.release(lock)

    def release_slot(self, address: str, now: float) -> None:
        """Free the slot of a request that has ended.

        Raises ``KeyError`` when this table holds no slot of ``address``.
        """
        cells = self._held[address]
        self._words[cells.pop()] = 0
        if not cells:
            del self._held[address]

    def renew(self, now: float) -> bool:
        """Let our slots count for as long as a request may last; returns whether we hold any.

        ``take_slot`` does the same. Call it at least once in ``renew_s`` while slots are held.
        """
        self._times[_FIRST_TIME + self._row] = now + self._hold_s
        return bool(self._held)

    @property
    def renew_s(self) -> float:
        """The longest time between two calls of ``renew``."""
        return SLOT_LATE_S / 2

    def snapshot(self) -> dict[str, int]:
        """Addresses remembered and slots in use by all processes; reads the whole table."""
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
        """Free all slots and release the file."""
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
        if not self._has_slot(first) and not self._reclaim(first, now):
            # When a slot becomes free is unknown: about as often as a delay passes, at least once a
            # second.
            return max(_NO_SLOT_S, min(self._delay_s, 1.0))
        cell = first + self._words[first : first + self._cells].tolist().index(0)
        self.renew(now)
        # The time first: a process that dies between the two writes has started nothing.
        self._times[time_at] = max(now, _EARLIEST)
        # The tag names the row of this process. If it dies, its row is not renewed, and others take
        # the slot back (``_reclaim``).
        self._words[cell] = self._tag
        self._held.setdefault(address, []).append(cell)
        return 0.0

    def _since(self, time_at: int, now: float) -> float:
        """The last start, or minus infinity when there was none."""
        last = self._times[time_at]
        # Slightly in the future: another process started a request while this one waited for the
        # lock, with a clock value read earlier.
        if last > now + _STALE_S:
            # Stored as now. Otherwise a time from before a reboot would stay one delay in the
            # future.
            last = self._times[time_at] = max(now, _EARLIEST)
        return last if last != _NEVER else -inf

    def _has_slot(self, first: int) -> bool:
        """Whether one more of our requests may be open, counting the requests of all processes."""
        used = self._cells - self._words[first : first + self._cells].tolist().count(0)
        return used < self._slots

    def _find(self, key: int, base: int, now: float) -> int:
        """The entry of ``key``, created if necessary; the shared entry when the bucket is full."""
        keys = self._words[base : base + _ENTRIES].tolist()
        if key in keys:
            return keys.index(key)
        # While the shared entry is in use, this address may be one of its users and must not get a
        # second entry.
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
        self._reclaim(first, now)
        return not any(self._words[first : first + self._cells])

    def _reclaim(self, first: int, now: float) -> bool:
        """Clear the cells of dead processes; returns whether a slot that we may use is free.

        Cells of processes that stand still are not used again: these processes will clear them.
        """
        counted = used = 0
        for cell in range(first, first + self._cells):
            tag = self._words[cell]
            if not tag:
                continue
            if self._is_alive(tag):
                used += 1
                counted += self._counts(tag, now)
            else:
                self._words[cell] = 0
        return counted < self._slots and used < self._cells

    def _counts(self, tag: int, now: float) -> bool:
        """Whether a slot of a living process counts."""
        row = (tag & 0xFFFF) - 1
        return row == self._row or now < self._times[_FIRST_TIME + row]

    def _is_alive(self, tag: int) -> bool:
        row, generation = (tag & 0xFFFF) - 1, tag >> 16
        if not 0 <= row < _ROWS or self._words[_FIRST_ROW + row] != generation:
            return False
        return row == self._row or self._locks.is_held(_ROW_LOCKS + row)

    def _barrier(self, now: float) -> float:
        """Seconds for which all addresses still wait after a change of layout.

        The change lost their last starts, so they wait one delay from then on.
        """
        changed = self._times[_BARRIER]
        changed = now if changed < 0 else min(changed, now)
        self._times[_BARRIER] = (
            max(changed, _EARLIEST) if changed + self._times[_LONGEST] > now else 0.0
        )
        return max(changed + self._delay_s - now, 0.0)

    def _map(self) -> mmap.mmap:
        """Map the file, created or converted to our layout, and lock a row in it."""
        size = (_HEADER_WORDS + self._buckets * self._bucket_words) * _WORD
        header = struct.pack("=QQQd", _MAGIC, self._buckets, self._cells, 0.0)
        descriptor = self._locks.descriptor
        if descriptor < 0:
            memory = mmap.mmap(-1, size)
            memory[: len(header)] = header
            memory[_IDENTITY * _WORD : (_IDENTITY + 1) * _WORD] = _new_identity()
            self._row = 0
            return memory
        self._locks.wait_for(_OPENING_LOCK)
        try:
            found = os.pread(descriptor, len(header), 0)
            if found[: 3 * _WORD] != header[: 3 * _WORD] or os.fstat(descriptor).st_size != size:
                # Another layout: start again with an empty table, unless a process still uses the
                # old one.
                if any(self._locks.is_held(_ROW_LOCKS + row) for row in range(_ROWS)):
                    raise ValueError(f"{self._path} is in use with other settings")
                os.ftruncate(descriptor, 0)
                # a full disk is an error here instead of a SIGBUS in ``take_slot``
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(descriptor, 0, size)
                else:
                    os.ftruncate(descriptor, size)
                os.pwrite(
                    descriptor, header[: 3 * _WORD] + struct.pack("=d", -1.0 if found else 0.0), 0
                )
            at = _IDENTITY * _WORD
            if not any(os.pread(descriptor, _WORD, at)):  # new, or of a version without it
                os.pwrite(descriptor, _new_identity(), at)
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


def _new_identity() -> bytes:
    return os.urandom(_WORD - 1) + b"\1"  # never 0, which says that there is none
