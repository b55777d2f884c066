"""Hosts that were given up by the operator's own decision, and what happens when the operator
decides anew.

An address that may not be connected to is no outage: its host is given up at once and nothing but a
change of settings can help. So each partition remembers the ranges that were allowed, and a run
that allows others looks through its hosts, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from lycosa.fetch.guard import Guard
from lycosa.frontier.partition import Partition
from lycosa.frontier.visit_state import HostState, decode_visit
from lycosa.kv.records import encode_record, meta_key, prefix_end
from lycosa.reasons import Reason

_ALLOWED_KEY = meta_key("allowed")


def reopen_allowed(partitions: Iterable[Partition], allowed: Sequence[str], now: float) -> int:
    """Reopens hosts that were given up for an address that is ``allowed`` by now (CIDRs).
    ``now`` is crawl time. Gives how many.
    """
    wanted, guard = sorted(allowed), Guard(allowed)
    reopened = 0
    for partition in partitions:
        before = partition.table.get(_ALLOWED_KEY)
        if (msgspec.msgpack.decode(before) if before is not None else []) == wanted:
            continue
        # Found before anything is written: a scan of a table that has open writes is merged with
        # them in memory, all of it.
        for host8 in list(_forbidden(partition, guard)):
            host = partition.visits.find_host(host8)
            if host is not None:
                partition.aside.reopen(host, now)
                reopened += 1
        partition.table.put(_ALLOWED_KEY, encode_record(wanted))
    return reopened


def _forbidden(partition: Partition, guard: Guard) -> Iterator[bytes]:
    """The hosts that were given up for an address that ``guard`` lets pass."""
    for key, value in partition.table.scan(b"H", prefix_end(b"H")):
        record = decode_visit(value)
        is_ours = record.state is HostState.RETIRED and record.reason is Reason.ADDRESS_FORBIDDEN
        if is_ours and guard.refusal(record.address) is None:
            yield key[1:]
