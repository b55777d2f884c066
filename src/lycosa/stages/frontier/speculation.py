"""How many requests a host gets for speculative URLs, which only a text looks like.

They wait in a separate band, parked: they neither keep the host busy nor the crawl from ending.
After each answer of the host one of them may be released; then it waits as any other URL of its
host, and obeys robots.txt, delays and budgets as any other.

**Bound.** One is released only if all requests for speculative URLs, with this one, are at most
``budgets.speculative_share`` of the captures of the host so far. So the bound holds at every moment
of the crawl, and not only in the end; a host with fewer than 20 captures gets none. Retries count
as requests, and a retry is not held back: after it the next release comes later.

**Patterns.** When ten URLs of one pattern in a row did not exist, the others with this pattern are
refused as they come up, those that were released already at their turn. A redirect says nothing.
The target of a redirect is speculative too, so a site that redirects everything gains nothing.

A URL that is found again as a link is ordinary from then on, whatever it waited for.
"""

from __future__ import annotations

from collections.abc import Callable

from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.host_memory import SpeculationRecord
from lycosa.base.model.url_state import Completed, UrlState
from lycosa.base.reasons import Reason
from lycosa.stages.frontier.back_queue import QueueEntry
from lycosa.stages.frontier.visit_state import VisitState, VisitStates
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import (
    SPECULATIVE_BAND,
    UrlRecord,
    decode_url,
    encode_url,
    url_key,
)
from lycosa.state.shard.counters import Counters

_MAX_ROWS = 512
"""Rows of a host's band, each of up to 16 URLs; further finds are refused."""

_REFUSED_AT_ONCE = 200  # URLs of stopped patterns in one step of the loop: 10 ms
_MISSED = frozenset({UrlState.FAILED, UrlState.GONE})
_DECIDED = frozenset({Reason.SPECULATIVE, Reason.SPECULATIVE_MISSES})


class SpeculativeTurns:
    """The speculative URLs of one partition.

    ``enqueue`` queues a URL that is QUEUED at its host; ``queue_again`` one that has ended.
    """

    def __init__(
        self,
        table: Overlay,
        visits: VisitStates,
        counters: Counters,
        share: float,
        enqueue: Callable[[VisitState, bytes, UrlRecord], None],
        queue_again: Callable[[VisitState, bytes, UrlRecord], None],
    ) -> None:
        self.share = share
        self._table, self._visits, self._counters = table, visits, counters
        self._enqueue, self._queue_again = enqueue, queue_again

    def admit(self, host: VisitState, url8: bytes, record: UrlRecord) -> None:
        """Take in a new URL; the record is PARKED, and neither stored nor counted yet."""
        known = host.record.speculation
        if known is None:
            known = host.record.speculation = SpeculationRecord()
        lane = host.queue.lanes.get(SPECULATIVE_BAND)
        is_full = lane is not None and lane.next - lane.cursor >= _MAX_ROWS
        if is_full or known.is_stopped(record.target):
            record.state, record.reason = UrlState.REFUSED, Reason.SPECULATIVE_MISSES
            self._counters.move_reason(None, record.reason)
        else:
            record.reason = Reason.SPECULATIVE
            host.queue.push(SPECULATIVE_BAND, url8)
            host.record.parked += 1
        self._counters.move_urls(None, record.state)
        self._put(host, url8, record)
        self._visits.mark_changed(host)
        self.release(host)

    def refuse(self, host: VisitState, entry: QueueEntry, record: UrlRecord) -> bool:
        """Refuse a URL whose turn has come, if its pattern was stopped since it was released."""
        known = host.record.speculation
        assert known is not None, "the caller asked"
        if record.kind is not LinkKind.SPECULATIVE or record.history is not None:
            return False
        if not known.is_stopped(record.target):
            return False
        host.queue.finish_entry(entry)
        host.record.waiting -= 1
        known.requests -= known.requests > 0  # nothing was requested
        self._counters.take_due(entry.band)
        self._refuse(host, entry.url8, record)
        return True

    def note_end(self, host: VisitState, record: UrlRecord, done: Completed) -> None:
        """Learn from the end of a lease at a host that has speculative URLs."""
        known = host.record.speculation
        assert known is not None, "the caller asked"
        if record.kind is LinkKind.SPECULATIVE:
            if done.reason.is_refusal:
                known.requests -= known.requests > 0  # nothing was requested
            elif done.state is UrlState.QUEUED:
                known.requests += 1
            elif done.state is not UrlState.REDIRECTED:
                exists = done.state not in _MISSED and done.reason is not Reason.LIKE_MISSING
                known.note_answer(record.target, exists)
            self._visits.mark_changed(host)
        self.release(host)

    def release(self, host: VisitState) -> None:
        """Let the next speculative URL of a host wait as any other, if its share allows one."""
        known, queue = host.record.speculation, host.queue
        if known is None or known.requests + 1 > self.share * host.record.usage.captures:
            return
        for _ in range(_REFUSED_AT_ONCE):
            entry = queue.pop_band(self._table, SPECULATIVE_BAND)
            if entry is None:
                return
            queue.finish_entry(entry)
            host.record.parked -= 1
            self._visits.mark_changed(host)
            record = self._find(host, entry.url8)
            if record is None or record.reason is not Reason.SPECULATIVE:
                continue
            if not known.is_stopped(record.target):
                known.requests += 1
                self._queue(host, entry.url8, record)
                return
            self._refuse(host, entry.url8, record)

    def confirm(self, host: VisitState, found: Discovered) -> bool:
        """Take in that a known URL of a host with speculative URLs was found as a link.

        Returns false if the table does not have its record.
        """
        record = self._find(host, found.url8)
        if record is None:
            return False
        if record.kind is not LinkKind.SPECULATIVE:
            return True
        record.kind, record.depth = found.kind, min(found.depth, record.depth)
        if record.reason not in _DECIDED:
            self._put(host, found.url8, record)
        elif record.state is UrlState.PARKED:
            for entry in host.queue.pop_chosen(self._table, (found.url8,), SPECULATIVE_BAND):
                host.queue.finish_entry(entry)
                host.record.parked -= 1
            self._queue(host, found.url8, record)
        else:
            self._queue_again(host, found.url8, record)
        return True

    def _refuse(self, host: VisitState, url8: bytes, record: UrlRecord) -> None:
        self._counters.move_urls(record.state, UrlState.REFUSED)
        record.state, record.reason = UrlState.REFUSED, Reason.SPECULATIVE_MISSES
        self._counters.move_reason(None, record.reason)
        self._put(host, url8, record)
        self._visits.mark_changed(host)

    def _queue(self, host: VisitState, url8: bytes, record: UrlRecord) -> None:
        self._counters.move_urls(record.state, UrlState.QUEUED)
        record.state, record.reason = UrlState.QUEUED, Reason.NONE
        self._put(host, url8, record)
        host.count_discovered()
        self._enqueue(host, url8, record)

    def _find(self, host: VisitState, url8: bytes) -> UrlRecord | None:
        value = self._table.get(url_key(host.host8, url8))
        return decode_url(value) if value is not None else None

    def _put(self, host: VisitState, url8: bytes, record: UrlRecord) -> None:
        self._table.put(url_key(host.host8, url8), encode_url(record))
