"""The exchange of all shards of a simulated cluster: outboxes, the topics, and what they cost.

Every commit makes a parcel for each destination that it has rows for. The rules of sending are
those of ``exchange.OutboxSender``: a destination with few waiting rows is posted late
(``exchange.Lateness``), at the latest when as many parcels wait as are posted together, and what
comes while a post is not acknowledged waits for it. One post is one record, or several if it is
large (``kafka.parcel_records``). The brokers have a meter: a post and a commit use their
processors, and are acknowledged after everything before them.

All pairs of shards are handled together, in arrays and in steps of ``STEP_S``. Rows are counted by
the step in which their page was stored, so the delay of each is known to half a step.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from lycosa.simulate.cluster_means import ClusterMeans
from lycosa.simulate.resources import UsageMeter
from lycosa.state.exchange.exchange_port import Lateness

STEP_S = 0.5
_WINDOW = 8  # parcels of a pair that are posted together (``OutboxSender``)
_RECORD_BYTES = 256_000  # of parcels in one record (``kafka.parcel_records``)
_DELAYS = 400  # steps that are kept apart

_Counts = NDArray[np.float64]

FULL, WINDOW, LATE = "rows", "parcels", "lateness"
REASONS = {
    FULL: "as many rows wait as make it worth while: they leave at once",
    WINDOW: "as many parcels wait as are posted together, one of each commit",
    LATE: "few rows wait: they leave when the longest delay is over",
}
"""Why a post left when it did."""


class PostTally(msgspec.Struct):
    """Counts since the last ``reset``; rows when they are committed, the rest when they leave.

    ``delays`` are rows by the number of steps between the storing of their page and their arrival,
    ``reasons`` posts by why they left.
    """

    rows: float = 0.0
    parcels: float = 0.0
    records: float = 0.0
    posts: float = 0.0
    bytes: float = 0.0
    commits: float = 0.0
    broker_s: float = 0.0
    delays: list[float] = []
    reasons: dict[str, float] = {}


class SimulatedPost:
    """The outboxes and topics of ``shards`` shards."""

    def __init__(self, shards: int, means: ClusterMeans, lateness: Lateness, seed: int) -> None:
        self._shards, self._means, self._lateness = shards, means, lateness
        self._chance = np.random.default_rng(seed)
        self.brokers = UsageMeter("brokers", means.broker_cores, means.broker_us / 1e6)
        # by pair of shards: rows by the step of their page, parcels, and when sending began to wait
        self._bins = math.ceil((lateness.seconds + 30.0) / STEP_S)
        self._rows = np.zeros((self._bins, shards, shards), np.float32)
        self._waiting = np.zeros((shards, shards))
        self._parcels = np.zeros((shards, shards))
        self._since = np.full((shards, shards), np.inf)
        self._busy_until = np.zeros((shards, shards))
        self.tally = PostTally()
        self.reset()

    def reset(self) -> None:
        """Begin to count."""
        self.tally = PostTally(delays=[0.0] * _DELAYS, reasons=dict.fromkeys(REASONS, 0.0))

    def commit(
        self, source: int, rows_by_step: dict[int, float], pages: float, now: float
    ) -> float:
        """Append a commit to the log; returns the time of its acknowledgement.

        ``rows_by_step`` are its rows for other shards by the step in which their page was stored.
        Each goes to any shard with the same probability.
        """
        means = self._means
        total = np.zeros(self._shards)
        for step, rows in rows_by_step.items():
            drawn = self._chance.multinomial(round(rows), np.full(self._shards, 1 / self._shards))
            drawn[source] = 0
            self._rows[step % self._bins, source] += drawn
            total += drawn
        self._waiting[source] += total
        begins = (total > 0) & (self._parcels[source] == 0)
        self._parcels[source] += total > 0
        kilobytes = (pages * means.log_bytes + total.sum() * means.row_bytes) / 1000
        done = self._append(float(means.commit_us + kilobytes * means.broker_kb_us) / 1e6, now)
        self._since[source][begins] = np.maximum(done, self._busy_until[source][begins])
        self.tally.commits += 1
        self.tally.rows += float(total.sum())
        return done

    def post_due(self, now: float) -> tuple[_Counts, list[tuple[int, int]]]:
        """Post what is due.

        Returns the records that each shard posts, and the pairs whose rows arrive.
        """
        waiting = self._waiting
        free = (self._parcels > 0) & (self._busy_until <= now) & (self._since <= now)
        full = free & (waiting >= self._lateness.fewer_than)
        window = free & ~full & (self._parcels >= _WINDOW)
        late = free & ~full & ~window & (now - self._since >= self._lateness.seconds)
        due = full | window | late
        records = np.zeros(self._shards)
        if not due.any():
            return records, []
        for reason, mask in ((FULL, full), (WINDOW, window), (LATE, late)):
            self.tally.reasons[reason] += float(mask.sum())
        number = np.ceil(waiting * self._means.row_bytes / _RECORD_BYTES) * due
        sent = waiting * due
        kilobytes = sent.sum() * self._means.row_bytes / 1000
        cost_s = (number.sum() * self._means.broker_us + kilobytes * self._means.broker_kb_us) / 1e6
        acknowledged = self._append(float(cost_s), now)
        self._count(due, sent, number, acknowledged)
        self._rows[:, due] = 0.0
        self._waiting[due] = 0.0
        self._parcels[due] = 0
        # what comes meanwhile waits for the acknowledgement, and begins its delay then
        self._busy_until[due] = self._since[due] = acknowledged
        pairs = [(int(source), int(to)) for source, to in zip(*np.nonzero(due), strict=True)]
        return number.sum(axis=1), pairs

    def _append(self, cost_s: float, now: float) -> float:
        self.brokers.spend(cost_s, now)
        self.tally.broker_s += cost_s
        return max(now, self.brokers.free_at) + self._means.append_s

    def _count(self, due: NDArray[np.bool_], sent: _Counts, number: _Counts, at: float) -> None:
        tally, step = self.tally, round(at / STEP_S)
        tally.posts += float(due.sum())
        tally.parcels += float(self._parcels[due].sum())
        tally.records += float(number.sum())
        tally.bytes += float(sent.sum() * self._means.row_bytes)
        by_bin = self._rows[:, due].sum(axis=1)
        for place in np.flatnonzero(by_bin):
            steps = (step - int(place)) % self._bins
            tally.delays[min(steps, _DELAYS - 1)] += float(by_bin[place])
