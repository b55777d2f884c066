"""Texts of refetch policies and their values; ``refetch_policies`` describes them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from lycosa.base.config.near_names import near_name
from lycosa.base.config.sections import RefetchSection
from lycosa.base.config.units import read_seconds, show_seconds
from lycosa.base.config.url_matchers import (
    MAX_RULE_CHARACTERS,
    UrlMatcher,
    checked_pattern,
    read_matcher,
)

POLICIES, INTERVALS = "refetch.policies", "refetch.intervals"
_LONGEST_S = 3650 * 86_400.0  # ten years: due times are below 2 ** 32 seconds
_MAX_WEIGHT = 1000.0
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
    """One rule: its text, the setting that has it, and its number there, from 1."""

    text: str
    policy: RefetchPolicy
    matcher: UrlMatcher
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
    if len(words) < 2 or len(text) > MAX_RULE_CHARACTERS:
        raise ValueError(
            f"{text[:100]!r} is no policy; write MATCHER POLICY, as news.example every 1h"
        )
    matcher = read_matcher(words)
    if not words:
        raise ValueError(f"{text!r} has no policy; write {_WORDS} after the matcher")
    return PolicyRule(text, _read_kind(words, text), matcher)


def read_interval(text: str) -> PolicyRule:
    """A rule of ``refetch.intervals``: ``DOMAIN TIME`` or ``DOMAIN PATTERN TIME``.

    ``news.example /archive/* 30d`` is ``news.example /archive/* every 30d``; ``*`` is every host.
    Raises ``ValueError``, which says what to write.
    """
    words = text.split()
    if len(words) not in (2, 3) or len(text) > MAX_RULE_CHARACTERS:
        raise ValueError(f"{text[:100]!r} is no interval; write DOMAIN TIME or DOMAIN PATTERN TIME")
    domain, pattern, seconds = words[0].lower(), "".join(words[1:-1]), read_seconds(words[-1])
    if domain != "*" and ("/" in domain or "*" in domain):
        raise ValueError(f"{domain!r} is no domain; write news.example, or * for all")
    if pattern and not pattern.startswith(("/", "*")):
        raise ValueError(f"{pattern!r} matches no path; a pattern begins with / or *")
    if seconds < 1:
        raise ValueError(f"{words[-1]!r} is too short; write at least 1s")
    # A longer one is shortened and not refused, because saved crawls may have it.
    policy = RefetchPolicy(PolicyKind.EVERY, min(seconds, _LONGEST_S))
    return PolicyRule(text, policy, UrlMatcher(domain, checked_pattern(pattern)), INTERVALS)


def show_interval(rule: PolicyRule) -> str:
    """The text that ``read_interval`` reads."""
    matcher = rule.matcher
    words = (matcher.domain, matcher.pattern, show_seconds(rule.policy.seconds))
    return " ".join(filter(None, words))


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
