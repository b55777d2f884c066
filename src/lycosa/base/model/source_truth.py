"""How far a source of signals can be believed: what it said, compared with what fetches found.

A source says that a page has changed: a sitemap by ``lastmod``, a feed by an entry, a program by a
call, a site by IndexNow. Each host has the counts of each source in its visit state, so they are
durable and bounded. The counts are the parameters of Beta distributions, without their priors.
They are decayed, so that a site that begins to lie, or stops, is noticed.
"""

from __future__ import annotations

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

    @staticmethod
    def _decayed(right: int, wrong: int, told: int, missed: int) -> SourceTruth:
        if right + wrong > _MOST:
            right, wrong = right // 2, wrong // 2
        if told + missed > _MOST:
            told, missed = told // 2, missed // 2
        return SourceTruth(right, wrong, told, missed)


UNKNOWN_TRUTH = SourceTruth()
