"""The bands in which due pages wait at their hosts, and what a page is judged to be worth."""

from __future__ import annotations

from enum import IntEnum

import msgspec


class DueBand(IntEnum):
    """A band of a back queue that only pages have which were fetched before.

    The value is written to disk, in the keys of waiting URLs. It is above those of the bands of new
    pages, of which there are at most 16.
    """

    FOURFOLD = 32  # a fetch is worth four times its price or more
    TWOFOLD = 33
    DUE = 34  # about its price
    PROBE = 35  # no fetch is worth its price within the maximum interval

    @property
    def label(self) -> str:
        """The name in outputs."""
        return self.name.lower()


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
