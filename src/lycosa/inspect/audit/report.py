"""What an audit says: for each check what was looked at, how often, and the first breaches
found.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

SHOWN = 10

OnAuditProgress = Callable[[str, int, int], None]
"""Told now and then: what is being done, how much of it is done, of how much (0 = unknown)."""


class Check(msgspec.Struct):
    """One promise held against the disk. ``checked`` counts what ``what`` speaks of; ``first``
    has at most ten breaches.
    """

    name: str
    what: str
    checked: int = 0
    breaches: int = 0
    first: list[str] = []
    notes: list[str] = []

    def add_breach(self, text: str) -> None:
        """The promise does not hold here."""
        self.breaches += 1
        if len(self.first) < SHOWN:
            self.first.append(text)

    def expect(self, holds: bool, text: str) -> None:
        """Counts one thing checked, and a breach when it does not hold."""
        self.checked += 1
        if not holds:
            self.add_breach(text)

    def add_note(self, text: str) -> None:
        """What a reader should know of this check, once."""
        if text not in self.notes and len(self.notes) < SHOWN:
            self.notes.append(text)


class HostPace(msgspec.Struct, frozen=True):
    """One host in the attempt log: requests, the shortest pause and the delay that was due
    there, the shortest of pause minus delay.
    """

    host: str
    requests: int
    shortest_s: float
    due_s: float
    margin_s: float


class AuditReport(msgspec.Struct, kw_only=True):
    """A whole audit. ``share`` is the part of all captures whose records were read (1 = all)."""

    folder: str
    crawl: str
    is_running: bool
    share: float
    elapsed_s: float = 0.0
    checks: list[Check] = []
    hosts: list[HostPace] = []

    @property
    def is_clean(self) -> bool:
        """Whether no check found a breach."""
        return not any(check.breaches for check in self.checks)

    @property
    def breaches(self) -> int:
        return sum(check.breaches for check in self.checks)

    def first_breaches(self) -> list[str]:
        """The first ten of all, each with the name of its check."""
        return [f"{check.name}: {text}" for check in self.checks for text in check.first][:SHOWN]
