"""The log of operators' decisions as a list in which each decision is one row.

Every owner logs its part of a decision, so one about dead letters has a row in each partition, at
about the same time. A page has the sum of them. Parts that a page has counted, and that stand
behind its end among other decisions, are named in its cursor, so the next page leaves them out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from lycosa.base.calls import ActionsQuery
from lycosa.service.api.answers import MergedList

_READ = 64  # rows at once, or as many as a page has
_MAX_READS = 10  # of a page that has fewer decisions than are wanted
_SPREAD_S = 60.0  # between the first and the last part of a decision
_MAX_NAMED = 100
_PIECE = re.compile(r"([0-9a-f]{32})-\d+")
ReadRows = Callable[[ActionsQuery], Awaitable[MergedList]]


class _Page:
    """The decisions of a page, by call, newest first."""

    def __init__(self, most: int, counted: set[str]) -> None:
        self.most, self._counted = most, counted
        self.decisions: dict[str, dict[str, Any]] = {}
        self.end: str | None = None  # the mark before the first decision that is not on the page
        self.named: dict[str, None] = {}
        self._last = ""

    def take(self, row: dict[str, Any], mark: str) -> bool:
        """Take one row; false when no part of the page's decisions can follow."""
        call = _decision_of(row["call"])
        known = self.decisions.get(call)
        is_counted = _name(call) in self._counted
        if is_counted or known is not None:
            if self.end is not None:
                self.named[_name(call)] = None
            if known is not None:
                known["changed"] += row["changed"]
                known["partitions"] += 1
                if known["subject"] != row["subject"]:  # "3 URLs" of a piece, "1 URL" of the next
                    known["subject"] = "chosen URLs"
        elif len(self.decisions) < self.most and self.end is None:
            self.decisions[call] = {**row, "partitions": 1}
        elif self.end is None:
            self.end = self._last
        self._last = mark
        last = next(reversed(self.decisions.values()), None)
        return self.end is None or (last is not None and last["date"] - row["date"] < _SPREAD_S)


async def listed_actions(read: ReadRows, query: ActionsQuery) -> MergedList:
    """The decisions behind a cursor of this list. Raises as ``read`` does."""
    after, _, counted = query.after.partition("~")
    page = _Page(query.most, set(counted.split(",")) if counted else set())
    for _ in range(_MAX_READS):
        listing = await read(ActionsQuery(after, max(_READ, query.most)))
        is_open = True
        for row, mark in zip(listing.rows, listing.marks, strict=True):
            is_open = page.take(row, mark)
            if not is_open:
                break
        after = listing.cursor
        if not is_open or not after:
            break
    end = page.end
    if end is None:  # parts that were not read are left out: their decisions are listed
        end = after
        page.named |= dict.fromkeys(map(_name, reversed(page.decisions)))
    named = ",".join(list(page.named)[:_MAX_NAMED])
    return msgspec.structs.replace(
        listing,
        rows=list(page.decisions.values()),
        cursor=f"{end}~{named}" if end and named else end,
        marks=[],
    )


def _decision_of(call: str) -> str:
    """What the calls of one decision have in common; `lycosa dlq` numbers its pieces."""
    found = _PIECE.fullmatch(call)
    return found[1] if found else call


def _name(call: str) -> str:
    return hashlib.sha256(call.encode()).hexdigest()[:12]
