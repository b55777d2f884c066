"""Rules that say when the pages of a site, of a host or of a pattern are fetched again.

A text of the setting ``refetch.policies`` is a matcher, a policy and options, by spaces::

    news.example every 1h             the domain: itself and all hosts below it
    news.example /archive/* never     path and query, with * for any characters
    host:www.news.example daily       this host alone
    /feed* every 10m                  this path on every host
    re:[?&]page=[0-9]+ monthly        a pattern of RE2, somewhere in the whole URL
    sitemap:https://news.example/news-*.xml hourly   pages that this sitemap or feed lists
    * adaptive weight=2 min=6h max=30d

``*`` is every host, and ``site:`` before a domain changes nothing: it may be written for readers.
The first rule that is for a URL counts; after those of ``refetch.policies`` come the fixed
intervals of ``refetch.intervals``. The policies:

* ``never``: the page is not fetched again.
* ``every TIME``: a promise that no other page shortens. ``hourly``, ``daily``, ``weekly`` and
  ``monthly`` are ``every`` of that time with half of it as ``min`` and twice as ``max``.
* ``adaptive``: the interval halves after a change and grows without one.
* ``value``: by the value of a fetch.

``weight`` says how much a page counts, ``min`` and ``max`` replace ``refetch.min_s`` and
``refetch.max_s``. For ``every``, ``min`` is the shortest time after which a sitemap may bring the
next fetch forward.

Whether a sitemap lists a page cannot be seen in the page's URL. So a page that is listed by one
which a rule names has a *mark* in its record, the hash of the rule's address (``mark_of``), and the
rule is found by it (``frontier.listed_pages``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256

import msgspec

from lycosa.base.config.policy_classes import policy_class, promised_s
from lycosa.base.config.policy_texts import (
    PolicyKind,
    PolicyRule,
    RefetchPolicy,
    read_interval,
    read_policy,
)
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.config.url_matchers import MatcherBook, matches_stars
from lycosa.base.listing_kind import NOT_LISTED

__all__ = [
    "MAX_CLASSES",
    "MAX_POLICIES",
    "PolicyBook",
    "PolicyKind",
    "PolicyRule",
    "RefetchPolicy",
    "check_intervals",
    "check_policies",
    "class_of",
    "find_policy",
    "find_rule",
    "policies_version",
    "policy_book",
    "read_policy",
]

MAX_POLICIES = 1000
MAX_CLASSES = 16
"""The number of different classes of bounds (``policy_class``) that the rules may have."""


def check_policies(texts: Sequence[str]) -> None:
    """Raises ``ValueError`` for a text that ``read_policy`` does not read, with its line."""
    if len(texts) > MAX_POLICIES:
        raise ValueError(f"{len(texts)} policies; there may be {MAX_POLICIES}")
    classes = set()
    for number, text in enumerate(texts, 1):
        try:
            number_of_class = policy_class(read_policy(text).policy)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        # A promise has no bounds that the search for a price would have to tell apart.
        if not promised_s(number_of_class):
            classes.add(number_of_class)
    if len(classes) > MAX_CLASSES:
        raise ValueError(
            f"the rules have {len(classes)} different classes of bounds, at most {MAX_CLASSES} are"
            " supported; give several rules the same min and max"
        )


def check_intervals(texts: Sequence[str]) -> None:
    """Raises ``ValueError`` for a text that ``read_interval`` does not read."""
    if len(texts) > MAX_POLICIES:
        raise ValueError(f"{len(texts)} intervals; there may be {MAX_POLICIES}")
    for text in texts:
        read_interval(text)


def _mark(sitemap: str) -> int:
    return int.from_bytes(sha256(sitemap.encode()).digest()[:4], "big") or 1


class PolicyBook:
    """The rules of a section, arranged for lookups."""

    def __init__(self, rules: Sequence[PolicyRule]) -> None:
        self.rules = tuple(rules)
        self._listed: dict[int, int] = {}
        for number, rule in enumerate(self.rules):
            if rule.matcher.sitemap:
                self._listed.setdefault(_mark(rule.matcher.sitemap), number)
        self._matchers = MatcherBook([rule.matcher for rule in self.rules])

    def find(self, url: str, listed: int = NOT_LISTED) -> PolicyRule | None:
        """The first rule that is for a canonical URL; ``listed`` is the mark in its record."""
        found = self._matchers.find(url, self._listed.get(listed, len(self.rules)))
        return self.rules[found] if found < len(self.rules) else None

    @property
    def names_sitemaps(self) -> bool:
        """Whether any rule is for the pages of a sitemap or feed."""
        return bool(self._listed)

    def place_of(self, listed: int) -> int:
        """The index of the rule that a mark stands for; beyond the last one if none has it."""
        return self._listed.get(listed, len(self.rules))

    def mark_of(self, sitemap: str) -> int:
        """The mark of pages that a sitemap or feed lists, by the first rule that names it.

        ``NOT_LISTED`` when none does.
        """
        for mark, number in self._listed.items():  # in the order of the rules
            if matches_stars(self.rules[number].matcher.sitemap, sitemap):
                return mark
        return NOT_LISTED


@lru_cache(8)
def _book(policies: tuple[str, ...], intervals: tuple[str, ...]) -> PolicyBook:
    rules = [
        msgspec.structs.replace(read(text), number=number)
        for read, texts in ((read_policy, policies), (read_interval, intervals))
        for number, text in enumerate(texts, 1)
    ]
    return PolicyBook(rules)


class _Latest:
    """The book of the section that was asked last.

    The key of a cache would be the hash of up to 2,000 texts, at each lookup.
    """

    policies: tuple[str, ...] | None = None
    intervals: tuple[str, ...] | None = None
    book: PolicyBook = PolicyBook(())


def policy_book(section: RefetchSection) -> PolicyBook:
    """The rules of a section. Raises ``ValueError`` for texts that were not checked."""
    # Sections that differ in other settings share these.
    if _Latest.policies is not section.policies or _Latest.intervals is not section.intervals:
        _Latest.book = _book(section.policies, section.intervals)
        _Latest.policies, _Latest.intervals = section.policies, section.intervals
    return _Latest.book


def find_rule(section: RefetchSection, url: str, listed: int = NOT_LISTED) -> PolicyRule | None:
    """The first rule that is for a URL; ``None`` when the section's own rule applies.

    ``listed`` is the mark in its record (``UrlRecord.listed``).
    """
    if not section.policies and not section.intervals:
        return None
    return policy_book(section).find(url, listed)


def find_policy(section: RefetchSection, url: str, listed: int = NOT_LISTED) -> RefetchPolicy:
    """The policy of a URL. With ``refetch.rule`` off it is ``never``, whatever the rules say."""
    if section.rule is RefetchRule.OFF:
        return _NEVER
    rule = find_rule(section, url, listed)
    return rule.policy if rule is not None else _BY_RULE[section.rule]


def policies_version(section: RefetchSection) -> bytes:
    """Eight bytes that differ when the rules do; empty without any.

    The bounds of the section are not in it: a change of them applies from the next fetch on.
    """
    if section.rule is not RefetchRule.OFF and not section.policies and not section.intervals:
        return b""
    text = msgspec.json.encode((section.rule.value, section.policies, section.intervals))
    return sha256(text).digest()[:8]


_NEVER = RefetchPolicy(PolicyKind.NEVER)
_BY_RULE = {
    each: RefetchPolicy(PolicyKind(each.value))
    for each in RefetchRule
    if each is not RefetchRule.OFF
}


def class_of(section: RefetchSection, url: str, listed: int = NOT_LISTED) -> int:
    """The class of a URL's policy."""
    rule = find_rule(section, url, listed)
    return policy_class(rule.policy if rule is not None else None)
