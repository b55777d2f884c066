"""The time that one question may take, and tables that keep to it.

An owner answers questions on a thread of its own while its loop crawls. Python runs one of the two
at a time, so the thread must not work for long without a rest: the loop would wait for it. The
budget therefore divides the work into slices with a rest between them, and ends it when all of it
is spent. Rests do not count as work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from lycosa.kv.port import SavedTable
from lycosa.shard.view import CrawlView, ViewSummary
from lycosa.store import JournalRow, StoredRecord, StoredSegment

DEFAULT_BUDGET_S = 0.1
_STEPS = 16  # rows between two looks at the clock, which cost 0.1 us each


class OutOfTime(Exception):
    """The time budget of a question is spent."""


class TimeBudget:
    """Seconds of work for one question, in slices of ``slice_s`` with a ``rest`` after each."""

    def __init__(
        self,
        seconds: float = DEFAULT_BUDGET_S,
        slice_s: float = 0.0,
        rest: Callable[[], None] | None = None,
    ) -> None:
        self._seconds, self._slice_s, self._rest = seconds, slice_s, rest
        self._steps = 0
        self._spent = 0.0
        self._slice_began = time.perf_counter()

    @property
    def spent_s(self) -> float:
        """Seconds of work so far."""
        return self._spent + time.perf_counter() - self._slice_began

    def part(self, seconds: float) -> TimeBudget:
        """A budget for a part of the work, with the same slices."""
        return TimeBudget(seconds, self._slice_s, self._rest)

    def release(self) -> None:
        """Let what is left be finished, because it is bounded."""
        self._seconds = float("inf")

    def spend(self) -> None:
        """Count one row; rests when a slice is over. Raises ``OutOfTime``."""
        self._steps += 1
        if self._steps % _STEPS:
            return
        now = time.perf_counter()
        worked = now - self._slice_began
        if self._spent + worked >= self._seconds:
            raise OutOfTime
        if self._rest is not None and worked >= self._slice_s:
            self._spent += worked
            self._rest()
            self._slice_began = time.perf_counter()

    def __repr__(self) -> str:
        return f"<TimeBudget {self.spent_s * 1000:.1f} of {self._seconds * 1000:g} ms>"


class BudgetedTable:
    """A table whose reads count against a budget."""

    def __init__(self, table: SavedTable, budget: TimeBudget) -> None:
        self._table, self._budget = table, budget

    def get(self, key: bytes) -> bytes | None:
        self._budget.spend()
        return self._table.get(key)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        spend = self._budget.spend
        for pair in self._table.scan(start, end):
            yield pair
            spend()

    def close(self) -> None:
        self._table.close()

    def __repr__(self) -> str:
        return f"BudgetedTable({self._table!r}, {self._budget!r})"


class BudgetedView:
    """A ``CrawlView`` whose reads count against a budget."""

    def __init__(self, source: CrawlView, budget: TimeBudget) -> None:
        self._source, self._budget = source, budget
        self.seen: ViewSummary = source.seen

    def open_table(self, partition: int) -> SavedTable:
        return BudgetedTable(self._source.open_table(partition), self._budget)

    def list_segments(self) -> list[StoredSegment]:
        return self._source.list_segments()

    def read_rows(self, segment: StoredSegment, having: bytes = b"") -> Iterator[JournalRow]:
        spend = self._budget.spend
        for row in self._source.read_rows(segment, having):
            yield row
            spend()

    def read_record(self, segment: str, offset: int) -> StoredRecord:
        self._budget.spend()
        return self._source.read_record(segment, offset)

    def close(self) -> None:
        self._source.close()

    def __repr__(self) -> str:
        return f"BudgetedView({self._source!r}, {self._budget!r})"
