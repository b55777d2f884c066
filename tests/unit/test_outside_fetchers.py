"""Outside fetchers: programs that lease URLs and return what they fetched, in virtual time."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Coroutine
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawling import QUICK, Pages, crawl_folder, page, robots
from lycosa.base.calls import (
    Call,
    CallRefusal,
    CallReply,
    GiveResults,
    LeasedUrl,
    LeaseUrls,
    OutsideResult,
    ResultsTaken,
    ResultTaken,
    ResultVerdict,
    UrlsLeased,
    decode_reply,
    encode_call,
)
from lycosa.base.config.sections import (
    AgentSection,
    Config,
    FetchSection,
    LimitSection,
    PolitenessSection,
)
from lycosa.base.model.capture import RobotsDecision
from lycosa.base.model.end import End
from lycosa.base.model.fetched import Limits
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8
from lycosa.cli.main import main
from lycosa.inspect.committed_state import read_folder
from lycosa.stages.frontier.outside_leases import LEASES, LeaseRow
from lycosa.state.kv.table_records import prefix_end
from lycosa.state.store.journal import read_rows
from lycosa.synthetic import Crash, Response
from lycosa.worker.assemble import Assembled
from lycosa.worker.calls.outside_answers import UnreadableResult, read_result

A = "http://a.test"
OTHERS = ["http://b.test", "http://c.test", "http://d.test"]
TAKEN, LATE, UNKNOWN, REFUSED = ResultVerdict
LEFT = msgspec.structs.replace(
    QUICK,
    fetch=FetchSection(own_pages=False),
    politeness=PolitenessSection(delay_s=2.0, jitter=0.0, adaptive_factor=0.0),
)


def web(**more: Any) -> Pages:
    pages: dict[str, Any] = {f"{A}/robots.txt": robots("User-agent: *", "Disallow: /private")}
    for site in (A, *OTHERS):
        links = [f"/{number}" for number in range(6)]
        pages[f"{site}/"] = page(*links, "/private", text=f"the front page of {site}")
        for link in links:
            pages[f"{site}{link}"] = page(text=f"{site} has the page {link}")
    return Pages(pages | more)


class Fetcher:
    """An outside fetcher of one crawl, which keeps when each request began and ended."""

    def __init__(self, assembled: Assembled, pages: Pages, name: str = "fetcher-1") -> None:
        self.assembled, self.pages, self.name = assembled, pages, name
        self.calls = 0
        self.log: list[tuple[str, float, float]] = []

    async def ask(self, partition: int, call: Call) -> CallReply:
        return decode_reply(await self.assembled.calls.answer_call(partition, encode_call(call)))

    async def lease(self, most: int = 5, lease_s: float = 30.0, call: str = "") -> list[LeasedUrl]:
        """URLs of all partitions."""
        found = []
        for partition in self.assembled.worker.frontier.partitions:
            self.calls += not call
            asked = LeaseUrls(call or f"{self.name} {self.calls}", self.name, most, lease_s)
            reply = await self.ask(partition, asked)
            assert isinstance(reply, UrlsLeased), reply
            found += reply.urls
        return found

    async def lease_one(self, **options: Any) -> LeasedUrl:
        while not (found := await self.lease(**options)):
            pass
        return found[0]

    async def fetch(self, leased: LeasedUrl) -> OutsideResult:
        clock = self.assembled.clock
        began = clock.time()
        await clock.sleep(0.3)
        answer = self.pages.respond(leased.url, clock.time(), {})
        self.log.append((leased.host, began, clock.time()))
        return OutsideResult(leased.lease, answer.status, answer.headers, answer.body)

    async def give(self, *results: OutsideResult) -> list[ResultTaken]:
        verdicts = []
        for result in results:
            partition = int(result.lease.split("-")[0]) if result.lease[:1].isdigit() else 0
            reply = await self.ask(partition, GiveResults(self.name, [result]))
            assert isinstance(reply, ResultsTaken), reply
            verdicts += reply.verdicts
        return verdicts

    async def work(self, until: Callable[[], bool]) -> None:
        while not until():
            for leased in await self.lease():
                assert [each.verdict for each in await self.give(await self.fetch(leased))] == [
                    TAKEN
                ]


Work = Callable[[Fetcher], Coroutine[Any, Any, None]]


def run(
    folder: Path, pages: Pages, work: Work, config: Config = LEFT, **options: Any
) -> End | None:
    async def meanwhile(assembled: Assembled) -> None:
        await work(Fetcher(assembled, pages))

    seeds = options.pop("seeds", [f"{A}/"])
    return crawl_folder(folder, pages, seeds, config, meanwhile=meanwhile, **options)


def state_of(folder: Path, url: str) -> UrlState | None:
    entry = read_folder(folder).find_url(url)
    return entry.state if entry is not None else None


def rows(folder: Path) -> int:
    views = read_folder(folder).partition_views()
    return sum(1 for view in views for _ in view.scan(LEASES, prefix_end(LEASES)))


def audited(folder: Path) -> bool:
    return main(["audit", str(folder)]) == 0


def test_a_crawl_whose_pages_only_an_outside_fetcher_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, pages = tmp_path / "c", web()
    fetchers: list[Fetcher] = []

    async def work(fetcher: Fetcher) -> None:
        fetchers.append(fetcher)
        counters = [p.counters for p in fetcher.assembled.worker.frontier.partitions.values()]
        await fetcher.work(lambda: not any(each.count_in(UrlState.QUEUED) for each in counters))

    assert run(folder, pages, work, seeds=[f"{site}/" for site in (A, *OTHERS)]) is End.FINISHED
    for site in (A, *OTHERS):
        for number in range(6):
            assert state_of(folder, f"{site}/{number}") is UrlState.FETCHED
    assert state_of(folder, f"{A}/private") is UrlState.REFUSED
    assert f"{A}/private" not in pages.asked  # robots.txt is judged here
    assert len(pages.asked) == len(set(pages.asked))
    by_host: dict[str, list[tuple[float, float]]] = {}
    for host, began, ended in fetchers[0].log:
        by_host.setdefault(host, []).append((began, ended))
    for times in by_host.values():
        assert all(b[0] - a[1] >= 2.0 for a, b in pairwise(times))
    assert rows(folder) == 0 and audited(folder)
    assert "outside fetchers" in capsys.readouterr().out


def test_a_lease_that_expires_returns_to_the_queue_and_a_late_result_is_told_so(
    tmp_path: Path,
) -> None:
    folder, pages = tmp_path / "c", web()

    async def work(fetcher: Fetcher) -> None:
        first = await fetcher.lease_one(lease_s=10.0)
        assert first.url == f"{A}/" and first.host == "a.test" and first.address
        assert "robots.txt" in first.robots
        # the same call gets the same lease, another one gets nothing of this host
        assert await fetcher.lease() == []
        result = await fetcher.fetch(first)
        await fetcher.assembled.clock.sleep(20.0)
        second = await fetcher.lease_one()
        assert second.url == first.url and second.lease != first.lease
        [late] = await fetcher.give(result)
        assert late.verdict is LATE
        [taken] = await fetcher.give(await fetcher.fetch(second))
        [again] = await fetcher.give(await fetcher.fetch(second))
        assert (taken.verdict, again.verdict) == (TAKEN, TAKEN)
        fetcher.assembled.worker.fetch_pages(True)

    assert run(folder, pages, work) is End.FINISHED
    assert audited(folder)


def test_a_capture_has_what_robots_txt_stated_when_its_url_was_lent(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    signal = robots("User-agent: *", "Content-Signal: ai-train=no")
    pages = web(**{f"{A}/robots.txt": [signal, robots("User-agent: *", "Allow: /")]})

    async def work(fetcher: Fetcher) -> None:
        leased = await fetcher.lease_one()
        assert leased.url == f"{A}/"
        assert [each.verdict for each in await fetcher.give(await fetcher.fetch(leased))] == [TAKEN]
        fetcher.assembled.worker.stop()

    run(folder, pages, work)
    (path,) = (folder / "journal").iterdir()
    (row,) = [row for row in read_rows(path) if row.url == f"{A}/"]
    assert (row.fetcher, row.preferences.answers) == ("fetcher-1", {"ai-train": False})
    assert [each.line for each in row.preferences.statements] == [2]


def test_a_lent_page_has_what_tdmrep_json_states_which_was_requested_before_it_was_lent(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "c"
    rules = b'[{"location": "/", "tdm-reservation": 1}]'
    pages = web(**{f"{A}/.well-known/tdmrep.json": Response(200, [], rules)})
    config = msgspec.structs.replace(LEFT, agent=AgentSection(purpose=("ai-train",)))

    async def work(fetcher: Fetcher) -> None:
        leased = await fetcher.lease_one()
        assert list(pages.asked) == [f"{A}/robots.txt", f"{A}/.well-known/tdmrep.json"]
        assert [each.verdict for each in await fetcher.give(await fetcher.fetch(leased))] == [TAKEN]
        fetcher.assembled.worker.stop()

    run(folder, pages, work, config)
    (path,) = (folder / "journal").iterdir()
    (row,) = [row for row in read_rows(path) if row.url == f"{A}/"]
    assert [each.answers["tdm"] for each in row.preferences.statements] == [False]
    assert row.fetcher == "fetcher-1" and row.preferences.answers["ai-train"] is False
    assert audited(folder)


def test_a_repeated_call_gets_the_same_leases(tmp_path: Path) -> None:
    async def work(fetcher: Fetcher) -> None:
        first = await fetcher.lease_one(call="mine")
        [again] = await fetcher.lease(call="mine")
        assert again.lease == first.lease and again.url == first.url
        assert abs(again.expires - first.expires) < 0.001
        fetcher.assembled.worker.fetch_pages(True)

    assert run(tmp_path / "c", web(), work) is End.FINISHED
    assert audited(tmp_path / "c")


def test_leases_survive_a_kill_and_their_results_are_taken_by_the_next_owner(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, pages = tmp_path / "c", web()
    held: list[OutsideResult] = []

    class Killed:
        armed = False

        def reach(self, point: str) -> None:
            if self.armed and point == "commit:cut":
                raise Crash(point)

    killed: Any = Killed()

    async def before(fetcher: Fetcher) -> None:
        held.append(await fetcher.fetch(await fetcher.lease_one(lease_s=3000.0)))
        killed.armed = True
        await fetcher.assembled.clock.sleep(60.0)
        await fetcher.lease()

    assert run(folder, pages, before, faults=killed) is None
    assert rows(folder) == 1 and state_of(folder, f"{A}/") is UrlState.QUEUED
    assert main(["explain", str(folder), f"{A}/"]) == 0
    assert "fetcher-1 has it until" in capsys.readouterr().out
    assert main(["status", str(folder)]) == 0
    assert "1 URL to outside fetchers" in capsys.readouterr().out

    async def after(fetcher: Fetcher) -> None:
        assert fetcher.assembled.worker.open_calls == 0
        await fetcher.assembled.clock.sleep(100.0)
        fetcher.assembled.worker.fetch_pages(True)
        await fetcher.assembled.clock.sleep(10.0)
        assert pages.asked.count(f"{A}/") == 1  # its host is busy: the lease still holds
        [verdict] = await fetcher.give(held[0])
        assert verdict.verdict is TAKEN

    assert run(folder, pages, after, start=100.0, seeds=[]) is End.FINISHED
    assert state_of(folder, f"{A}/") is UrlState.FETCHED and pages.asked.count(f"{A}/") == 1
    assert state_of(folder, f"{A}/5") is UrlState.FETCHED
    assert rows(folder) == 0 and audited(folder)


def warc(url: str, block: bytes, kind: str = "response") -> bytes:
    head = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\n"
        f"Content-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


BLOCK = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"1a\r\n<title>Chunked</title><p>x\r\n0\r\n\r\n"
)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_warc_record_is_a_result(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    folder = tmp_path / "c"

    async def work(fetcher: Fetcher) -> None:
        leased = await fetcher.lease_one()
        bad = [
            OutsideResult(leased.lease),
            OutsideResult(leased.lease, status=99),
            OutsideResult(leased.lease, 200, [("Bad\r\nName", "x")]),
            OutsideResult(leased.lease, 200, [("Name", "a\r\nb")]),
            OutsideResult(leased.lease, 200, warc=b"x"),
            OutsideResult(leased.lease, warc=b"\x1f\x8bnothing"),
            OutsideResult(leased.lease, warc=warc("http://other.test/", BLOCK)),
            OutsideResult(leased.lease, warc=warc(leased.url, BLOCK, "request")),
            OutsideResult(leased.lease, warc=warc(leased.url, BLOCK)[:-30]),
            OutsideResult(leased.lease, warc=warc(leased.url, BLOCK.replace(b"1a\r", b"zz\r"))),
            OutsideResult(leased.lease, warc=warc(leased.url, b"no http at all\r\n\r\n")),
        ]
        verdicts = await fetcher.give(*bad)
        assert [each.verdict for each in verdicts] == [REFUSED] * len(bad)
        assert all(each.reason for each in verdicts)
        good = OutsideResult(leased.lease, warc=pack(warc(leased.url, BLOCK)))
        assert [each.verdict for each in await fetcher.give(good)] == [TAKEN]
        fetcher.assembled.worker.fetch_pages(True)

    assert run(folder, web(), work) is End.FINISHED
    assert state_of(folder, f"{A}/") is UrlState.FETCHED and audited(folder)


@pytest.mark.parametrize(
    "record",
    [
        warc(f"{A}/", BLOCK).replace(b"Content-Length: ", b"Content-Length: " + b"0" * 5000),
        warc(f"{A}/", BLOCK.replace(b" 200 ", b" 000 ")),
    ],
    ids=["length of many digits", "status 0"],
)
def test_numbers_in_a_warc_record_are_bounded(record: bytes) -> None:
    decision = RobotsDecision()
    row = LeaseRow("id", "fetcher", "call", f"{A}/", 0.0, 30.0, 32, 33.0, "", decision)
    with pytest.raises(UnreadableResult):
        read_result(OutsideResult("id", warc=record), row, Limits(), 10.0)


async def nothing(fetcher: Fetcher) -> None:
    fetcher.assembled.worker.fetch_pages(True)


def test_errors_are_retried_as_our_own_and_retry_after_is_followed(tmp_path: Path) -> None:
    folder, pages = tmp_path / "c", web()
    times: list[float] = []

    async def work(fetcher: Fetcher) -> None:
        clock = fetcher.assembled.clock
        leased = await fetcher.lease_one()
        error = OutsideResult(leased.lease, error="connect_timeout: after 10 s", retry_after_s=500)
        assert [each.verdict for each in await fetcher.give(error)] == [TAKEN]
        began = clock.time()
        again = await fetcher.lease_one()
        times.append(clock.time() - began)
        assert again.url == leased.url
        busy = OutsideResult(again.lease, 503, [("Retry-After", "900")], b"")
        await fetcher.give(busy)
        began = clock.time()
        third = await fetcher.lease_one()
        times.append(clock.time() - began)
        partition = fetcher.assembled.worker.frontier.partitions[int(third.lease.split("-")[0])]
        record = partition.find_record(hash8("a.test"), hash8(f"{A}/"))
        assert record is not None and record.tries == 2
        assert record.reason is Reason.HTTP_SERVER_ERROR
        fetcher.assembled.worker.fetch_pages(True)
        await fetcher.give(await fetcher.fetch(third))

    assert run(folder, pages, work) is End.FINISHED
    assert 500 <= times[0] < 520 and 900 <= times[1] < 920
    assert state_of(folder, f"{A}/") is UrlState.FETCHED and audited(folder)


def test_captures_of_outside_fetchers_count_towards_max_pages(tmp_path: Path) -> None:
    config = msgspec.structs.replace(LEFT, limits=LimitSection(max_pages=3))
    folder, pages = tmp_path / "c", web()

    async def work(fetcher: Fetcher) -> None:
        await fetcher.work(lambda: False)

    seeds = [f"{site}/" for site in (A, *OTHERS)]
    assert run(folder, pages, work, config, seeds=seeds) is End.LIMIT
    counters = [view.counters() for view in read_folder(folder).partition_views()]
    assert sum(each.captures for each in counters) == 3 and audited(folder)


def test_calls_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    async def work(fetcher: Fetcher) -> None:
        for call in (
            LeaseUrls("c", "f", 0, 30.0),
            LeaseUrls("c", "f", 101, 30.0),
            LeaseUrls("c", "f", 1, 0.0),
            LeaseUrls("c", "f", 1, float("nan")),
            LeaseUrls("c", "f", 1, 1e9),
            LeaseUrls("c", "\n", 1, 30.0),
            LeaseUrls("", "f", 1, 30.0),
            GiveResults("f", [OutsideResult("x")] * 101),
        ):
            assert isinstance(await fetcher.ask(0, call), CallRefusal), call
        leased = await fetcher.lease_one()
        other = Fetcher(fetcher.assembled, fetcher.pages, "fetcher-2")
        forged = leased.lease.replace(leased.lease[-1], "z")
        verdicts = await other.give(
            OutsideResult("x"), OutsideResult(forged), OutsideResult(leased.lease, error="x")
        )
        assert [each.verdict for each in verdicts] == [UNKNOWN] * 3
        fetcher.assembled.worker.fetch_pages(True)

    assert run(tmp_path / "c", web(), work) is End.FINISHED


def test_a_lease_that_never_existed_is_unknown_at_any_time(tmp_path: Path) -> None:
    def other_end(lease: str) -> str:
        return lease[:-8] + ("0" * 8 if lease[-8:] != "0" * 8 else "1" * 8)

    async def work(fetcher: Fetcher) -> None:
        clock, other = fetcher.assembled.clock, Fetcher(fetcher.assembled, fetcher.pages, "f-2")
        leased = await fetcher.lease_one()
        partition, url, expires, _ = leased.lease.split("-")
        ends = [int(expires), int(clock.time() * 1000) - 60_000]  # one has expired
        made_up = [f"{partition}-{url[:-1]}{url[-1] == '0':d}-{end}-{'0' * 8}" for end in ends]
        made_up += [other_end(leased.lease), f"{partition}-{url}-{ends[1]}-{'0' * 8}"]
        open_now = await fetcher.give(*map(OutsideResult, made_up))
        result = await fetcher.fetch(leased)
        [taken] = await fetcher.give(result)
        assert taken.verdict is TAKEN
        closed = await fetcher.give(*map(OutsideResult, made_up))
        assert {each.verdict for each in (*open_now, *closed)} == {UNKNOWN}
        [again], [foreign] = await fetcher.give(result), await other.give(result)
        assert (again.verdict, foreign.verdict) == (TAKEN, UNKNOWN)
        fetcher.assembled.worker.fetch_pages(True)

    assert run(tmp_path / "c", web(), work) is End.FINISHED


def test_a_host_that_is_paused_or_retired_meanwhile_takes_the_result(tmp_path: Path) -> None:
    from lycosa.base.calls import HostAction, HostDecision

    folder, pages = tmp_path / "c", web()

    async def work(fetcher: Fetcher) -> None:
        leased = await fetcher.lease_one()
        partition = int(leased.lease.split("-")[0])
        decision = HostDecision("r", "ada", "a.test", HostAction.RETIRE)
        await fetcher.ask(partition, decision)
        [verdict] = await fetcher.give(await fetcher.fetch(leased))
        assert verdict.verdict is TAKEN
        fetcher.assembled.worker.fetch_pages(True)

    assert run(folder, pages, work) is End.FINISHED
    assert state_of(folder, f"{A}/1") is UrlState.RETIRED and audited(folder)
    assert not any(url.startswith(f"{A}/1") for url in pages.asked)
