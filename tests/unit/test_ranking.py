"""The owner of a URL makes its priority: when it is found, when it was fetched, and when it is
queued again.
"""

from __future__ import annotations

from test_partition import START, SetSeen, found

from lycosa.base.config.sections import FrontierSection, PrioritySection
from lycosa.base.model.due_band import DueBand
from lycosa.base.model.url_state import Completed, History, UrlState
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.partition_rules import FrontierRules
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.schedule.priority import prioritizer
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import UrlRecord

DAY = 86_400
SECTION = FrontierSection(bands=8)
WEAK, STRONG = 0.1, 0.9


def open_partition() -> Partition:
    weights = PrioritySection()
    table = Overlay(MemoryKeyValue())
    return Partition(
        0,
        table,
        SetSeen(set()),
        SECTION,
        FrontierRules(prioritize=prioritizer(weights)),
    )  # type: ignore[arg-type]


def record(partition: Partition, url: str) -> UrlRecord:
    kept = partition.find_record(hash8(host_of(url)), hash8(url))
    assert kept is not None
    return kept


def visit_of(partition: Partition, url: str) -> VisitState:
    host = partition.visits.find_host(hash8(host_of(url)))
    assert host is not None
    return host


def fetch(
    partition: Partition, url: str, now: int, interval_s: int, state: UrlState = UrlState.FETCHED
) -> None:
    """The host's first URL is fetched, and is due again after its interval."""
    lease = partition.lease_next(visit_of(partition, url))
    assert lease is not None and lease.url == url
    history = (
        History(fetches=1, fetched_at=now, status=200, interval_s=interval_s)
        if state is UrlState.FETCHED
        else None
    )
    partition.complete_lease(
        lease,
        Completed(
            lease.host.host8,
            lease.entry.url8,
            lease.number,
            state,
            due_at=now + interval_s,
            history=history,
        ),
    )


def test_of_two_links_alike_the_one_to_the_host_of_more_standing_has_the_higher_priority() -> None:
    partition = open_partition()
    partition.discover_urls([found("http://a.example/", importance=STRONG)], START)
    partition.discover_urls(
        [
            found("http://a.example/x", importance=WEAK),
            found("http://b.example/x", importance=WEAK),
        ],
        START,
    )
    assert (
        record(partition, "http://a.example/x").priority
        > record(partition, "http://b.example/x").priority
    )


def test_a_known_url_that_an_important_page_links_to_raises_the_standing_of_its_host() -> None:
    partition = open_partition()
    partition.discover_urls([found("http://a.example/1", importance=WEAK)], START)
    partition.discover_urls([found("http://a.example/1", importance=STRONG)], START)
    partition.discover_urls([found("http://a.example/2", importance=WEAK)], START)
    assert (
        record(partition, "http://a.example/2").priority
        > record(partition, "http://a.example/1").priority
    )


def test_a_due_page_is_ranked_by_what_is_known_then() -> None:
    partition, url = open_partition(), "http://a.example/1"
    partition.discover_urls([found(url, importance=WEAK)], START)
    at_first = record(partition, url).priority
    now = int(START)
    fetch(partition, url, now, 80 * DAY)
    fetched = record(partition, url).priority
    assert fetched < at_first, "it is fresh, and seldom changes"
    partition.discover_urls([found("http://a.example/2", importance=STRONG)], START)
    partition.wake_due(now + 80 * DAY)
    again = record(partition, url)
    assert again.state is UrlState.QUEUED and again.priority > fetched
    lanes = visit_of(partition, url).record.lanes
    assert lanes[DueBand.DUE].next > lanes[DueBand.DUE].cursor, "it waits with the due pages"


def test_a_retry_keeps_the_priority_of_a_url_that_was_never_fetched() -> None:
    partition, url = open_partition(), "http://a.example/1"
    partition.discover_urls([found(url, importance=0.6)], START)
    before = record(partition, url).priority
    fetch(partition, url, int(START), 60, UrlState.QUEUED)
    partition.wake_due(START + 60)
    assert abs(record(partition, url).priority - before) <= 1, "only the importance was rounded"


def test_a_sitemaps_hint_counts_as_importance_and_is_kept() -> None:
    partition = open_partition()
    hinted = found("http://a.example/1", importance=WEAK)
    partition.discover_urls(
        [type(hinted)(*[getattr(hinted, name) for name in hinted.__struct_fields__[:9]], 0.8)],
        START,
    )
    assert record(partition, "http://a.example/1").importance == round(255 * 0.8)
    assert visit_of(partition, "http://a.example/1").record.importance == WEAK, (
        "what a site says of itself gives it no standing"
    )
