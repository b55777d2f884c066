"""The bands in which due pages wait at their hosts, and what a page is judged to be worth."""

from __future__ import annotations

from enum import IntEnum

import msgspec


class DueBand(IntEnum):
    """A band of a back queue that only pages have which were fetched before.

    The value is written to disk, in the keys of waiting URLs. It is above those of the bands of new
    pages, of which there are at most 16.
    """

    FOURFOLD = 32
    TWOFOLD = 33
    DUE = 34
    PROBE = 35

    @property
    def label(self) -> str:
        """The name in outputs."""
        return self.name.lower()

    @property
    def meaning(self) -> str:
        """What it says of a page, for people."""
        return _MEANINGS[self]


_MEANINGS = {
    DueBand.FOURFOLD: "a fetch is worth four times its price, or it is late by three intervals",
    DueBand.TWOFOLD: "a fetch is worth twice its price, or it is late by an interval",
    DueBand.DUE: "a fetch is worth about its price, or its interval is over",
    DueBand.PROBE: "no fetch is worth its price within the maximum interval",
}


DUE_BANDS = range(DueBand.FOURFOLD, DueBand.PROBE + 1)


class DueJudgement(msgspec.Struct, frozen=True, gc=False):
    """What a due page is judged to be worth.

    ``band`` is where it waits; ``None`` when it is due at another time, ``later_at`` (wall time, in
    seconds since 1970). ``worth`` is the value of a fetch as a share of its price, or the time
    since the last fetch as a share of the interval where no value is estimated.
    """

    band: DueBand | None
    worth: float
    later_at: float = 0.0


def band_of(worth: float) -> DueBand:
    """The band of a page that is due and no probe."""
    if worth >= 4:
        return DueBand.FOURFOLD
    return DueBand.TWOFOLD if worth >= 2 else DueBand.DUE
