"""A partition's counters: every distinct URL in exactly one state, and what was captured.

They are written in the same batch as the changes they count, so they are never ahead of the records
nor behind.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from lycosa.kv.records import meta_key
from lycosa.model.completed import UrlState

COUNTERS_KEY = meta_key("counters")


class ReadableTable(Protocol):
    """A table to look into."""

    def get(self, key: bytes) -> bytes | None: ...


class Counters(msgspec.Struct):
    """URLs by state, captures, pages (200 and HTML), body bytes, refusals by pure rules, failures
    and remarks by reason, hosts.

    ``hosts`` counts those ever met; ``hosts_parked``, ``hosts_retired`` and ``hosts_asleep`` those
    that are so now. ``asked`` counts errands that were asked of other hosts, and gives each its
    number; ``asking`` those whose answer is waited for now.
    """

    discovered: int = 0
    states: dict[int, int] = {}
    captures: int = 0
    pages: int = 0
    requests: int = 0
    body_bytes: int = 0
    rule_refusals: dict[int, int] = {}
    reasons: dict[int, int] = {}
    hosts: int = 0
    hosts_parked: int = 0
    hosts_retired: int = 0
    hosts_asleep: int = 0
    asked: int = 0
    asking: int = 0

    def move_urls(self, before: UrlState | None, after: UrlState | None, count: int = 1) -> None:
        """``count`` URLs change state; ``None`` before is a discovery."""
        states = self.states
        if before is None:
            self.discovered += count
        else:
            left = states[before] = states.get(before, 0) - count
            assert left >= 0, (before, after, states)
        if after is not None:
            states[after] = states.get(after, 0) + count

    def count_in(self, state: UrlState) -> int:
        """URLs in a state."""
        return self.states.get(state, 0)

    @property
    def is_balanced(self) -> bool:
        """Whether the states add up to what was discovered."""
        return self.discovered == sum(self.states.values())


def counters_of(table: ReadableTable) -> Counters:
    """The counters in a partition's table."""
    value = table.get(COUNTERS_KEY)
    return msgspec.msgpack.decode(value, type=Counters) if value is not None else Counters()


def count(table: dict[int, int], key: int, by: int = 1) -> None:
    """Adds to one entry of a table of counts."""
    table[key] = table.get(key, 0) + by
