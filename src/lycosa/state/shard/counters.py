"""A partition's counters: every distinct URL in exactly one state, and what was captured.

They are written in the same batch as the changes that they count, so they always agree with the
records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

import msgspec

from lycosa.base.model.due_band import DUE_BANDS
from lycosa.base.model.refetch_cell import counted_cell
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.reasons import Reason
from lycosa.state.kv.table_records import SET_BACK_BAND, meta_key

COUNTERS_KEY = meta_key("counters")


_Key = TypeVar("_Key", int, str)


class ReadableTable(Protocol):
    """A table for reading."""

    def get(self, key: bytes) -> bytes | None: ...


class Counters(msgspec.Struct):
    """Counts of URLs by state, captures, pages (200 and HTML), bytes, reasons and hosts.

    ``rule_refusals`` counts refusals by pure rules. ``reasons`` counts the URLs whose fetch has
    ended, by the reason in their record; a URL that is queued again is not among them. ``hosts``
    counts all hosts ever met; ``hosts_parked``, ``hosts_retired`` and ``hosts_paused`` those that
    lists show in this state, so each host is in one of them at most. ``hosts_asleep`` counts hosts
    outside the workbench that wait for a time. ``asked`` counts errands for other hosts and gives
    each its number; ``asking`` counts those without an answer so far. ``leased`` counts the URLs
    that outside fetchers hold. ``stated`` counts captures by what their sites stated about the use
    of the page (``preference_labels``). ``cells`` counts the fetched pages by class of policy and
    cell (``refetch_cell.counted_cell``), from which the cost of a refetch price is calculated.
    ``due`` counts the waiting due pages by band, ``refetched`` the captures of pages that had one
    before, by the band in which they waited (0: one of their priority).
    ``validators`` counts answers to refetches by what they showed (``ValidatorFinding``).
    ``set_back`` counts the waiting URLs that are set back: pages like them were near copies.
    ``items`` counts the rows of user code by the name of the extractor. ``cold`` counts the URLs
    whose records are in cold files, by state; ``states`` and ``reasons`` count them too, ``cells``
    does not. ``renders`` counts the renders that began, and gives each its number; ``rendered``
    those that ended, by how. ``wanted`` counts those of ``captures`` that pages needed to be
    rendered.
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
    hosts_paused: int = 0
    leased: int = 0
    stated: dict[str, int] = {}
    cells: dict[int, int] = {}
    due: dict[int, int] = {}
    refetched: dict[int, int] = {}
    validators: dict[str, int] = {}
    set_back: int = 0
    items: dict[str, int] = {}
    cold: dict[int, int] = {}
    renders: int = 0
    rendered: dict[str, int] = {}
    wanted: int = 0

    def move_urls(self, before: UrlState | None, after: UrlState | None, count: int = 1) -> None:
        """Move ``count`` URLs to another state; ``before`` is ``None`` for a discovery."""
        states = self.states
        if before is None:
            self.discovered += count
        else:
            left = states[before] = states.get(before, 0) - count
            assert left >= 0, (before, after, states)
        if after is not None:
            states[after] = states.get(after, 0) + count

    def move_reason(self, before: Reason | None, after: Reason | None) -> None:
        """Count a URL under another reason; ``None`` while its fetch has not ended."""
        if before is not None:
            # Versions before this one never took a URL away, so their counts are too high, not low.
            uncount(self.reasons, before)
        if after is not None:
            count(self.reasons, after)

    def move_cell(self, old: History | None, new: History | None) -> int:
        """Count a page in the cell of its new history, and no longer in that of its old one.

        Returns how many pages more have a cell: 1, 0 or -1.
        """
        # Without a call for a page that has no cell, as most have at their first fetch.
        before = counted_cell(old.cell, old.policy) if old is not None and old.cell else 0
        after = counted_cell(new.cell, new.policy) if new is not None and new.cell else 0
        if before == after:
            return 0
        if before:
            uncount(self.cells, before)
        if after:
            count(self.cells, after)
        return (after > 0) - (before > 0)

    def count_items(self, items: Mapping[str, int]) -> None:
        """Count the rows that extractors made of a capture."""
        for name, number in items.items():
            count(self.items, name, number)

    def take_due(self, band: int) -> None:
        """Count that a URL has left a band of a queue, if that is one whose URLs are counted."""
        if band in DUE_BANDS:
            uncount(self.due, band)
        elif band == SET_BACK_BAND:
            self.set_back -= 1

    def copied(self) -> Counters:
        """The same numbers, which stay as they are."""
        return msgspec.structs.replace(
            self,
            states=dict(self.states),
            rule_refusals=dict(self.rule_refusals),
            reasons=dict(self.reasons),
            stated=dict(self.stated),
            cells=dict(self.cells),
            due=dict(self.due),
            refetched=dict(self.refetched),
            validators=dict(self.validators),
            items=dict(self.items),
            cold=dict(self.cold),
            rendered=dict(self.rendered),
        )

    def count_in(self, state: UrlState) -> int:
        """Number of URLs in a state."""
        return self.states.get(state, 0)

    @property
    def limited_captures(self) -> int:
        """Captures that count for ``limits.max_pages``: all but what pages needed."""
        return self.captures - self.wanted

    @property
    def is_balanced(self) -> bool:
        """Whether the states add up to the number of discovered URLs."""
        return self.discovered == sum(self.states.values())


def counters_of(table: ReadableTable) -> Counters:
    """The counters in a partition's table."""
    value = table.get(COUNTERS_KEY)
    return msgspec.msgpack.decode(value, type=Counters) if value is not None else Counters()


def total_of(parts: Iterable[Counters]) -> Counters:
    """The sums over several partitions."""
    total = Counters()
    for part in parts:
        for name in Counters.__struct_fields__:
            number, sum_so_far = getattr(part, name), getattr(total, name)
            if isinstance(number, dict):
                for key, each in number.items():
                    count(sum_so_far, key, each)
            else:
                setattr(total, name, sum_so_far + number)
    return total


def count(table: dict[_Key, int], key: _Key, by: int = 1) -> None:
    table[key] = table.get(key, 0) + by


def uncount(table: dict[_Key, int], key: _Key) -> None:
    """Take one from a number; one that is not positive then is no entry."""
    left = table.get(key, 0) - 1
    if left > 0:
        table[key] = left
    else:
        table.pop(key, None)
