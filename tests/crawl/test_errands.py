"""Errands: where robots.txt redirects to another host, only the owner of that host sends it
requests, one at a time and after its delay.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path

import pytest

from dying import Dying, copied
from judging import (
    are_balanced,
    asked,
    host_states,
    hosts_of,
    is_polite,
    outcomes,
    quick_config,
    stored_rows,
    tables,
)
from lycosa.base.config.sections import (
    Config,
    CopiesSection,
    FrontierSection,
    PolitenessSection,
    RobotsSection,
)
from lycosa.base.model.end import End
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.parcel_items import Answer
from lycosa.base.model.url_state import UrlState
from lycosa.base.reasons import Reason
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.explain.facts import why_host
from lycosa.stages.frontier.errand_queue import MAX_WAITING
from lycosa.stages.frontier.visit_state import HostState
from lycosa.state.exchange.exchange_errors import ExchangeError
from lycosa.state.exchange.exchange_port import Parcel
from lycosa.state.kv.memory_table import MemoryTables
from lycosa.state.kv.rocks import RocksKeyValue, SharedCache
from lycosa.synthetic import Crash
from lycosa.worker.assemble import Assembled
from scripted import Answer as WebAnswer
from scripted import Names, error, first, moved, page, robots, scripted_crawl
from several_workers import SlowExchange, run_workers
from virtual_crawl import VirtualCrawl, in_memory

HUB = "http://hub.test/"
PARTITIONS = FrontierSection(partitions=8, bands=4, head=6)


def settings(delay_s: float = 5.0, **sections: object) -> Config:
    """A delay that is the same for all hosts, whatever they answer how slowly."""
    politeness = PolitenessSection(delay_s=delay_s, jitter=0.0, adaptive_factor=0.0)
    return quick_config(frontier=PARTITIONS, politeness=politeness, **sections)


def askers(number: int) -> list[str]:
    """Front pages of hosts of as many sites."""
    return [f"http://s{n}.example/" for n in range(number)]


def hub_web(number: int, latency_s: float = 2.0, one_file: bool = False) -> dict[str, WebAnswer]:
    """Hosts whose robots.txt redirects to the hub, to a file of its own each, or all to one."""
    web: dict[str, WebAnswer] = {}
    for n, url in enumerate(askers(number)):
        target = f"{HUB}robots.txt" if one_file else f"{HUB}r{n}"
        answer = robots("User-agent: *\nDisallow: /no")
        web |= {f"{url}robots.txt": moved(target), url: page("/no", "/yes"), f"{url}yes": page()}
        web[target] = type(answer)(200, answer.headers, answer.body, latency_s)
    return web


def hub_requests(crawl: VirtualCrawl) -> list[str]:
    return [each.path for each in crawl.log.exchanges if each.host == "hub.test"]


def judge(crawl: VirtualCrawl, web: dict[str, WebAnswer], number: int) -> None:
    """Every host was fetched by its own rules, nobody too fast, and nothing is left open."""
    found = outcomes(crawl)
    assert {url for url, (state, _) in found.items() if state is UrlState.REFUSED} == {
        f"{url}no" for url in askers(number)
    }
    fetched = {url for url, (state, _) in found.items() if state is UrlState.FETCHED}
    assert fetched >= {*askers(number), *(f"{url}yes" for url in askers(number))}
    is_polite(crawl.log, crawl.config.politeness)
    counters = are_balanced(crawl)
    assert counters.asking == 0
    assert not [host for host in host_states(crawl).values() if host.errands or host.questions]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_hub_of_robots_txt_is_asked_once_at_a_time_and_after_its_delay(
    workers: int, tmp_path: Path
) -> None:
    """24 hosts, a delay of 5 s, and a hub that needs 2 s for an answer."""
    cache = SharedCache(16 << 20, 16 << 20)
    opened: list[RocksKeyValue] = []

    def open_table(folder: Path) -> RocksKeyValue:
        folder.mkdir(parents=True, exist_ok=True)
        opened.append(RocksKeyValue(folder, cache))
        return opened[-1]

    web = hub_web(24)
    crawl, _ = scripted_crawl(tmp_path / "c", web, settings())
    crawl.open_table = open_table
    run_workers(crawl, workers, askers(24))
    gaps = crawl.log.gaps("hub.test")
    print(
        f"{workers} workers: {len(gaps) + 1} requests to the hub, {sum(gap < 5 for gap in gaps)}"
        f" short gaps, least {min(gaps):.3f} s"
    )
    assert len(gaps) == 23 and min(gaps) >= 5.0
    judge(crawl, web, 24)
    report = audit(crawl.folder)
    assert report.is_clean, report.first_breaches()
    assert host_states(crawl)["hub.test"].state is HostState.EXHAUSTED


@pytest.mark.parametrize("workers", [1, 3])
def test_equal_urls_are_requested_once(workers: int, tmp_path: Path) -> None:
    web = hub_web(24, one_file=True)
    crawl, _ = scripted_crawl(tmp_path / "c", web, settings())
    run_workers(crawl, workers, askers(24))
    judge(crawl, web, 24)
    assert hub_requests(crawl) == ["/robots.txt"]


def test_a_file_that_the_owner_has_is_not_requested_again(tmp_path: Path) -> None:
    web = {**hub_web(3, one_file=True), HUB: page(*askers(3))}
    crawl, _ = scripted_crawl(tmp_path / "c", web, settings())
    run_workers(crawl, 2, [HUB])
    judge(crawl, web, 3)
    assert hub_requests(crawl) == ["/robots.txt", "/"]


def test_a_file_that_was_requested_for_others_is_the_hosts_own_as_well(tmp_path: Path) -> None:
    web = {**hub_web(3, one_file=True), HUB: page(), "http://s0.example/yes": page(HUB)}
    crawl, _ = scripted_crawl(tmp_path / "c", web, settings())
    run_workers(crawl, 2, askers(3))
    judge(crawl, web, 3)
    assert hub_requests(crawl) == ["/robots.txt", "/"]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_hosts_whose_robots_txt_redirect_in_a_ring_do_not_wait_for_each_other(
    workers: int, tmp_path: Path
) -> None:
    names = askers(9)
    answers: dict[str, WebAnswer] = {
        f"{url}robots.txt": moved(f"{names[(n + 1) % 9]}robots.txt") for n, url in enumerate(names)
    }
    crawl, _ = scripted_crawl(
        tmp_path / "c", {**answers, **{url: page() for url in names}}, settings(1.0)
    )
    run_workers(crawl, workers, names)
    assert set(asked(crawl.log)) == set(names)
    assert all(state.last_error is Reason.NONE for state in host_states(crawl).values())
    is_polite(crawl.log, crawl.config.politeness)
    assert are_balanced(crawl).asking == 0
    assert crawl.now < 120, "nobody waited for a deadline"


@pytest.mark.parametrize("workers", [1, 2])
def test_at_most_five_redirects_are_followed_across_workers(workers: int, tmp_path: Path) -> None:
    def chain(hops: int) -> dict[str, WebAnswer]:
        steps = {f"http://h{n}.test/r": moved(f"http://h{n + 1}.test/r") for n in range(1, hops)}
        end = {f"http://h{hops}.test/r": robots("User-agent: *\nDisallow: /")}
        return {"http://a.example/robots.txt": moved("http://h1.test/r"), **steps, **end}

    for hops, state in ((5, UrlState.REFUSED), (6, UrlState.FETCHED)):
        folder = tmp_path / f"{hops}"
        crawl, _ = scripted_crawl(
            folder, {**chain(hops), "http://a.example/": page()}, settings(1.0)
        )
        run_workers(crawl, workers, ["http://a.example/"])
        assert outcomes(crawl)["http://a.example/"][0] is state


@pytest.mark.parametrize("workers", [1, 3])
def test_what_waits_at_one_host_is_bounded_and_those_refused_ask_again(
    workers: int, tmp_path: Path
) -> None:
    most = 0

    def watch(assembled: Assembled) -> None:
        def look() -> None:
            nonlocal most
            for partition in assembled.worker.frontier.partitions.values():
                for host in partition.visits._cache.values():
                    most = max(most, sum(len(errand.askers) for errand in host.record.errands))
            asyncio.get_running_loop().call_later(0.5, look)

        look()

    number = MAX_WAITING + 40
    web = hub_web(number, latency_s=0.05)
    crawl, _ = scripted_crawl(
        tmp_path / "c", web, settings(1.0, robots=RobotsSection(retry_s=30.0))
    )
    run_workers(crawl, workers, askers(number), meanwhile=watch)
    assert 0.9 * MAX_WAITING < most <= MAX_WAITING
    judge(crawl, web, number)


def test_a_hub_with_urls_of_its_own_gives_errands_every_second_turn(tmp_path: Path) -> None:
    pages = {f"{HUB}{n}": page() for n in range(30)}
    web = {
        **hub_web(12, latency_s=0.05),
        HUB: page(*pages),
        f"{HUB}robots.txt": robots("User-agent: *\nDisallow: /r"),
        **pages,
    }
    crawl, _ = scripted_crawl(
        tmp_path / "c", web, settings(1.0, copies=CopiesSection(probe_turns=1))
    )
    run_workers(crawl, 2, [HUB, *askers(12)])
    judge(crawl, web, 12)
    order = "".join(
        "e" if path.startswith("/r") and path != "/robots.txt" else "p"
        for path in hub_requests(crawl)
    )
    assert "ee" not in order.rstrip("e"), order
    assert order.count("e") == 12, "its own robots.txt does not judge what it is asked for others"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_host_that_rests_for_long_counts_as_unreachable_until_its_answer_comes(
    workers: int, tmp_path: Path
) -> None:
    """The answer comes two hours later, and is taken."""
    web = {**hub_web(2), HUB: first(1, error(429, ("Retry-After", "7200")), page())}
    crawl, _ = scripted_crawl(
        tmp_path / "c", web, settings(1.0, robots=RobotsSection(retry_s=86_000.0))
    )
    web_late = "http://late.test/"
    crawl.answers.answers |= {web_late: page(*askers(2), latency_s=10.0)}  # type: ignore[attr-defined]
    run_workers(crawl, workers, [HUB, web_late])
    assert crawl.now < 3600, "the crawl does not wait for it"
    states = [host_states(crawl)[url[7:-1]] for url in askers(2)]
    assert [(each.state, each.reason) for each in states] == [
        (HostState.SNOOZED, Reason.ROBOTS_UNREACHABLE)
    ] * 2
    assert (
        all(question.is_late for each in states for question in each.questions)
        and "its host rests" in states[0].detail
    )
    crawl.now = 7300.0
    run_workers(crawl, workers, [])
    judge(crawl, web, 2)
    assert crawl.log.urls().count("http://s0.example/robots.txt") == 1, "it was not asked again"


def test_without_an_answer_the_deadline_ends_the_wait(tmp_path: Path) -> None:
    class Mute(SlowExchange):
        async def deliver_parcel(self, parcel: Parcel) -> None:
            if parcel.answers and crawl.clock.monotonic() < 300:
                raise ExchangeError("lost")
            await super().deliver_parcel(parcel)

    web = hub_web(4)
    crawl, _ = scripted_crawl(tmp_path / "c", web, settings(1.0))
    run_workers(crawl, 4, askers(4), exchange=Mute())
    judge(crawl, web, 4)
    assert crawl.now > 120


@pytest.mark.parametrize("seed", range(6))
def test_no_question_is_lost_when_workers_die(seed: int, tmp_path: Path) -> None:
    chance, stores = random.Random(seed), MemoryTables()
    web = hub_web(12, latency_s=0.5)
    crawl, _ = scripted_crawl(tmp_path / "c", web, settings(1.0))
    crawl.open_table = in_memory(stores)
    deaths = 0
    for _ in range(6):
        image = tmp_path / "image"
        workers, at = chance.choice((1, 2, 4)), chance.randrange(50, 900)
        try:
            run_workers(
                crawl, workers, askers(12), Dying(copied(crawl, image), random.Random(at), at)
            )
        except Crash:
            deaths += 1
            stores.crash()
            shutil.rmtree(crawl.folder)
            image.rename(crawl.folder)
            are_balanced(crawl)
    run_workers(crawl, 2, askers(12))
    assert deaths >= 2
    judge(crawl, web, 12)


def test_an_answer_without_its_question_is_ignored(tmp_path: Path) -> None:
    crawl, _ = scripted_crawl(tmp_path / "c", hub_web(1), settings(1.0))
    seen: list[Answer] = []

    def repeat(assembled: Assembled) -> None:
        errands = assembled.pipeline._errands
        right = errands.deliver_item

        def twice(destination: int, item: object) -> None:
            right(destination, item)  # type: ignore[arg-type]
            if isinstance(item, Answer):
                seen.append(item)
                right(destination, item)

        errands.deliver_item = twice  # type: ignore[method-assign]

    crawl.run(askers(1), meanwhile=repeat)
    judge(crawl, hub_web(1), 1)
    (answer,) = seen
    assert answer.record_id in {
        row.record_id for row in stored_rows(crawl.folder) if row.kind is FetchKind.ROBOTS
    }


@pytest.mark.parametrize("workers", [1, 2])
def test_a_target_that_gives_no_answer_makes_robots_txt_unreachable(
    workers: int, tmp_path: Path
) -> None:
    web: dict[str, WebAnswer] = {
        "http://a.example/": page(),
        "http://a.example/robots.txt": moved("http://nowhere.test/r"),
        "http://b.example/": page(),
        "http://b.example/robots.txt": moved("http://ill.test/r"),
        "http://ill.test/r": first(2, error(500), robots("")),
    }
    crawl, _ = scripted_crawl(
        tmp_path / "c", web, settings(1.0), Names({"nowhere.test": Reason.DNS_NO_SUCH_NAME})
    )
    run_workers(crawl, workers, ["http://a.example/", "http://b.example/"])
    assert asked(crawl.log).count("http://b.example/") == 1 and "http://a.example/" not in asked(
        crawl.log
    )
    assert "nowhere.test" in host_states(crawl)["a.example"].detail
    counters = are_balanced(crawl)
    with tables(crawl) as opened:
        assert counters.hosts == sum(len(hosts_of(table)) for table in opened), (
            "hosts that were only met by an errand count as well"
        )


def test_a_host_says_what_it_waits_for(tmp_path: Path) -> None:
    crawl, _ = scripted_crawl(tmp_path / "c", hub_web(6), settings(5.0))
    crawl.run(
        askers(6),
        meanwhile=lambda assembled: (
            asyncio.get_running_loop().call_later(8.0, assembled.worker.stop) and None
        ),
    )
    waiting = [
        host
        for host in host_states(crawl).values()
        if any(question.heard is None for question in host.questions)
    ]
    assert waiting and {(each.state, each.reason) for each in waiting} == {
        (HostState.SNOOZED, Reason.ROBOTS_ELSEWHERE)
    }
    assert all(
        why_host(each)
        == f"robots.txt redirects to {each.questions[0].url}, which waits for its turn"
        for each in waiting
    )
    assert are_balanced(crawl).asking == len(waiting)
    crawl.run([])
    judge(crawl, hub_web(6), 6)


def test_the_end_of_the_crawl_waits_for_an_answer(tmp_path: Path) -> None:
    config = quick_config(
        frontier=FrontierSection(partitions=8, finish_wait_s=0.5),
        politeness=PolitenessSection(delay_s=0.2, jitter=0.0, adaptive_factor=0.0),
    )
    crawl, _ = scripted_crawl(tmp_path / "c", hub_web(2, latency_s=20.0), config)
    run = crawl.run(askers(2))
    assert run.end is End.FINISHED
    judge(crawl, hub_web(2), 2)
