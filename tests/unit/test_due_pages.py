"""Due pages enter the bands of what they are worth, probes wait for their share, and old folders
continue.
"""

from __future__ import annotations

import msgspec
import pytest

from lycosa.base.config.sections import FrontierSection, RefetchSection
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.due_band import DUE_BANDS, DueBand, DueJudgement
from lycosa.base.model.url_state import Completed, History, UrlState
from lycosa.base.reasons import Reason
from lycosa.base.system.metric_catalogue import DUE_LABELS
from lycosa.base.urls.identity import hash8, host_of, partition_of
from lycosa.inspect.audit.capture_index import CaptureIndex
from lycosa.inspect.audit.state_check import StateChecks
from lycosa.inspect.committed_state import TableView
from lycosa.moves.reshard.counting import recounted
from lycosa.moves.reshard.division import Division, OldState
from lycosa.moves.reshard.host_owners import HostOwners
from lycosa.moves.reshard.row_sink import RowSink
from lycosa.stages.frontier.due import NEVER_DUE, PROBES_FROM, is_probe_place, probe_place
from lycosa.stages.frontier.entry_bands import JudgePage
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.partition_rules import FrontierRules
from lycosa.stages.frontier.sitemap_news import SitemapNews
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import UrlRecord, prefix_end
from lycosa.state.seen.urls_sorted import SortedSeenUrls

HOST, DAY, START = "a.example", 86_400, 1_800_000_000
SECTION = FrontierSection(partitions=1, bands=4, head=6)


class Crawled:
    """A partition with pages ``/0``, ``/1``... of one host, each of which may be fetched."""

    def __init__(self, tmp_path: object, judge: JudgePage | None, pages: int = 6) -> None:
        self.store = MemoryKeyValue()
        self.seen = SortedSeenUrls(tmp_path / "seen")  # type: ignore[operator]
        self.seen.rebuild((), 0)
        self.rules = FrontierRules(forward=SitemapNews(RefetchSection()), judge=judge)
        self.open()
        self.now = START
        self.find(range(pages))

    def open(self) -> None:
        self.partition = Partition(0, Overlay(self.store), self.seen, SECTION, self.rules)

    def reopen(self, judge: JudgePage | None) -> None:
        """Commit, and open it again with another rule."""
        self.store.write(self.partition.freeze())
        self.partition.table.settle()
        self.rules = msgspec.structs.replace(self.rules, judge=judge)
        self.open()

    def find(self, numbers: range) -> None:
        found = [
            Discovered(
                url(each), hash8(HOST), hash8(url(each)), LinkKind.SITEMAP, 1, importance=0.5
            )
            for each in numbers
        ]
        self.partition.discover_urls(found, self.now)
        self.partition.take_gathered()

    @property
    def host(self) -> VisitState:
        host = self.partition.visits.find_host(hash8(HOST))
        assert host is not None
        return host

    def record(self, number: int) -> UrlRecord:
        record = self.partition.find_record(hash8(HOST), hash8(url(number)))
        assert record is not None
        return record

    def lease(self) -> Lease | None:
        return self.partition.lease_next(self.host)

    def fetch(self, interval_s: int = DAY, fails: bool = False) -> tuple[int, int]:
        """Fetch the next page; returns its number and the band in which it waited."""
        lease = self.lease()
        assert lease is not None
        old = lease.record.history or History()
        history = History(
            fetches=old.fetches + 1, fetched_at=self.now, status=200, interval_s=interval_s
        )
        done = Completed(
            hash8(HOST),
            lease.entry.url8,
            lease.number,
            UrlState.QUEUED if fails else UrlState.FETCHED,
            Reason.CONNECT_TIMEOUT if fails else Reason.NONE,
            due_at=self.now + (60 if fails else interval_s),
            history=None if fails else history,
        )
        self.partition.complete_lease(lease, done)
        return int(lease.record.target[1:]), lease.entry.band

    def fetch_all(self) -> list[tuple[int, int]]:
        return [self.fetch() for _ in range(self.host.record.waiting)]

    def wake(self, after: int) -> int:
        self.now += after
        return self.partition.wake_due(self.now)


def url(number: int) -> str:
    return f"http://{HOST}/{number}"


def judged(bands: dict[int, DueBand], later: dict[int, float] | None = None) -> JudgePage:
    """The judgement by the number of the page; others are due."""

    def judge(
        section: RefetchSection, url: str, record: UrlRecord, now_wall: float
    ) -> DueJudgement:
        number = int(record.target[1:])
        if later and number in later:
            return DueJudgement(None, 0.1, later[number])
        return DueJudgement(bands.get(number, DueBand.DUE), 1.0)

    return judge


def test_the_labels_of_the_metrics_are_those_of_the_bands() -> None:
    assert tuple(band.label for band in DueBand) == DUE_LABELS
    assert list(DUE_BANDS) == list(DueBand)
    assert host_of(url(1)) == HOST


def test_due_pages_wait_in_their_bands_and_are_counted(tmp_path: object) -> None:
    bands = {0: DueBand.TWOFOLD, 1: DueBand.FOURFOLD, 2: DueBand.TWOFOLD}
    crawled = Crawled(tmp_path, judged(bands), pages=4)
    assert {band for _, band in crawled.fetch_all()} <= set(range(4)), "new pages"
    assert crawled.wake(DAY) == 4
    counters = crawled.partition.counters
    assert counters.due == {DueBand.TWOFOLD: 2, DueBand.FOURFOLD: 1, DueBand.DUE: 1}
    assert counters.states[UrlState.QUEUED] == crawled.host.record.waiting == 4
    fetched = crawled.fetch_all()
    assert fetched[0] == (1, DueBand.FOURFOLD)
    assert dict(fetched) == bands | {3: DueBand.DUE}
    assert counters.due == {}
    assert counters.refetched == {DueBand.TWOFOLD: 2, DueBand.FOURFOLD: 1, DueBand.DUE: 1}


def test_a_page_that_is_worth_less_gets_a_later_time_and_is_not_queued(tmp_path: object) -> None:
    at = START + 5 * DAY
    crawled = Crawled(tmp_path, judged({}, {0: at}), pages=1)
    crawled.fetch()
    crawled.wake(DAY)
    record = crawled.record(0)
    assert (record.state, record.due_at) == (UrlState.FETCHED, at + 1)
    assert crawled.host.record.waiting == 0 and crawled.partition.next_due() == at + 1
    # a time that is over would be asked for again and again
    crawled.wake(5 * DAY)
    assert crawled.record(0).due_at == crawled.now + 1


def test_a_retry_of_a_due_page_is_not_put_off_and_of_a_new_page_keeps_its_band(
    tmp_path: object,
) -> None:
    crawled = Crawled(tmp_path, judged({}), pages=1)
    assert crawled.fetch(fails=True)[1] < 4
    crawled.wake(60)
    assert crawled.fetch()[1] < 4
    crawled.wake(DAY)
    assert crawled.fetch(fails=True) == (0, DueBand.DUE)
    crawled.reopen(judged({}, {0: START + 9 * DAY}))
    crawled.wake(60)
    assert crawled.fetch() == (0, DueBand.DUE)


def test_probes_wait_in_the_schedule_the_longest_unseen_first_and_have_their_share(
    tmp_path: object,
) -> None:
    probes = dict.fromkeys(range(10, 16), DueBand.PROBE)
    crawled = Crawled(tmp_path, judged(probes), pages=0)
    crawled.find(range(10, 16))
    for number in range(10, 16):
        crawled.fetch(interval_s=DAY - 100 * (number - 10))
        crawled.now += 100
    crawled.find(range(5))
    crawled.fetch_all()
    crawled.now = START + DAY + 600
    crawled.partition.wake_due(crawled.now)
    # The first one comes at once, because there was never another refetch.
    assert [number for number in probes if crawled.record(number).due_at == 0] == [10]
    assert all(is_probe_place(crawled.record(number).due_at) for number in list(probes)[1:])
    order: list[int] = []
    refetched = 0
    for _ in range(24):
        for number, band in crawled.fetch_all():
            refetched += band is not DueBand.PROBE
            order += [number] if band == DueBand.PROBE else []
        assert len(order) <= refetched * 0.05 / 0.95 + 2
        crawled.wake(DAY)
    assert order[:6] == [10, 11, 12, 13, 14, 15][: len(order)] and len(order) >= 6
    counters = crawled.partition.counters
    assert counters.refetched[DueBand.PROBE] == len(order)


def test_without_other_refetches_one_probe_is_fetched_a_day(tmp_path: object) -> None:
    crawled = Crawled(tmp_path, judged(dict.fromkeys(range(6), DueBand.PROBE)))
    crawled.fetch_all()
    crawled.wake(DAY)
    assert crawled.host.record.waiting == 1
    for _ in range(4):
        assert crawled.fetch(interval_s=100 * DAY)[1] == DueBand.PROBE
        assert crawled.partition.next_due() == crawled.now + DAY
        assert crawled.wake(DAY - 1) == 0
        assert crawled.wake(1) == 1


def test_probes_and_their_share_survive_a_restart(tmp_path: object) -> None:
    crawled = Crawled(tmp_path, judged(dict.fromkeys(range(6), DueBand.PROBE)))
    crawled.fetch_all()
    crawled.wake(DAY)
    crawled.reopen(crawled.rules.judge)
    rows = list(crawled.store.scan(b"D", prefix_end(b"D")))
    assert {int.from_bytes(key[1:5], "big") >= PROBES_FROM for key, _ in rows} == {True}
    assert crawled.fetch(interval_s=100 * DAY)[1] == DueBand.PROBE
    for _ in range(3):
        crawled.reopen(crawled.rules.judge)
        assert crawled.wake(3600) == 0, "a restart gives none"
    assert crawled.wake(DAY - 3 * 3600) == 1


def test_a_probe_that_gets_another_time_leaves_the_line(tmp_path: object) -> None:
    crawled = Crawled(tmp_path, judged(dict.fromkeys(range(2), DueBand.PROBE)), pages=2)
    crawled.fetch_all()
    crawled.wake(DAY)
    first, _ = crawled.fetch(interval_s=100 * DAY)
    record = crawled.record(1 - first)
    assert is_probe_place(record.due_at)
    due, _ = crawled.partition.alarms
    due.remove_due(record.due_at, hash8(HOST) + hash8(url(1 - first)))
    assert due.first_probe == NEVER_DUE
    assert crawled.wake(DAY) == 0 and crawled.partition.next_due() > crawled.now + DAY


def test_due_pages_that_wait_in_bands_of_new_pages_are_fetched(tmp_path: object) -> None:
    crawled = Crawled(tmp_path, None, pages=3)
    crawled.fetch_all()
    crawled.wake(DAY)
    assert crawled.partition.counters.due == {}
    crawled.reopen(judged({}))
    assert {band for _, band in crawled.fetch_all()} <= set(range(4))
    assert crawled.partition.counters.refetched == {0: 3}
    crawled.wake(DAY)
    assert {band for _, band in crawled.fetch_all()} == {DueBand.DUE}


@pytest.mark.parametrize("earlier", [0, START, START + 31, 4_102_444_800, 2**33])
def test_the_place_of_a_probe_is_no_time_and_keeps_the_order(earlier: int) -> None:
    assert 4_102_444_800 < PROBES_FROM <= probe_place(earlier) < 0xFFFFFFFF
    assert probe_place(earlier) <= probe_place(earlier + 32)


def test_a_division_into_shards_keeps_bands_probes_and_places_and_the_audit_agrees(
    tmp_path: object,
) -> None:
    bands = {0: DueBand.FOURFOLD, 1: DueBand.PROBE, 2: DueBand.PROBE}
    crawled = Crawled(tmp_path, judged(bands), pages=5)
    crawled.fetch_all()
    crawled.wake(DAY)
    crawled.find(range(5, 8))
    crawled.reopen(crawled.rules.judge)
    before = crawled.partition.counters
    assert before.due == {DueBand.FOURFOLD: 1, DueBand.DUE: 2, DueBand.PROBE: 1}
    owners = HostOwners({0: crawled.store}, lambda host: host, 4)
    made = {number: MemoryKeyValue() for number in range(4)}
    Division(OldState(owners, 4, True), RowSink(dict(made)), recounted(owners)).write()
    shard = partition_of(HOST, 4)
    checks = StateChecks(CaptureIndex(), None, lambda what, done, total: None)
    for number, table in made.items():
        checks.check_partition(TableView(number, table), 0)
    for check in (checks.counters, checks.queues, checks.due, checks.hosts):
        assert check.checked and not check.breaches, check
    crawled.store = made[shard]
    crawled.open()
    assert crawled.partition.counters.due == before.due
    assert crawled.partition.front.pull_hosts(1) == [hash8(HOST)]
    fetched = dict(crawled.fetch_all())
    assert fetched[0] == DueBand.FOURFOLD and len(fetched) == 7
    assert list(fetched.values()).count(DueBand.PROBE) == 1


def test_the_audit_notices_a_wrong_count_of_due_pages(tmp_path: object) -> None:
    crawled = Crawled(tmp_path, judged({}), pages=3)
    crawled.fetch_all()
    crawled.wake(DAY)
    crawled.partition.counters.due[DueBand.DUE] = 2
    crawled.reopen(crawled.rules.judge)
    checks = StateChecks(CaptureIndex(), None, lambda what, done, total: None)
    checks.check_partition(TableView(0, crawled.store), 0)
    assert any("due pages by band" in each for each in checks.counters.first)
