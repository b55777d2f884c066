"""Captures that are stored but not in the state are entered from their journal: the state is then
that of the crawl that made them.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawling import HTML, QUICK, Names, Pages, crawl_folder, html, moved, page, robots
from judging import counters_of, is_balanced, urls_of
from lycosa.base.config.sections import (
    AgentSection,
    Config,
    FrontierSection,
    RefetchRule,
    RefetchSection,
    StoreSection,
)
from lycosa.base.model.refetch_cell import class_and_cell, rate_in
from lycosa.base.model.source_truth import UNIT, SignalSource
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, host_of
from lycosa.moves.stored_captures import EnteredCaptures, StoredCaptures
from lycosa.processes.session import Session
from lycosa.stages.frontier.visit_state import decode_visit
from lycosa.stages.parse.inline_parser import InlineParser
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.stages.politeness.delay import longest_delay
from lycosa.stages.politeness.tdm_cache import TdmRecord, decode_tdm_record
from lycosa.state.folder.names import spool_folder, suffix_list, table_folder
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.kv.table_records import prefix_end, robots_key
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.segment_files import SegmentFiles
from lycosa.synthetic import Response, SyntheticFetcher, VirtualClock, VirtualOffload, run_virtual
from lycosa.synthetic.virtual_clock import VIRTUAL_EPOCH
from lycosa.worker.assemble import assemble
from lycosa.worker.commit.reparser import Reparser
from lycosa.worker.worker_ports import Ports

ADAPTIVE = RefetchSection(rule=RefetchRule.ADAPTIVE)  # by value, intervals depend on the price
ONE = msgspec.structs.replace(QUICK, frontier=FrontierSection(partitions=1), refetch=ADAPTIVE)
HOST, OTHER = "http://a.example/", "http://b.example/"
TEXT = " ".join(f"word{number}" for number in range(80))
SITEMAP = (
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    f"<url><loc>{HOST}listed</loc><lastmod>1970-01-01</lastmod><priority>0.9</priority></url>"
    "</urlset>"
)
SITE: dict[str, Response | Sequence[Response]] = {
    f"{HOST}robots.txt": robots(
        "User-agent: *", "Crawl-delay: 3", "Disallow: /secret", f"Sitemap: {HOST}map.xml"
    ),
    f"{HOST}map.xml": Response(200, [("Content-Type", "application/xml")], SITEMAP.encode()),
    HOST: page("/b", "/gone", "/moved", "/secret", "/far", OTHER, text="the first page"),
    f"{HOST}b": page("/copy", "/near", text=TEXT),
    f"{HOST}copy": page("/copy", "/near", text=TEXT),
    f"{HOST}near": page("/c", text=f"{TEXT} more"),
    f"{HOST}c": page("/d", text="no links", head='<meta name="robots" content="nofollow, noai">'),
    f"{HOST}moved": moved("/target"),
    f"{HOST}target": page(text="the target"),
    f"{HOST}far": moved("http://["),
    f"{HOST}listed": html("<p>a page that only the sitemap has", 200),
    OTHER: page(f"{HOST}b", "/later", text="another host"),
    f"{OTHER}later": [html("busy", 503), page(text="at the second try")],
}


class Entered:
    """A folder into which the captures of another one were entered."""

    def __init__(
        self, source: Path, config: Config = ONE, halves: int = 1, forget: str = ""
    ) -> None:
        self.forget = forget
        self.folder = source.with_name("entered")
        self.folder.mkdir()
        suffix_list(self.folder).write_text(suffix_list(source).read_text())
        self.rows: list[JournalRow] = []
        self.counts = run_virtual(self._enter(source, config, halves), start=50_000.0)

    async def _enter(self, source: Path, config: Config, halves: int) -> EnteredCaptures:
        clock = VirtualClock()
        segments = SegmentFiles(source)
        with Session(self.folder, config, rocks_opener(8 << 20, 4 << 20), clock) as session:
            ports = Ports(
                clock=clock,
                offload=VirtualOffload(random.Random(1)),
                fetcher=SyntheticFetcher(
                    Pages({}), clock, spool_dir=spool_folder(self.folder), agent="none"
                ),
                resolver=Names(),
                parser=InlineParser(
                    ParserConfig(config.parse, config.canonical, config.agent.product)
                ),
                open_table=rocks_opener(8 << 20, 4 << 20),
                reach=lambda point: None,
            )
            assembled = assemble(session.job(0, (0,)), ports)
            partition = assembled.worker.frontier.partitions[0]
            intake, clock_of = assembled.intake, assembled.clock
            stored = Reparser(
                segments, {0: partition}, intake, ports.parser, ports.offload, clock_of
            )
            captures = StoredCaptures(assembled, partition, config, stored, ports.offload)
            for segment in segments.list_segments({}):
                self.rows += segments.read_rows(segment)
            halves = halves or len(self.rows)  # a row each
            try:
                for part in range(halves):
                    at = len(self.rows) * part // halves, len(self.rows) * (part + 1) // halves
                    await captures.enter_rows(self.rows[slice(*at)])
                    await assembled.worker.committer.commit()
                again = [row for row in self.rows if not row.kind.is_of_origin]
                assert all(map(captures.is_known, again))
                before = counters_of(partition.table)  # type: ignore[arg-type]
                for row in again:
                    await captures.hand_in_again(row)
                await assembled.worker.committer.commit()
                after = counters_of(partition.table)  # type: ignore[arg-type]
                assert before == after
                if self.forget:
                    url = hash8(host_of(self.forget)), hash8(self.forget)
                    captures.forget_urls([url])
                    await assembled.worker.committer.commit()
                await asyncio.sleep(0)
                return captures.entered
            finally:
                assembled.close()


def state_in(folder: Path) -> dict[str, tuple[Any, ...]]:
    """What the state says of each URL, apart from when, and how important it is."""
    table = rocks_opener(8 << 20, 4 << 20)(table_folder(folder, 0))
    try:
        is_balanced(table)
        found = {}
        for host, _, record in urls_of(table):
            history = record.history
            if history is not None:
                rate = rate_in(history.cell) if history.cell else 0
                history = msgspec.structs.replace(history, fetched_at=0, date_us=0, cell=0)
                if history.fetches == 1:
                    # What a trusted Last-Modified said of it is not in the rows.
                    history, rate = msgspec.structs.replace(history, observations=b""), 0
            else:
                rate = 0
            url = f"http://{host.host}{record.target}"
            found[url] = (record.state, record.reason, record.detail, record.depth, history, rate)
            found[url] += (record.kind, record.via, record.hops, record.chain)
        return found
    finally:
        table.close()


def counted(folder: Path) -> dict[str, Any]:
    table = rocks_opener(8 << 20, 4 << 20)(table_folder(folder, 0))
    try:
        counters = msgspec.structs.asdict(counters_of(table))
        # by rate: the weight of a page comes from its importance
        rates = Counter[float]()
        for cell, number in counters.pop("cells").items():
            rates[rate_in(class_and_cell(cell)[1])] += number
        content = [(key, value) for key, value in table.scan(b"C", b"D")]
        robots = table.get(robots_key(hash8("a.example"), False))
        hosts = [decode_visit(value) for _, value in table.scan(b"H", prefix_end(b"H"))]
        return {
            **counters,
            "rates": rates,
            "content": content,
            "has_robots": robots is not None,
            "crawl_delay": {each.host: each.pace.crawl_delay_s for each in hosts},
            "next_at": {each.host: each.next_at for each in hosts},
        }
    finally:
        table.close()


@pytest.mark.parametrize("links", [True, False])
def test_the_state_of_a_crawl_is_made_again_from_its_rows(tmp_path: Path, links: bool) -> None:
    config = msgspec.structs.replace(ONE, store=StoreSection(links=links))
    crawl_folder(tmp_path / "c", Pages(SITE), [HOST], config)
    entered = Entered(tmp_path / "c", config, halves=1 + links)
    wanted, found = state_in(tmp_path / "c"), state_in(entered.folder)
    assert {url for url, (state, *_) in wanted.items() if state is UrlState.REFUSED} == {
        f"{HOST}secret"
    }
    # it was refused without a request, so it waits to be judged again
    assert wanted.pop(f"{HOST}secret") and found.pop(f"{HOST}secret")[0] is UrlState.QUEUED
    assert found == wanted
    assert entered.counts.captures == len([r for r in entered.rows if not r.kind.is_of_origin])
    assert entered.counts.parsed == (2 if links else 12)


def test_counters_content_and_robots_are_those_of_the_crawl(tmp_path: Path) -> None:
    crawl_folder(tmp_path / "c", Pages(SITE), [HOST], ONE)
    entered = Entered(tmp_path / "c")
    wanted, found = counted(tmp_path / "c"), counted(entered.folder)
    same = (
        *("captures", "pages", "body_bytes", "hosts", "discovered", "content", "has_robots"),
        "stated",
    )
    assert {name: found[name] for name in (*same, "crawl_delay")} == {
        name: wanted[name] for name in (*same, "crawl_delay")
    }
    longest = longest_delay(ONE.politeness)
    for host, next_at in found["next_at"].items():
        last = max(row.date_us / 1e6 for row in entered.rows if row.host == host)
        assert next_at >= last + longest


class DatedPages:
    """A host with dates that are right, and one with ETags, of which one hides changes."""

    def __init__(self) -> None:
        self.passes = 0
        self.asked = Counter[str]()

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        self.asked[url] += 1
        name = url.removeprefix(HOST).removeprefix(OTHER)
        if name == "robots.txt":
            return robots("User-agent: *", "Crawl-delay: 1")
        if not name:
            links = [f"{HOST}{number}" for number in range(8)]
            return page(*links, text="front")
        given = {key.lower(): value for key, value in headers.items()}
        if name in ("same", "lies") and given.get("if-none-match") == '"one"':
            return Response(304, [("ETag", '"one"')], b"")
        if name in ("same", "lies"):
            text = f"{name} {self.passes if name == 'lies' else 0}"
            return Response(200, [HTML, ("ETag", '"one"')], f"<p>{text}".encode())
        modified = (
            "Last-Modified",
            formatdate(VIRTUAL_EPOCH + 3600 * (self.passes - 1), usegmt=True),
        )
        return Response(200, [HTML, modified], f"<p>{name} in pass {self.passes}".encode())


@pytest.mark.parametrize("runs", [2, 5])
def test_what_was_learned_of_dates_and_validators_is_learned_again(
    tmp_path: Path, runs: int
) -> None:
    """Also that a 304 is to be checked: its page has the reason and the time of the crawl."""
    refetch = msgspec.structs.replace(
        ADAPTIVE, first_s=3600, min_s=600, check_every=1, soft_gone=False
    )
    config, web = msgspec.structs.replace(ONE, refetch=refetch), DatedPages()
    seeds = [HOST, f"{OTHER}same", f"{OTHER}lies"]
    # The third and the fifth run have the checks of the 304s of those before.
    for web.passes, start in enumerate([0.0, 5400.0, 6100.0, 11500.0, 12200.0][:runs]):
        stop_after_s = 60.0 if runs == 2 and start else None  # before the checks
        urls = [] if start else seeds
        crawl_folder(tmp_path / "c", web, urls, config, start=start, stop_after_s=stop_after_s)
    entered = Entered(tmp_path / "c", config, halves=0)

    def learned(folder: Path) -> tuple[Any, ...]:
        table = rocks_opener(8 << 20, 4 << 20)(table_folder(folder, 0))
        try:
            hosts = [decode_visit(value) for _, value in table.scan(b"H", prefix_end(b"H"))]
            (one, two) = sorted(hosts, key=lambda each: each.host)
            pages = {
                host.host + record.target: (
                    record.state,
                    record.reason,
                    record.due_at - record.history.fetched_at,
                )
                for host, _, record in urls_of(table)
                if record.history is not None
            }
            return one.signals, (one.validators, two.validators), pages
        finally:
            table.close()

    wanted, found = learned(tmp_path / "c"), learned(entered.folder)
    signals, validators, pages = wanted
    assert signals[SignalSource.LAST_MODIFIED].right >= 8 * UNIT, signals
    if runs == 2:
        assert Reason.TO_BE_CHECKED in {reason for _, reason, _ in pages.values()}
    else:
        assert validators[1].confirmed >= 2 and validators[1].hidden and validators[1].agreed
    assert found[0][SignalSource.LAST_MODIFIED] == signals[SignalSource.LAST_MODIFIED]
    assert found[1] == validators
    assert {url: each[:2] for url, each in found[2].items()} == {
        url: each[:2] for url, each in pages.items()
    }
    for url, (_, reason, wait_s) in pages.items():
        if reason is Reason.TO_BE_CHECKED:
            assert abs(found[2][url][2] - wait_s) <= 1


def test_what_files_about_an_origin_say_is_entered_if_the_purpose_needs_it(tmp_path: Path) -> None:
    config = msgspec.structs.replace(ONE, agent=AgentSection(purpose=("ai-train",)))
    rules = b'[{"location": "/b", "tdm-reservation": 1}]'
    web = {**SITE, f"{HOST}.well-known/tdmrep.json": Response(200, [], rules)}
    crawl_folder(tmp_path / "c", Pages(web), [HOST], config)
    entered = Entered(tmp_path / "c", config)
    wanted, found = tdm_rows(tmp_path / "c"), tdm_rows(entered.folder)
    assert len(wanted) == 1 and found.keys() == wanted.keys()
    for key, record in wanted.items():
        assert found[key].version == record.version and found[key].rules == record.rules
        assert abs(found[key].fetched - record.fetched) < 1 and found[key].status == record.status
    shutil.rmtree(entered.folder)
    assert tdm_rows(Entered(tmp_path / "c").folder) == {}, "a crawl without the purpose needs none"


def tdm_rows(folder: Path) -> dict[bytes, TdmRecord]:
    table = rocks_opener(8 << 20, 4 << 20)(table_folder(folder, 0))
    try:
        return {key: decode_tdm_record(row) for key, row in table.scan(b"t", prefix_end(b"t"))}
    finally:
        table.close()


@pytest.mark.parametrize("path", ["b", "moved", "gone"])
def test_a_url_whose_captures_are_lost_is_queued_as_new(tmp_path: Path, path: str) -> None:
    crawl_folder(tmp_path / "c", Pages(SITE), [HOST], ONE)
    entered = Entered(tmp_path / "c", forget=f"{HOST}{path}")
    state, _, _, _, history, *_ = state_in(entered.folder)[f"{HOST}{path}"]
    assert (state, history) == (UrlState.QUEUED, None)
