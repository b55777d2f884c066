"""The result of an audit: for each check what was compared, how often, and its first breaches."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lycosa.state.attempts.coverage import UnprovenTime
from lycosa.state.shard.view import ShardPosition

SHOWN = 10

OnAuditProgress = Callable[[str, int, int], None]
"""Called from time to time with the present work, the amount done, and the total (0 = unknown)."""


class Check(msgspec.Struct):
    """One guarantee checked against the disk.

    ``checked`` counts what ``what`` names; ``first`` has at most ten breaches.
    """

    name: str
    what: str
    checked: int = 0
    breaches: int = 0
    first: list[str] = []
    notes: list[str] = []

    def add_breach(self, text: str) -> None:
        """Record a breach."""
        self.breaches += 1
        if len(self.first) < SHOWN:
            self.first.append(text)

    def expect(self, holds: bool, text: str) -> None:
        """Count one comparison, and a breach when it fails."""
        self.checked += 1
        if not holds:
            self.add_breach(text)

    def add_note(self, text: str) -> None:
        """Add a note for the reader, once."""
        if text not in self.notes and len(self.notes) < SHOWN:
            self.notes.append(text)


class HostPace(msgspec.Struct, frozen=True):
    """One host in the attempt log.

    It has the number of requests and the shortest pause with its required delay, by the difference
    of the two.
    """

    host: str
    requests: int
    shortest_s: float
    due_s: float
    margin_s: float


class AuditReport(msgspec.Struct, kw_only=True):
    """A whole audit. ``share`` is the part of all captures whose records were read (1 = all).

    Of a crawl on many machines: ``shards`` are the positions up to which it was read, ``unproven``
    the times without an attempt log, which are no breaches, and ``clock_tolerance_s`` says by how
    much the clocks of two machines may differ. ``unread`` says what could not be checked, because
    the store that has it could not be read.
    """

    folder: str
    crawl: str
    is_running: bool
    share: float
    elapsed_s: float = 0.0
    checks: list[Check] = []
    hosts: list[HostPace] = []
    shards: list[ShardPosition] = []
    unproven: list[UnprovenTime] = []
    clock_tolerance_s: float = 0.0
    unread: list[str] = []

    @property
    def is_clean(self) -> bool:
        """Whether no check found a breach."""
        return not any(check.breaches for check in self.checks)

    @property
    def breaches(self) -> int:
        return sum(check.breaches for check in self.checks)

    def first_breaches(self) -> list[str]:
        """The first ten breaches of all checks, each with the name of its check."""
        return [f"{check.name}: {text}" for check in self.checks for text in check.first][:SHOWN]
