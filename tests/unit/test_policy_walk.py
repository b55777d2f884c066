"""A change of refetch policies reaches the records of a partition, in slices that a crash may
interrupt.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_partition import SECTION, START, SetSeen, commit, done, found

from lycosa.base.config.policy_classes import NEVER_CLASS, promised_s
from lycosa.base.config.refetch_policies import policies_version
from lycosa.base.config.sections import RefetchSection
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.frontier.frontier import Frontier
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.partition_rules import FrontierRules
from lycosa.stages.frontier.policy_walk import WALK_KEY, walk_row
from lycosa.stages.frontier.sitemap_news import SitemapNews
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.frontier.workbench import Workbench
from lycosa.stages.schedule.refetch import kept_interval
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import UrlRecord, decode_url, due_urls, prefix_end

FETCHED = int(START)
WEEK_S, HOUR_S = 604_800, 3600
NOW = START + 86_400.0
HOSTS = 5


def url_of(number: int) -> str:
    return f"http://h{number % HOSTS}.example/{number}"


def opened(store: MemoryKeyValue, *policies: str) -> Partition:
    known = {int.from_bytes(key[9:], "big") for key, _ in store.scan(b"U", prefix_end(b"U"))}
    rules = FrontierRules(
        forward=SitemapNews(RefetchSection(policies=policies)), kept_interval=kept_interval
    )
    partition = Partition(0, Overlay(store), SetSeen(known), SECTION, rules)  # type: ignore[arg-type]
    partition.follow_policies()
    return partition


def told(partition: Partition, *policies: str) -> bool:
    partition.rules.forward.section = RefetchSection(policies=policies)
    return partition.follow_policies()


def step(partition: Partition, most: int = 1000, delay_s: float = 1.0) -> None:
    partition.policy_walk.step(NOW, most, lambda _: delay_s)


def with_pages(number: int) -> MemoryKeyValue:
    """Pages that were fetched at ``FETCHED`` and are due in a week, all in one second."""
    store = MemoryKeyValue()
    partition = opened(store)
    partition.discover_urls([found(url_of(n)) for n in range(number)], START)
    for host in range(min(HOSTS, number)):
        visit = partition.visits.find_host(hash8(f"h{host}.example"))
        assert visit is not None
        while (lease := partition.lease_next(visit)) is not None:
            history = History(fetches=1, fetched_at=FETCHED, status=200, interval_s=WEEK_S)
            state, due = UrlState.FETCHED, FETCHED + WEEK_S
            partition.complete_lease(lease, done(lease, state, due, history))
    commit(store, partition)
    return store


def records(store: MemoryKeyValue) -> dict[bytes, UrlRecord]:
    return {key[1:]: decode_url(value) for key, value in store.scan(b"U", prefix_end(b"U"))}


def check_schedule(store: MemoryKeyValue) -> None:
    """Rows of the schedule and due times of records agree, both ways, without a repetition."""
    rows = [
        (url, int.from_bytes(key[1:5], "big"))
        for key, row in store.scan(b"D", prefix_end(b"D"))
        for url in due_urls(key, row)
    ]
    by_record = {url: each.due_at for url, each in records(store).items() if each.due_at}
    assert len(rows) == len(dict(rows)) == len(by_record)
    assert dict(rows) == by_record


def test_pages_move_to_the_time_of_their_rule() -> None:
    store = with_pages(50)
    partition = opened(store)
    assert told(partition, "h1.example every 2d", "h2.example never", "h3.example every 1h")
    step(partition)
    commit(store, partition)
    check_schedule(store)
    for url, record in records(store).items():
        history = record.history
        assert history is not None
        host = next(n for n in range(HOSTS) if url[:8] == hash8(f"h{n}.example"))
        if host == 1:
            assert record.due_at == FETCHED + 2 * 86_400
            assert promised_s(history.policy) == 2 * 86_400
        elif host == 2:
            assert (record.due_at, history.interval_s, history.policy) == (0, 0, NEVER_CLASS)
        elif host == 3:  # overdue: spread over its interval
            assert NOW < record.due_at <= NOW + HOUR_S + 1
        else:
            assert (record.due_at, history.policy) == (FETCHED + WEEK_S, 0)
    assert partition.policy_walk.row.moved == 30
    assert not told(partition, "h1.example every 2d", "h2.example never", "h3.example every 1h")


def test_pages_that_are_never_fetched_again_get_a_time_when_the_rule_goes() -> None:
    store = with_pages(10)
    partition = opened(store)
    told(partition, "* never")
    step(partition)
    commit(store, partition)
    assert list(store.scan(b"D", prefix_end(b"D"))) == []
    assert told(partition)
    step(partition)
    commit(store, partition)
    check_schedule(store)
    assert {each.due_at for each in records(store).values()} == {FETCHED + WEEK_S}


def test_overdue_pages_do_not_become_due_in_one_second() -> None:
    store = with_pages(500)
    partition = opened(store)
    told(partition, "* every 10m")
    step(partition)
    commit(store, partition)
    check_schedule(store)
    times = [each.due_at for each in records(store).values()]
    assert min(times) > NOW and max(times) <= NOW + 601
    assert len(set(times)) > 300


def test_an_owner_that_dies_continues_where_the_last_commit_was() -> None:
    store = with_pages(40)
    partition = opened(store)
    told(partition, "* every 2d")
    step(partition, 15)
    commit(store, partition)
    step(partition, 15)  # lost: not committed
    again = opened(store, "* every 2d")
    assert not again.policy_walk.is_done and again.policy_walk.row.seen == 15
    step(again, 15)
    commit(store, again)
    check_schedule(store)
    step(again, 15)
    commit(store, again)
    check_schedule(store)
    row = walk_row(store.get)
    assert (row.is_done, row.seen, row.moved) == (True, 40, 40)
    assert {each.due_at for each in records(store).values()} == {FETCHED + 2 * 86_400}


def test_a_change_in_the_middle_of_a_walk_begins_again() -> None:
    store = with_pages(40)
    partition = opened(store)
    told(partition, "* every 2d")
    step(partition, 15)
    assert told(partition, "* every 3d")
    step(partition, 50)
    commit(store, partition)
    check_schedule(store)
    assert {each.due_at for each in records(store).values()} == {FETCHED + 3 * 86_400}


def test_settings_that_are_older_than_those_applied_write_nothing() -> None:
    """A worker begins with the settings of its start, before it is sent those in force."""
    store = with_pages(10)
    partition = opened(store)
    told(partition, "* every 2d")
    step(partition, 4)
    commit(store, partition)
    again = opened(store)  # with the settings of the start
    assert not again.policy_walk.is_done
    assert again.freeze() == {}
    assert told(again, "* every 2d")
    assert again.policy_walk.row.seen == 4


def test_a_crawl_without_rules_has_no_row_and_nothing_to_walk() -> None:
    store = with_pages(10)
    partition = opened(store)
    assert partition.policy_walk.is_done and store.get(WALK_KEY) is None
    frontier = Frontier([partition], Workbench(2), SECTION.workbench)
    assert not frontier.walks_policies and frontier.policy_records_left() == 0


def test_a_url_that_was_leased_at_the_change_ends_under_the_present_rules() -> None:
    store = with_pages(1)
    partition = opened(store)
    partition.discover_urls([found("http://h0.example/new")], START)
    host = partition.visits.find_host(hash8("h0.example"))
    assert host is not None
    lease = partition.lease_next(host)
    assert lease is not None
    told(partition, "* every 2d")
    step(partition)
    assert partition.policy_walk.is_done
    old = History(fetches=1, fetched_at=int(NOW), status=200, interval_s=WEEK_S)
    due = int(NOW) + WEEK_S
    partition.complete_lease(lease, done(lease, UrlState.FETCHED, due, old))
    commit(store, partition)
    check_schedule(store)
    record = records(store)[hash8("h0.example") + hash8("http://h0.example/new")]
    assert record.due_at == int(NOW) + 2 * 86_400


def test_retries_and_waiting_urls_keep_their_times() -> None:
    store = with_pages(1)
    partition = opened(store)
    partition.discover_urls([found("http://h0.example/a"), found("http://h0.example/b")], START)
    host = partition.visits.find_host(hash8("h0.example"))
    assert host is not None
    lease = partition.lease_next(host)
    assert lease is not None
    partition.complete_lease(lease, done(lease, UrlState.QUEUED, int(NOW) + 60))
    told(partition, "* never")
    step(partition)
    commit(store, partition)
    check_schedule(store)
    queued = [each for each in records(store).values() if each.state is UrlState.QUEUED]
    assert sorted(each.due_at for each in queued) == [0, int(NOW) + 60]


def test_hosts_that_were_promised_more_than_their_turns_are_named_the_worst_first() -> None:
    store = with_pages(50)  # ten of each host
    partition = opened(store)
    told(partition, "h1.example every 20s", "h2.example every 10s", "h3.example every 1h")

    def delay_of(host: VisitState) -> float:
        return 5.0

    while not partition.policy_walk.is_done:
        partition.policy_walk.step(NOW, 7, delay_of)
    assert [
        (each.host, each.promised, each.turns) for each in partition.policy_walk.row.promises
    ] == [("h2.example", 86_400.0, 17_280.0), ("h1.example", 43_200.0, 17_280.0)]
    frontier = Frontier([partition], Workbench(2), SECTION.workbench)
    assert frontier.broken_promises()[0].host == "h2.example"


RULES = st.lists(
    st.sampled_from(
        ["h1.example never", "h2.example every 1h", "* every 9d", "* adaptive max=2d", "/7* daily"]
    ),
    max_size=3,
).map(tuple)


@given(st.lists(st.tuples(RULES, st.integers(1, 40), st.booleans()), max_size=6))
@settings(deadline=None, max_examples=60)
def test_schedule_and_records_agree_after_any_changes_and_crashes(
    changes: list[tuple[tuple[str, ...], int, bool]],
) -> None:
    store = with_pages(30)
    rules: tuple[str, ...] = ()
    partition = opened(store)
    for policies, most, dies in changes:
        rules = policies
        told(partition, *rules)
        if not partition.policy_walk.is_done:
            step(partition, most)
        if dies:  # with or without what it did since the last commit
            partition = opened(store, *rules)
        else:
            commit(store, partition)
        check_schedule(store)
    while not partition.policy_walk.is_done:
        step(partition, 11)
    commit(store, partition)
    check_schedule(store)
    for url, record in records(store).items():
        history = record.history
        assert history is not None
        name = next(url_of(n) for n in range(30) if url[8:] == hash8(url_of(n)))
        assert url[:8] == hash8(host_of(name))
        section = RefetchSection(policies=rules)
        # The walk changes nothing when it is made again: the rules are applied.
        assert kept_interval(section, name, history.interval_s) == history.interval_s or (
            not history.interval_s
        )
        assert bool(record.due_at) == bool(history.interval_s)
    if rules:
        assert walk_row(store.get).version == policies_version(RefetchSection(policies=rules))


@pytest.mark.parametrize("number", [3, 200])
def test_entries_of_one_second_are_removed_together(number: int) -> None:
    store = with_pages(number)
    partition = opened(store)
    due, _ = partition.alarms
    removed = {record.due_at: set[bytes]() for record in records(store).values()}
    for url, record in records(store).items():
        if url[-1] % 2:
            removed[record.due_at].add(url)
    due.remove_all(removed)
    due.save()
    left = {
        url
        for key, row in partition.table.scan(b"D", prefix_end(b"D"))
        for url in due_urls(key, row)
    }
    assert left == {url for url in records(store) if not url[-1] % 2}
    assert msgspec.structs.asdict(partition.counters)["states"]
