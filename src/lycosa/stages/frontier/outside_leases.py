"""URLs of a partition that outside fetchers hold.

Such a lease is a row (``E host8 url8``), because its holder outlives the worker. Until its end the
URL has the form of one that waits for a retry: its record is queued and has a due time, and it is
in no back queue. So a lease that expires needs no special path. When the time comes, the URL
returns to its queue, and its fetch number is as before, because nothing was fetched. ``expires`` is
what the holder was told; the URL is due ``TOLERANCE_S`` later, because its clock may differ.

Invariant: a row exists exactly when its URL's record is queued and due at the row's ``due_at``.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

import msgspec

from lycosa.base.model.capture import RobotsDecision
from lycosa.base.preferences.preference_model import Statement
from lycosa.stages.frontier.back_queue import QueueEntry
from lycosa.stages.frontier.due import DueQueue
from lycosa.stages.frontier.lease import Lease
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import (
    UrlRecord,
    encode_record,
    encode_url,
    outside_key,
    prefix_end,
    url_key,
)
from lycosa.state.shard.counters import Counters

LEASES = b"E"
TOLERANCE_S = 2.0
"""How far the clock of an outside fetcher may be behind, in seconds."""

_AGAIN_S = 60  # a result that is being stored when its lease expires has this time
_NO_BAND = -1


class LeaseRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A lease in the table.

    ``lease`` is its id, ``holder`` the fetcher, ``call`` the id of the holder's call. Times are
    crawl time in seconds: the host is busy until ``busy_until``, and the URL is due at ``due_at``.
    ``decision`` is what robots.txt says about the URL, ``address`` the address that we found.
    ``stated`` is what robots.txt states about the use of the page.
    """

    lease: str
    holder: str
    call: str
    url: str
    begun: float
    expires: float
    due_at: int
    busy_until: float
    address: str
    decision: RobotsDecision
    stated: tuple[Statement, ...] = ()


decode_lease = msgspec.msgpack.Decoder(LeaseRow).decode


class OutsideLeases:
    """One per partition. URLs are given as host8 and url8 in one."""

    def __init__(
        self, table: Overlay, due: DueQueue, counters: Counters, leased: dict[bytes, Lease]
    ) -> None:
        self._table, self._due, self._counters, self._leased = table, due, counters, leased
        rows = table.scan(LEASES, prefix_end(LEASES))
        self._rows = {key[1:]: decode_lease(row) for key, row in rows}

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self) -> Iterable[LeaseRow]:
        """The open leases, also those that have just expired."""
        return self._rows.values()

    def find(self, url: bytes) -> LeaseRow | None:
        """The open lease of a URL."""
        return self._rows.get(url)

    def lend(self, lease: Lease, row: LeaseRow) -> None:
        """Turn the lease of a visit into one of an outside fetcher."""
        host, record, url = lease.host, lease.record, lease.host.host8 + lease.entry.url8
        del self._leased[url]
        host.queue.finish_entry(lease.entry)
        host.record.waiting -= 1
        self._counters.take_due(lease.entry.band)
        host.record.retrying += 1
        record.due_at = row.due_at
        self._due.add_due(row.due_at, url)
        self._table.put(url_key(url[:8], url[8:]), encode_url(record))
        self._table.put(outside_key(url[:8], url[8:]), encode_record(row))
        self._counters.leased += url not in self._rows
        self._rows[url] = row

    def take_back(self, lease: Lease) -> None:
        """Lease the URL for storing its result. Nothing is written before the end of that."""
        self._leased[lease.host.host8 + lease.entry.url8] = lease

    def end(self, lease: Lease) -> None:
        """End the lease, because its result is stored."""
        url = lease.host.host8 + lease.entry.url8
        self._due.remove_due(lease.record.due_at, url)
        lease.host.record.retrying -= 1
        self._remove(url)

    def drop(self, url: bytes) -> None:
        """End the lease of a URL that is queued again before it is due, if it has one."""
        if url in self._rows:
            self._remove(url)

    def is_kept(self, url: bytes, record: UrlRecord, now: float) -> bool:
        """Whether a URL that is due stays lent, because its result is being stored.

        Otherwise its lease, if it has one, has expired and ends here.
        """
        if url not in self._rows:
            return False
        if url not in self._leased:
            self._remove(url)
            return False
        record.due_at = self._leased[url].record.due_at = ceil(now) + _AGAIN_S
        self._due.add_due(record.due_at, url)
        self._table.put(url_key(url[:8], url[8:]), encode_url(record))
        return True

    def _remove(self, url: bytes) -> None:
        del self._rows[url]
        self._counters.leased -= 1
        self._table.delete(outside_key(url[:8], url[8:]))


def outside_entry(url8: bytes) -> QueueEntry:
    """The entry of a URL that an outside fetcher holds: it is in no band of its queue."""
    return QueueEntry(_NO_BAND, 0, url8, 0)


def is_outside(lease: Lease) -> bool:
    """Whether an outside fetcher holds the URL."""
    return lease.entry.band == _NO_BAND
