"""The state recounted: records, queues, visit states, counters and URL-seen compared.

Keys of one host are adjacent under every prefix, so records, queue and visit state of a host are
read together, host by host, in one pass over the table. Memory is eight bytes for each URL that
waits at one host, and for each cold URL of a partition that is due.
"""

from __future__ import annotations

from array import array
from collections import Counter

import numpy as np

from lycosa.base.model.due_band import DUE_BANDS
from lycosa.base.model.refetch_cell import counted_cell
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, join_url, reversed_host
from lycosa.inspect.audit.audit_report import Check, OnAuditProgress
from lycosa.inspect.audit.capture_index import CaptureIndex, place_key
from lycosa.inspect.audit.cold_check import ColdSchedule, expect_cold, expect_cold_cells
from lycosa.inspect.audit.table_hosts import HostSection, sections_of
from lycosa.inspect.audit.waiting_check import check_demands, check_leases
from lycosa.inspect.committed_state import TableView
from lycosa.stages.frontier.change_log import CHANGES, bounds_in, change_number, decode_change
from lycosa.stages.frontier.host_grids import HOST_GRIDS, host_grid_of, is_readable
from lycosa.stages.frontier.host_names import HOST_NAME_ROWS, indexed_until
from lycosa.stages.frontier.visit_state import HostState, VisitRecord
from lycosa.state.cold.cold_rows import return_key
from lycosa.state.kv.table_records import (
    PARKED_BAND,
    SET_BACK_BAND,
    SPECULATIVE_BAND,
    UrlRecord,
    decode_url,
    due_key,
    due_urls,
    host_name_key,
    parked_key,
    place_of,
    prefix_end,
    row_urls,
    waiting_key,
)
from lycosa.state.shard.counters import Counters

_STEP = 20_000
_SETTLED = frozenset({UrlState.FETCHED, UrlState.REDIRECTED})
_NO_NAME = "(no visit state)"


class StateChecks:
    """The checks of the state, over all partitions."""

    def __init__(
        self, captures: CaptureIndex, committed: dict[str, int] | None, progress: OnAuditProgress
    ) -> None:
        self.counters = Check(
            "counters", "URLs and hosts recounted by state, against each partition's counters"
        )
        self.queues = Check(
            "queues",
            "waiting URLs: each is in its host's back queue or has a due time, queues have no"
            " others, and what pages wait for is among them",
        )
        self.due = Check(
            "due",
            "entries of retry, refetch and parked schedules against the records they stand for,"
            " both ways",
        )
        self.hosts = Check(
            "hosts",
            "visit states against the records and queues they count, and against front queues",
        )
        self.records = Check(
            "captures",
            "fetched URLs: the capture that the record names is in a journal at that place",
        )
        self.names = Check("host names", "the index of host names against the hosts, both ways")
        self.changes = Check(
            "changes",
            "the list of changed pages: numbers without a gap, times that never decrease, and a"
            " record for each URL",
        )
        self._captures = captures
        # lengths of files, for a running crawl: records may be ahead of what was read of the
        # journals
        self._committed = committed
        self._progress = progress
        self._asked: list[tuple[int, str]] = []
        self.fetches = 0
        self.seen = 0
        self.cold_due = ColdSchedule()  # of one partition

    def all_checks(self) -> list[Check]:
        of_hosts = self.queues, self.due, self.hosts, self.names
        return [self.counters, *of_hosts, self.changes, self.records]

    def check_partition(self, view: TableView, total: int) -> None:
        """Check one partition."""
        self.cold_due = ColdSchedule()
        states: dict[UrlState, int] = dict.fromkeys(UrlState, 0)
        hosts: dict[HostState, int] = dict.fromkeys(HostState, 0)
        cells, due, cold = Counter[int](), Counter[int](), Counter[int]()
        asking = 0
        for host in sections_of(view):
            _HostCheck(self, view, host, states, cells, due, cold).run()
            if host.visit is not None:
                hosts[host.visit.shown_state] += 1
                asking += sum(not question.is_late for question in host.visit.questions)
        self._ask()  # captures that records name, less than one batch
        # From here on the counters, which the crawl updates with each change, are compared with the
        # sums of the records that were read.
        counters = view.counters()
        recounted = sum(states.values())
        where = f"partition {view.number}"
        self.counters.expect(
            recounted == counters.discovered,
            f"{where}: {counters.discovered} discovered, {recounted} records",
        )
        for state, number in states.items():
            counted = counters.count_in(state)
            self.counters.expect(
                number == counted,
                f"{where}: {counted} {state.label} by the counters, {number} by the records",
            )
        expect_cold(self.counters, counters, cold, where)
        told = (
            f"{where}: {counters.asking} questions to other hosts are open by the counters,"
            f" {asking} by the visit states"
        )
        self.counters.expect(asking == counters.asking, told)
        self._pages(counters, cells, due, where)
        self._hosts(view, hosts)
        self._host_grids(view)
        self.counters.expect(
            counters.is_balanced,
            f"{where}: the counters' own states do not add up to {counters.discovered}",
        )
        self._schedules(view)
        _check_host_names(self.names, view)
        _check_changes(self.changes, view)

    def _pages(
        self, counters: Counters, cells: Counter[int], due: Counter[int], where: str
    ) -> None:
        """Compare the pages by cell and the URLs in counted bands with the counters."""
        self.counters.expect(
            cells == counters.cells,
            f"{where}: by the counters {sum(counters.cells.values())} pages have a cell of the"
            f" refetch price, by the records {cells.total()}, or they have others",
        )
        set_back = due.pop(SET_BACK_BAND, 0)
        self.counters.expect(
            set_back == counters.set_back,
            f"{where}: {counters.set_back} URLs are set back by the counters, {set_back} by the"
            " queues",
        )
        self.counters.expect(
            due == counters.due,
            f"{where}: due pages by band are {counters.due} by the counters, {dict(due)} by the"
            " queues",
        )

    def _hosts(self, view: TableView, hosts: dict[HostState, int]) -> None:
        """Compare the numbers of hosts by state with the counters."""
        counters = view.counters()
        shown = (HostState.PARKED, HostState.RETIRED, HostState.PAUSED)
        set_aside = counters.hosts_parked, counters.hosts_retired, counters.hosts_paused
        told = (counters.hosts, *set_aside)
        found = (sum(hosts.values()), *(hosts[each] for each in shown))
        self.counters.expect(
            told == found,
            f"partition {view.number}: hosts, parked, retired, paused are {told} by the counters"
            f" and {found} by the visit states",
        )

    def _host_grids(self, view: TableView) -> None:
        """Find grids of hosts that have none."""
        for key, value in view.scan(HOST_GRIDS, prefix_end(HOST_GRIDS)):
            what = f"the grid of the refetch price of host {key[1:].hex()}"
            known = view.host_record(key[1:]) is not None
            self.hosts.expect(known, f"{what} has no visit state")
            told = f"{what} cannot be read; the next run makes it again"
            self.hosts.expect(is_readable(value), told)

    def note_record(self, total: int) -> None:
        """Count a record."""
        self.seen += 1
        if self.seen % _STEP == 0:
            self._progress("records", self.seen, total)

    def note_fetched(self, url: str, record: UrlRecord) -> None:
        """Check a record that has a history or should have one."""
        history = record.history
        if history is None or not history.fetches:
            if record.state in _SETTLED:
                self.records.expect(
                    False, f"{url} is {record.state.label} and its record names no capture"
                )
            return
        self.fetches += history.fetches
        if self._is_ahead(history.segment, history.offset):
            return
        key = place_key(url, history.fetches, history.segment, history.offset)
        self._asked.append((key, f"{url}: {history.segment}, byte {history.offset}"))
        if len(self._asked) >= _STEP:
            self._ask()

    def _is_ahead(self, segment: str, offset: int) -> bool:
        return self._committed is not None and offset >= self._committed.get(segment, 0)

    def _ask(self) -> None:
        self.records.checked += len(self._asked)
        for at in self._captures.lacking_places([key for key, _ in self._asked]):
            self.records.add_breach(f"no such capture: {self._asked[at][1]}")
        self._asked.clear()

    def _schedules(self, view: TableView) -> None:
        for key, row in view.scan(b"D", prefix_end(b"D")):
            due_at = int.from_bytes(key[1:5], "big")
            for url in due_urls(key, row):
                if self.cold_due.has_entry(url, due_at):
                    self.due.checked += 1
                    continue
                record = view.url_record(url[:8], url[8:])
                told = record.due_at if record is not None else "nothing"
                self.due.expect(
                    told == due_at,
                    f"URL {url[8:].hex()} is due at {due_at}, but its record has {told}",
                )
        check_leases(view, self.due, self.counters)
        check_demands(view, self.queues)
        for key, _ in view.scan(b"P", prefix_end(b"P")):
            self.due.expect(
                view.host_record(key[5:]) is not None,
                f"host {key[5:].hex()} is scheduled as parked or sleeping but has no visit state",
            )
        for prefix in (b"F", b"W"):
            for key, host8 in view.scan(prefix, prefix_end(prefix)):
                self._place(view.host_record(host8), host8, *place_of(key))

    def _place(
        self, host: VisitRecord | None, host8: bytes, address: str, band: int, seq: int
    ) -> None:
        """Check a host's place in a front queue or in the line of an address."""
        queue = f"the line of {address}" if address else "front queue"
        self.hosts.expect(
            host is not None and (host.line, host.front) == (address, (band, seq)),
            f"host {host.host if host else host8.hex()} is in {queue} {(band, seq)}, but its"
            f" visit state has {host and host.front}",
        )


class _HostCheck:
    """Compares one host's records, queue and visit state."""

    def __init__(
        self,
        checks: StateChecks,
        view: TableView,
        host: HostSection,
        states: dict[UrlState, int],
        cells: Counter[int],
        due: Counter[int],
        cold: Counter[int],
    ) -> None:
        self._checks, self._view, self._host = checks, view, host
        self._states, self._cells, self._due, self._cold = states, cells, due, cold
        self._visit = host.visit
        self._name = host.visit.host if host.visit else _NO_NAME
        self._waiting, self._parked = array("Q"), array("Q")
        self._retrying = self._priced = 0
        self._grid = host_grid_of(view.get, host.host8)
        self._in_grid, self._cold_cells = Counter[int](), Counter[int]()

    def run(self) -> None:
        total = self._view.counters().discovered
        for key, value, is_cold in self._host.urls:
            self._record(key[9:], decode_url(value), is_cold)
            self._checks.note_record(total)
        queued, parked = self._queue()
        self._compare(self._waiting, queued, "its back queue")
        self._compare(self._parked, parked, "its parked band")
        if self._visit is None:
            self._checks.hosts.expect(
                False, f"host {self._host.host8.hex()} has URLs but no visit state"
            )
        else:
            self._counts(self._visit, len(queued), len(parked))

    def _record(self, url8: bytes, record: UrlRecord, is_cold: bool) -> None:
        state = record.state
        self._cold[state] += is_cold
        if state is UrlState.QUEUED and self._visit is not None:
            state = {HostState.PARKED: UrlState.PARKED, HostState.RETIRED: UrlState.RETIRED}.get(
                self._visit.state, state
            )
        self._states[state] += 1
        if (history := record.history) is not None and history.cell:
            cell = counted_cell(history.cell, history.policy)
            self._cells[cell] += 1
            self._priced += 1
            self._cold_cells[cell] += is_cold
            if self._grid is not None and (is_cold or self._grid.counts(url8)):
                self._in_grid[cell] += 1
        url = join_url("https" if record.secure else "http", self._name, record.target)
        self._checks.note_fetched(url, record)
        self._checks.due.expect(
            not record.due_at or self._is_scheduled(record.due_at, self._host.host8 + url8),
            f"{url} is due at {record.due_at} but is not in the schedule",
        )
        if is_cold and record.due_at:
            self._checks.cold_due.add_entry(self._host.host8 + url8, record.due_at)
        if self._visit is not None:
            self._checks.queues.expect(
                hash8(url) == url8,
                f"the record of URL {url8.hex()} has {url}, which has another hash",
            )
        if record.state is UrlState.PARKED:
            self._parked.append(int.from_bytes(url8, "big"))
        elif record.state is UrlState.QUEUED and record.due_at:
            self._retrying += 1
        elif record.state is UrlState.QUEUED:
            self._waiting.append(int.from_bytes(url8, "big"))

    def _is_scheduled(self, due_at: int, url: bytes) -> bool:
        """Whether a row of the schedule has it, or one that says that it comes back from a file."""
        start = due_key(due_at)
        if any(self._view.get(key) is not None for key in (start + url, return_key(url))):
            return True
        return any(
            url in due_urls(key, row) for key, row in self._view.scan(start, start + b"\xff" * 17)
        )

    def _queue(self) -> tuple[array[int], array[int]]:
        queued, parked = array("Q"), array("Q")
        lanes = self._visit.lanes if self._visit else {}
        for key, row in self._host.queue:
            band, seq = key[9], int.from_bytes(key[10:], "big")
            (parked if band in (PARKED_BAND, SPECULATIVE_BAND) else queued).extend(
                int.from_bytes(url8, "big") for url8 in row_urls(row)
            )
            if band in DUE_BANDS or band == SET_BACK_BAND:
                self._due[band] += len(row_urls(row))
            lane = lanes.get(band)
            self._checks.queues.expect(
                lane is not None and lane.cursor <= seq < lane.next,
                f"{self._name}: row {band}/{seq} is outside its lane"
                f" {lane and (lane.cursor, lane.next)}, so it would never be leased",
            )
        return queued, parked

    def _compare(self, records: array[int], entries: array[int], where: str) -> None:
        check = self._checks.queues
        check.checked += len(records)
        wanted, found = _sorted(records), _sorted(entries)
        if len(wanted) == len(found) and (wanted == found).all():
            return
        for lost in np.setdiff1d(wanted, found).tolist():
            check.add_breach(f"{self._name}: URL {lost:016x} waits but is not in {where}")
        for odd in np.setdiff1d(found, wanted).tolist():
            check.add_breach(f"{self._name}: {where} has URL {odd:016x}, which does not wait there")
        for twice in np.unique(found[1:][found[1:] == found[:-1]]).tolist():
            check.add_breach(f"{self._name}: {where} has URL {twice:016x} twice")

    def _counts(self, host: VisitRecord, queued: int, parked: int) -> None:
        check, name = self._checks.hosts, self._name
        check.expect(
            host.waiting == queued,
            f"{name}: {host.waiting} waiting by the visit state, {queued} in the queue",
        )
        check.expect(
            host.parked == parked,
            f"{name}: {host.parked} parked by the visit state, {parked} in the parked band",
        )
        told = (
            f"{name}: {host.retrying} wait for a retry by the visit state, {self._retrying} by the"
            " records"
        )
        check.expect(host.retrying == self._retrying, told)
        check.expect(
            host.cells == self._priced,
            f"{name}: {host.cells} pages have a cell of the refetch price by the visit state,"
            f" {self._priced} by the records",
        )
        expect_cold_cells(check, self._view, name, self._cold_cells)
        if self._grid is not None:
            check.expect(
                self._grid.cells == self._in_grid,
                f"{name}: its grid of the refetch price has {sum(self._grid.cells.values())} pages,"
                f" its records {self._in_grid.total()}, or they have others",
            )
        # A host with work must be where the frontier will find it again: in a front queue or in the
        # schedule of sleeping hosts. A parked or retired host need not be there, nor one that an
        # operator paused.
        may_wait = host.state in (HostState.READY, HostState.SNOOZED, HostState.EXHAUSTED)
        is_barred = host.pause is not None or host.reason is Reason.RETIRED_BY_OPERATOR
        if ((queued and may_wait) or host.errands) and not is_barred:
            is_asleep = (
                host.asleep_until > 0
                and self._view.get(parked_key(host.asleep_until, self._host.host8)) is not None
            )
            in_front = (
                host.front is not None
                and self._view.get(waiting_key(host.line, *host.front)) == self._host.host8
            )
            check.expect(
                in_front or is_asleep,
                f"{name}: {queued} URLs and {len(host.errands)} errands wait, but the host is in no"
                " front queue and does not sleep, so they would never be fetched",
            )
        if host.state is HostState.PARKED:
            check.expect(
                self._view.get(parked_key(host.parked_until, self._host.host8)) is not None,
                f"{name} is parked until {host.parked_until} but is not in the schedule, so it"
                " would stay parked",
            )


def _check_host_names(check: Check, view: TableView) -> None:
    """Check the index of host names, both ways.

    Hosts that the index has not reached yet need not be in it.
    """
    until = indexed_until(view.get)
    for host in view.hosts():
        key = host_name_key(reversed_host(host.record.host))
        is_later = until is not None and host.host8 > until
        check.expect(
            view.get(key) == host.host8 or (is_later and view.get(key) is None),
            f"partition {view.number}: the index of host names lacks {host.record.host}",
        )
    for key, host8 in view.scan(HOST_NAME_ROWS, prefix_end(HOST_NAME_ROWS)):
        record = view.host_record(host8)
        check.expect(
            record is not None and host_name_key(reversed_host(record.host)) == key,
            f"partition {view.number}: the index of host names has {key[1:].decode()}, which is"
            " no known host",
        )
    if until is not None and any(True for _ in view.hosts()):
        check.add_note("the owner adds the names of an older table with its next commits")


def _check_changes(check: Check, view: TableView) -> None:
    """Check the list of changed pages. A gap would hide a change from every reader."""
    bounds, noted_s = bounds_in(view.get), 0
    where, number = f"partition {view.number}: the list of changes", bounds.first
    for key, value in view.scan(CHANGES, prefix_end(CHANGES)):
        row = decode_change(value)
        check.expect(
            change_number(key) == number,
            f"{where} has number {change_number(key)} where {number} should be",
        )
        check.expect(
            row.noted_s >= noted_s, f"{where} has a time at {number} that is before the one above"
        )
        known = view.has_url(row.url[:8], row.url[8:])
        check.expect(known, f"{where} names {row.url.hex()}, which has no record")
        number, noted_s = change_number(key) + 1, row.noted_s
    check.expect(
        number == bounds.last + 1, f"{where} ends at {number - 1}, and {bounds.last} were noted"
    )


def _sorted(values: array[int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return (
        np.sort(np.frombuffer(values, dtype=np.uint64)) if values else np.empty(0, dtype=np.uint64)
    )
