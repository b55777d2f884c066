"""What a host's record remembers of its pages that were near copies of others.

It is bounded: so many patterns of URLs, so many parameters, so many values of each. Counts decay,
so they tell of the last pages. Most hosts have no near copy, and no record.
"""

from __future__ import annotations

import msgspec

from lycosa.base.lower_bound import lower_bound

MAX_PATTERNS = 32
MAX_PARAMETERS = 16
MAX_VALUES = 8
"""Values of a parameter that are kept, to look for pages that differ in it."""

_MAX_VALUE = 40  # characters of a value that is kept
_WINDOW = 32.0  # pages that a count tells of; older ones fade
_PRIOR = 16.0  # pages of a pattern for which the other pages of a host of copies stand
_TRIED = 2.0  # pages of a pattern that count for patterns that are not known too

SET_BACK_SHARE = 0.8
"""A pattern is set back, and a parameter is learned, from this lower bound of the share on."""

LOSING_SHARE = 0.5
"""Up to this lower bound of the share a pattern loses nothing."""

_TITLES = 64  # bytes of a bitmap of titles
_MAX_TITLES = 128  # bits of it that are set at most, so one title in four is wrongly known

_SEVERAL = 3  # distinct values of a parameter, so that one odd page teaches nothing


class CopyTally(msgspec.Struct, array_like=True):
    """How many of the last pages were near copies, and how many had new content."""

    copies: float = 0.0
    fresh: float = 0.0

    @property
    def total(self) -> float:
        return self.copies + self.fresh

    @property
    def share(self) -> float:
        """The lower bound of the share of near copies; 0 when they are not more than half."""
        return lower_bound(self.copies, self.fresh) if self.copies > self.fresh else 0.0

    def add(self, grade: float) -> None:
        """Count a page; ``grade`` is 1 for a copy, 0 for new content."""
        total = self.copies + self.fresh + 1
        if total > _WINDOW:
            self.copies *= (_WINDOW - 1) / (total - 1)
            self.fresh *= (_WINDOW - 1) / (total - 1)
        self.copies += grade
        self.fresh += 1 - grade

    def regrade(self, grade: float) -> None:
        """Count as this a page that was counted as one with new content."""
        moved = min(grade, self.fresh)
        self.fresh -= moved
        self.copies += moved


_NO_NAMES: frozenset[str] = frozenset()
_NOTHING = CopyTally()  # of a pattern that is not known; it is never changed


class ParameterTally(msgspec.Struct, array_like=True):
    """Pairs of URLs that differ in one parameter alone, and values that it had in them.

    ``same`` of the pairs had the same text, ``other`` not.
    """

    same: float = 0.0
    other: float = 0.0
    values: tuple[str, ...] = ()

    @property
    def is_learned(self) -> bool:
        """Whether the parameter is known not to change the content."""
        return len(self.values) >= _SEVERAL and lower_bound(self.same, self.other) >= SET_BACK_SHARE

    def add(self, is_same: bool, *values: str) -> None:
        """Count a pair."""
        if self.same + self.other >= _WINDOW:
            self.same *= (_WINDOW - 1) / _WINDOW
            self.other *= (_WINDOW - 1) / _WINDOW
        self.same += is_same
        self.other += not is_same
        if is_same:
            new = tuple(each for each in values if len(each) <= _MAX_VALUE)
            self.values = tuple(dict.fromkeys((*self.values, *new)))[:MAX_VALUES]


class CopyRecord(msgspec.Struct, array_like=True):
    """The counts of one host, by pattern (``base.urls.url_patterns``) and by parameter.

    ``others`` counts the first pages of each pattern. It stands for patterns that are not known.
    ``pages`` counts all of them.
    ``titles`` is a bitmap of hashes of the titles that near copies had lately.
    ``turns`` counts leases since the last one of a URL that is set back. URLs that are set back in
    rows before ``review`` are to be judged again.
    """

    patterns: dict[str, CopyTally] = {}
    others: CopyTally = msgspec.field(default_factory=CopyTally)
    parameters: dict[str, ParameterTally] = {}
    pages: CopyTally = msgspec.field(default_factory=CopyTally)
    turns: int = 0
    review: int = 0
    titles: bytes = b""

    @property
    def is_alarmed(self) -> bool:
        """Whether any URL of the host may lose weight."""
        # A loop and comparisons, because it is asked after each page of a host with a near copy.
        for each in (self.others, self.pages, *self.patterns.values()):
            if each.copies > each.fresh and each.share > LOSING_SHARE:
                return True
        return bool(self.parameters) and bool(self.learned)

    @property
    def learned(self) -> frozenset[str]:
        """The parameters that are known not to change the content."""
        if not self.parameters:
            return _NO_NAMES
        return frozenset(name for name, each in self.parameters.items() if each.is_learned)

    @property
    def promising(self) -> frozenset[str]:
        """The parameters that are learned, or may be soon."""
        return frozenset(name for name, each in self.parameters.items() if each.same > each.other)

    def share_of(self, pattern: str) -> float:
        """The lower bound of the share of near copies among pages with this pattern.

        Once a pattern gave a copy, and the host gives hardly anything else, its other pages count
        too. As long as a pattern has given no new content, so do the first pages of other
        patterns: a trap may make a new one with each link.
        """
        tally = self.patterns.get(pattern, _NOTHING)
        copies, fresh, pages = tally.copies, tally.fresh, self.pages
        # Not for a pattern without a copy: a site with an endless calendar has other pages too.
        if copies >= 1 and pages.copies > pages.fresh and pages.share > LOSING_SHARE:
            copies += _PRIOR * pages.copies / pages.total
            fresh += _PRIOR * pages.fresh / pages.total
        share = lower_bound(copies, fresh) if copies > fresh else 0.0
        return share if tally.fresh >= LOSING_SHARE else max(share, self.others.share)

    def note_title(self, title: int) -> bool:
        """Note the title of a near copy; return whether another one had it."""
        known = int.from_bytes(self.titles, "big")
        bit = 1 << title % (8 * _TITLES)
        if not known & bit:
            known = bit if known.bit_count() >= _MAX_TITLES else known | bit
            self.titles = known.to_bytes(_TITLES, "big")
            return False
        return True

    def count_page(self, pattern: str, grade: float) -> None:
        """Count a page (``CopyTally.add``)."""
        tally = self.patterns.get(pattern)
        if tally is None or tally.total < _TRIED:
            self.others.add(grade)
        self.pages.add(grade)
        self._tally(pattern).add(grade)

    def regrade_page(self, pattern: str, grade: float) -> None:
        """See ``CopyTally.regrade``; for a verdict that comes after the page was counted."""
        tally = self.patterns.get(pattern)
        if tally is None or tally.fresh < grade:
            self.count_page(pattern, grade)
            return
        if tally.total <= _TRIED:
            self.others.regrade(grade)
        self.pages.regrade(grade)
        tally.regrade(grade)

    def count_pair(self, name: str, is_same: bool, *values: str) -> None:
        """Count a pair of URLs that differ in one parameter."""
        found = self.parameters.get(name)
        if found is None:
            if not is_same or len(name) > _MAX_VALUE:
                return
            if len(self.parameters) >= MAX_PARAMETERS:
                del self.parameters[min(self.parameters, key=self._pairs)]
            found = self.parameters[name] = ParameterTally()
        found.add(is_same, *values)

    def _pairs(self, name: str) -> float:
        return self.parameters[name].same

    def _tally(self, pattern: str) -> CopyTally:
        found = self.patterns.get(pattern)
        if found is None:
            if len(self.patterns) >= MAX_PATTERNS:
                # The one with the fewest copies: without its count it loses no weight.
                del self.patterns[min(self.patterns, key=lambda each: self.patterns[each].copies)]
            found = self.patterns[pattern] = CopyTally()
        return found
