"""Cold files against the rows that name them.

That a cold record waits in no queue, that its capture is stored and its state counted, the checks
of the state find: they read cold records where they read all others. So this check comes before
them. It makes a damaged file one breach and leaves it out; what it had is then missing there.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable

import numpy as np
import xxhash

from lycosa.base.urls.identity import hash8
from lycosa.inspect.audit.audit_report import Check
from lycosa.inspect.committed_state import CrawlReader, TableView
from lycosa.stages.frontier.cold_cells import cold_cells
from lycosa.state.cold.cold_rows import cold_files, returning_urls
from lycosa.state.kv.table_records import url_key
from lycosa.state.shard.counters import Counters


class ColdSchedule:
    """When the cold URLs of a partition are due: 8 bytes each.

    Entries of the schedule are in the order of times, and cold files in that of hashes. So each
    entry would cost the reading of a thousand records.
    """

    def __init__(self) -> None:
        self._marks, self._sorted = array("Q"), np.empty(0, np.uint64)

    def add_entry(self, url: bytes, due_at: int) -> None:
        """Note that a URL (host8 and url8) is due at a time."""
        self._marks.append(_mark(url, due_at))

    def has_entry(self, url: bytes, due_at: int) -> bool:
        """Whether it was noted; all notes come before the first question."""
        if len(self._sorted) != len(self._marks):
            self._sorted = np.sort(np.frombuffer(self._marks, np.uint64))
        at = int(np.searchsorted(self._sorted, mark := np.uint64(_mark(url, due_at))))
        return at < len(self._sorted) and bool(self._sorted[at] == mark)


def _mark(url: bytes, due_at: int) -> int:
    return xxhash.xxh3_64_intdigest(url + due_at.to_bytes(4, "big"))


def check_cold(reader: CrawlReader, views: Iterable[TableView]) -> list[Check]:
    """Check all partitions; no check if none has cold files. Raises ``ObjectError``."""
    check = Check("cold files", "cold files, read whole, against the rows that name them")
    for view in views:
        if view.whole is not None:
            _check_partition(check, reader, view)
    return [check] if check.checked else []


def expect_cold(check: Check, counters: Counters, found: Counter[int], where: str) -> None:
    """Compare the cold records by state with the counters."""
    told = {state: number for state, number in counters.cold.items() if number}
    held = {state: number for state, number in found.items() if number}
    check.expect(
        told == held, f"{where}: cold records by state are {told} by the counters, {held} in files"
    )


def expect_cold_cells(check: Check, view: TableView, host: str, found: Counter[int]) -> None:
    """Compare the cold pages of a host by cell with the row that counts them."""
    told = cold_cells(view.get, hash8(host))
    check.expect(
        told == +found,
        f"{host}: {sum(told.values())} cold pages have a cell of the refetch price by its row,"
        f" {found.total()} by the files, or they have others",
    )


def _check_partition(check: Check, reader: CrawlReader, view: TableView) -> None:
    assert view.whole is not None
    damage = view.whole.find_damage()
    for number in cold_files(view):
        check.expect(number not in damage, f"partition {view.number}: {damage.get(number)}")
    reader.left_out[view.number] = damage.keys()
    view.whole.leave_out(damage)
    for url in returning_urls(view):
        told = f"partition {view.number}: {url.hex()} is to come back, but has no record"
        check.expect(view.get(url_key(url[:8], url[8:])) is not None, told)
