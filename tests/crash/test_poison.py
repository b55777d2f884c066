"""A URL that kills the worker whenever it is fetched ends as a recorded failure, and the crawl
completes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from judging import are_balanced, asked, host_states, is_polite, outcomes, quick_config, stored_rows
from lycosa.base.config.sections import AgentSection, LimitSection
from lycosa.base.model.end import End
from lycosa.base.model.fetched import Fetched, FetchRequest
from lycosa.base.model.url_state import UrlState
from lycosa.base.ports import Fetcher
from lycosa.base.reasons import Reason
from lycosa.stages.frontier.visit_state import HostState
from lycosa.stages.parse.page import Page
from lycosa.synthetic import Crash
from scripted import page, robots, scripted_crawl
from virtual_crawl import VirtualCrawl

A, B = "http://a.example/", "http://b.test/"
X = f"{A}x"
ANSWERS = {
    A: page("/x", "/1", "/2", B),
    X: page("/behind"),
    f"{A}1": page(),
    f"{A}2": page("/3"),
    f"{A}3": page(),
}
ANSWERS |= {B: page("/1"), f"{B}1": page()}


class Deaths:
    """Crashes of a crawl that is started again each time, with what a killed process leaves."""

    def __init__(self, crawl: VirtualCrawl) -> None:
        self.crawl = crawl
        self.count = 0
        self._root = crawl.folder

    def die(self, why: str) -> None:
        self.count += 1
        shutil.copytree(self.crawl.folder, self._image())
        raise Crash(why)

    def _image(self) -> Path:
        return self._root.with_name(f"{self._root.name}-{self.count}")

    def live(self, seeds: list[str], most: int = 12) -> End:
        """Until the crawl ends by itself."""
        while True:
            try:
                return self.crawl.run(seeds).end
            except Crash:
                assert self.count < most, "it dies for ever"
                shutil.rmtree(self.crawl.folder)
                shutil.move(self._image(), self.crawl.folder)


class Deadly:
    """The fetcher port around another one; asked for the URL it dies before the answer, or
    before the request.
    """

    def __init__(
        self, inner: Fetcher, url: str, die: Callable[[str], None], is_late: bool = True
    ) -> None:
        self._inner, self._url, self._die, self._is_late = inner, url, die, is_late

    async def fetch(self, request: FetchRequest) -> Fetched:
        if request.url == self._url and not self._is_late:
            self._die("fetch")
        fetched = await self._inner.fetch(request)
        if request.url == self._url:
            self._die("fetch")
        return fetched

    async def close(self) -> None:
        await self._inner.close()


def test_a_url_that_kills_the_worker_on_the_wire_is_requested_three_times_at_most(
    tmp_path: Path,
) -> None:
    crawl, web = scripted_crawl(tmp_path / "c", ANSWERS)
    deaths = Deaths(crawl)
    crawl.wrap = lambda inner: Deadly(inner, X, deaths.die)
    assert deaths.live([A]) is End.FINISHED
    _x_failed_and_the_rest_is_there(crawl)
    assert web.asked[X] == deaths.count <= 3


def test_a_url_that_kills_the_worker_while_it_is_stored_is_requested_three_times_at_most(
    tmp_path: Path,
) -> None:
    crawl, web = scripted_crawl(tmp_path / "c", ANSWERS)
    deaths = Deaths(crawl)

    def sink(page: Page) -> None:
        if page.url == X:
            deaths.die("sink")

    crawl.sinks = (sink,)
    assert deaths.live([A]) is End.FINISHED
    _x_failed_and_the_rest_is_there(crawl)
    assert web.asked[X] == deaths.count <= 3


def test_the_seed_itself_may_be_the_killer(tmp_path: Path) -> None:
    crawl, web = scripted_crawl(tmp_path / "c", ANSWERS)
    deaths = Deaths(crawl)
    crawl.wrap = lambda inner: Deadly(inner, A, deaths.die)
    assert deaths.live([B, A]) is End.FINISHED
    found = outcomes(crawl)
    assert found[A] == (UrlState.FAILED, Reason.CRASHED_WORKER)
    assert found[f"{B}1"][0] is UrlState.FETCHED
    assert web.asked[A] <= 3


def test_two_killers_are_both_found(tmp_path: Path) -> None:
    crawl, web = scripted_crawl(tmp_path / "c", ANSWERS)
    deaths = Deaths(crawl)
    crawl.wrap = lambda inner: Deadly(Deadly(inner, X, deaths.die), B, deaths.die)
    assert deaths.live([A]) is End.FINISHED
    found = outcomes(crawl)
    assert found[X] == found[B] == (UrlState.FAILED, Reason.CRASHED_WORKER)
    assert found[f"{A}3"][0] is UrlState.FETCHED
    assert web.asked[X] <= 3 and web.asked[B] <= 3
    are_balanced(crawl)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_tdmrep_json_that_kills_the_worker_costs_no_page(tmp_path: Path, is_late: bool) -> None:
    file = f"{B}.well-known/tdmrep.json"
    config = quick_config(agent=AgentSection(purpose=("ai-train",)))
    crawl, web = scripted_crawl(tmp_path / "c", {**ANSWERS, file: robots("[]")}, config)
    deaths = Deaths(crawl)
    crawl.wrap = lambda inner: Deadly(inner, file, deaths.die, is_late)
    assert deaths.live([A]) is End.FINISHED
    found = {url for url, (state, _) in outcomes(crawl).items() if state is UrlState.FETCHED}
    assert found == set(ANSWERS), outcomes(crawl)
    assert 1 <= deaths.count <= 3 and web.asked[file] <= 3
    is_polite(crawl.log, crawl.config.politeness)
    are_balanced(crawl)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_robots_txt_that_kills_the_worker_costs_its_host_alone(
    is_late: bool, tmp_path: Path
) -> None:
    crawl, web = scripted_crawl(tmp_path / "c", {**ANSWERS, f"{B}robots.txt": robots("")})
    deaths = Deaths(crawl)
    crawl.wrap = lambda inner: Deadly(inner, f"{B}robots.txt", deaths.die, is_late)
    assert deaths.live([A]) is End.FINISHED
    assert set(asked(crawl.log)) == {url for url in ANSWERS if url.startswith(A)} | {f"{A}behind"}
    host = host_states(crawl)["b.test"]
    assert (host.state, host.reason) == (HostState.RETIRED, Reason.CRASHED_WORKER)
    assert web.asked[f"{B}robots.txt"] <= 3
    are_balanced(crawl)


def test_innocent_urls_in_flight_at_a_crash_are_fetched_as_usual(tmp_path: Path) -> None:
    names = [f"http://h{n}.s{n}.example/" for n in range(10)]
    answers = {url: page(latency_s=5.0) for url in names} | {A: page(*names)}
    crawl, web = scripted_crawl(tmp_path / "c", {**ANSWERS, **answers})
    deaths = Deaths(crawl)
    once = []

    def sink(page: Page) -> None:
        if page.url == names[0] and not once:
            once.append(1)
            deaths.die("sink")

    crawl.sinks = (sink,)
    assert deaths.live([A]) is End.FINISHED
    assert all(
        outcomes(crawl)[url] == (UrlState.FETCHED, Reason.NONE)
        or outcomes(crawl)[url][1] is Reason.DUPLICATE
        for url in names
    )
    assert max(web.asked[url] for url in names) == 2


def test_a_stop_among_suspects_ends_the_run_and_loses_none(tmp_path: Path) -> None:
    names = [f"http://h{n}.s{n}.example/" for n in range(10)]
    answers = {url: page(latency_s=5.0) for url in names} | {A: page(*names)}
    crawl, _ = scripted_crawl(
        tmp_path / "c", answers, quick_config(limits=LimitSection(max_pages=4))
    )
    deaths = Deaths(crawl)
    once = []

    def sink(page: Page) -> None:
        if page.url in names and not once:
            once.append(1)
            deaths.die("sink")

    crawl.sinks = (sink,)
    assert deaths.live([A]) is End.LIMIT
    counters = are_balanced(crawl)
    assert counters.captures == 4
    crawl.config = quick_config()
    assert deaths.live([]) is End.FINISHED
    assert are_balanced(crawl).captures == 11


def _x_failed_and_the_rest_is_there(crawl: VirtualCrawl) -> None:
    found = outcomes(crawl)
    assert found[X] == (UrlState.FAILED, Reason.CRASHED_WORKER)
    assert {url for url, (state, _) in found.items() if state is UrlState.FETCHED} == set(
        ANSWERS
    ) - {X}
    assert {row.url for row in stored_rows(crawl.folder) if row.kind == 0} == set(ANSWERS) - {X}
    are_balanced(crawl)
    is_polite(crawl.log, crawl.config.politeness)
