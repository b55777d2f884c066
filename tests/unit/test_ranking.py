"""The owner of a URL makes its priority: when it is found, when it was fetched, and when it is
queued again.
"""

from __future__ import annotations

from test_partition import START, SetSeen, found

from lycosa.base.config.sections import FrontierSection, PrioritySection
from lycosa.base.model.due_band import DueBand
from lycosa.base.model.factors import NO_RANK
from lycosa.base.model.url_state import Completed, History, UrlState
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.partition_rules import FrontierRules
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.schedule.priority import linked_importance, prioritizer
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


def test_a_host_to_which_more_sites_link_has_the_higher_authority() -> None:
    partition = open_partition()
    partition.discover_urls([found("http://a.example/1", importance=WEAK)], START)
    host = visit_of(partition, "http://a.example/")
    partition.note_linking(host, b"12345678" * 3, linked_importance(3, 1.0))
    partition.discover_urls([found("http://a.example/2", importance=WEAK)], START)
    partition.discover_urls([found("http://a.example/2", importance=STRONG)], START)
    assert host.authority == host.record.importance == 0.75, "no single link says more"
    one, two = (record(partition, f"http://a.example/{n}").priority for n in (1, 2))
    assert abs(one - two) <= 1, "what waits of a host keeps its order; its place is better"
    assert len(fetched_in_order(partition, host)) == 2
    for lease in list(partition.leased.values()):
        done = Completed(host.host8, lease.entry.url8, lease.number, UrlState.FAILED, due_at=0)
        partition.complete_lease(lease, done)
    partition.discover_urls([found("http://a.example/3", importance=WEAK)], START)
    assert record(partition, "http://a.example/3").priority > two


class KnownRanks:
    """Ranks of hosts and pages by name."""

    def __init__(self, **ranks: int) -> None:
        self._of = {hash8(name.replace("_", ".")): rank for name, rank in ranks.items()}

    def host_rank(self, host8: bytes) -> int:
        return self._of.get(host8, NO_RANK)

    page_rank = host_rank


def test_a_rank_counts_in_place_of_what_links_say_also_for_hosts_in_memory() -> None:
    partition = open_partition()
    partition.discover_urls([found("http://a.example/1", importance=STRONG)], START)
    host = visit_of(partition, "http://a.example/")
    assert host.authority == STRONG
    partition.use_ranks(KnownRanks(a_example=51))
    assert host.authority == 0.2, "lower, too"
    partition.note_linking(host, b"12345678", 0.95)
    assert (host.authority, host.record.importance) == (0.2, 0.95)
    partition.discover_urls([found("http://b.example/", importance=WEAK)], START)
    assert visit_of(partition, "http://b.example/").authority == WEAK, "it has no rank"
    partition.use_ranks(None)
    assert host.authority == 0.95


def test_a_www_host_without_a_rank_has_that_of_the_name_behind_it() -> None:
    partition = open_partition()
    partition.use_ranks(KnownRanks(a_example=255, www_b_example=102, b_example=255))
    partition.discover_urls([found("http://www.a.example/"), found("http://www.b.example/")], START)
    assert visit_of(partition, "http://www.a.example/").authority == 1.0
    assert visit_of(partition, "http://www.b.example/").authority == 0.4


def test_the_rank_of_a_page_counts_in_place_of_its_link() -> None:
    partition = open_partition()
    ranks = KnownRanks()
    ranks._of = {hash8("http://a.example/1"): 250, hash8("http://a.example/2"): 3}
    partition.use_ranks(ranks)
    for number, importance in ((1, WEAK), (2, STRONG), (3, WEAK)):
        partition.discover_urls([found(f"http://a.example/{number}", importance=importance)], START)
    one, two, three = (record(partition, f"http://a.example/{n}").priority for n in (1, 2, 3))
    assert one > three > two


def test_a_host_that_has_risen_gets_a_better_place() -> None:
    """At once by links, if it waits for its turn; by new ranks when it lines up next."""
    partition = open_partition()
    for name in ("a", "b"):
        partition.discover_urls([found(f"http://{name}.example/1", importance=WEAK)], START)
    first, second = (visit_of(partition, f"http://{name}.example/") for name in ("a", "b"))
    assert first.record.front is not None and second.record.front is not None
    assert first.record.front[0] == second.record.front[0]
    partition.note_linking(second, b"12345678" * 8, linked_importance(8, 1.0))
    better = second.record.front
    assert better is not None and better[0] < first.record.front[0]
    assert not partition.visits.find_host(second.host8).on_workbench  # type: ignore[union-attr]
    before = first.record.front[0]
    partition.use_ranks(KnownRanks(a_example=255))
    assert first.record.front[0] == before, "it keeps its place"
    partition.places.rotate_host(first)
    assert first.record.front[0] < before
    assert fetched_in_order(partition, second) == ["http://b.example/1"], "its queue is the same"


def fetched_in_order(partition: Partition, host: VisitState) -> list[str]:
    urls = []
    while (lease := partition.lease_next(host)) is not None:
        urls.append(lease.url)
    return urls


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
