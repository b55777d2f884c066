"""Probes: due pages of which no fetch is worth its price within the maximum interval.

They are fetched all the same, because their estimates may be wrong, but they would take all turns
if they were many. So they wait outside the queues of their hosts, in the schedule, and at most a
stated share of the refetches (``refetch.probes``) is theirs: each refetch of another page gives a
part of one. After a day without any, one is taken an hour. The page that was not fetched for
longest is first.
"""

from __future__ import annotations

from lycosa.stages.frontier.due import NEVER_DUE, DueQueue, probe_place

_EVERY_S, _QUIET_S = 3600, 86_400
_MOST_SAVED = 100.0  # probes that refetches have given and that were not there to be taken


class ProbeLine:
    """The waiting probes of one partition. ``earliest`` is the next time at which one is taken."""

    def __init__(self, due: DueQueue, share: float = 0.05) -> None:
        self._due = due
        self._saved = 0.0
        # crawl time; 0 before the first look
        self._next_at = self._quiet_since = 0
        self._has_refetched = False  # since then
        self.follow(share)
        self.earliest = NEVER_DUE
        self._update()

    def __repr__(self) -> str:
        return f"<ProbeLine saved={self._saved:.2f} earliest={self.earliest}>"

    def follow(self, share: float) -> None:
        """Follow a setting, from 0 to less than 1."""
        self._gain = share / (1 - share)

    def add(self, fetched_at: int, url: bytes) -> int:
        """Let a page (host8 and url8) wait; returns the due time of its record."""
        place = probe_place(fetched_at)
        self._due.add_probe(place, url)
        self._update()
        return place

    def note_refetch(self) -> None:
        """Note a refetch of a page that is no probe."""
        self._saved = min(self._saved + self._gain, _MOST_SAVED)
        self._has_refetched = True
        if self.earliest:
            self._update()

    def take(self, now: float) -> list[bytes]:
        """Take the next probes, if it is time: those of one row at most."""
        if self._has_refetched or not self._quiet_since:
            # A run does not begin with a probe, or frequent restarts would fetch many.
            self._quiet_since, self._has_refetched = int(now), False
            self._next_at = int(now) + _QUIET_S
        taken: list[bytes] = []
        if self._saved >= 1 or now >= self._next_at:
            place, waiting = self._due.take_probes()
            number = max(int(self._saved), 1)
            taken = waiting[:number]
            for url in waiting[number:]:
                self._due.add_probe(place, url)
            self._saved = max(self._saved - len(taken), 0.0)
            self._next_at = max(int(now) + _EVERY_S, self._quiet_since + _QUIET_S)
        self._update()
        return taken

    def _update(self) -> None:
        if self._due.first_probe == NEVER_DUE:
            self.earliest = NEVER_DUE
        else:
            self.earliest = 0 if self._saved >= 1 else self._next_at
