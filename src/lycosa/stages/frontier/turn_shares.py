"""How new pages and due pages share turns: those of a host, and those of the front queues.

Turns are counted while both wait. Of any ``n`` turns in a row, due pages have at least
``floor(n * share)`` and new pages the others, also at least ``floor(n * (1 - share))``; so a kind
that waits has a turn after at most ``ceil(1 / its share)``. While one kind waits alone, it has all
turns, and they do not count.

The bands of due pages share the turns of their kind as the bands of a front queue do: each band has
half as many turns as the one before. Probes have one turn in twenty while others are due.
"""

from __future__ import annotations

from lycosa.base.model.due_band import DueBand

FIRST_DUE = int(DueBand.FOURFOLD)
"""Bands from here on are those of due pages, except the parked band."""
LAST_DUE = int(DueBand.PROBE)
PROBE_TURNS = 20
"""Of so many turns of a host's due pages, one is for a probe while both wait."""
_WHOLE = 100  # a share is kept in hundredths, so that counts of turns stay small and exact


class SharedTurns:
    """The share of due pages in turns, as the settings in force say.

    It is one object for all queues of a partition, because it may change while the crawl runs.
    """

    __slots__ = ("hundredths",)

    def __init__(self, share: float = 0.5) -> None:
        self.follow(share)

    def __repr__(self) -> str:
        return f"<SharedTurns {self.hundredths}/100>"

    def follow(self, share: float) -> None:
        """Follow a setting, between 0 and 1: neither kind is left without turns."""
        self.hundredths = min(max(round(_WHOLE * share), 1), _WHOLE - 1)

    def is_due_turn(self, turn: int) -> bool:
        """Whether the turn with this number, from 1 on, is one of due pages."""
        return turn * self.hundredths // _WHOLE > (turn - 1) * self.hundredths // _WHOLE

    def turns_until(self, turn: int, wanted: int, is_due: bool) -> int:
        """Turns after the one with number ``turn`` until a kind has had ``wanted`` of them."""
        had = turn * self.hundredths // _WHOLE
        if is_due:
            return -(-(had + wanted) * _WHOLE // self.hundredths) - turn
        # New pages have had ceil(turns * rest / 100) of the turns.
        return (turn - had + wanted - 1) * _WHOLE // (_WHOLE - self.hundredths) + 1 - turn


def next_turn(turn: int) -> int:
    """The number after this one. A hundred turns have each share exactly, so they begin again."""
    return turn % _WHOLE + 1


def is_probe_turn(turn: int) -> bool:
    """Whether a host's turn of due pages is one for a probe."""
    return turn % PROBE_TURNS == 0


def ruler_band(turn: int) -> int:
    """The band, from 0, that has a turn: 0 every second one, 1 every fourth, and so on."""
    return (turn & -turn).bit_length() - 1
