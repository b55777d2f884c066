"""How far a source of signals can be believed: what it said, compared with what fetches found.

A source says that a page has changed: a sitemap by ``lastmod``, a feed by an entry, a program by a
call, a site by IndexNow. Each host has the counts of each source in its visit state, so they are
durable and bounded. The counts are the parameters of Beta distributions, without their priors.
They are decayed, so that a site that begins to lie, or stops, is noticed.
"""

from __future__ import annotations

import math
from enum import IntEnum

import msgspec

UNIT = 100
"""Counts are stored in hundredths, because one finding may be divided."""
_MOST = 200 * UNIT
"""Findings that are remembered. Beyond it the earlier ones lose half of their weight."""


class SignalSource(IntEnum):
    """What says that a page has changed. The value is written to disk."""

    SITEMAP = 1
    FEED = 2
    PUSH = 3  # a program, by the interface
    INDEXNOW = 4  # the site itself
    LAST_MODIFIED = 5  # the header of the page, which is read with the page

    @property
    def label(self) -> str:
        """The name in outputs."""
        return self.name.lower()


POOLED = frozenset({SignalSource.SITEMAP, SignalSource.FEED, SignalSource.LAST_MODIFIED})
"""Sources that the software of a host makes. Their first findings count for hosts like it too."""
FEW = 20 * UNIT
"""A host with fewer findings is judged by those at others as well."""
ADDED = 5 * UNIT
"""The findings that a host adds to those of its software, so that no host speaks for all."""
_FOR_ONE = 2  # findings at other hosts that stand for one


class SourceTruth(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The counts of one source at one host, in hundredths.

    ``right`` and ``wrong`` are signals after which the page had changed, and had not. ``told`` and
    ``missed`` are changes of pages that the source has announced before: with a signal, and
    without.
    """

    right: int = 0
    wrong: int = 0
    told: int = 0
    missed: int = 0

    def with_signal(self, share: float) -> SourceTruth:
        """The counts after one more signal, of which ``share`` (0 to 1) was right."""
        right = self.right + round(share * UNIT)
        return self._decayed(right, self.wrong + UNIT - round(share * UNIT), self.told, self.missed)

    def with_change(self, was_told: bool) -> SourceTruth:
        """The counts after one more change."""
        told, missed = self.told + UNIT * was_told, self.missed + UNIT * (not was_told)
        return self._decayed(self.right, self.wrong, told, missed)

    def with_counts(self, other: SourceTruth) -> SourceTruth:
        """Both together."""
        return self._decayed(
            self.right + other.right,
            self.wrong + other.wrong,
            self.told + other.told,
            self.missed + other.missed,
        )

    def with_others(self, pool: SourceTruth) -> SourceTruth:
        """The counts with findings at other hosts in place of those that this host lacks.

        Two of them stand for one. ``pool`` includes the first findings of this host.
        """
        own = self.right + self.wrong
        added = min(ADDED / own, 1.0) if own else 0.0  # the part of its findings that is in it
        right = max(pool.right - added * self.right, 0.0)
        wrong = max(pool.wrong - added * self.wrong, 0.0)
        if own >= FEW or not right + wrong:
            return self
        weight = min((FEW - own) / (right + wrong), 1 / _FOR_ONE)
        return SourceTruth(
            self.right + int(weight * right),
            self.wrong + math.ceil(weight * wrong),
            self.told,
            self.missed,
        )

    @staticmethod
    def _decayed(right: int, wrong: int, told: int, missed: int) -> SourceTruth:
        if right + wrong > _MOST:
            right, wrong = right // 2, wrong // 2
        if told + missed > _MOST:
            told, missed = told // 2, missed // 2
        return SourceTruth(right, wrong, told, missed)


UNKNOWN_TRUTH = SourceTruth()
