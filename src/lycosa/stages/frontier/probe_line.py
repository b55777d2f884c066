"""Probes: due pages of which no fetch is worth its price within the maximum interval.

They are fetched all the same, because their estimates may be wrong, but they would take all turns
if they were many. So they wait outside the queues of their hosts, in the schedule, and at most a
stated share of the refetches (``refetch.probes``) is theirs: each refetch of another page gives a
part of one. After a week without any, one is taken a day. The page that was not fetched for longest
is first.
"""

from __future__ import annotations

import msgspec

from lycosa.stages.frontier.due import NEVER_DUE, DueQueue, probe_place
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import encode_record, meta_key

PROBES_KEY = meta_key("probes")
_DAY_S = 86_400
_EVERY_S, _QUIET_S = _DAY_S, 7 * _DAY_S
_MOST_SAVED = 100.0  # probes that refetches have given and that were not there to be taken


class ProbesRow(msgspec.Struct, array_like=True):
    """What a partition keeps: probes that may be taken, and the times of the last other refetch and
    of the last probe. Without it a crawl of short runs would never have a probe.
    """

    saved: float = 0.0
    refetched_at: int = 0
    taken_at: int = 0


class ProbeLine:
    """The waiting probes of one partition. ``earliest`` is the next time at which one is taken."""

    def __init__(self, table: Overlay, due: DueQueue, share: float = 0.05) -> None:
        self._table, self._due = table, due
        value = table.get(PROBES_KEY)
        self._row = (
            msgspec.msgpack.decode(value, type=ProbesRow) if value is not None else ProbesRow()
        )
        self._is_changed = False
        self.earliest = NEVER_DUE
        self.follow(share)
        self._update()

    def __repr__(self) -> str:
        return f"<ProbeLine {self._row} earliest={self.earliest}>"

    def follow(self, share: float) -> None:
        """Follow a setting, from 0 to less than 1."""
        self._gain = share / (1 - share)

    def add(self, fetched_at: int, url: bytes) -> int:
        """Let a page (host8 and url8) wait; returns the due time of its record."""
        place = probe_place(fetched_at)
        self._due.add_probe(place, url)
        self._update()
        return place

    def note_refetch(self, at: int) -> None:
        """Note a refetch of a page that is no probe, in seconds since 1970."""
        row = self._row
        row.saved, row.refetched_at = min(row.saved + self._gain, _MOST_SAVED), at
        self._is_changed = True
        if self.earliest:
            self._update()

    def take(self, now: float) -> list[bytes]:
        """Take the next probes, if it is time: those of one row at most."""
        if now < self.earliest:
            return []
        row = self._row
        place, waiting = self._due.take_probes()
        number = max(int(row.saved), 1)
        taken = waiting[:number]
        for url in waiting[number:]:
            self._due.add_probe(place, url)
        if taken:
            row.saved, row.taken_at = max(row.saved - len(taken), 0.0), int(now)
            self._is_changed = True
        self._update()
        return taken

    def save(self) -> None:
        """Put what a start needs into the open batch, if it changed."""
        if self._is_changed:
            self._is_changed = False
            self._table.put(PROBES_KEY, encode_record(self._row))

    def _update(self) -> None:
        row = self._row
        if self._due.first_probe == NEVER_DUE:
            self.earliest = NEVER_DUE
        else:
            next_at = max(row.taken_at + _EVERY_S, row.refetched_at + _QUIET_S)
            self.earliest = 0 if row.saved >= 1 else next_at
