"""Signals that known pages have changed: what is kept of them, and when a page is due with them.

A signal is a newer ``lastmod``, a newer entry of a feed, a call of a program, or a notice of the
site. How it changes the belief, and so the time of the next fetch, is decided by the rules
(``schedule.signal_belief``), by how often the source was right at this host. Here it is kept:

* A row for each page that was ever announced (``a``): the sources that did, and the open signals,
  with the time of the change that each states. A source counts once between two fetches, whatever
  it repeats, and a time in the future or before the last fetch is no signal.
* The counts of each source, in the visit state of the host.

When the page is fetched, the open signals are compared with what was found, and closed. A page that
was brought forward and still waits when its source has proved to be wrong is put off again, before
its lease: a sitemap may announce 50,000 pages before the first of them was fetched.

Nothing is due earlier than the minimum of its policy allows, unless a caller waits for it, and
nothing is requested out of the turns of its host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Set
from enum import Enum
from typing import NamedTuple

import msgspec

from lycosa.base.config.policy_classes import listing_of
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.model.capture import Change
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.source_truth import UNKNOWN_TRUTH, SignalSource, SourceTruth
from lycosa.base.model.url_state import Completed, History, UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import host_of
from lycosa.base.urls.url_parts import join_url
from lycosa.stages.frontier.back_queue import QueueEntry
from lycosa.stages.frontier.due import DueQueue
from lycosa.stages.frontier.pooled_truths import PooledTruths
from lycosa.stages.frontier.visit_state import VisitState, VisitStates, counted_as
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import (
    UrlRecord,
    announced_key,
    encode_record,
    encode_url,
    url_key,
)
from lycosa.state.shard.counters import Counters

_AT_ONCE_S = 60.0  # less is not worth putting a page off
_LISTING_DOUBT = 0.5  # of an index about a sitemap that it lists
_CHANGES = frozenset({Change.CHANGED, Change.GONE, Change.BACK})
_TELLS = {
    LinkKind.SITEMAP: SignalSource.SITEMAP,
    LinkKind.SITEMAP_FILE: SignalSource.SITEMAP,
    LinkKind.FEED: SignalSource.FEED,
}
_UNTOLD = frozenset({SignalSource.LAST_MODIFIED})


class SignalOutcome(Enum):
    """What became of a signal about a page."""

    SOONER = "sooner"  # the page is due earlier than before
    WAITING = "waiting"  # it waits in the queue of its host, or is being fetched
    KEPT = "kept"  # its time stays: it was fetched since, or the source is not believed enough
    ENDED = "ended"  # it is not fetched again, by its policy or because it failed
    UNKNOWN = "unknown"  # the crawl does not know it


class AnnouncedRow(msgspec.Struct, frozen=True, array_like=True):
    """The signals about one page.

    ``open`` has, by source, the stated time of the change (seconds since 1970). ``ever`` are all
    sources that announced the page.
    """

    open: dict[int, int] = {}
    ever: tuple[int, ...] = ()


decode_announced = msgspec.msgpack.Decoder(AnnouncedRow).decode
_NO_ROW = AnnouncedRow()


class SignalJudgement(NamedTuple):
    """How ``schedule.signal_belief`` answers; see there."""

    judge: Callable[
        [
            RefetchSection,
            str,
            History,
            float,
            Iterable[SourceTruth],
            Iterable[SourceTruth],
            float,
            int,
        ],
        tuple[float, float],
    ] = lambda *_: (math.inf, 0.0)
    right_share: Callable[[SourceTruth, bool, float], float] = lambda *_: 0.0
    doubt_of: Callable[[Iterable[SourceTruth]], float] = lambda _: 1.0


class ChangeSignals:
    """The rules, for the settings of a crawl.

    ``ahead_s`` returns the seconds by which crawl time is ahead of the wall clock. Due times are
    crawl time; the dates of signals and fetches are wall time.
    """

    def __init__(
        self,
        section: RefetchSection,
        ahead_s: Callable[[], float] = lambda: 0.0,
        judgement: SignalJudgement = SignalJudgement(),  # noqa: B008  values without state
        listing_min_s: float = 3600.0,
        price_of: Callable[[bytes], float] = lambda _: 0.0,
    ) -> None:
        """``listing_min_s`` is the shortest time between two fetches of a sitemap or feed.

        ``price_of`` returns the price of a fetch at a host, by its hash; 0 is that of the settings.
        """
        self.section = section  # its settings may change while the crawl runs
        self.ahead_s = ahead_s
        self.judgement = judgement
        self.listing_min_s = listing_min_s
        self.price_of = price_of

    def source_of(self, found: Discovered, host: str, now: float) -> SignalSource | None:
        """What says that a page of ``host`` changed, when a find of it is a signal.

        A time that cannot be later than the last fetch is none: every page is fetched again within
        the longest interval. Neither is an entry of another host's feed, which may list any page.
        """
        source = _TELLS.get(found.kind)
        if source is None or self.section.rule is RefetchRule.OFF:
            return None
        is_recent = now - self.section.max_s < found.lastmod <= now
        is_own = source is not SignalSource.FEED or host_of(found.via) == host
        return source if is_recent and is_own else None


class PageSignals:
    """The signals about the pages of one partition."""

    def __init__(
        self,
        table: Overlay,
        due: DueQueue,
        visits: VisitStates,
        counters: Counters,
        leased: Container[bytes],
        rules: ChangeSignals,
        truths: PooledTruths,
    ) -> None:
        """``leased`` are host8 and url8 of the URLs that are being fetched."""
        self._table, self._due, self._visits, self._rules = table, due, visits, rules
        self._counters, self._leased, self._pooled = counters, leased, truths
        self._late: dict[bytes, Set[int]] = {}

    def __repr__(self) -> str:
        return f"<PageSignals {len(self._late)} about pages that are being fetched>"

    def row(self, key: bytes) -> AnnouncedRow:
        """What is kept of the signals about ``key``, host8 and url8."""
        value = self._table.get(announced_key(key))
        return decode_announced(value) if value is not None else _NO_ROW

    def announce(
        self,
        host: VisitState,
        key: bytes,
        record: UrlRecord,
        source: SignalSource | None,
        at: int,
        now: float,
    ) -> SignalOutcome:
        """Take in that a page changed at ``at`` according to a source; times are wall time.

        Without a source a caller waits for the page: it is due now, and no belief changes.
        """
        history, is_leased = record.history, key in self._leased
        if record.state is UrlState.PARKED or (record.state is UrlState.QUEUED and not is_leased):
            return SignalOutcome.WAITING
        if history is None or not (record.due_at or is_leased):
            return SignalOutcome.WAITING if is_leased else SignalOutcome.ENDED
        if source is None:
            if not is_leased:
                # No forwards: it is not put off by what is believed of signals.
                moved = msgspec.structs.replace(history, forwards=0)
                self._move(key, record, moved, int(now + self._rules.ahead_s()))
            return SignalOutcome.WAITING
        if not history.fetched_at < at <= now:
            return SignalOutcome.KEPT
        row = self.row(key)
        if source not in row.open:
            ever = row.ever if source in row.ever else (*row.ever, int(source))
            row = AnnouncedRow({**row.open, int(source): at}, ever)
            self._table.put(announced_key(key), encode_record(row))
            # The counts of the host say whether its pages may have rows.
            if source not in host.record.signals:
                host.record.signals = {**host.record.signals, int(source): UNKNOWN_TRUTH}
                self._visits.mark_changed(host)
        if is_leased:
            # What is being fetched now may be what was there before the change.
            self._late[key] = {*self._late.get(key, ()), int(source)}
            return SignalOutcome.WAITING
        due_at = self._due_at(host, record, row, now)
        if due_at >= record.due_at:
            return SignalOutcome.KEPT
        moved = msgspec.structs.replace(history, forwards=history.forwards + 1)
        self._move(key, record, moved, due_at)
        return SignalOutcome.SOONER

    def _move(self, key: bytes, record: UrlRecord, history: History, due_at: int) -> None:
        """Let a page be due at another time; ``history`` becomes that of the record."""
        self._due.remove_due(record.due_at, key)
        record.due_at, record.history = due_at, history
        self._due.add_due(due_at, key)
        self._table.put(url_key(key[:8], key[8:]), encode_url(record))

    def settle(
        self,
        host: VisitState,
        key: bytes,
        record: UrlRecord,
        before: History | None,
        done: Completed,
    ) -> None:
        """Compare the signals about a page with what its fetch found; ``record`` is that after it.

        The record's time is set again: silence of a source that announces the page puts it off, and
        a signal that came while it was fetched brings it forward.
        """
        told_of = host.record.signals.keys() - _UNTOLD
        late: Set[int] = self._late.pop(key, frozenset())
        history = record.history
        if not told_of or history is None or done.history is None:
            return
        row = self.row(key)
        if not row.ever:
            return
        still = {source: at for source, at in row.open.items() if source in late}
        if before is not None and before.fetches:
            answered = row.open.keys() - late
            changed = _is_change(before, done)
            self._count(host, record, before, [*row.ever], answered, changed)
        if row.open != still:
            row = AnnouncedRow(still, row.ever)
            self._table.put(announced_key(key), encode_record(row))
        if not record.due_at or record.state not in (UrlState.FETCHED, UrlState.REDIRECTED):
            return
        due_at = self._due_at(host, record, row, float(history.fetched_at))
        if still and due_at < record.due_at:
            record.due_at = due_at
            record.history = msgspec.structs.replace(history, forwards=1)
        elif due_at > record.due_at + _AT_ONCE_S:
            record.due_at = due_at

    def put_off(self, host: VisitState, entry: QueueEntry, record: UrlRecord, now: float) -> bool:
        """Take a page out of its host's queue if it is not due by what is believed now.

        It was brought forward, and waits; ``now`` is crawl time. Returns false when it is due.
        """
        key = host.host8 + entry.url8
        if record.history is None or not record.history.forwards:
            return False
        row = self.row(key)
        due_at = self._due_at(host, record, row, now - self._rules.ahead_s())
        if not now + _AT_ONCE_S < due_at < _NEVER:
            return False
        host.queue.finish_entry(entry)
        self._counters.take_due(entry.band)
        host.record.waiting -= 1
        self._visits.mark_changed(host)
        record.state, record.due_at = _ended_state(record), due_at
        self._counters.move_urls(counted_as(host.record.state), record.state)
        self._counters.move_reason(None, record.reason)
        self._due.add_due(due_at, key)
        self._table.put(url_key(key[:8], key[8:]), encode_url(record))
        return True

    def doubt(self, host: VisitState, key: bytes) -> float:
        """The chance that all open signals about a page are wrong; 1 without any."""
        return self._rules.judgement.doubt_of(self._truths(host, self.row(key).open))

    def _truths(self, host: VisitState, sources: Iterable[int]) -> list[SourceTruth]:
        return [self._pooled.truth_of(host, source) for source in sources]

    def _count(
        self,
        host: VisitState,
        record: UrlRecord,
        before: History,
        sources: Iterable[int],
        answered: Set[int],
        changed: bool,
    ) -> None:
        """Count what a fetch found for the sources that announce the page."""
        assert record.history is not None
        rules, pooled = self._rules, self._pooled
        age_s = float(record.history.fetched_at - before.fetched_at)
        judge = rules.judgement.judge
        price = rules.price_of(host.host8)
        url = _url(host, record)
        _, chance = judge(rules.section, url, before, age_s, (), (), price, record.listed)
        for source in sources:
            truth = host.record.signals.get(source, UNKNOWN_TRUTH)
            if source in answered:
                believed = pooled.truth_of(host, source)
                share = rules.judgement.right_share(believed, changed, chance)
                truth = pooled.count_signal(host, source, share)
            truth = truth.with_change(source in answered) if changed else truth
            host.record.signals = {**host.record.signals, source: truth}

    def _due_at(self, host: VisitState, record: UrlRecord, row: AnnouncedRow, now: float) -> int:
        """When a page is due with the open signals, in whole seconds of crawl time."""
        history, rules = record.history, self._rules
        assert history is not None
        if listing_of(history.policy):
            doubt = rules.judgement.doubt_of(self._truths(host, row.open))
            wait_s = rules.listing_min_s if doubt <= _LISTING_DOUBT else float(history.interval_s)
            wait_s = min(wait_s, float(history.interval_s))
            return int(max(history.fetched_at + wait_s, now) + rules.ahead_s()) + 1
        silent = [source for source in row.ever if source not in row.open]
        url, age_s = _url(host, record), now - history.fetched_at
        wait_s, _ = rules.judgement.judge(
            rules.section,
            url,
            history,
            age_s,
            self._truths(host, row.open),
            self._truths(host, silent),
            rules.price_of(host.host8),
            record.listed,
        )
        if wait_s == math.inf:
            return record.due_at or _NEVER
        return int(max(history.fetched_at + wait_s, now) + rules.ahead_s()) + 1


_NEVER = 0xFFFF_FFFF  # the last time that a row of the schedule may have


def _ended_state(record: UrlRecord) -> UrlState:
    """The state of a URL whose last fetch ended, before it was queued again."""
    assert record.history is not None
    if record.reason is Reason.GONE:
        return UrlState.GONE
    if record.history.status >= 400:
        return UrlState.FAILED
    return UrlState.REDIRECTED if record.history.redirect_to else UrlState.FETCHED


def _url(host: VisitState, record: UrlRecord) -> str:
    return join_url("https" if record.secure else "http", host.name, record.target)


def _is_change(before: History, done: Completed) -> bool:
    assert done.history is not None
    noted = done.noted is not None and done.noted.change in _CHANGES
    return noted or done.history.changes > before.changes
