"""``/.well-known/tdmrep.json``: which paths of a site have their rights for mining reserved.

Source: TDMRep, W3C Community Group final report of 2024-05-10, "TDM File on the Origin Server". The
promise: any bytes give rules, never an error, at a cost proportional to ``MAX_FILE_BYTES``.

The first rule whose pattern matches a path decides. The report calls it the most specific one, and
says that this is the first in sequence. Patterns are those of robots.txt.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from lycosa.base.preferences.preference_model import (
    MAX_STATEMENT_CHARACTERS,
    PreferenceSource,
    Statement,
)
from lycosa.base.preferences.usage_values import tdm_answers, tdm_text
from lycosa.base.urls.path_patterns import matches_pattern, normal_pattern, normal_target

MAX_FILE_BYTES = 500_000
"""A longer file is not read, and counts as a reservation of everything."""

MAX_TDM_RULES = 300
_MAX_PATTERN_CHARACTERS = 20_000  # of all rules together; bounds the cost of a match
_BOM = b"\xef\xbb\xbf"


class TdmRule(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One rule: a pattern in normal form, its reservation, and the address of its policy."""

    pattern: str
    reservation: str
    policy: str = ""


class TdmRules(msgspec.Struct, frozen=True, array_like=True):
    """The rules of a file in order, as they are stored.

    ``problem`` says why the file, or a part of it, was not read. ``is_cut`` says that a limit of
    ours was the reason; then a path that no rule matches counts as reserved.
    """

    rules: list[TdmRule] = []
    problem: str = ""
    is_cut: bool = False

    def statement(self, path: str) -> Statement | None:
        """The statement for ``path`` (path and query as in the URL), ``None`` if there is none."""
        target = normal_target(path) if self.rules else path
        for rule in self.rules:
            if matches_pattern(rule.pattern, target):
                return Statement(
                    PreferenceSource.TDM_FILE,
                    tdm_text(rule.reservation, rule.policy)[:MAX_STATEMENT_CHARACTERS],
                    0,
                    tdm_answers(rule.reservation),
                )
        if self.is_cut:
            return Statement(
                PreferenceSource.TDM_FILE,
                self.problem[:MAX_STATEMENT_CHARACTERS],
                0,
                tdm_answers("1"),
            )
        return None


def parse_tdmrep(body: bytes) -> TdmRules:
    """The rules of a file, content-decoded. What is no rule is left out."""
    if len(body) > MAX_FILE_BYTES:
        return TdmRules([], f"more than {MAX_FILE_BYTES} bytes", is_cut=True)
    try:
        listed = msgspec.json.decode(body.removeprefix(_BOM))
    # msgspec raises Python's own errors for text that is not UTF-8 and for deep nesting
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return TdmRules([], f"not JSON: {error}"[:200])
    if isinstance(listed, dict):
        listed = [listed]  # a file of one rule without its brackets; the meaning is plain
    if not isinstance(listed, list):
        return TdmRules([], "not an array of rules")
    return _rules(listed)


def _rules(listed: Iterable[Any]) -> TdmRules:
    rules: list[TdmRule] = []
    characters = left_out = 0
    for each in listed:
        rule = _rule(each)
        if rule is None:
            left_out += 1
            continue
        characters += len(rule.pattern)
        if len(rules) >= MAX_TDM_RULES or characters > _MAX_PATTERN_CHARACTERS:
            return TdmRules(rules, "more rules than are read", is_cut=True)
        rules.append(rule)
    return TdmRules(rules, f"{left_out} entries are no rules" if left_out else "")


def _rule(entry: Any) -> TdmRule | None:
    """A rule; ``None`` without a location and a reservation, both of which are mandatory."""
    if not isinstance(entry, dict):
        return None
    location, value = entry.get("location"), entry.get("tdm-reservation")
    if not isinstance(location, str) or not location:
        return None
    # Examples have a number. Some files have a string or a boolean, whose meaning is plain too.
    if isinstance(value, bool):
        value = int(value)
    if not isinstance(value, (int, str)):
        return None
    policy = entry.get("tdm-policy")
    return TdmRule(
        _pattern(location),
        str(value)[:20],
        policy if isinstance(policy, str) and len(policy) <= MAX_STATEMENT_CHARACTERS else "",
    )


def _pattern(location: str) -> str:
    raw = location if location[0] in "/*" else "/" + location
    return normal_pattern(raw.encode("utf-8", "surrogatepass"))
