"""A worker that takes a shard over from one that did not end in order: hold, suspects, careful
start.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from test_poison import ANSWERS, A, B, Deadly, Deaths, X

from judging import are_balanced, is_polite, outcomes
from lycosa.base.model.end import End, PreviousEnd
from lycosa.base.model.fetched import Fetched, FetchRequest
from lycosa.base.model.url_state import UrlState
from lycosa.base.ports import Fetcher
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8, host_of
from lycosa.state.kv.table_records import crash_key
from lycosa.worker.assemble import Assembled
from lycosa.worker.job import WorkerJob
from scripted import page, scripted_crawl

MINUTE_S = 60.0


def told(**changes: object) -> Callable[[WorkerJob], WorkerJob]:
    return lambda job: msgspec.structs.replace(job, **changes)


class Watched:
    """The fetcher port around another one: counts what is in flight, and looks up what is
    committed when a request leaves.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.in_flight = 0
        self.seen: list[tuple[float, int, bool]] = []
        """Of each request: when it left, how many were in flight with it, whether a commit names
        it.
        """
        self._tables: list[Callable[[bytes], bytes | None]] = []

    def around(self, inner: Fetcher) -> Fetcher:
        self._inner = inner
        return self

    def look_into(self, assembled: Assembled) -> None:
        self._tables = [table.get for table in assembled.worker._files.shard.tables.values()]

    async def fetch(self, request: FetchRequest) -> Fetched:
        self.in_flight += 1
        key = crash_key(hash8(host_of(request.url)), hash8(request.url))
        self.seen.append((self._now(), self.in_flight, any(get(key) for get in self._tables)))
        try:
            return await self._inner.fetch(request)
        finally:
            self.in_flight -= 1

    async def close(self) -> None:
        await self._inner.close()


def test_after_an_unclean_takeover_no_host_is_asked_before_the_hold_is_over(tmp_path: Path) -> None:
    crawl, _ = scripted_crawl(tmp_path / "c", ANSWERS)
    crawl.told = told(held_until=90.0)
    assert crawl.run([A]).end is End.FINISHED
    assert min(each.start for each in crawl.log.exchanges) >= 90.0 + crawl.config.politeness.delay_s
    assert sum(state is UrlState.FETCHED for state, _ in outcomes(crawl).values()) == len(ANSWERS)


def test_a_careful_start_sends_one_request_at_a_time_and_names_it_before_for_a_minute(
    tmp_path: Path,
) -> None:
    hosts = [f"http://h{number}.s{number}.example/" for number in range(60)]
    answers = {f"{host}{name}": page(latency_s=2.0) for host in hosts for name in ("a", "b")}
    answers |= {host: page("/a", "/b", latency_s=2.0) for host in hosts}
    crawl, _ = scripted_crawl(tmp_path / "c", answers)
    watched = Watched(crawl.clock.monotonic)
    crawl.wrap, crawl.told = watched.around, told(is_careful=True)
    assert crawl.run(hosts, meanwhile=watched.look_into).end is End.FINISHED
    careful = [each for each in watched.seen if each[0] < MINUTE_S]
    assert len(careful) > 10 and {each[1:] for each in careful} == {(1, True)}
    assert max(each[1] for each in watched.seen) > 4, "after that as usual"
    assert not watched.seen[-1][2]
    assert sum(state is UrlState.FETCHED for state, _ in outcomes(crawl).values()) == len(answers)
    are_balanced(crawl)
    is_polite(crawl.log, crawl.config.politeness)


def test_a_careful_minute_begins_when_the_hold_is_over(tmp_path: Path) -> None:
    hosts = [f"http://h{number}.s{number}.example/" for number in range(12)]
    crawl, _ = scripted_crawl(tmp_path / "c", {host: page(latency_s=2.0) for host in hosts})
    watched = Watched(crawl.clock.monotonic)
    crawl.wrap, crawl.told = watched.around, told(is_careful=True, held_until=500.0)
    crawl.run(hosts, meanwhile=watched.look_into)
    assert {each[1:] for each in watched.seen if each[0] < 500.0 + MINUTE_S} == {(1, True)}


def test_a_page_that_kills_machines_is_found_by_careful_starts_though_no_attempt_log_is_left(
    tmp_path: Path,
) -> None:
    crawl, web = scripted_crawl(tmp_path / "c", ANSWERS)
    deaths = Deaths(crawl)
    crawl.wrap = lambda inner: Deadly(inner, X, deaths.die)
    crawl.told = told(is_careful=True, previous_end=PreviousEnd.LOST)
    assert deaths.live([A]) is End.FINISHED
    found = outcomes(crawl)
    assert found.pop(X) == (UrlState.FAILED, Reason.CRASHED_WORKER)
    assert {state for state, _ in found.values()} == {UrlState.FETCHED}
    assert web.asked[X] == deaths.count <= 3


@pytest.mark.parametrize("previous", PreviousEnd)
def test_only_a_crash_accuses_what_was_in_flight(previous: PreviousEnd, tmp_path: Path) -> None:
    crawl, _ = scripted_crawl(tmp_path / "c", ANSWERS)
    deaths = Deaths(crawl)
    once: list[int] = []

    def die(why: str) -> None:
        if not once:
            once.append(1)
            deaths.die(why)

    crawl.wrap = lambda inner: Deadly(inner, B, die)
    crawl.told = told(previous_end=previous)
    accused: list[set[str]] = []
    with pytest.raises(BaseException, match="crashed at fetch"):
        crawl.run([A])
    crawl.folder = crawl.folder.with_name("c-1")
    assert (
        crawl.run(
            [A], meanwhile=lambda each: accused.append(each.worker._files.crashes.suspects())
        ).end
        is End.FINISHED
    )
    assert (B in accused[0]) is (previous is PreviousEnd.CRASH)
    assert accused[0] == set() or previous is PreviousEnd.CRASH
