"""How far sources of dates are believed at hosts of which little is known: by hosts like them.

A host has to show itself that its dates are right. Until it has, the findings at other hosts with
the same software stand for a part of those that it lacks (``model.source_truth``). They are kept by
partition, in one row: the sum of the first findings of each host, so that a large one counts no
more than others. A partition has thousands of hosts, so nothing is exchanged between them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from lycosa.base.model.source_truth import ADDED, POOLED, UNKNOWN_TRUTH, SourceTruth
from lycosa.stages.frontier.visit_state import VisitState, VisitStates
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import encode_record, meta_key

TRUTHS_KEY = meta_key("truths")
Pools = dict[str, dict[int, SourceTruth]]
"""Findings by software and source."""

_MOST = 200  # names of software; more than that are made up
_decode = msgspec.msgpack.Decoder(Pools).decode


def decode_pools(value: bytes | None) -> Pools:
    """The row of a partition."""
    return _decode(value) if value is not None else {}


def pooled_truth(
    pools: Pools, software: str, source: int, truths: dict[int, SourceTruth]
) -> SourceTruth:
    """What counts for a source at a host, whose own counts are ``truths``."""
    own = truths.get(source, UNKNOWN_TRUTH)
    if source not in POOLED or not software or (pool := pools.get(software)) is None:
        return own
    return own.with_others(pool.get(source, UNKNOWN_TRUTH))


def merged_pools(several: Iterable[Pools]) -> Pools:
    """The pools of several partitions together, for one that takes hosts of all of them."""
    merged: Pools = {}
    for pools in several:
        for software, counts in sorted(pools.items()):
            if software not in merged and len(merged) >= _MOST:
                continue
            pool = merged.setdefault(software, {})
            for source, truth in counts.items():
                pool[source] = pool.get(source, UNKNOWN_TRUTH).with_counts(truth)
    return merged


class PooledTruths:
    """The counts of the hosts of one partition, and those of their software."""

    def __init__(self, table: Overlay, visits: VisitStates) -> None:
        self._table, self._visits = table, visits
        self.pools = decode_pools(table.get(TRUTHS_KEY))
        self._is_changed = False

    def __repr__(self) -> str:
        return f"<PooledTruths of {len(self.pools)} kinds of software>"

    def truth_of(self, host: VisitState, source: int) -> SourceTruth:
        """How often a source was right, as far as it counts for this host."""
        record = host.record
        return pooled_truth(self.pools, record.software, source, record.signals)

    def note_software(self, host: VisitState, software: str) -> None:
        """Note what software a host has. Answers without a name say nothing."""
        if software and software != host.record.software:
            host.record.software = software
            self._visits.mark_changed(host)

    def count_signal(self, host: VisitState, source: int, share: float) -> SourceTruth:
        """Count a finding for a host, and for its software while the host is little known.

        ``share`` of the signal was right. Returns the counts of the host alone.
        """
        record = host.record
        own = record.signals.get(source, UNKNOWN_TRUTH)
        if source in POOLED and record.software and own.right + own.wrong < ADDED:
            self._add(record.software, source, share)
        truth = own.with_signal(share)
        record.signals = {**record.signals, int(source): truth}
        self._visits.mark_changed(host)
        return truth

    def save(self) -> None:
        """Put the row into the open batch, if it changed."""
        if self._is_changed:
            self._is_changed = False
            self._table.put(TRUTHS_KEY, encode_record(self.pools))

    def _add(self, software: str, source: int, share: float) -> None:
        pool = self.pools.get(software)
        if pool is None:
            if len(self.pools) >= _MOST:
                return
            pool = self.pools[software] = {}
        pool[int(source)] = pool.get(int(source), UNKNOWN_TRUTH).with_signal(share)
        self._is_changed = True
