"""The time that one question may take, and tables that keep to it.

The work for one question is not known before: a name may be the first or the last of a table. So
every row that is read counts, and when the budget is spent, the search ends and tells how far it
came.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from lycosa.state.cold.cold_rows import ColdFileRow
from lycosa.state.cold.whole_table import find_cold_file
from lycosa.state.kv.kv_port import SavedTable
from lycosa.state.shard.view import CrawlView, ViewSummary
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.segments_port import StoredSegment
from lycosa.state.store.stored_data import StoredRecord

DEFAULT_BUDGET_S = 0.1
_STEPS = 16  # rows between two looks at the clock, which cost 0.1 us each


class OutOfTime(Exception):
    """The time budget of a question is spent."""


class TimeBudget:
    """Seconds for one question, from its creation on."""

    def __init__(self, seconds: float = DEFAULT_BUDGET_S) -> None:
        self._seconds, self._began = seconds, time.perf_counter()
        self._steps = 0

    @property
    def spent_s(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self._began

    def release(self) -> None:
        """Let what is left be finished, because it is bounded."""
        self._seconds = float("inf")

    def spend(self) -> None:
        """Count one row. Raises ``OutOfTime``."""
        self._steps += 1
        if self._steps % _STEPS == 0 and self.spent_s >= self._seconds:
            raise OutOfTime


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

    def find_cold_file(self, key: bytes) -> ColdFileRow | None:
        """See ``HasColdFiles``."""
        self._budget.spend()
        return find_cold_file(self._table, key)

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
