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

A lookup asks only the rules of the URL's own host and of the domains above it. Many patterns of one
domain, and all ``re:`` patterns, are first searched together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import sha256

import msgspec

from lycosa.base.config.fixed_intervals import FixedInterval, matches_stars, read_interval
from lycosa.base.config.patterns import compile_pattern, compiled_together
from lycosa.base.config.policy_classes import policy_class, promised_s
from lycosa.base.config.policy_texts import (
    INTERVALS,
    PolicyKind,
    PolicyRule,
    RefetchPolicy,
    read_policy,
)
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.listing_kind import NOT_LISTED

__all__ = [
    "MAX_CLASSES",
    "MAX_POLICIES",
    "PolicyBook",
    "PolicyKind",
    "PolicyRule",
    "RefetchPolicy",
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
_TOGETHER = 8  # patterns of one domain from which on they are searched together
_PATH_FROM = 8  # the slash of the path is at this index of a canonical URL or later


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


# -- finding


class _FirstMatch:
    """Some regular expressions with numbers; finds the lowest number of those that match.

    Most texts match none, which one search tells. Else halves are searched, so that a match among
    a thousand costs about twenty searches.
    """

    def __init__(self, numbered: Sequence[tuple[int, str]]) -> None:
        self._first = numbered[0][0]
        self._only = compile_pattern(numbered[0][1]) if len(numbered) == 1 else None
        self._halves: tuple[_FirstMatch, ...] = ()
        self._any = self._only
        if self._only is None:
            half = len(numbered) // 2
            self._halves = _FirstMatch(numbered[:half]), _FirstMatch(numbered[half:])
            # ``None`` where RE2 refuses it, because it is too large
            self._any = compiled_together([pattern for _, pattern in numbered])

    def find(self, data: bytes, below: int) -> int:
        """The lowest number under ``below`` whose expression matches; else ``below``."""
        if self._first >= below or (self._any is not None and self._any.search(data) is None):
            return below
        if self._only is not None:
            return self._first
        for half in self._halves:
            if (found := half.find(data, below)) < below:
                return found
        return below


class _Group:
    """The rules of one domain, in their order."""

    def __init__(self) -> None:
        self._rules: list[tuple[int, str]] = []
        self._together: _FirstMatch | None = None

    def add(self, number: int, pattern: str) -> None:
        # What follows a rule for all URLs of the domain is never reached.
        if not self._rules or self._rules[-1][1]:
            self._rules.append((number, pattern))

    def prepare(self) -> None:
        if len(self._rules) >= _TOGETHER:
            self._together = _FirstMatch(
                [(number, _as_expression(pattern)) for number, pattern in self._rules]
            )

    def find(self, target: str, below: int) -> int:
        if self._together is not None:
            return self._together.find(target.encode("utf-8", "replace"), below)
        for number, pattern in self._rules:
            if number >= below:
                break
            if not pattern or matches_stars(pattern, target):
                return number
        return below


def _as_expression(pattern: str) -> str:
    if not pattern:
        return "^"
    return "^" + ".*".join(map(re.escape, pattern.split("*"))) + "$"


def _mark(sitemap: str) -> int:
    return int.from_bytes(sha256(sitemap.encode()).digest()[:4], "big") or 1


class PolicyBook:
    """The rules of a section, arranged for lookups."""

    def __init__(self, rules: Sequence[PolicyRule]) -> None:
        self.rules = tuple(rules)
        self._listed: dict[int, int] = {}
        self._domains: dict[str, _Group] = {}
        self._hosts: dict[str, _Group] = {}
        expressions = []
        for number, rule in enumerate(self.rules):
            if rule.sitemap:
                self._listed.setdefault(_mark(rule.sitemap), number)
            elif rule.expression:
                expressions.append((number, rule.expression))
            else:
                groups = self._hosts if rule.is_host else self._domains
                groups.setdefault(rule.domain, _Group()).add(number, rule.pattern)
        for group in (*self._domains.values(), *self._hosts.values()):
            group.prepare()
        self._all = self._domains.pop("*", None)
        self._expressions = _FirstMatch(expressions) if expressions else None

    def find(self, url: str, listed: int = NOT_LISTED) -> PolicyRule | None:
        """The first rule that is for a canonical URL; ``listed`` is the mark in its record."""
        found, slash = self._listed.get(listed, len(self.rules)), url.index("/", _PATH_FROM)
        host = url[8 if url[4] == "s" else 7 : slash]
        groups = [*self._groups(host), *([self._all] if self._all else [])]
        if groups:
            target = url[slash:]
            for group in groups:
                found = group.find(target, found)
        if self._expressions is not None:
            found = self._expressions.find(url.encode("utf-8", "replace"), found)
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
            if matches_stars(self.rules[number].sitemap, sitemap):
                return mark
        return NOT_LISTED

    def _groups(self, host: str) -> Iterator[_Group]:
        """The rules of the host and of the domains above it, as ``FixedInterval.is_for`` has it."""
        if (group := self._hosts.get(host)) is not None:
            yield group
        domains = self._domains
        if not domains:
            return
        name = host if host[0] == "[" else host.partition(":")[0]
        port = host[len(name) :]
        while name:
            if (group := domains.get(name)) is not None:
                yield group
            if port and (group := domains.get(name + port)) is not None:
                yield group
            name = name.partition(".")[2]


@lru_cache(8)
def _book(policies: tuple[str, ...], intervals: tuple[str, ...]) -> PolicyBook:
    rules = [
        msgspec.structs.replace(read_policy(text), number=number)
        for number, text in enumerate(policies, 1)
    ]
    rules += [
        _of_interval(read_interval(text), text, number) for number, text in enumerate(intervals, 1)
    ]
    return PolicyBook(rules)


def _of_interval(fixed: FixedInterval, text: str, number: int) -> PolicyRule:
    policy = RefetchPolicy(PolicyKind.EVERY, fixed.seconds)
    return PolicyRule(text, policy, fixed.domain, fixed.pattern, setting=INTERVALS, number=number)


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
