"""Rules that say when the pages of a site, of a host or of a pattern are fetched again.

A text of the setting ``refetch.policies`` is a matcher, a policy and options, by spaces::

    news.example every 1h             the domain: itself and all hosts below it
    news.example /archive/* never     path and query, with * for any characters
    host:www.news.example daily       this host alone
    /feed* every 10m                  this path on every host
    re:[?&]page=[0-9]+ monthly        a pattern of RE2, somewhere in the whole URL
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

There is no matcher for a sitemap. A record has the address of a sitemap only when the URL was found
by it first, and not when a link was faster. Such a rule would be for some of the listed pages, and
which ones would depend on the order of fetches.

A lookup asks only the rules of the URL's own host and of the domains above it. Many patterns of one
domain, and all ``re:`` patterns, are first searched together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import lru_cache
from hashlib import sha256
from math import log

import msgspec

from lycosa.base.config.fixed_intervals import FixedInterval, matches_pattern, read_interval
from lycosa.base.config.near_names import near_name
from lycosa.base.config.patterns import compile_pattern, compiled_together
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.config.units import read_seconds, show_seconds
from lycosa.base.urls.url_parts import host_of, target_of

MAX_POLICIES = 1000
MAX_CLASSES = 16
"""The number of different classes of bounds (``policy_class``) that the rules may have."""
POLICIES, INTERVALS = "refetch.policies", "refetch.intervals"
_MAX_CHARACTERS = 2000  # of one text
_MAX_STARS = 20
_MAX_WEIGHT = 1000.0
_LONGEST_S = 3650 * 86_400.0  # due times are below 2 ** 32 seconds
_TOGETHER = 8  # patterns of one domain from which on they are searched together
_WORDS = "never, every TIME, adaptive, value, hourly, daily, weekly or monthly"


class PolicyKind(Enum):
    """How the next fetch of a page is chosen. The value is its name in texts."""

    NEVER = "never"
    EVERY = "every"
    ADAPTIVE = "adaptive"
    VALUE = "value"


class RefetchPolicy(msgspec.Struct, frozen=True):
    """A policy. ``seconds`` is the time of ``every``; a bound of 0 is that of the section."""

    kind: PolicyKind
    seconds: float = 0.0
    weight: float = 1.0
    min_s: float = 0.0
    max_s: float = 0.0

    def bounds(self, section: RefetchSection) -> tuple[float, float]:
        """The minimum and the maximum interval in seconds.

        A bound of the rule is stronger than one of the section that contradicts it.
        """
        low, high = self.min_s or section.min_s, self.max_s or section.max_s
        if low > high:
            return (low, low) if self.min_s else (high, high)
        return low, high

    def shortest_wait(self, section: RefetchSection) -> float:
        """The time in seconds before which no sitemap brings the next fetch forward."""
        if self.kind is PolicyKind.EVERY:
            return self.min_s or min(section.min_s, self.seconds)
        return self.bounds(section)[0]

    def show(self) -> str:
        """The policy with its options, as a rule has it."""
        parts = [self.kind.value]
        if self.kind is PolicyKind.EVERY:
            parts.append(show_seconds(self.seconds))
        if self.weight != 1.0:
            parts.append(f"weight={self.weight:.15g}")
        parts += [f"min={show_seconds(self.min_s)}"] if self.min_s else []
        parts += [f"max={show_seconds(self.max_s)}"] if self.max_s else []
        return " ".join(parts)


class PolicyRule(msgspec.Struct, frozen=True):
    """One rule: its text, the setting that has it, and its number there, from 1.

    ``domain`` is empty when ``expression``, a pattern of whole URLs, is given. ``is_host``: only
    the host of that name. ``pattern`` is that of path and query; empty matches all.
    """

    text: str
    policy: RefetchPolicy
    domain: str = ""
    pattern: str = ""
    expression: str = ""
    is_host: bool = False
    setting: str = POLICIES
    number: int = 0

    @property
    def place(self) -> str:
        """Where the rule is, for people."""
        return f"{self.setting}, line {self.number}"


_NAMED = {
    name: RefetchPolicy(PolicyKind.EVERY, seconds, 1.0, seconds / 2, seconds * 2)
    for name, seconds in (
        ("hourly", 3600.0),
        ("daily", 86_400.0),
        ("weekly", 604_800.0),
        ("monthly", 2_592_000.0),
    )
}


# -- reading


def read_policy(text: str) -> PolicyRule:
    """One rule. Raises ``ValueError``, which says what to write."""
    words = text.split()
    if len(words) < 2 or len(text) > _MAX_CHARACTERS:
        raise ValueError(
            f"{text[:100]!r} is no policy; write MATCHER POLICY, as news.example every 1h"
        )
    first = words.pop(0)
    kind, colon, rest = first.partition(":")
    if kind == "sitemap" and colon:
        raise ValueError(
            f"{first!r}: a page does not know all sitemaps that list it, so there is no such"
            " matcher; write the domain and the path of the pages, as news.example /live/* hourly"
        )
    if kind == "re" and colon:
        compile_pattern(rest)
        rule = PolicyRule(text, _NAMED["daily"], expression=rest)
    elif first.startswith("/"):
        rule = PolicyRule(text, _NAMED["daily"], "*", _pattern(first))
    else:
        named = rest if kind in ("host", "site") and colon else first
        pattern = _pattern(words.pop(0)) if words and words[0].startswith(("/", "*")) else ""
        domain = _domain(named, is_one=named is not first)
        rule = PolicyRule(text, _NAMED["daily"], domain, pattern, is_host=kind == "host")
    if not words:
        raise ValueError(f"{text!r} has no policy; write {_WORDS} after the matcher")
    return msgspec.structs.replace(rule, policy=_read_kind(words, text))


def _pattern(pattern: str) -> str:
    if pattern.count("*") > _MAX_STARS:
        raise ValueError(f"{pattern!r} has more than {_MAX_STARS} asterisks")
    return pattern


def _domain(text: str, is_one: bool) -> str:
    domain = text.lower().removesuffix(".")
    if domain == "*" and not is_one:
        return domain
    if not domain or "/" in domain or "*" in domain or "=" in domain:
        raise ValueError(
            f"{text!r} is no domain; write news.example, host:www.news.example, * for all, a path"
            " that begins with /, or re: and a regular expression"
        )
    return domain


def _read_kind(words: list[str], text: str) -> RefetchPolicy:
    word = words[0].lower()
    if word == PolicyKind.EVERY.value:
        if len(words) < 2:
            raise ValueError(f"{text!r}: every what? Write a time, as every 1h")
        policy = RefetchPolicy(PolicyKind.EVERY, _time(words[1], "every"))
        options = words[2:]
    elif word in _NAMED:
        policy, options = _NAMED[word], words[1:]
    elif word in (each.value for each in PolicyKind):
        policy, options = RefetchPolicy(PolicyKind(word)), words[1:]
    else:
        near = near_name(word, [*_NAMED, *(each.value for each in PolicyKind)])
        meant = f"did you mean {near}?" if near else f"write {_WORDS}"
        raise ValueError(f"{text!r}: {words[0]!r} is no policy; {meant}")
    return _with_options(policy, options, text)


def _with_options(policy: RefetchPolicy, options: Sequence[str], text: str) -> RefetchPolicy:
    given: dict[str, float] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if name not in ("weight", "min", "max") or not equals:
            raise ValueError(f"{text!r}: {option!r} is no option; write weight=2, min=1h, max=30d")
        if name in given:
            raise ValueError(f"{text!r} has {name} twice")
        given[name] = _weight(value) if name == "weight" else _time(value, name)
    if not given:
        return policy
    if policy.kind is PolicyKind.NEVER:
        raise ValueError(f"{text!r}: a page that is never fetched again has no options")
    low, high = given.get("min", policy.min_s), given.get("max", policy.max_s)
    if low and high and low > high:
        raise ValueError(f"{text!r}: min is longer than max")
    is_fixed = policy.kind is PolicyKind.EVERY
    if is_fixed and (low > policy.seconds or 0 < high < policy.seconds):
        said = show_seconds(policy.seconds)
        raise ValueError(f"{text!r}: the time {said} is not between min and max")
    weight = given.get("weight", policy.weight)
    return msgspec.structs.replace(policy, weight=weight, min_s=low, max_s=high)


def _time(text: str, name: str) -> float:
    seconds = read_seconds(text)
    if seconds < 1:
        raise ValueError(f"{name}: {text!r} is too short; write at least 1s")
    if seconds > _LONGEST_S:
        raise ValueError(f"{name}: {text!r} is too long; write at most 3650d, or never")
    return seconds


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight <= _MAX_WEIGHT:
        raise ValueError(
            f"weight: {text!r} is no weight; write a number above 0, at most {_MAX_WEIGHT:g}"
        )
    return weight


def check_policies(texts: Sequence[str]) -> None:
    """Raises ``ValueError`` for a text that ``read_policy`` does not read, with its line."""
    if len(texts) > MAX_POLICIES:
        raise ValueError(f"{len(texts)} policies; there may be {MAX_POLICIES}")
    classes = set()
    for number, text in enumerate(texts, 1):
        try:
            classes.add(policy_class(read_policy(text).policy))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
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
            if not pattern or matches_pattern(pattern, target):
                return number
        return below


def _as_expression(pattern: str) -> str:
    if not pattern:
        return "^"
    return "^" + ".*".join(map(re.escape, pattern.split("*"))) + "$"


class PolicyBook:
    """The rules of a section, arranged for lookups."""

    def __init__(self, rules: Sequence[PolicyRule]) -> None:
        self.rules = tuple(rules)
        self._domains: dict[str, _Group] = {}
        self._hosts: dict[str, _Group] = {}
        expressions = []
        for number, rule in enumerate(self.rules):
            if rule.expression:
                expressions.append((number, rule.expression))
            else:
                groups = self._hosts if rule.is_host else self._domains
                groups.setdefault(rule.domain, _Group()).add(number, rule.pattern)
        for group in (*self._domains.values(), *self._hosts.values()):
            group.prepare()
        self._all = self._domains.pop("*", None)
        self._expressions = _FirstMatch(expressions) if expressions else None

    def find(self, url: str) -> PolicyRule | None:
        """The first rule that is for a canonical URL."""
        found = len(self.rules)
        groups = [*self._groups(host_of(url)), *([self._all] if self._all else [])]
        if groups:
            target = target_of(url)
            for group in groups:
                found = group.find(target, found)
        if self._expressions is not None:
            found = self._expressions.find(url.encode("utf-8", "replace"), found)
        return self.rules[found] if found < len(self.rules) else None

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

    section: RefetchSection | None = None
    book: PolicyBook = PolicyBook(())


def policy_book(section: RefetchSection) -> PolicyBook:
    """The rules of a section. Raises ``ValueError`` for texts that were not checked."""
    if _Latest.section is not section:
        _Latest.book = _book(section.policies, section.intervals)
        _Latest.section = section
    return _Latest.book


def find_rule(section: RefetchSection, url: str) -> PolicyRule | None:
    """The first rule that is for a URL; ``None`` when the section's own rule applies."""
    if not section.policies and not section.intervals:
        return None
    return policy_book(section).find(url)


def find_policy(section: RefetchSection, url: str) -> RefetchPolicy:
    """The policy of a URL. With ``refetch.rule`` off it is ``never``, whatever the rules say."""
    if section.rule is RefetchRule.OFF:
        return _NEVER
    rule = find_rule(section, url)
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


# -- the class of bounds

BY_RULE_CLASS = 0
NEVER_CLASS, EVERY_CLASS, ADAPTIVE_CLASS, VALUE_CLASS = 0xF1, 0xF2, 0xF3, 0xF4
_STEPS_S = (
    0.0,
    60.0,
    300.0,
    900.0,
    3600.0,
    10_800.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    1_209_600.0,
    2_592_000.0,
    7_776_000.0,
    31_536_000.0,
)


def policy_class(policy: RefetchPolicy | None) -> int:
    """The number (u8) that the record of a page keeps of its policy (``History.policy``).

    Pages of one class share a grid of the refetch price. The number has its meaning in itself, so
    it stays right when the rules change:

    * 0: no rule is for the page (``None``): ``refetch.rule``, and the bounds of the section;
    * 0xF1 ``never``, 0xF2 ``every``, 0xF3 ``adaptive``, whatever their bounds: the price does not
      move them; 0xF4 ``value`` with the bounds of the section;
    * else ``value`` with bounds of its own: the step of ``min`` in the upper four bits, that of
      ``max`` in the lower ones (``class_bounds``).
    """
    if policy is None:
        return BY_RULE_CLASS
    if policy.kind is not PolicyKind.VALUE:
        return {
            PolicyKind.NEVER: NEVER_CLASS,
            PolicyKind.EVERY: EVERY_CLASS,
            PolicyKind.ADAPTIVE: ADAPTIVE_CLASS,
        }[policy.kind]
    low, high = min(_step(policy.min_s), 14), _step(policy.max_s)
    if low and high and high < low:
        high = low
    return (low << 4 | high) or VALUE_CLASS


def class_bounds(number: int) -> tuple[float, float]:
    """The bounds in seconds that a class of ``value`` stands for; 0 is that of the section.

    They are the nearest of 15 steps from a minute to a year: the plan of a price counts with them,
    and each page is scheduled by the exact bounds of its rule.
    """
    if number >= NEVER_CLASS:
        return 0.0, 0.0
    return _STEPS_S[number >> 4], _STEPS_S[number & 15]


def _step(seconds: float) -> int:
    if not seconds:
        return 0
    return min(range(1, len(_STEPS_S)), key=lambda step: abs(log(_STEPS_S[step] / seconds)))


def class_of(section: RefetchSection, url: str) -> int:
    """The class of a URL's policy."""
    rule = find_rule(section, url)
    return policy_class(rule.policy if rule is not None else None)
