"""What robots.txt states about the use of a URL: Content-Usage, Content-Signal and License lines.

Source: draft-ietf-aipref-attach-05 section 3; draft-romm-aipref-contentsignals-00; RSL 1.0. Of the
Content-Usage lines of the group that applies to us, those with the longest path that matches count,
and several of that length count separately (attach section 3.1). Content-Signal lines are treated
alike, and License lines belong to the whole file (RSL: "not tied to any specific user agent").

Lines beyond the limits are not kept, because a record is stored for each host. They count as a
"no": a limit of ours must not turn a "no" into silence.
"""

from __future__ import annotations

import msgspec

from lycosa.base.preferences.page_statements import license_statements
from lycosa.base.preferences.preference_model import (
    PreferenceSource,
    Statement,
)
from lycosa.base.preferences.usage_values import (
    bounded,
    signal_answers,
    unread_answers,
    usage_answers,
)
from lycosa.base.urls.path_patterns import matches_pattern, normal_pattern, normal_target

MAX_USAGE_LINES = 300
"""The most Content-Usage and Content-Signal lines of a group that are kept."""

MAX_USAGE_CHARACTERS = 20_000
"""The most characters of these lines together."""

MAX_LICENSES = 10

UsageRule = tuple[str, str, int]
"""Pattern in normal form (empty = every path), the statement as sent, the line number from 1."""


class UsageRules(msgspec.Struct, frozen=True, array_like=True):
    """The lines of one robots.txt that apply to our agent, as they are stored.

    ``usage`` and ``signals`` begin with the longest patterns. ``licenses`` are addresses with their
    line numbers. ``unread`` is the first line that exceeded a limit, or 0.
    """

    usage: list[UsageRule] = []
    signals: list[UsageRule] = []
    licenses: list[tuple[str, int]] = []
    unread: int = 0


class UsageLines:
    """Collects the lines of one group while a file is read."""

    __slots__ = ("_characters", "_signals", "_unread", "_usage")

    def __init__(self) -> None:
        self._usage: list[UsageRule] = []
        self._signals: list[UsageRule] = []
        self._characters = self._unread = 0

    def add_line(self, is_signal: bool, value: bytes, number: int) -> None:
        """Add the value of a line: an optional path, white space, and the statement."""
        self._characters += len(value)
        if (
            len(self._usage) + len(self._signals) >= MAX_USAGE_LINES
            or self._characters > MAX_USAGE_CHARACTERS
        ):
            self._unread = self._unread or number
            return
        path = b""
        if value.startswith(b"/"):  # anything else means that the path is absent (section 3.2)
            path, *rest = value.split(None, 1)
            value = rest[0] if rest else b""
        rule = (normal_pattern(path), value.decode("utf-8", "replace"), number)
        (self._signals if is_signal else self._usage).append(rule)

    def rules(self, licenses: list[tuple[str, int]]) -> UsageRules | None:
        """What is stored; ``None`` for nearly every file, which has no such line."""
        if not (self._usage or self._signals or licenses or self._unread):
            return None
        return UsageRules(
            sorted(self._usage, key=_order),
            sorted(self._signals, key=_order),
            licenses,
            self._unread,
        )


def robots_statements(rules: UsageRules | None, target: str) -> tuple[Statement, ...]:
    """The statements about ``target``, the path and query of a URL that we may fetch.

    A URL that is disallowed has no statements (attach section 3.1), so it is not asked about.
    """
    if rules is None:
        return ()
    target = normal_target(target)
    found = [
        Statement(PreferenceSource.USAGE_ROBOTS, text, line, usage_answers(text))
        for text, line in _longest(rules.usage, target)
    ]
    found += [
        Statement(PreferenceSource.SIGNAL_ROBOTS, text, line, signal_answers(text))
        for text, line in _longest(rules.signals, target)
    ]
    if rules.unread:
        found.append(
            Statement(
                PreferenceSource.USAGE_ROBOTS,
                "more lines than are read",
                rules.unread,
                unread_answers(),
            )
        )
    for address, line in rules.licenses:
        found += [
            msgspec.structs.replace(each, line=line)
            for each in license_statements(PreferenceSource.LICENSE_ROBOTS, [address])
        ]
    return bounded(found)


def _longest(rules: list[UsageRule], target: str) -> list[tuple[str, int]]:
    """Text and line of the matching rules with the longest pattern."""
    found: list[tuple[str, int]] = []
    length = -1
    for pattern, text, line in rules:
        if len(pattern) < length:
            break  # the longest come first
        if matches_pattern(pattern, target):
            length = len(pattern)
            found.append((text, line))
    return found


def _order(rule: UsageRule) -> tuple[int, int]:
    return -len(rule[0]), rule[2]
