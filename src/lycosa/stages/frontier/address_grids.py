"""The pages at addresses that many hosts share, by cell, so that such an address can have a price.

Hosting platforms have thousands of hosts at one address, which gets a few requests a second
whatever their number. If the pages of these hosts ask for more, they need a higher price, as those
of a host with too few turns (``host_grids``). Here the counters are not kept with each page: hosts
change their address, and each change would move the pages of a host between rows.

Instead the hosts of a partition are looked at in turns, all the time. The number of pages of each
host is exact; their cells are those of its row where it has one, else of a sample of its records,
which are in the order of a hash. Only addresses with many pages can have too few turns. A table of
``_BUCKETS`` sums says which these may be: the pages of hosts by the hash of their address, counted
in the pass before. So nothing is remembered for the others.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from zlib import crc32

import msgspec

from lycosa.base.model.refetch_cell import counted_cell
from lycosa.stages.frontier.cold_cells import cold_cells
from lycosa.stages.frontier.host_grids import host_grid_of
from lycosa.stages.frontier.turn_shares import FIRST_DUE
from lycosa.stages.frontier.visit_state import HostState, VisitRecord, decode_visit
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import (
    decode_url,
    encode_record,
    host_key,
    meta_key,
    prefix_end,
    url_key,
)

ADDRESS_PRICES = meta_key("addresses")
"""The row with the prices of addresses as they were last sent."""
MOST_ADDRESSES = 32
"""A worker reports so many addresses, those with the most pages."""

_BUCKETS = 1 << 16
_SAMPLE = 32  # records of a host: its first ones by hash
_HOSTS = host_key(b"")
_decode_prices = msgspec.msgpack.Decoder(dict[str, float]).decode


class AddressPages(msgspec.Struct, array_like=True):
    """The pages of the hosts at an address, which are counted by class of policy and cell.

    ``delayed`` is the number of those whose host has new pages waiting, which share its turns.
    """

    pages: int = 0
    delayed: int = 0
    hosts: int = 0
    cells: dict[int, float] = {}

    def add(self, other: AddressPages) -> None:
        """Add the pages of other hosts."""
        self.pages += other.pages
        self.delayed += other.delayed
        self.hosts += other.hosts
        for cell, number in other.cells.items():
            self.cells[cell] = self.cells.get(cell, 0.0) + number

    def counted(self) -> dict[int, int]:
        """Whole numbers of pages by cell."""
        return {cell: whole for cell, number in self.cells.items() if (whole := round(number))}


class AddressHistograms:
    """Those of one partition. ``found`` is the result of the last complete pass."""

    def __init__(self, table: Overlay) -> None:
        self._table = table
        self._at = b""
        self._sums = self._before = array("q", bytes(8 * _BUCKETS))
        self._counting: dict[str, AddressPages] = {}
        self.found: dict[str, AddressPages] = {}
        self._saved = address_prices_of(table.get)

    def __repr__(self) -> str:
        return f"<AddressHistograms {len(self.found)} addresses>"

    @property
    def saved_prices(self) -> Mapping[str, float]:
        """The prices of addresses in the row."""
        return self._saved

    def save_prices(self, prices: Mapping[str, float]) -> None:
        """Keep the prices for the next run, in the open batch."""
        if prices != self._saved:
            self._saved = dict(prices)
            self._table.put(ADDRESS_PRICES, encode_record(self._saved))

    def look(self, most: int, least_pages: float) -> bool:
        """Look at the next ``most`` hosts; return whether the pass is complete.

        Addresses with fewer than ``least_pages`` pages in this partition cannot matter.
        """
        if not self._at:
            self._before, self._sums = self._sums, array("q", bytes(8 * _BUCKETS))
        start = self._at + b"\0" if self._at else _HOSTS
        rows = list(self._table.scan(start, prefix_end(_HOSTS), most))
        for key, value in rows:
            self._at = key
            record = decode_visit(value)
            if record.address and record.cells and record.state is not HostState.RETIRED:
                bucket = crc32(record.address.encode()) % _BUCKETS
                self._sums[bucket] += record.cells
                if self._before[bucket] >= least_pages:
                    self._count(key[1:], record)
        if len(rows) == most:
            return False
        self._at = b""
        self.found = {
            address: pages
            for address, pages in self._counting.items()
            if pages.pages >= least_pages
        }
        self._counting = {}
        return True

    def _count(self, host8: bytes, record: VisitRecord) -> None:
        lanes = record.lanes.items()
        has_new = any(band < FIRST_DUE and lane.cursor < lane.next for band, lane in lanes)
        cells = self._cells_of(host8, record.cells)
        found = AddressPages(record.cells, record.cells if has_new else 0, 1, cells)
        known = self._counting.get(record.address)
        if known is None:
            self._counting[record.address] = found
        else:
            known.add(found)

    def _cells_of(self, host8: bytes, pages: int) -> dict[int, float]:
        row = host_grid_of(self._table.get, host8)
        if row is not None and row.is_whole:
            return {cell: float(number) for cell, number in row.cells.items()}
        cold = cold_cells(self._table.get, host8)
        pages -= sum(cold.values())
        seen: dict[int, float] = {}
        for _, value in self._table.scan(url_key(host8, b""), url_key(host8, b"\xff" * 9), _SAMPLE):
            history = decode_url(value).history
            if history is not None and (cell := counted_cell(history.cell, history.policy)):
                seen[cell] = seen.get(cell, 0.0) + 1.0
        total = sum(seen.values())
        found = {cell: number * pages / total for cell, number in seen.items()}
        return {cell: found.get(cell, 0.0) + cold.get(cell, 0) for cell in {**found, **cold}}


def largest_addresses(surveys: list[Mapping[str, AddressPages]]) -> dict[str, AddressPages]:
    """The addresses of several partitions with the most pages, at most ``MOST_ADDRESSES``."""
    total: dict[str, AddressPages] = {}
    for survey in surveys:
        for address, pages in survey.items():
            total.setdefault(address, AddressPages(cells={})).add(pages)
    chosen = sorted(total, key=lambda address: (-total[address].pages, address))
    return {address: total[address] for address in chosen[:MOST_ADDRESSES]}


def address_prices_of(get: Callable[[bytes], bytes | None]) -> dict[str, float]:
    """The prices of addresses in a partition, whose table ``get`` reads."""
    value = get(ADDRESS_PRICES)
    return _decode_prices(value) if value is not None else {}
