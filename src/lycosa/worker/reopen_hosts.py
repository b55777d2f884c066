"""Reopens hosts that were retired for a forbidden address, when the settings change.

A forbidden address is no outage. Its host is retired at once, and only a change of settings can
help. So each partition stores the ranges that were allowed, and a run that allows other ranges
scans its hosts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from lycosa.base.reasons import Reason
from lycosa.stages.fetch.guard import Guard
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import HostState, decode_visit
from lycosa.state.kv.table_records import encode_record, meta_key, prefix_end

_ALLOWED_KEY = meta_key("allowed")


def reopen_allowed(partitions: Iterable[Partition], allowed: Sequence[str], now: float) -> int:
    """Reopen hosts that were retired for an address that is now in ``allowed`` (CIDRs); count them.

    ``now`` is crawl time.
    """
    wanted, guard = sorted(allowed), Guard(allowed)
    reopened = 0
    for partition in partitions:
        before = partition.table.get(_ALLOWED_KEY)
        if (msgspec.msgpack.decode(before) if before is not None else []) == wanted:
            continue
        # All are found before anything is written, because a scan of a table with open writes is
        # merged with them in memory as a whole.
        for host8 in list(_forbidden(partition, guard)):
            host = partition.visits.find_host(host8)
            if host is not None:
                partition.set_aside_hosts.reopen(host, now)
                reopened += 1
        partition.table.put(_ALLOWED_KEY, encode_record(wanted))
    return reopened


def _forbidden(partition: Partition, guard: Guard) -> Iterator[bytes]:
    """The hosts that were retired for an address that ``guard`` allows."""
    for key, value in partition.table.scan(b"H", prefix_end(b"H")):
        record = decode_visit(value)
        is_ours = record.state is HostState.RETIRED and record.reason is Reason.ADDRESS_FORBIDDEN
        if is_ours and guard.refusal(record.address) is None:
            yield key[1:]
