"""Leases of chosen URLs, whatever their state: the captures of these URLs exist already.

A lease is the only way in which a URL's state, the queue of its host and the counters change
together. So a capture that is stored but not in the state is entered by a lease of its URL, as if
it had been fetched now. A URL that does not wait in the queue of its host is queued first.
"""

from __future__ import annotations

from collections.abc import Collection

from lycosa.base.model.url_state import UrlState
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import HostState, VisitState, counted_as
from lycosa.state.kv.table_records import UrlRecord, encode_url, url_key


def lease_chosen(
    partition: Partition, host: VisitState, chosen: Collection[bytes]
) -> dict[bytes, Lease]:
    """Lease the chosen URLs (``url8``) of a host that have a record.

    Each keeps the reason of its last fetch, as one whose time has come: a check is still one.
    """
    records = {url8: partition.find_record(host.host8, url8) for url8 in chosen}
    reasons = {url8: each.reason for url8, each in records.items() if each is not None}
    _leave_parked_band(partition, host, records)
    for url8, record in records.items():
        if record is not None:
            _queue(partition, host, url8, record)
    leases = {}
    for entry in host.queue.pop_chosen(partition.table, records.keys()):
        record = partition.find_record(host.host8, entry.url8)
        assert record is not None, "it has an entry in the queue"
        if record.history is not None:
            record.reason = reasons[entry.url8]
        lease = leases[entry.url8] = Lease(host, entry, record)
        partition.leased[host.host8 + entry.url8] = lease
    return leases


def queue_as_new(partition: Partition, host: VisitState, url8: bytes) -> None:
    """Queue a URL as if it was never fetched, because its captures are lost."""
    record = partition.find_record(host.host8, url8)
    if record is None:
        return
    record.history = None
    if record.state is UrlState.QUEUED and not record.due_at:
        partition.table.put(url_key(host.host8, url8), encode_url(record))
    else:
        _queue(partition, host, url8, record)


def _leave_parked_band(
    partition: Partition, host: VisitState, records: dict[bytes, UrlRecord | None]
) -> None:
    parked = [
        url8
        for url8, record in records.items()
        if record is not None and record.state is UrlState.PARKED
    ]
    for entry in host.queue.pop_chosen(partition.table, parked) if parked else ():
        host.queue.finish_entry(entry)
        host.record.parked -= 1
    partition.visits.mark_changed(host)


def _queue(partition: Partition, host: VisitState, url8: bytes, record: UrlRecord) -> None:
    """Queue a URL that does not wait in the queue of its host."""
    is_waiting = record.state is UrlState.QUEUED
    if is_waiting and not record.due_at:
        return
    if record.due_at:
        due, _ = partition.alarms
        due.remove_due(record.due_at, host.host8 + url8)
        partition.outside.drop(host.host8 + url8)
    if is_waiting:  # for a retry
        host.record.retrying -= 1
        if host.record.state in (HostState.PARKED, HostState.RETIRED):
            partition.counters.move_urls(counted_as(host.record.state), UrlState.QUEUED)
    partition.queue_again(host, url8, record)
