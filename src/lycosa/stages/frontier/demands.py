"""URLs that pages wait for, which are being rendered: the open demands of a partition.

A demand is a row (``d host8 url8``) of the partition that owns the URL. All pages that want the URL
share it. It exists from the commit that takes the first want until the commit that settles the URL,
or sets its host aside. That commit deletes the row, and tells every page once. So no crash loses a
want, and none is answered twice.

While no page waits, the end of a lease costs one look at an empty dictionary.

``d host8`` counts how many URLs of a host were fetched for the pages of each other site on one day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

import msgspec

from lycosa.base.model.capture import Want
from lycosa.base.model.parcel_items import PostedWant, SettledWant, WantingPage
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import UrlRecord, demand_key, encode_record, prefix_end

DEMANDS = b"d"
MAX_WAITING_PAGES = 1000
"""Maximum number of pages that wait for one URL; further ones go without it."""
MAX_DEMANDS = 100_000
"""Maximum number of open demands of a partition, about 1 kB of memory each."""

WAITING = frozenset({UrlState.QUEUED, UrlState.PARKED})
DEMAND_KEY = 17
"""Bytes of the key of a demand; that of a host's count has 9."""
MAX_SITES = 1000
"""Maximum number of sites whose URLs of one host are counted."""
_MAX_LOADS = 200


class DemandRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An open demand. The first page that wanted the URL gives destination and ``page_url``."""

    url: str
    destination: str
    page_url: str
    pages: tuple[WantingPage, ...]


class DayRow(msgspec.Struct, array_like=True):
    """How many URLs of a host were fetched for each other site (hash of its name) on a day.

    ``day`` counts from 1970. Of more than 1000 sites, those with the smallest numbers are
    forgotten.
    """

    day: int = 0
    sites: dict[bytes, int] = {}


decode_demand = msgspec.msgpack.Decoder(DemandRow).decode
_decode_day = msgspec.msgpack.Decoder(DayRow).decode


class Demands:
    """One per partition, over its table. URLs are given as host8 and url8 in one."""

    def __init__(self, table: Overlay) -> None:
        self._table = table
        self.rows = {
            key[1:]: decode_demand(value)
            for key, value in table.scan(DEMANDS, prefix_end(DEMANDS))
            if len(key) == DEMAND_KEY
        }
        """The open demands by URL."""
        self._loads: tuple[bytes, tuple[Want, ...]] = b"", ()
        self.tell: Callable[[SettledWant], None] = lambda settled: None
        """Called once for each demand that ends; set by what knows the other partitions."""

    def __repr__(self) -> str:
        return f"<Demands open={len(self.rows)}>"

    def join(self, url: bytes, want: PostedWant) -> bool:
        """Let a page wait for the URL of an open demand; false when too many wait."""
        row = self.rows[url]
        if want.page not in row.pages:
            if len(row.pages) >= MAX_WAITING_PAGES:
                return False
            self._put(url, msgspec.structs.replace(row, pages=(*row.pages, want.page)))
        return True

    def open(self, url: bytes, want: PostedWant) -> None:
        """Open a demand; the URL must wait, or come back from a cold file."""
        self._put(url, DemandRow(want.url, want.destination, want.page_url, (want.page,)))

    def allow(self, host8: bytes, site8: bytes, day: int, most: int) -> bool:
        """Count one more URL of a host for another site; false when that site had its share."""
        value = self._table.get(demand_key(host8))
        row = _decode_day(value) if value is not None else DayRow()
        if row.day != day:
            row = DayRow(day, {})
        if row.sites.get(site8, 0) >= most:
            return False
        if site8 not in row.sites and len(row.sites) >= MAX_SITES:
            del row.sites[min(row.sites, key=row.sites.__getitem__)]
        row.sites[site8] = row.sites.get(site8, 0) + 1
        self._table.put(demand_key(host8), encode_record(row))
        return True

    def note_loads(self, url: bytes, loads: Iterable[Want]) -> None:
        """Note what a URL loads whose capture is about to settle it, for the pages that wait."""
        self._loads = url, tuple(islice(loads, _MAX_LOADS))

    def end_url(self, url: bytes, record: UrlRecord) -> None:
        """End the demand of a URL that is settled, if it has one."""
        row = self.rows.get(url)
        if row is not None:
            settled = outcome_of(row.url, row.pages, record)
            if self._loads[0] == url:
                settled = msgspec.structs.replace(settled, loads=self._loads[1])
            self._end(url, settled)

    def end_ended(self, url: bytes, record: UrlRecord | None) -> None:
        """End the demand of a URL that did not come back from a cold file, if it does not wait."""
        if record is None:
            self.refuse(url, Reason.INTERNAL, "its record cannot be read")
        elif record.state not in WAITING:
            self.end_url(url, record)

    def refuse(self, url: bytes, reason: Reason, detail: str = "") -> None:
        """End the demand of a URL that will not be fetched now, if it has one."""
        row = self.rows.get(url)
        if row is not None:
            self._end(url, SettledWant(row.url, row.pages, reason, detail))

    def refuse_host(self, host8: bytes, reason: Reason, detail: str) -> None:
        """End the demands of a host that is set aside."""
        for url in [each for each in self.rows if each[:8] == host8]:
            self.refuse(url, reason, detail)

    def _put(self, url: bytes, row: DemandRow) -> None:
        self.rows[url] = row
        self._table.put(demand_key(url[:8], url[8:]), encode_record(row))

    def _end(self, url: bytes, settled: SettledWant) -> None:
        # The row first: what is told may ask for the same URL again.
        del self.rows[url]
        self._table.delete(demand_key(url[:8], url[8:]))
        self.tell(settled)


def outcome_of(url: str, pages: Iterable[WantingPage], record: UrlRecord) -> SettledWant:
    """What the record of a URL that has ended, or was captured before, means for pages."""
    history = record.history
    if history is None or not history.record_id:
        return SettledWant(url, tuple(pages), record.reason, record.detail)
    return SettledWant(
        url,
        tuple(pages),
        status=history.status,
        record_id=history.record_id,
        location=history.redirect_to,
    )
