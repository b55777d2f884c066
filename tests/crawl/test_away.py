"""Hosts, and the whole network, that are away for a while: nothing is lost by it, and nobody is
asked more often than necessary.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from absences import AwayFetcher
from judging import are_balanced, asked, host_states, is_polite, outcomes, quick_config
from lycosa.base.calls import HostAction, HostDecision, encode_call
from lycosa.base.config.sections import Config, FetchSection, FrontierSection, RetrySection
from lycosa.base.messages.progress import Progress
from lycosa.base.model.fetched import Fetched, FetchRequest
from lycosa.base.model.url_state import UrlState
from lycosa.base.ports import Clock, Fetcher
from lycosa.base.reasons import Reason
from lycosa.stages.frontier.visit_state import HostState
from lycosa.worker.assemble import Assembled
from lycosa.worker.worker_progress import ProgressReport
from scripted import page, scripted_crawl
from several_workers import run_workers
from virtual_crawl import VirtualCrawl

PAGES = 30
RETRY = RetrySection()


def site(host: str) -> dict[str, object]:
    pages = {f"http://{host}/{number}": page() for number in range(PAGES)}
    return {f"http://{host}/": page(*(f"/{number}" for number in range(PAGES))), **pages}


def crawl_of(
    folder: Path,
    hosts: Sequence[str],
    is_away: Callable[[str, float], Reason | None],
    config: Config | None = None,
) -> tuple[VirtualCrawl, list[AwayFetcher]]:
    answers = {url: answer for host in hosts for url, answer in site(host).items()}
    crawl, _ = scripted_crawl(folder, answers, config or quick_config(retry=RETRY))  # type: ignore[arg-type]
    fetchers: list[AwayFetcher] = []

    def wrap(inner: Fetcher) -> Fetcher:
        fetchers.append(AwayFetcher(inner, crawl.clock, is_away))
        return fetchers[-1]

    crawl.wrap, crawl.longest_s = wrap, 20 * 86_400.0
    return crawl, fetchers


def between(
    start: float, end: float, reason: Reason = Reason.CONNECT_REFUSED
) -> Callable[..., Reason | None]:
    return lambda host, now: reason if start <= now < end else None


AWAY = (
    Reason.CONNECT_REFUSED,
    Reason.CONNECT_TIMEOUT,
    Reason.TLS_FAILED,
    Reason.NETWORK_UNREACHABLE,
)


@pytest.mark.parametrize("reason", [*AWAY, Reason.EMPTY_RESPONSE, Reason.CONNECTION_LOST])
def test_a_server_that_is_away_for_seconds_loses_no_url(tmp_path: Path, reason: Reason) -> None:
    crawl, fetchers = crawl_of(tmp_path / "c", ["a.example"], between(8, 28, reason))
    crawl.run(["http://a.example/"])
    assert len(asked(crawl.log)) == PAGES + 1
    assert {state for state, _ in outcomes(crawl).values()} == {UrlState.FETCHED}
    assert len(fetchers[0].tried) <= 4  # at doubling intervals, not one delay after the other
    is_polite(crawl.log, crawl.config.politeness)
    are_balanced(crawl)


def test_a_host_that_is_away_for_hours_is_asked_ever_less_and_then_fetched(tmp_path: Path) -> None:
    crawl, fetchers = crawl_of(
        tmp_path / "c",
        ["a.example", "b.example"],
        lambda host, now: Reason.CONNECT_TIMEOUT if host[0] == "b" and 8 < now < 7300 else None,
        quick_config(retry=RETRY, frontier=FrontierSection(partitions=3, finish_wait_s=7200.0)),
    )
    crawl.run(["http://a.example/", "http://b.example/"])
    assert {state for state, _ in outcomes(crawl).values()} == {UrlState.FETCHED}
    times = [now for _, now in fetchers[0].tried]
    gaps = [after - before for before, after in pairwise(times)]
    late_s = 2.0  # for the turn of the host
    assert len(times) < 15 and all(a <= b * 1.01 + late_s for a, b in pairwise(gaps))
    assert gaps[0] > 9 and gaps[-1] > 1000
    host = host_states(crawl)["b.example"]
    assert (host.failures, host.away_since) == (0, 0.0)


def test_a_crawl_whose_hosts_are_away_ends_with_the_reason_and_goes_on_later(
    tmp_path: Path,
) -> None:
    crawl, _ = crawl_of(tmp_path / "c", ["a.example"], between(8, 7300))
    run = crawl.run(["http://a.example/"])
    assert 600 < run.duration_s < 1300
    host = host_states(crawl)["a.example"]
    assert (host.state, host.reason) == (HostState.SNOOZED, Reason.CONNECT_REFUSED)
    assert host.detail == f"{host.failures} requests in a row failed"
    assert run.counters.states[UrlState.QUEUED] == PAGES + 1 - len(asked(crawl.log))
    for _ in range(20):
        crawl.now = max(crawl.now, host_states(crawl)["a.example"].next_at - 1_750_000_000.0)
        crawl.now += 600
        run = crawl.run()
    assert {state for state, _ in outcomes(crawl).values()} == {UrlState.FETCHED}
    are_balanced(crawl)


def test_a_host_is_retired_after_many_failures_and_a_long_time_only(tmp_path: Path) -> None:
    retry = RetrySection(host_failures=3, away_s=3600.0)
    crawl, fetchers = crawl_of(
        tmp_path / "c",
        ["a.example"],
        lambda host, now: Reason.CONNECT_REFUSED if now > 8 else None,
        quick_config(retry=retry, frontier=FrontierSection(partitions=3, finish_wait_s=7200.0)),
    )
    run = crawl.run(["http://a.example/"])
    host = host_states(crawl)["a.example"]
    assert (host.state, host.reason) == (HostState.RETIRED, Reason.CONNECT_REFUSED)
    assert 3600 < run.duration_s < 7400 and len(fetchers[0].tried) >= 9
    left = run.counters.states[UrlState.RETIRED]
    assert left == PAGES + 1 - len(asked(crawl.log)) > 20
    are_balanced(crawl)


HOSTS = [f"h{number}.example" for number in range(6)]


def test_an_outage_of_our_network_is_waited_for_and_counted_against_nobody(tmp_path: Path) -> None:
    crawl, fetchers = crawl_of(tmp_path / "c", HOSTS, between(10, 7200))
    told: list[Progress] = []

    def look(assembled: Assembled) -> None:
        report = ProgressReport(assembled, crawl.config)
        for at in (5, 4000, 7325):
            asyncio.get_running_loop().call_later(at, lambda: told.append(report.make_report()))

    run = crawl.run([f"http://{host}/" for host in HOSTS], meanwhile=look)
    assert {state for state, _ in outcomes(crawl).values()} == {UrlState.FETCHED}
    assert len(asked(crawl.log)) == len(HOSTS) * (PAGES + 1)
    assert 7200 < run.duration_s < 7200 + 300  # all at once afterwards, not hours later
    assert [progress.waits_for[:58] for progress in told] == [
        "",
        "the network of this machine: no host has accepted a connection"[:58],
        "",
    ]
    for host in HOSTS:
        times = [now for each, now in fetchers[0].tried if each == host]
        assert len(times) < 75 and times[5] - times[4] > 60, host
    states = host_states(crawl)
    assert {(states[host].failures, states[host].state) for host in HOSTS} == {
        (0, HostState.EXHAUSTED)
    }
    is_polite(crawl.log, crawl.config.politeness)


def test_hosts_that_never_answered_are_no_outage(tmp_path: Path) -> None:
    dead = [f"d{number}.example" for number in range(8)]
    crawl, _ = crawl_of(
        tmp_path / "c",
        ["a.example", *dead],
        lambda host, now: Reason.CONNECT_REFUSED if host in dead else None,
    )
    run = crawl.run([f"http://{host}/" for host in ("a.example", *dead)])
    assert run.duration_s < 2000
    assert host_states(crawl)["d1.example"].failures > 3


def test_an_outage_during_the_first_request_of_hosts_is_not_noted_as_their_robots_txt(
    tmp_path: Path,
) -> None:
    late = [f"l{number}.example" for number in range(4)]
    crawl, _ = crawl_of(tmp_path / "c", [*HOSTS, *late], between(10, 3000))
    for host in HOSTS:  # each late host is found when the outage has lasted for a while
        crawl.answers.answers[f"http://{host}/"] = page(  # type: ignore[attr-defined]
            *(f"/{number}" for number in range(PAGES)), *(f"http://{each}/" for each in late)
        )
    crawl.config = quick_config(
        retry=RETRY,
        frontier=FrontierSection(partitions=3, bands=4, head=6),
        fetch=FetchSection(slots=4),
    )
    run = crawl.run([f"http://{host}/" for host in HOSTS])
    assert {state for state, _ in outcomes(crawl).values()} == {UrlState.FETCHED}
    assert run.duration_s < 3000 + 400


def test_resuming_a_host_that_failures_retired_brings_its_urls_back(tmp_path: Path) -> None:
    config = quick_config(retry=RetrySection(host_failures=2, away_s=5.0))
    is_back = False
    crawl, _ = crawl_of(
        tmp_path / "c",
        ["a.example"],
        lambda host, now: None if is_back or now < 8 else Reason.CONNECT_REFUSED,
        config,
    )
    run = crawl.run(["http://a.example/"])
    assert run.counters.states[UrlState.RETIRED] > 20
    is_back = True
    assert crawl.run().counters.states[UrlState.RETIRED] > 20  # a new start alone changes nothing

    def resume(assembled: Assembled) -> None:
        decision = HostDecision("c1", "me", "a.example", HostAction.RESUME)
        partition = assembled.intake.partition_of_host("a.example")
        task = assembled.calls.answer_call(partition, encode_call(decision))
        replies.append(asyncio.get_running_loop().create_task(task))

    replies: list[asyncio.Task[bytes]] = []
    crawl.run(meanwhile=resume)
    run = crawl.run()
    assert len(replies) == 1 and run.counters.states[UrlState.FETCHED] == PAGES + 1
    are_balanced(crawl)


def test_each_worker_judges_an_outage_by_its_own_hosts(tmp_path: Path) -> None:
    hosts = [f"w{number}.example" for number in range(12)]
    crawl, fetchers = crawl_of(tmp_path / "c", hosts, between(10, 1200))
    ended = run_workers(crawl, 2, [f"http://{host}/" for host in hosts])
    assert ended and len(fetchers) == 2
    assert {state for state, _ in outcomes(crawl).values()} == {UrlState.FETCHED}
    assert 1200 < crawl.now < 1200 + 400
    are_balanced(crawl)


class WantsCertificates:
    """Accepts connections and ends those of one section of the site after the request."""

    def __init__(self, inner: Fetcher, clock: Clock) -> None:
        self._inner, self._clock = inner, clock

    async def fetch(self, request: FetchRequest) -> Fetched:
        if "/private/" not in request.url:
            return await self._inner.fetch(request)
        await self._clock.sleep(0.05)
        return Fetched(
            request.url, Reason.TLS_FAILED, "alert", address=request.address, sent_s=0.02
        )

    async def close(self) -> None:
        await self._inner.close()


def test_a_section_that_wants_certificates_of_clients_stops_no_other_url_of_its_host(
    tmp_path: Path,
) -> None:
    answers = site("a.example")
    answers["http://a.example/"] = page("/private/1", *(f"/{number}" for number in range(PAGES)))
    crawl, _ = scripted_crawl(tmp_path / "c", answers, quick_config(retry=RETRY))  # type: ignore[arg-type]
    crawl.wrap = lambda inner: WantsCertificates(inner, crawl.clock)
    run = crawl.run(["http://a.example/"])
    assert run.counters.states[UrlState.FETCHED] == PAGES + 1
    assert outcomes(crawl)["http://a.example/private/1"] == (UrlState.FAILED, Reason.TLS_FAILED)
    are_balanced(crawl)


def test_a_host_whose_port_80_closes_is_fetched_on_by_https(tmp_path: Path) -> None:
    links = [f"/{number}" for number in range(20)]
    answers = {
        "https://a.example/": page("http://a.example/x1", "http://a.example/x2", *links),
        **{f"https://a.example{link}": page() for link in links},
        "http://a.example/x1": page(),
        "http://a.example/x2": page(),
    }
    config = quick_config(retry=RETRY, frontier=FrontierSection(partitions=3, bands=4, head=6))
    crawl, _ = scripted_crawl(tmp_path / "c", answers, config)
    crawl.wrap = lambda inner: PortClosed(inner, crawl.clock, 4.0)
    crawl.longest_s = 20 * 86_400.0
    crawl.run(["https://a.example/", "http://a.example/x2"])
    states = [state for state, _ in outcomes(crawl).values()]
    assert states.count(UrlState.FETCHED) == 22
    assert outcomes(crawl)["http://a.example/x1"] == (UrlState.FAILED, Reason.CONNECT_REFUSED)
    assert host_states(crawl)["a.example"].state is not HostState.RETIRED


class PortClosed:
    """Refuses connections by http from a time on."""

    def __init__(self, inner: Fetcher, clock: Clock, closes_at: float) -> None:
        self._inner, self._clock, self._closes_at = inner, clock, closes_at

    async def fetch(self, request: FetchRequest) -> Fetched:
        if request.url.startswith("http://") and self._clock.monotonic() >= self._closes_at:
            return Fetched(request.url, Reason.CONNECT_REFUSED, "no", address=request.address)
        return await self._inner.fetch(request)

    async def close(self) -> None:
        await self._inner.close()
