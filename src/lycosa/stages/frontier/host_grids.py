"""The pages of large hosts by cell, and the price of a refetch at hosts that have too few turns.

The counters of a partition have the number of pages in each cell. For a host with more than
``LARGE`` pages the same is kept for the host alone, in a row. It is begun when the host gets that
large, by a walk over its records in slices. The row says how far the walk is, so pages before that
place are counted when they move, and those behind it are counted by the walk. From the row follows
how many fetches a day the host's pages ask for at a price; its delay says how many turns it has.

The row follows from the records. One that cannot be read, or whose pages are not as many as the
visit state of its host counts, is made again by the same walk. Pages whose records are in cold
files are counted from the beginning of the walk (``cold_cells``), which does not meet them.

All rows are looked at in turns, a few at a time. After a pass ``bound`` has the sum of the hosts
that have too few turns. The price of the crawl is found without their pages, and with their turns.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

import msgspec

from lycosa.base.model.refetch_cell import counted_cell
from lycosa.base.model.url_state import History
from lycosa.base.system.frames import UNREADABLE
from lycosa.stages.frontier.cold_cells import cold_cells, count_cold
from lycosa.stages.frontier.visit_state import VisitState, VisitStates
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import (
    decode_url,
    encode_record,
    host_grid_key,
    prefix_end,
    url_key,
)
from lycosa.state.shard.counters import Counters, count, uncount

LARGE = 500
"""A host has a row when more pages than this have a cell."""

_DAY_S = 86_400.0
_KEPT = 1000  # rows in memory, some kilobytes each
_WALKED = 500  # records in a step of a walk: 5 ms
HOST_GRIDS = b"g"
"""The prefix of the rows."""

FindPrice = Callable[[Mapping[int, int], float], float | None]
"""The price at a host of its pages by cell and its turns a day; ``None`` for the common price."""


class HostGridRow(msgspec.Struct, array_like=True):
    """The pages of a host by class of policy and cell.

    ``at`` is the hash of the last URL that the walk has counted; it is complete with ``is_whole``.
    Cold pages are counted wherever the walk is.
    """

    cells: dict[int, int] = {}
    at: bytes = b""
    is_whole: bool = False

    def counts(self, url8: bytes) -> bool:
        """Whether the page with this hash is among those that are counted already."""
        return self.is_whole or url8 <= self.at

    def move(self, before: int, after: int) -> None:
        """Count a page under another ``counted_cell``; 0 is none."""
        if before:
            uncount(self.cells, before)
        if after:
            count(self.cells, after)


class BoundHosts(msgspec.Struct):
    """The hosts that have too few turns: their number, pages by cell, and turns a day."""

    hosts: int = 0
    cells: dict[int, int] = {}
    turns: float = 0.0


decode_host_grid = msgspec.msgpack.Decoder(HostGridRow).decode
"""Raises one of ``system.frames.UNREADABLE``."""


class HostHistograms:
    """The rows of one partition."""

    def __init__(
        self,
        table: Overlay,
        visits: VisitStates,
        counters: Counters,
        prices: dict[bytes, float],
        has_prices: Callable[[], bool],
    ) -> None:
        """``prices`` gets the prices of this partition's hosts that have too few turns.

        Hosts get rows if it ``has_prices``: if any page is refetched by its value.
        """
        self._table, self._visits, self._counters = table, visits, counters
        self._prices, self._has_prices = prices, has_prices
        self._rows: dict[bytes, HostGridRow] = {}  # read or changed, the oldest first
        self._changed: set[bytes] = set()
        self._growing: set[bytes] = set()  # whose walk is not complete
        self._passed = b""  # the host that was looked at last
        self._found = BoundHosts()
        self._own: dict[bytes, float] = {}
        self.bound = BoundHosts()
        self.known: set[bytes] = set()
        for key, value in table.scan(HOST_GRIDS, prefix_end(HOST_GRIDS)):
            self.known.add(key[1:])
            if not _read(value).is_whole:
                self._growing.add(key[1:])

    def __repr__(self) -> str:
        return f"<HostHistograms {len(self.known)} hosts, {self.bound.hosts} of them bound>"

    def move_cell(self, host: VisitState, url8: bytes, old: History, new: History) -> None:
        """Count a page in another cell, in all counters."""
        host.record.cells += self._counters.move_cell(old, new)
        self._visits.mark_changed(host)
        self.move_page(host, url8, old, new)

    def move_page(
        self, host: VisitState, url8: bytes, old: History | None, new: History | None
    ) -> None:
        """Count a page in the row of its host; a host that is large enough gets one."""
        host8 = host.host8
        if host8 not in self.known:
            if host.record.cells <= LARGE or not self._has_prices():
                return
            self.known.add(host8)
            self._growing.add(host8)
            self._rows[host8] = self._first_row(host8)
            self._changed.add(host8)
        row = self._row(host8)
        if row.counts(url8):
            row.move(_key_of(old), _key_of(new))
            self._changed.add(host8)

    def move_cold(self, url: bytes, page: History, is_cold: bool) -> None:
        """Count a page (host8 and url8) that becomes cold or comes back, and keeps its cell."""
        host8, cell = url[:8], _key_of(page)
        count_cold(self._table, host8, cell, is_cold)
        if host8 in self.known and not (row := self._row(host8)).counts(url[8:]):
            row.move(0 if is_cold else cell, cell if is_cold else 0)
            self._changed.add(host8)

    def save(self) -> None:
        """Put changed rows into the open batch."""
        for host8 in self._changed:
            self._table.put(host_grid_key(host8), encode_record(self._rows[host8]))
        self._changed.clear()
        while len(self._rows) > _KEPT:
            del self._rows[next(iter(self._rows))]

    # -- in slices

    def walk(self) -> bool:
        """Count the next records of a host whose row is not complete; ``False`` when all are."""
        if not self._growing:
            return False
        host8 = next(iter(self._growing))
        row = self._row(host8)
        start = url_key(host8, row.at) + (b"\0" if row.at else b"")
        found = list(self._table.scan(start, url_key(host8, b"\xff" * 9), _WALKED))
        for key, value in found:
            row.at = key[9:]
            row.move(0, _key_of(decode_url(value).history))
        if len(found) < _WALKED:
            row.is_whole = True
            self._growing.discard(host8)
        self._changed.add(host8)
        return bool(self._growing)

    def look(
        self,
        most: int,
        delay_of: Callable[[VisitState], float],
        find_price: FindPrice,
        share: float,
        bound_addresses: Container[str] = (),
    ) -> bool:
        """Find the prices of the next ``most`` hosts; return whether the pass is complete.

        ``delay_of`` is the present delay of a host in seconds, ``share`` the part of its turns that
        due pages have while new ones wait. Without new ones they have all. The pages of a host at
        one of the ``bound_addresses`` count there: it gets a price, but is not in ``bound``.
        """
        self.save()
        start = host_grid_key(self._passed) + b"\0" if self._passed else HOST_GRIDS
        found = list(self._table.scan(start, prefix_end(HOST_GRIDS), most))
        for key, value in found:
            self._passed = key[1:]
            host, row = self._visits.find_host(key[1:]), _read(value)
            if host is not None and row.is_whole and sum(row.cells.values()) != host.record.cells:
                self._make_again(host.host8)
                continue
            delay_s = delay_of(host) if host is not None else 0.0
            # Of a row that is not complete nothing is known, and without a delay there is no bound.
            if not row.is_whole or delay_s <= 0:
                continue
            assert host is not None, "it has a delay"
            turns = _DAY_S / delay_s * (share if host.queue.has_new else 1.0)
            if (price := find_price(row.cells, turns)) is not None:
                self._own[key[1:]] = price
                if host.record.address in bound_addresses:
                    continue
                self._found.hosts += 1
                self._found.turns += turns
                for cell, number in row.cells.items():
                    count(self._found.cells, cell, number)
        if len(found) == most:
            return False
        self._end_pass()
        return True

    def _make_again(self, host8: bytes) -> None:
        self._rows[host8] = self._first_row(host8)
        self._growing.add(host8)
        self._changed.add(host8)

    def _first_row(self, host8: bytes) -> HostGridRow:
        """The row of a host whose records were not counted yet, except those in cold files."""
        return HostGridRow(cold_cells(self._table.get, host8))

    def _end_pass(self) -> None:
        for host8 in self.known:
            if host8 not in self._own:
                self._prices.pop(host8, None)
        self._prices.update(self._own)
        self.bound, self._passed = self._found, b""
        self._found, self._own = BoundHosts(), {}

    def _row(self, host8: bytes) -> HostGridRow:
        row = self._rows.get(host8)
        if row is None:
            value = self._table.get(host_grid_key(host8))
            is_known = value is not None and is_readable(value)
            row = _read(value or b"") if is_known else self._first_row(host8)
            self._rows[host8] = row
        return row


def host_grid_of(get: Callable[[bytes], bytes | None], host8: bytes) -> HostGridRow | None:
    """The row of a host in a partition, whose table ``get`` reads."""
    value = get(host_grid_key(host8))
    return _read(value) if value is not None else None


def is_readable(value: bytes) -> bool:
    """Whether a row can be read."""
    try:
        decode_host_grid(value)
    except UNREADABLE:
        return False
    return True


def _read(value: bytes) -> HostGridRow:
    """A row; one that cannot be read is one whose walk has not begun."""
    return decode_host_grid(value) if is_readable(value) else HostGridRow()


def _key_of(history: History | None) -> int:
    return counted_cell(history.cell, history.policy) if history is not None else 0
