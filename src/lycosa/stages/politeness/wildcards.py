"""The wildcard rules of one robots.txt: finds the best match for a target at a bounded cost.

A pattern with ``*`` is a list of literal parts that must follow one another. The leftmost position
for each part is always right, because the next part only has to be further to the right. So there
is no backtracking, and no regular expression, which could backtrack. The remaining cost is the
number of rules: a file of 512 kB has up to forty thousand, and trying each of them for each URL
costs tens of milliseconds.

**Index.** A rule can match only a target that contains all of its parts. So in a file with many
rules each rule gets a *key*: a substring of 1, 2, 4, 8 or 16 octets of one of its parts, chosen to
be shared with the fewest other rules. The keys in a target are found by cutting the target into all
substrings of these lengths or, if there are fewer keys than substrings, by searching for each key.
Only rules whose key occurs are tried. A file with few rules has no index, because trying all of
them costs less.

**Bound.** The author of the rules may also be the author of the URLs, and can make the keys of all
rules occur. So for an indexed file the cost of one target is limited to ``MAX_WORK``, in units of
about half a nanosecond. The cost is computed from the lengths that are compared and not read from a
clock, so a verdict never depends on the speed of the machine. For a target that needs more,
``best`` raises ``TooMuchWork``. None of 4,231 real files comes near the limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain

import msgspec

MAX_WORK = 10_000_000
"""Limit of the cost of one target: ten million comparisons of octets.

The worst files found cost 12 ms.
"""

# up to both limits every rule is tried: in the worst case 2 ms for a target of 2 kB
_FEW_RULES, _FEW_OCTETS = 48, 4096
_LONGEST_KEY = 16
# the length of the key by the length of a part that is shorter than _LONGEST_KEY
_KEY_LENGTH = (0, 1, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8)
_PARTS = 8  # of a rule with more parts, the first are considered for keys
_STEP = 300  # units for one search for a part: some 0.15 us
# longer parts are found in time linear in the target's length (CPython's two-way search)
_WORST_PART = 100

Wildcard = tuple[int, str, tuple[str, ...], str | None]
"""Score, ``head``, ``middle``, ``tail``.

``head`` starts the target, the ``middle`` parts follow in order, and ``tail`` (``None`` = not
anchored) ends it.
"""


class TooMuchWork(Exception):
    """Judging this target would cost more than ``MAX_WORK``."""


class Pieces(msgspec.Struct, frozen=True):
    """The literal parts of a pattern."""

    head: str
    middle: tuple[str, ...]
    tail: str | None
    has_star: bool


class Wildcards:
    """Rules with wildcards, each with its score; the matching rule with the highest score wins."""

    __slots__ = ("_always", "_index", "_rules", "_rules_without_query", "is_costly")

    def __init__(self, rules: Iterable[Wildcard]) -> None:
        # Best first, so that judging stops when no remaining rule can win.
        self._rules = sorted(rules, key=lambda rule: -rule[0])
        self._always: list[int] = []  # rules without any literal part
        # by key length and key: indexes into ``_rules``, ascending
        self._index: dict[int, dict[str, list[int]]] = {}
        octets = sum(
            len(head) + sum(map(len, middle)) + len(tail or "")
            for _, head, middle, tail in self._rules
        )
        self.is_costly = len(self._rules) > _FEW_RULES or octets > _FEW_OCTETS
        """Whether one lookup may take milliseconds."""
        if self.is_costly:
            self._rules_without_query: list[Wildcard] = []
            self._make_index()
        else:
            # Most wildcard rules on the web concern query parameters, and most URLs have none.
            self._rules_without_query = [
                r for r in self._rules if not any("?" in part for part in (r[1], *r[2], r[3] or ""))
            ]

    def __len__(self) -> int:
        return len(self._rules)

    def best(self, target: str, floor: int) -> int:
        """The highest score above ``floor`` of a matching rule, otherwise ``floor``.

        Raises ``TooMuchWork``.
        """
        if self.is_costly:
            return self._best_indexed(target, floor)
        for score, head, middle, tail in (
            self._rules if "?" in target else self._rules_without_query
        ):
            if score < floor:
                break
            if target.startswith(head) and _follow(target, len(head), middle, tail):
                return score
        return floor

    def _best_indexed(self, target: str, floor: int) -> int:
        size, work, rules = len(target), 0, self._rules
        for place in self._candidates(target):
            score, head, middle, tail = rules[place]
            if score < floor:
                break
            work += _STEP
            if not target.startswith(head):
                continue
            start = len(head)
            for part in middle:
                # In the worst case each position of the target is compared with half of the part
                # before the comparison fails.
                work += _STEP + (size - start) * min(len(part), _WORST_PART) // 2
                if work > MAX_WORK:
                    raise TooMuchWork
                start = target.find(part, start)
                if start < 0:
                    break
                start += len(part)
            else:
                if tail is None or (size - len(tail) >= start and target.endswith(tail)):
                    return score
            if work > MAX_WORK:
                raise TooMuchWork
        return floor

    def _candidates(self, target: str) -> list[int]:
        """Indexes of the rules whose key occurs in the target, ascending."""
        places = list(self._always)
        for length, table in self._index.items():
            pieces = len(target) - length + 1
            if len(table) <= pieces:
                found: Iterable[str] = [key for key in table if key in target]
            else:
                found = {target[at : at + length] for at in range(pieces)} & table.keys()
            for key in found:
                places += table[key]
        places.sort()
        return places

    def _make_index(self) -> None:
        # Each rule is filed under that one of its keys which the fewest other rules offer.
        offered = [_keys(rule) for rule in self._rules]
        shared = Counter(chain.from_iterable(offered))
        tables: dict[int, dict[str, list[int]]] = {}
        for place, keys in enumerate(offered):
            if not keys:
                self._always.append(place)
                continue
            key = keys[0]
            for other in keys:
                if shared[other] < shared[key]:
                    key = other
            table = tables.get(len(key))
            if table is None:
                table = tables[len(key)] = {}
            places = table.get(key)
            if places is None:
                table[key] = [place]
            else:
                places.append(place)
        self._index = tables


def pieces_of(parts: list[str], *, is_anchored: bool) -> Pieces:
    """The parts of a pattern that was split at its stars.

    ``is_anchored`` says that it ended with ``$``, which the caller removed.
    """
    head, *rest = parts
    has_star = bool(rest)
    tail = (rest.pop() if rest else "") if is_anchored else None
    if is_anchored and rest == [] and tail == "" and has_star:
        tail = None  # ``/x*$`` equals ``/x``: the star reaches the end
    return Pieces(head, tuple(part for part in rest if part), tail, has_star)


def _keys(rule: Wildcard) -> list[str]:
    """The substrings of a rule's parts from which its key is chosen.

    They are the first and the last of its longest part and the first of its two next longest parts.
    The list is empty when the rule has no literal part.
    """
    _, head, middle, tail = rule
    parts = [part for part in (head, *middle[:_PARTS], tail) if part]
    parts.sort(key=len, reverse=True)
    keys = [
        part[: _KEY_LENGTH[len(part)] if len(part) < _LONGEST_KEY else _LONGEST_KEY]
        for part in parts[:3]
    ]
    if keys and len(keys[0]) < len(parts[0]):
        keys.append(parts[0][-len(keys[0]) :])
    return keys


def _follow(target: str, start: int, middle: tuple[str, ...], tail: str | None) -> bool:
    for part in middle:
        start = target.find(part, start)
        if start < 0:
            return False
        start += len(part)
    return tail is None or (len(target) - len(tail) >= start and target.endswith(tail))
