"""URLs and hosts that are due at a time: retries, refetches, parked hosts.

Entries are table keys that begin with their time, so taking what is due reads exactly that. The
earliest time is kept in memory, so that nothing is read before it.

URLs that become due in the same second share a row, which ``save`` writes: the first URL is in the
key, the others are the value. Nearly all pages are fetched for the first time and wait the same
interval. So the pages of one second are due in one second, and the schedule costs a row for each
commit instead of a row for each page.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import UrlRecord, due_urls

_TIME = 5  # bytes of a key before the suffix: prefix and time
NEVER_DUE = 0xFFFFFFFF
"""The time of an empty queue."""
PROBES_FROM = 0xF8000000
"""Times from here on, which no clock reaches, are places of waiting probes (``probe_place``)."""
_PROBE_STEP = 32  # seconds of a fetch's time that share a place


def probe_place(fetched_at: int) -> int:
    """The due time of a probe that waits for its turn: the sooner, the longer it was not fetched.

    Probes have no time, and are taken in the order of their last fetches. With these times the
    schedule keeps that order, and the record of a probe agrees with its row as that of any other
    page does.
    """
    return min(PROBES_FROM + max(fetched_at, 0) // _PROBE_STEP, NEVER_DUE - 1)


def is_probe_place(due_at: int) -> bool:
    """Whether a due time is the place of a waiting probe."""
    return due_at >= PROBES_FROM


def became_due_at(record: UrlRecord) -> int:
    """When a page is due in crawl time, 0 for never; of a waiting probe since when it is."""
    history = record.history
    if history is None or not is_probe_place(record.due_at):
        return record.due_at
    return history.fetched_at + history.interval_s


class DueQueue:
    """Entries under one prefix by due time (whole seconds of crawl time).

    Up to ``row`` of them may share a row, if they have 16 bytes, as URLs have.
    """

    def __init__(self, table: Overlay, prefix: bytes, row: int = 1) -> None:
        self._table = table
        self._prefix = prefix
        self._row = row  # maximum number of entries in a row
        self._added: dict[int, list[bytes]] = {}  # by time, since ``save``
        self.earliest = self._peek(0)
        self.first_probe = self._peek(PROBES_FROM)

    def __repr__(self) -> str:
        return f"<DueQueue {self._prefix!r} earliest={self.earliest}>"

    def add_due(self, due_at: int, suffix: bytes) -> None:
        """Add an entry that is due at ``due_at``."""
        due_at = min(max(due_at, 0), PROBES_FROM - 1)
        self._added.setdefault(due_at, []).append(suffix)
        self.earliest = min(self.earliest, due_at)

    def add_probe(self, place: int, suffix: bytes) -> None:
        """Add a probe at its ``probe_place``."""
        self._added.setdefault(place, []).append(suffix)
        self.first_probe = min(self.first_probe, place)

    def remove_due(self, due_at: int, suffix: bytes) -> None:
        """Remove an entry that was due at ``due_at``."""
        if suffix in self._added.get(due_at, ()):
            self._added[due_at].remove(suffix)
        else:
            self._remove_stored(due_at, suffix)
        if not self._added.get(due_at, True):
            del self._added[due_at]
        self._look_again(due_at)

    def _look_again(self, removed: int) -> None:
        """Find the first entries, if one of them was removed; all others are later than it."""
        if removed >= PROBES_FROM:
            if removed <= self.first_probe:
                self.first_probe = self._first(PROBES_FROM)
        elif removed <= self.earliest:
            self.earliest = self._first(removed)

    def _first(self, start: int) -> int:
        """The earliest time from ``start`` on, which is that of a probe or not."""
        added = [each for each in self._added if (each >= PROBES_FROM) is (start >= PROBES_FROM)]
        return min([self._peek(start), *added])

    def _remove_stored(self, due_at: int, suffix: bytes) -> None:
        for key, row in list(self._table.scan(self._key(due_at, b""), self._key(due_at + 1, b""))):
            suffixes = due_urls(key, row) if self._row > 1 else [key[_TIME:]]
            if suffix in suffixes:
                suffixes.remove(suffix)
                self._table.delete(key)
                if suffixes:
                    self._added.setdefault(due_at, []).extend(suffixes)
                return

    def remove_all(self, removed: Mapping[int, Set[bytes]]) -> None:
        """Remove many entries, by due time. The rows of a second are read once for all of them."""
        times = sorted(removed)
        ranges = [(self._key(time, b""), self._key(time + 1, b"")) for time in times]
        for due_at, rows in zip(times, list(self._table.scan_ranges(ranges)), strict=True):
            suffixes = removed[due_at]
            left = [each for each in self._added.get(due_at, ()) if each not in suffixes]
            for key, row in rows:
                stored = due_urls(key, row) if self._row > 1 else [key[_TIME:]]
                if not suffixes.isdisjoint(stored):
                    self._table.delete(key)
                    left += [each for each in stored if each not in suffixes]
            self._added.pop(due_at, None)
            if left:
                self._added[due_at] = left
        for first in (times[0], times[-1]) if times else ():
            self._look_again(first)

    def save(self) -> None:
        """Put the added entries into the open batch."""
        for due_at, suffixes in self._added.items():
            for at in range(0, len(suffixes), self._row):
                first, *others = suffixes[at : at + self._row]
                key = self._key(due_at, first)
                # An earlier commit may have written a row with the same first URL. Keep its others.
                self._table.put(key, (self._table.get(key) or b"") + b"".join(others))
        self._added.clear()

    def take_due(self, now: float, limit: int) -> list[bytes]:
        """Remove and return up to ``limit`` entries that are due, in the order of their times.

        Entries that share a row are taken together, so there may be more.
        """
        if now < self.earliest:
            return []
        self.save()
        taken: list[bytes] = []
        last = 0
        end = self._key(min(int(now) + 1, PROBES_FROM), b"")
        for key, row in list(self._table.scan(self._prefix, end, limit)):
            if len(taken) >= limit:
                break
            taken += due_urls(key, row)
            self._table.delete(key)
            last = int.from_bytes(key[1:5], "big")
        self.earliest = self._peek(last)
        return taken

    def take_probes(self) -> tuple[int, list[bytes]]:
        """Remove and return the probes of the first place, with it; none when no probe waits.

        Entries that share a row are taken together.
        """
        place = self.first_probe
        if place == NEVER_DUE:
            return place, []
        self.save()
        taken: list[bytes] = []
        for key, row in list(self._table.scan(self._key(place, b""), self._key(place + 1, b""), 1)):
            taken += due_urls(key, row)
            self._table.delete(key)
        self.first_probe = self._peek(PROBES_FROM)
        return place, taken

    def take_beyond(self, latest: int, limit: int) -> list[bytes]:
        """Remove and return the entries of up to ``limit`` rows that are due after ``latest``.

        Probes have no time, so they are not among them.
        """
        if latest >= PROBES_FROM:
            return []
        taken: list[bytes] = []
        for key, row in list(
            self._table.scan(self._key(latest + 1, b""), self._key(PROBES_FROM, b""), limit)
        ):
            taken += due_urls(key, row)
            self._table.delete(key)
        return taken

    def _key(self, due_at: int, suffix: bytes) -> bytes:
        return self._prefix + due_at.to_bytes(4, "big") + suffix

    def _peek(self, start: int) -> int:
        """The first stored time from ``start`` on, of a probe only where ``start`` is."""
        end = self._prefix + b"\xff" * 21 if start >= PROBES_FROM else self._key(PROBES_FROM, b"")
        for key, _ in self._table.scan(self._key(start, b""), end, 1):
            return int.from_bytes(key[1:5], "big")
        return NEVER_DUE
