"""Speculative URLs of a host: whatever happens, their requests are within their share, and the
counts and queues agree.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from test_partition import SetSeen

from lycosa.base.config.sections import FrontierSection
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.host_memory import MISSES, SpeculationRecord
from lycosa.base.model.url_state import Completed, History, UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, host_of
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.partition_rules import FrontierRules
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import PARKED_BAND, SPECULATIVE_BAND, decode_url, row_urls

SITE, SHARE = "http://h.example", 0.2


class Crawl:
    """A partition with one host."""

    def __init__(self) -> None:
        self.store = MemoryKeyValue()
        self.guesses = self.requests = 0
        self.open()

    def open(self) -> None:
        known = {int.from_bytes(key[9:], "big") for key, _ in self.store.scan(b"U", b"V")}
        rules = FrontierRules(speculative_share=SHARE)
        section = FrontierSection(bands=3, head=2)
        self.partition = Partition(0, Overlay(self.store), SetSeen(known), section, rules)  # type: ignore[arg-type]

    def commit(self) -> None:
        if writes := self.partition.freeze():
            self.store.write(writes)
            self.partition.table.settle()

    def restart(self) -> None:
        self.commit()
        self.open()

    @property
    def host(self) -> VisitState:
        host = self.partition.visits.find_host(hash8("h.example"))
        assert host is not None
        return host

    def find(self, number: int, kind: LinkKind) -> None:
        url = f"{SITE}/{'abc'[number % 3]}/page-{number}x.html"
        found = Discovered(url, hash8(host_of(url)), hash8(url), kind, 1)
        self.partition.discover_urls([found], 1.0)

    def fetch(self, status: int) -> None:
        lease = self.partition.lease_next(self.host) if self.host.record.waiting else None
        if lease is None:
            return
        self.requests += 1
        self.guesses += lease.record.kind is LinkKind.SPECULATIVE
        self.partition.note_capture(
            self.host, body_bytes=1, duration_s=0.1, is_page=True, is_capture=True
        )
        states = {
            200: (UrlState.FETCHED, Reason.NONE),
            301: (UrlState.REDIRECTED, Reason.REDIRECTED),
            404: (UrlState.FAILED, Reason.HTTP_CLIENT_ERROR),
            403: (UrlState.REFUSED, Reason.ROBOTS_DISALLOWED),
        }
        state, reason = states[status]
        history = History(fetches=1, status=status) if status == 200 else None
        done = Completed(
            lease.host.host8, lease.entry.url8, lease.number, state, reason, history=history
        )
        assert self.partition.complete_lease(lease, done)
        self.partition.settle_host(self.host)

    def check(self) -> None:
        self.commit()
        counters, record = self.partition.counters, self.host.record
        assert counters.is_balanced
        bands = dict[int, int]()
        for key, row in self.store.scan(b"Q", b"R"):
            bands[key[9]] = bands.get(key[9], 0) + len(row_urls(row))
        parked = bands.pop(PARKED_BAND, 0) + bands.pop(SPECULATIVE_BAND, 0)
        assert (record.parked, record.waiting) == (parked, sum(bands.values()))
        states = [decode_url(value).state for _, value in self.store.scan(b"U", b"V")]
        assert states.count(UrlState.PARKED) == parked
        assert states.count(UrlState.QUEUED) == record.waiting
        assert self.guesses <= SHARE * max(self.requests, 1)


STEPS = st.one_of(
    st.tuples(st.just("link"), st.integers(0, 60)),
    st.tuples(st.just("guess"), st.integers(0, 60)),
    st.tuples(st.just("fetch"), st.sampled_from([200, 200, 301, 404, 404, 403])),
    st.tuples(st.just("restart"), st.just(0)),
)


@given(st.lists(STEPS, max_size=80))
@settings(max_examples=60)
def test_whatever_happens_guesses_stay_within_their_share(steps: list[tuple[str, int]]) -> None:
    crawl = Crawl()
    crawl.find(1000, LinkKind.SEED)
    for step, number in steps:
        if step == "fetch":
            crawl.fetch(number)
        elif step == "restart":
            crawl.restart()
        else:
            crawl.find(number, LinkKind.A if step == "link" else LinkKind.SPECULATIVE)
    crawl.check()


def test_a_linked_guess_of_a_stopped_pattern_is_fetched() -> None:
    crawl = Crawl()
    crawl.find(1000, LinkKind.SEED)
    crawl.fetch(200)
    crawl.find(0, LinkKind.SPECULATIVE)
    known = crawl.host.record.speculation
    assert known is not None
    for _ in range(MISSES):
        known.note_answer("/a/page-1x.html", exists=False)
    crawl.find(3, LinkKind.SPECULATIVE)
    record = crawl.partition.find_record(crawl.host.host8, hash8(f"{SITE}/a/page-3x.html"))
    assert record is not None and record.reason is Reason.SPECULATIVE_MISSES
    crawl.find(3, LinkKind.A)
    crawl.fetch(200)
    record = crawl.partition.find_record(crawl.host.host8, hash8(f"{SITE}/a/page-3x.html"))
    assert record is not None and (record.state, record.kind) == (UrlState.FETCHED, LinkKind.A)
    crawl.check()


def test_patterns_are_bounded_and_a_stopped_one_is_forgotten_last() -> None:
    known = SpeculationRecord()
    for _ in range(MISSES):
        known.note_answer("/stopped/a", exists=False)
    for number in range(500):
        known.note_answer(f"/folder{chr(97 + number % 26)}{chr(97 + number // 26)}/a", exists=False)
    assert len(known.misses) <= 64 and known.is_stopped("/stopped/b")
    known.note_answer("/stopped/c", exists=True)
    assert not known.is_stopped("/stopped/b")
