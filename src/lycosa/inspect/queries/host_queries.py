"""Lists of hosts: by name with the index of reversed names, or by an order that is kept.

A name is searched in the index: the hosts of a domain are one range of it, and a part of a name is
looked for in all of its keys. Hosts of a table of an earlier version whose names are not in the
index yet follow behind the others, in the order of their keys.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any

from lycosa.base.calls import HostsQuery
from lycosa.base.urls.identity import is_address, name_of, reversed_host
from lycosa.inspect.committed_state import CrawlReader, HostEntry, TableView
from lycosa.inspect.queries.host_orders import HOST_ORDERS, HostOrders, order_mark
from lycosa.inspect.queries.host_rows import listed_host
from lycosa.inspect.queries.time_budget import OutOfTime, TimeBudget
from lycosa.inspect.saved_settings import SavedSettings
from lycosa.inspect.top_lists import failures_of
from lycosa.stages.frontier.host_names import indexed_until
from lycosa.stages.frontier.visit_state import HostState, VisitRecord
from lycosa.state.kv.table_records import host_key, host_name_key, prefix_end

_UNNAMED = "~"  # marks cursors behind all names, which have no such character


class HostPage:
    """The rows of a list, and where it continues (see ``Found``)."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.cursor = ""
        self.is_partial = self.is_cut = False
        self.ordered_at = 0.0


def state_of_hosts(label: str) -> HostState | None:
    """The state with this name; ``None`` for the empty name. Raises ``KeyError``."""
    return HostState[label.upper()] if label else None


class HostLister:
    """Lists the hosts of one partition for one question."""

    def __init__(
        self,
        reader: CrawlReader,
        view: TableView,
        saved: SavedSettings,
        budget: TimeBudget,
        now: float,
    ) -> None:
        self._reader, self._view, self._saved = reader, view, saved
        self._budget, self._now = budget, now
        self._ahead_s = reader.ahead_s(now)
        self._position = ""  # the last name that was read and dealt with

    def list_hosts(self, query: HostsQuery, orders: HostOrders) -> HostPage:
        """The hosts that the query asks for."""
        state = state_of_hosts(query.state)
        if query.sort == "name":
            return self._by_name(query, state)
        if query.search:
            return self._found_in_order(query, state)
        return self._in_order(query, state, orders)

    # -- by name

    def _by_name(self, query: HostsQuery, state: HostState | None) -> HostPage:
        page = HostPage()
        try:
            for mark, host8 in self._named(query.search, query.after):
                entry = self._entry(host8)
                if entry is None or (state is not None and entry.record.shown_state is not state):
                    continue
                page.rows.append(self._row(entry, mark))
                if len(page.rows) >= query.most:
                    page.cursor = mark
                    return page
        except OutOfTime:
            # The position is that of the search, which may be far behind the last host that
            # matched.
            page.is_partial, page.cursor = True, self._position
        return page

    def _named(self, search: str, after: str) -> Iterator[tuple[str, bytes]]:
        """Mark and key of the hosts with this part of a name, behind the cursor ``after``."""
        self._position = after
        is_wanted, ranges = self._filter(search)
        if not after.startswith(_UNNAMED):
            for start, end in ranges:
                first = max(start, f"{after}\0" if after else "")
                for key, host8 in self._view.scan(host_name_key(first), host_name_key(end)):
                    name = key[1:].decode()
                    if is_wanted(name):
                        yield name, host8
                    self._position = name
        until = indexed_until(self._view.get)
        if until is None:
            return
        if after.startswith(_UNNAMED):
            until = max(until, bytes.fromhex(after[1:]))
        for key, _ in self._view.scan(host_key(until + b"\0"), prefix_end(b"H")):
            mark = _UNNAMED + key[1:].hex()
            entry = self._entry(key[1:])
            name = reversed_host(entry.record.host) if entry is not None else ""
            if (
                name
                and self._view.get(host_name_key(name)) is None
                and any(start <= name < end for start, end in ranges)
                and is_wanted(name)
            ):
                yield mark, key[1:]
            self._position = mark

    def _filter(self, search: str) -> tuple[Callable[[str], bool], list[tuple[str, str]]]:
        """Whether a reversed name is meant, and the ranges of names to look at."""
        search = search.strip().lower().rstrip(".")
        domain = search.removeprefix(".")
        if not domain:
            return (lambda name: True), [("", _UNNAMED)]
        if search.startswith("*"):
            return _has_part(search[1:]), [("", _UNNAMED)]
        is_whole = "." in domain and self._reader.sites.site_of(domain) == domain
        if search.startswith(".") or (is_whole and not is_address(name_of(domain))):
            name = reversed_host(domain)
            # the host itself, those below it, and those at another port
            return (lambda name: True), [
                (name, f"{name}\0"),
                (f"{name}.", f"{name}/"),
                (f"{name}:", f"{name};"),
            ]
        return _has_part(search), [("", _UNNAMED)]

    # -- by an order

    def _in_order(self, query: HostsQuery, state: HostState | None, orders: HostOrders) -> HostPage:
        page = HostPage()
        self._budget.release()  # the rest is bounded by what is kept
        page.ordered_at = orders.wall
        page.is_partial = not orders.is_complete
        for rank, host8 in orders.first(query.sort, state):
            mark = order_mark(rank, host8)
            if mark <= query.after:
                continue
            entry = self._entry(host8)
            # The state may be another one since the hosts were read.
            if entry is None or (state is not None and entry.record.shown_state is not state):
                continue
            page.rows.append(self._row(entry, mark))
            page.cursor = mark
            if len(page.rows) >= query.most:
                return page
        page.is_cut = orders.is_cut(query.sort, state)
        page.cursor = ""
        return page

    def _found_in_order(self, query: HostsQuery, state: HostState | None) -> HostPage:
        """The hosts with a part of a name, in an order; read again for each page."""
        page, kept = HostPage(), list[tuple[str, bytes]]()
        try:
            for _, host8 in self._named(query.search, ""):
                entry = self._entry(host8)
                if entry is None or (state is not None and entry.record.shown_state is not state):
                    continue
                mark = order_mark(rank_of(entry.record, query.sort), host8)
                if mark > query.after:
                    kept.append((mark, host8))
                # Sorting out only now and then keeps memory bounded at little cost for each host.
                if len(kept) > 4 * query.most:
                    kept = heapq.nsmallest(query.most + 1, kept)
        except OutOfTime:
            # The order is then that of the hosts which were read, and the caller is told.
            page.is_partial = True
        self._budget.release()  # the rest is one page
        found = heapq.nsmallest(query.most + 1, kept)
        for mark, host8 in found[: query.most]:
            entry = self._entry(host8)
            if entry is not None:
                page.rows.append(self._row(entry, mark))
        page.cursor = found[query.most - 1][0] if len(found) > query.most else ""
        return page

    def _entry(self, host8: bytes) -> HostEntry | None:
        record = self._view.host_record(host8)
        return HostEntry(self._view.number, host8, record) if record is not None else None

    def _row(self, entry: HostEntry, mark: str) -> dict[str, Any]:
        return listed_host(entry, self._saved, self._now, self._ahead_s, mark)


def _has_part(part: str) -> Callable[[str], bool]:
    """Whether a reversed name has this part, when it is read forwards."""
    if "." in part or ":" in part:
        return lambda name: part in reversed_host(name)
    return lambda name: part in name  # a part of one label, which is not reversed


def rank_of(record: VisitRecord, order: str) -> int:
    """The rank of a host in one of ``HOST_ORDERS``."""
    assert order in HOST_ORDERS
    if order == "queue":
        return record.waiting + record.retrying + record.parked
    if order == "errors":
        return failures_of(record)
    is_parked = record.state is HostState.PARKED
    return max(int(record.parked_until if is_parked else record.next_at), 0)
