"""A newer lastmod brings a page forward: when it is due then, once per value, and never below
the minimum.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_partition import START, commit, done, found, open_partition

from judging import is_balanced
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.frontier.sitemap_news import SitemapNews
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.table_records import UrlRecord, due_urls, prefix_end

DAY_S = 86_400
SECTION = RefetchSection(first_s=7 * DAY_S, min_s=DAY_S, max_s=90 * DAY_S)
FORWARD = SitemapNews(SECTION)
URL = "http://a.example/page"
FETCHED = int(START)


def history(forwards: int = 0, interval_s: int = 7 * DAY_S) -> History:
    return History(
        fetches=3, fetched_at=FETCHED, status=200, interval_s=interval_s, forwards=forwards
    )


def record_with(known: History | None, due_at: int = FETCHED + 400 * DAY_S) -> UrlRecord:
    return UrlRecord(
        UrlState.FETCHED, False, "/page", 1, 0, LinkKind.A, FETCHED, due_at=due_at, history=known
    )


@pytest.mark.parametrize(
    ("known", "days"),
    [
        (history(), 1),  # the minimum: nothing speaks against the sitemap
        (history(0, 90 * DAY_S), 1),
        (history(1, 10 * DAY_S), 5),
        (history(2, 40 * DAY_S), 30),
        (history(1, DAY_S), 1),
    ],
)
def test_the_wait_is_longer_the_more_often_the_sitemap_was_wrong(known: History, days: int) -> None:
    assert (
        FORWARD.due_at(record_with(known), FETCHED + 60, FETCHED + 100)
        == FETCHED + days * DAY_S + 1
    )
    late = FETCHED + 50 * DAY_S
    assert FORWARD.due_at(record_with(known), FETCHED + 60, late) == late + 1


def test_pages_are_due_in_the_crawls_time() -> None:
    ahead = SitemapNews(SECTION, lambda: 1000.5)
    assert (
        ahead.due_at(record_with(history()), FETCHED + 60, FETCHED + 100) == FETCHED + DAY_S + 1001
    )


def test_a_date_before_the_last_fetch_says_nothing() -> None:
    assert FORWARD.due_at(record_with(history()), FETCHED, FETCHED + 100) == 0
    assert FORWARD.due_at(record_with(None), FETCHED, FETCHED + 100) == 0
    assert FORWARD.due_at(record_with(history(), due_at=0), FETCHED + 60, FETCHED + 100) == 0
    assert FORWARD.due_at(record_with(history(), FETCHED + DAY_S), FETCHED + 60, FETCHED + 100) == 0


@pytest.mark.parametrize(
    ("lastmod", "is_news"),
    [
        (0, False),
        (FETCHED, True),
        (FETCHED + 1, False),
        (FETCHED - 90 * DAY_S, False),
        (FETCHED - 89 * DAY_S, True),
    ],
)
def test_only_dates_that_can_be_later_than_a_fetch_are_looked_at(
    lastmod: int, is_news: bool
) -> None:
    assert FORWARD.is_news(lastmod, FETCHED) is is_news
    assert not SitemapNews(RefetchSection(rule=RefetchRule.OFF)).is_news(lastmod, FETCHED)


@given(st.integers(1, 60))
def test_a_sitemap_that_always_says_now_has_a_page_fetched_ever_more_seldom(fetches: int) -> None:
    """Of a page that never changes: its interval grows by half each time, and so does the wait."""
    at, waits = FETCHED, []
    for number in range(1, fetches + 1):
        interval = min(7 * DAY_S * 1.5 ** (number - 1), SECTION.max_s)
        known = History(
            fetches=number, fetched_at=at, status=200, interval_s=int(interval), forwards=number - 1
        )
        due = FORWARD.due_at(record_with(known, at + 400 * DAY_S), at + 10, at + 20)
        waits.append(due - at)
        at = due
    assert waits == sorted(waits)
    assert all(wait >= SECTION.min_s for wait in waits)
    assert sum(wait < 60 * DAY_S for wait in waits) <= 7


def listed(lastmod: int, kind: LinkKind = LinkKind.SITEMAP, url: str = URL) -> Discovered:
    return Discovered(url, hash8(host_of(url)), hash8(url), kind, 1, lastmod=lastmod)


def fetched_page() -> tuple[MemoryKeyValue, object, int]:
    """A partition with pages that were fetched at ``START`` and are due again in thirty days,
    all in one second.
    """
    store = MemoryKeyValue()
    partition = open_partition(store)
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
        listed(FETCHED + 100, LinkKind.FEED),
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
