"""Signals about known pages: what is kept of them, when a page is due then, and how sources are
judged by what fetches find.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from test_partition import SECTION as FRONTIER
from test_partition import START, commit, done, found, open_partition

from judging import is_balanced
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.source_truth import SignalSource
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.frontier.change_signals import ChangeSignals, SignalJudgement, SignalOutcome
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.partition_rules import FrontierRules
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.schedule.signal_belief import (
    doubt_of,
    judge_signals,
    precision_of,
    recall_of,
    right_share,
)
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.table_records import due_urls, prefix_end

DAY_S = 86_400
SECTION = RefetchSection(
    rule=RefetchRule.ADAPTIVE, first_s=7 * DAY_S, min_s=DAY_S, max_s=90 * DAY_S
)
JUDGEMENT = SignalJudgement(judge_signals, right_share, doubt_of)
FORWARD = ChangeSignals(SECTION, judgement=JUDGEMENT)
URL = "http://a.example/page"
FETCHED = int(START)


def history(interval_s: int = 7 * DAY_S, fetched_at: int = FETCHED, changes: int = 0) -> History:
    return History(
        fetches=3, fetched_at=fetched_at, status=200, interval_s=interval_s, changes=changes
    )


def opened(store: MemoryKeyValue, forward: ChangeSignals = FORWARD) -> Partition:
    partition = open_partition(store, limit=10_000)
    return Partition(
        0,
        partition.table,
        partition.seen,
        FRONTIER,
        FrontierRules(partition.rules.over_discovery, forward=forward),
    )


def listed(
    lastmod: int, kind: LinkKind = LinkKind.SITEMAP, url: str = URL, via: str = ""
) -> Discovered:
    return Discovered(url, hash8(host_of(url)), hash8(url), kind, 1, via, lastmod=lastmod)


def fetched_page() -> tuple[MemoryKeyValue, Partition, int]:
    """A partition with pages that were fetched at ``START`` and are due again in thirty days,
    all in one second.
    """
    store = MemoryKeyValue()
    partition = opened(store)
    urls = [URL, "http://a.example/other", "http://a.example/third"]
    partition.discover_urls([found(url) for url in urls], START)
    visit = partition.visits.find_host(hash8("a.example"))
    assert visit is not None
    due = FETCHED + 30 * DAY_S
    for _ in urls:
        lease = partition.lease_next(visit)
        assert lease is not None
        partition.complete_lease(
            lease, done(lease, UrlState.FETCHED, due, history(interval_s=30 * DAY_S))
        )
    commit(store, partition)
    return store, partition, due


def scheduled(store: MemoryKeyValue) -> dict[bytes, int]:
    """When each URL is due by the schedule; the second row of one would show as a number that is
    no due time of its record.
    """
    found_at: dict[bytes, int] = {}
    for key, row in store.scan(b"D", prefix_end(b"D")):
        for url in due_urls(key, row):
            assert url not in found_at
            found_at[url] = int.from_bytes(key[1:5], "big")
    return found_at


@pytest.mark.parametrize("settles", [True, False])
def test_a_known_page_comes_forward_and_its_old_time_is_gone(settles: bool) -> None:
    store, partition, due = fetched_page()
    key = hash8("a.example") + hash8(URL)
    assert set(scheduled(store).values()) == {due}
    now = START + 2 * DAY_S
    for lastmod in (FETCHED + 100, FETCHED + DAY_S, FETCHED + 100):
        partition.discover_urls([listed(lastmod)], now)
        if settles:
            commit(store, partition)
    commit(store, partition)
    assert scheduled(store)[key] == int(now) + 1
    assert sorted(scheduled(store).values()) == [int(now) + 1, due, due]
    is_balanced(store)
    assert partition.wake_due(now) == 0
    assert partition.wake_due(now + 1) == 1
    record = partition.find_record(hash8("a.example"), hash8(URL))
    assert (record.state, record.due_at) == (UrlState.QUEUED, 0)
    partition.discover_urls([listed(FETCHED + 2 * DAY_S)], now + 1)  # it waits already
    commit(store, partition)
    is_balanced(store)
    assert partition.wake_due(due) == 2


@pytest.mark.parametrize(
    "again",
    [
        listed(FETCHED),
        listed(FETCHED - 100),
        listed(0),
        listed(FETCHED + 30 * DAY_S),  # in the future
        listed(FETCHED + 100, LinkKind.FEED, via="http://b.example/feed"),
        listed(FETCHED + 100, url="http://a.example/unknown"),
    ],
)
def test_nothing_else_brings_a_page_forward(again: Discovered) -> None:
    store, partition, due = fetched_page()
    partition.discover_urls([again], START + 2 * DAY_S)
    commit(store, partition)
    assert set(scheduled(store).values()) == {due}


def test_a_page_that_is_due_sooner_stays_so() -> None:
    store, partition, due = fetched_page()
    partition.discover_urls([listed(due - 20)], due - 10)
    partition.discover_urls([listed(due - 5)], due - 1)
    commit(store, partition)
    assert sorted(scheduled(store).values()) == [due - 9, due, due]


def test_an_entry_of_its_own_hosts_feed_brings_a_page_forward() -> None:
    store, partition, _ = fetched_page()
    entry = listed(FETCHED + 100, LinkKind.FEED, via="http://a.example/feed")
    partition.discover_urls([entry], START + 2 * DAY_S)
    commit(store, partition)
    assert min(scheduled(store).values()) == int(START + 2 * DAY_S) + 1


# -- calls


KEY = hash8("a.example") + hash8(URL)


def tell(partition: Partition, now: float, key: bytes = KEY, at: int = 0) -> SignalOutcome:
    return partition.announce_change(key, SignalSource.PUSH, at or int(now), now)


def host_of_all(partition: Partition) -> VisitState:
    host = partition.visits.find_host(hash8("a.example"))
    assert host is not None
    return host


def test_a_call_tells_what_became_of_its_signal() -> None:
    store, partition, _ = fetched_page()
    now = START + 2 * DAY_S
    assert tell(partition, now, hash8("a.example") + b"unknown!") is SignalOutcome.UNKNOWN
    assert tell(partition, now, b"no such host 16b") is SignalOutcome.UNKNOWN
    assert tell(partition, now, at=FETCHED) is SignalOutcome.KEPT
    assert tell(partition, now, at=int(now) + 1) is SignalOutcome.KEPT
    assert tell(partition, now) is SignalOutcome.SOONER
    assert tell(partition, now) is SignalOutcome.KEPT
    assert partition.wake_due(now + 1) == 1
    assert tell(partition, now + 1) is SignalOutcome.WAITING
    commit(store, partition)
    is_balanced(store)
    off = ChangeSignals(RefetchSection(rule=RefetchRule.OFF), judgement=JUDGEMENT)
    assert tell(opened(store, off), now, hash8("a.example") + hash8("http://a.example/other")) is (
        SignalOutcome.KEPT
    )


def fetch(partition: Partition, now: int, changed: bool, interval_s: int = 30 * DAY_S) -> str:
    """Fetch the next URL of the host; returns it, or nothing when none waits."""
    host = host_of_all(partition)
    lease = partition.lease_next(host, float(now))
    if lease is None:
        return ""
    last = lease.record.history
    known = history(interval_s, now, (last.changes if last else 0) + changed)
    partition.complete_lease(lease, done(lease, UrlState.FETCHED, now + interval_s, known))
    return lease.url


def test_a_source_is_judged_by_what_the_fetches_find() -> None:
    store, partition, _ = fetched_page()
    now = FETCHED
    for changed in [True] * 12 + [False] * 40:
        now += 2 * DAY_S
        tell(partition, float(now))
        partition.wake_due(float(now + 40 * DAY_S if not changed else now + 1))
        while url := fetch(partition, now + 1, changed):
            assert url
        if changed:
            truth = host_of_all(partition).record.signals[SignalSource.PUSH]
    assert precision_of(truth) > 0.85
    assert recall_of(truth) > 0.8
    assert precision_of(host_of_all(partition).record.signals[SignalSource.PUSH]) < 0.4
    commit(store, partition)
    is_balanced(store)
    # It is durable.
    again = host_of_all(opened(store)).record.signals
    assert again == host_of_all(partition).record.signals


def test_a_change_that_was_not_announced_lowers_the_recall_of_the_source() -> None:
    _, partition, due = fetched_page()
    tell(partition, START + 2 * DAY_S)
    partition.wake_due(START + 2 * DAY_S + 1)
    assert fetch(partition, FETCHED + 2 * DAY_S + 1, changed=True) == URL
    told = host_of_all(partition).record.signals[SignalSource.PUSH]
    assert (told.told, told.missed) == (100, 0)
    partition.wake_due(float(due + 40 * DAY_S))
    while fetch(partition, due + 40 * DAY_S, changed=True):
        pass
    # Of the three pages that changed, the source announces one.
    told = host_of_all(partition).record.signals[SignalSource.PUSH]
    assert (told.told, told.missed) == (100, 100)


def test_a_page_that_changed_while_it_was_fetched_is_fetched_again() -> None:
    store, partition, due = fetched_page()
    partition.wake_due(float(due))
    lease = partition.lease_next(host_of_all(partition), float(due))
    assert lease is not None
    key = hash8("a.example") + lease.entry.url8
    assert tell(partition, due + 10.0, key) is SignalOutcome.WAITING
    known = history(30 * DAY_S, due + 12)
    partition.complete_lease(lease, done(lease, UrlState.FETCHED, due + 30 * DAY_S, known))
    commit(store, partition)
    assert scheduled(store)[key] == due + 12 + DAY_S + 1
    # What was found is not held against the source: it may be what was there before.
    assert host_of_all(partition).record.signals[SignalSource.PUSH].wrong == 0


def test_a_sitemap_that_announces_all_pages_costs_a_few_fetches_and_the_others_are_put_off() -> (
    None
):
    """However many it announces before the first of them is fetched."""
    store = MemoryKeyValue()
    partition = opened(store)
    urls = [f"http://a.example/{number}" for number in range(300)]
    partition.discover_urls([found(url) for url in urls], START)
    for _ in urls:
        assert fetch(partition, FETCHED, changed=False)
    now = FETCHED + 2 * DAY_S
    partition.discover_urls([listed(now - 10, url=url) for url in urls], float(now))
    while partition.wake_due(float(now + 1)):
        pass
    assert host_of_all(partition).record.waiting == len(urls)
    fetched = 0
    while fetch(partition, now + 1, changed=False):
        fetched += 1
    assert 3 <= fetched <= 20
    assert host_of_all(partition).record.waiting == 0
    commit(store, partition)
    is_balanced(store)
    times = sorted(scheduled(store).values())
    assert len(times) == len(urls)
    assert times[0] > now + 3600


class SignalMachine(RuleBasedStateMachine):
    """Signals of any source at any time, lying clocks, fetches and crashes in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.store, self.partition, _ = fetched_page()
        self.now = FETCHED + 10
        self.last = dict.fromkeys(
            [URL, "http://a.example/other", "http://a.example/third"], FETCHED
        )

    @rule(seconds=st.integers(1, 40 * DAY_S))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        while self.partition.wake_due(float(self.now)):
            pass

    @rule(
        number=st.integers(0, 2),
        source=st.sampled_from(list(SignalSource)),
        shift=st.integers(-(10**9), 10**9),
    )
    def announce(self, number: int, source: SignalSource, shift: int) -> None:
        url = sorted(self.last)[number]
        key = hash8("a.example") + hash8(url)
        at = max(self.now + min(shift, DAY_S), 0)
        before = self.partition.find_record(key[:8], key[8:])
        told = self.partition.announce_change(key, source, at, float(self.now))
        record = self.partition.find_record(key[:8], key[8:])
        assert before is not None and record is not None
        if told is SignalOutcome.SOONER:
            assert self.last[url] < at <= self.now
            assert record.due_at < before.due_at
            assert record.due_at > max(self.last[url] + SECTION.min_s, self.now)
        else:
            assert record.due_at == before.due_at

    @rule(changed=st.booleans())
    def visit(self, changed: bool) -> None:
        if url := fetch(self.partition, self.now, changed):
            # Signals buy at most one fetch of a URL in the minimum of its policy.
            assert self.now >= self.last[url] + SECTION.min_s
            self.last[url] = self.now

    @rule(survives=st.booleans())
    def crash(self, survives: bool) -> None:
        if survives:
            commit(self.store, self.partition)
            is_balanced(self.store)
            self.partition = opened(self.store)


TestSignals = SignalMachine.TestCase
TestSignals.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
