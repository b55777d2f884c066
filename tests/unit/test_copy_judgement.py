"""URLs are set back when pages like them are near copies, and come back when they are not."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from test_partition import SetSeen

from lycosa.base.config.sections import CopiesSection, FrontierSection
from lycosa.base.model.capture import Original
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.parcel_items import Verdict
from lycosa.base.model.url_state import Completed, History, UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.frontier.frontier import Frontier
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.partition_rules import FrontierRules
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.frontier.workbench import Workbench
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import SET_BACK_BAND, UrlRecord, decode_url, prefix_end

SITE = "http://h.example"
START = 1_750_000_000.0
TITLE = 1234


class Crawl:
    """A partition with one host; ``text`` says what a page has, and of which page it is a copy."""

    def __init__(self, text: Callable[[str], str], copies: CopiesSection = CopiesSection()) -> None:  # noqa: B008
        self.text, self.store, self.copies = text, MemoryKeyValue(), copies
        self.fetched: list[str] = []
        self.firsts: dict[str, str] = {}
        self.open()

    def open(self) -> None:
        known = {int.from_bytes(key[9:], "big") for key, _ in self.store.scan(b"U", b"V")}
        rules = FrontierRules(copies=self.copies)
        self.partition = Partition(
            0,
            Overlay(self.store),
            SetSeen(known),
            FrontierSection(bands=3, head=2),
            rules,  # type: ignore[arg-type]
        )

    def restart(self) -> None:
        if writes := self.partition.freeze():
            self.store.write(writes)
            self.partition.table.settle()
        self.open()

    @property
    def host(self) -> VisitState:
        host = self.partition.visits.find_host(hash8("h.example"))
        assert host is not None
        return host

    def discover(self, *targets: str, kind: LinkKind = LinkKind.A) -> None:
        urls = [f"{SITE}{target}" for target in targets]
        batch = [Discovered(url, hash8(host_of(url)), hash8(url), kind, 1) for url in urls]
        self.partition.discover_urls(batch, START)

    def record(self, target: str) -> UrlRecord:
        record = self.partition.find_record(self.host.host8, hash8(f"{SITE}{target}"))
        assert record is not None
        return record

    def fetch(self) -> str:
        """Lease the next URL, and end the lease with its page; returns its target."""
        lease = self.partition.lease_next(self.host)
        assert lease is not None
        self.complete(lease)
        return lease.record.target

    def complete(self, lease: Lease) -> None:
        words = self.text(lease.record.target)
        first = self.firsts.setdefault(words, lease.url)
        history = History(
            fetches=1,
            status=200,
            text_digest=hash8(words),
            simhash=7,
            duplicate_of=first if first != lease.url else "",
        )
        self.fetched.append(lease.record.target)
        done = Completed(
            lease.host.host8, lease.entry.url8, 1, UrlState.FETCHED, history=history, title=TITLE
        )
        self.partition.complete_lease(lease, done)

    def set_back(self) -> set[str]:
        """The targets that wait in the band of those that are set back, by their reasons."""
        self.restart()
        rows = self.store.scan(b"U", prefix_end(b"U"))

        records = [decode_url(value) for _, value in rows]
        return {
            each.target
            for each in records
            if each.state is UrlState.QUEUED
            and each.reason in (Reason.NEAR_COPIES, Reason.LEARNED_PARAMETER)
        }


def calendar(target: str) -> str:
    return "no events" if target.startswith("/calendar/") else target


def trapped(copies: CopiesSection = CopiesSection()) -> Crawl:  # noqa: B008
    """A host whose calendar is known to give copies."""
    crawl = Crawl(calendar, copies)
    crawl.discover(*(f"/calendar/{day}" for day in range(15)))
    for _ in range(15):
        crawl.fetch()
    return crawl


def test_further_urls_of_a_pattern_of_copies_are_set_back_and_others_are_not() -> None:
    crawl = trapped()
    crawl.discover("/calendar/99", "/article/one")
    assert crawl.record("/calendar/99").reason is Reason.NEAR_COPIES
    assert crawl.record("/article/one").reason is Reason.NONE
    assert crawl.fetch() == "/article/one"


def test_urls_that_wait_already_are_set_back_when_their_turn_comes() -> None:
    crawl = Crawl(calendar)
    crawl.discover(*(f"/calendar/{day}" for day in range(40)), "/z/one")
    while crawl.fetched[-1:] != ["/z/one"]:
        crawl.fetch()
    assert len(crawl.fetched) < 20
    assert len(crawl.set_back()) == 41 - len(crawl.fetched)


def test_a_seed_is_never_set_back() -> None:
    crawl = trapped()
    crawl.discover("/calendar/99", kind=LinkKind.SEED)
    assert crawl.record("/calendar/99").reason is Reason.NONE


@settings(max_examples=30)
@given(
    turns=st.integers(2, 25),
    bursts=st.lists(st.integers(0, 40), max_size=20),
    crashes=st.sets(st.integers(0, 200)),
)
def test_nothing_that_is_set_back_starves(turns: int, bursts: list[int], crashes: set[int]) -> None:
    crawl = trapped(CopiesSection(probe_turns=turns))
    behind = [f"/calendar/{day}" for day in range(100, 104)]
    crawl.discover(*behind)
    arriving, since = iter(bursts), dict.fromkeys(behind, 0)
    waiting = 0
    for lease in range(len(behind) * turns):
        if not waiting:
            waiting = next(arriving, 0) or turns
            crawl.discover(*(f"/new/{lease}-{number}" for number in range(waiting)))
        crawl.fetch()
        waiting -= 1
        if lease in crashes:
            crawl.restart()
        for place, target in enumerate(behind, 1):
            # One that was freed waits like any other URL, until it is set back again.
            if crawl.record(target).reason is not Reason.NEAR_COPIES:
                since[target] = lease + 1
            elif lease + 1 - since[target] >= place * turns:
                assert target in crawl.fetched
    if turns > 2:
        assert sum(each.startswith("/new") for each in crawl.fetched) >= len(behind) * (turns - 2)


def test_pages_that_are_no_copies_any_more_free_the_pattern_and_what_waits() -> None:
    crawl = trapped()
    crawl.text = lambda target: f"text of {target}"
    crawl.discover(*(f"/calendar/{day}" for day in range(100, 140)))
    assert len(crawl.set_back()) == 40
    for _ in range(10):  # probes, as nothing else waits
        crawl.fetch()
    assert not crawl.set_back()
    crawl.discover("/calendar/999")
    assert crawl.record("/calendar/999").reason is Reason.NONE


def test_a_host_that_the_operator_exempts_is_free_at_once() -> None:
    crawl = trapped()
    crawl.discover("/calendar/99", *(f"/new/{number}" for number in range(5)))
    crawl.partition.copies.section = CopiesSection(exempt=("example",))
    assert crawl.fetch() == "/calendar/99"
    crawl.discover("/calendar/100")
    assert crawl.record("/calendar/100").reason is Reason.NONE


def session(target: str) -> str:
    return target.partition("?")[0]


def test_a_parameter_that_changes_nothing_is_learned_and_one_url_of_each_form_is_fetched() -> None:
    crawl = Crawl(session)
    crawl.discover(*(f"/read/{number % 3}?visit=v{number}" for number in range(13)))
    for _ in range(13):
        crawl.fetch()
    assert crawl.host.record.copies is not None
    assert crawl.host.record.copies.learned == {"visit"}
    # other pages: the first URL of each form is as any other
    crawl.discover("/story/8?visit=x1", "/story/8?visit=x2", "/read/1?visit=x3")
    assert crawl.record("/story/8?visit=x1").reason is Reason.NONE
    assert crawl.record("/story/8?visit=x2").reason is Reason.LEARNED_PARAMETER
    assert crawl.record("/read/1?visit=x3").reason is Reason.LEARNED_PARAMETER
    assert crawl.record("/read/1?visit=x3").target == "/read/1?visit=x3"  # never rewritten


def test_probes_unlearn_a_parameter() -> None:
    crawl = Crawl(session)
    crawl.discover(*(f"/read/{number % 3}?visit=v{number}" for number in range(13)))
    for _ in range(13):
        crawl.fetch()
    crawl.text = lambda target: f"now all texts differ: {target}"
    crawl.discover(*(f"/read/1?visit=y{number}" for number in range(20)))
    for _ in range(10):
        crawl.fetch()
    assert crawl.host.record.copies is not None
    assert not crawl.host.record.copies.learned
    assert not crawl.set_back()


def test_a_parameter_that_changes_the_page_is_not_learned() -> None:
    # every fourth number is missing, and all of these have the same text
    crawl = Crawl(lambda target: target if int(target.split("=")[1]) % 4 else "no such page")
    crawl.discover(*(f"/show?id={number}" for number in range(100)))
    for _ in range(100):
        crawl.fetch()
    assert crawl.host.record.copies is not None
    assert crawl.host.record.copies.parameters["id"].other > 0
    assert not crawl.host.record.copies.learned
    assert not crawl.set_back()


def test_verdicts_that_come_after_a_page_is_stored_teach_the_same() -> None:
    crawl = Crawl(lambda target: f"the text of {target}")  # as other workers own the buckets
    crawl.discover(*(f"/calendar/{day}" for day in range(14)))
    for _ in range(14):
        crawl.fetch()
    assert crawl.host.record.copies is None
    first = Original(f"{SITE}{crawl.fetched[0]}", 1)
    for target in crawl.fetched[1:]:
        crawl.partition.alike.note_verdict(Verdict(f"{SITE}{target}", 7, 0, first))
        crawl.partition.alike.note_verdict(Verdict(f"{SITE}{target}", 7, 0, first))  # repeated
    copies = crawl.host.record.copies
    assert copies is not None
    assert copies.patterns["/calendar/0"].total == 13
    crawl.discover("/calendar/99", "/article/one")
    assert crawl.record("/calendar/99").reason is Reason.NEAR_COPIES
    assert crawl.record("/article/one").reason is Reason.NONE


def test_a_host_rests_after_a_probe_in_proportion_to_its_turns() -> None:
    crawl = trapped(CopiesSection(probe_turns=20, probe_turns_alone=5))
    frontier = Frontier([crawl.partition], Workbench(1), 100)
    crawl.discover("/calendar/99")
    host = frontier.acquire(100.0, START)
    assert host is not None
    crawl.fetch()
    crawl.discover("/calendar/100")
    frontier.release(host, 100.0, START)
    assert host.next_time == 100.5  # no other host waits
    assert host.record.next_at == START + 0.5
    url = "http://other.example/"
    crawl.partition.discover_urls(
        [Discovered(url, hash8("other.example"), hash8(url), LinkKind.A, 1)], START
    )
    host = frontier.acquire(105.0, START + 5)
    while host is not None and host.name != "h.example":
        host = frontier.acquire(105.0, START + 5)
    assert host is not None
    crawl.fetch()
    crawl.discover("/calendar/101")
    frontier.release(host, 107.0, START + 7)  # a delay of two seconds
    assert host.next_time == 105.0 + 20 * 2


def test_host_in_a_front_queue_has_the_last_band_when_all_is_set_back() -> None:
    crawl = trapped()
    crawl.discover("/calendar/99")
    assert crawl.host.is_set_back
    crawl.partition.places.leave_place(crawl.host)
    crawl.partition.places.rotate_host(crawl.host)
    assert crawl.host.record.front is not None
    assert crawl.host.record.front[0] == 2
    assert crawl.host.best_bands == [SET_BACK_BAND]
