"""The pace of a whole crawl by the server's log: requests and bytes a second, and hours."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from judging import are_balanced, asked, is_polite, quick_config
from lycosa.base.config.sections import FetchSection, PolitenessSection, ScopeSection
from lycosa.base.model.end import End
from lycosa.base.reasons import Reason
from lycosa.synthetic.request_log import LoggedRequest
from lycosa.worker.assemble import Assembled
from scripted import Names, page, scripted_crawl
from virtual_crawl import VirtualCrawl

HOSTS = [f"http://h{number}.s{number}.example/" for number in range(60)]
QUICK = PolitenessSection(delay_s=0.0, address_delay_s=0.0, adaptive_factor=0.0)


def paced(folder: Path, latency_s: float = 0.1, size: int = 0, **fetch: object) -> VirtualCrawl:
    """A crawl of sixty hosts of one page each, which could take a second."""
    answers = {url: page(text="x" * size, latency_s=latency_s) for url in HOSTS}
    section = msgspec.structs.replace(FetchSection(), **fetch)
    config = quick_config(fetch=section, politeness=QUICK)
    crawl, _ = scripted_crawl(folder, answers, config, Names(latency_s=0.0))
    return crawl


def most_within(requests: list[LoggedRequest], seconds: float) -> int:
    """The largest number of requests that begin within so many seconds."""
    starts = sorted(each.start for each in requests)
    return max(
        sum(begin <= other < begin + seconds for other in starts[first:])
        for first, begin in enumerate(starts)
    )


@pytest.mark.parametrize("latency_s", [0.1, 20.0])
def test_requests_of_all_hosts_keep_the_rate_and_use_it(latency_s: float, tmp_path: Path) -> None:
    crawl = paced(tmp_path / "c", latency_s, request_rate=4.0)
    turns = 0

    def count_turns(assembled: Assembled) -> None:
        step = assembled.worker._step

        def counting() -> End | None:
            nonlocal turns
            turns += 1
            return step()

        assembled.worker._step = counting  # type: ignore[method-assign]

    run = crawl.run(HOSTS, meanwhile=count_turns)
    assert run.end is End.FINISHED
    assert are_balanced(crawl).captures == len(HOSTS)
    requests = crawl.log.exchanges
    assert len(requests) == 2 * len(HOSTS)  # robots.txt counts as well
    assert most_within(requests, 1.0) <= 5
    assert most_within(requests, 10.0) <= 41
    assert run.duration_s <= len(requests) / 4 * 1.1 + 2 * latency_s + 2
    assert turns < 60 * len(requests)  # it rests between them
    is_polite(crawl.log, QUICK)


def test_bytes_keep_their_rate_as_an_average(tmp_path: Path) -> None:
    crawl = paced(tmp_path / "c", size=50_000, bytes_per_s=100_000)
    run = crawl.run(HOSTS)
    assert are_balanced(crawl).captures == len(HOSTS)
    # sixty bodies of 50 kB, but for those that were in flight when the first one ended
    assert 20 <= run.duration_s <= 40


def test_outside_its_hours_a_crawl_waits_says_so_and_continues(tmp_path: Path) -> None:
    crawl = paced(tmp_path / "c", request_rate=2.0)
    wall = crawl.clock.wall() if crawl._loop else 1_750_000_000.0
    begins = datetime.fromtimestamp(wall + 3600, UTC)
    window = f"{begins:%H:%M}-{datetime.fromtimestamp(wall + 3620 + 60, UTC):%H:%M} UTC"
    fetch = msgspec.structs.replace(crawl.config.fetch, hours=(window,))
    crawl.config = msgspec.structs.replace(crawl.config, fetch=fetch)
    crawl.longest_s = 3 * 86400
    texts: list[str] = []

    def look(assembled: Assembled) -> None:

        async def read() -> None:
            await crawl.clock.sleep(60)
            texts.append(assembled.worker.closed_text)

        assembled.worker.begin(read())

    assert crawl.run(HOSTS, meanwhile=look).end is End.FINISHED
    assert are_balanced(crawl).captures == len(HOSTS)
    minutes = [datetime.fromtimestamp(each.wall, UTC) for each in crawl.log.exchanges]
    begin, end = (
        int(text[:2]) * 60 + int(text[3:]) for text in window.removesuffix(" UTC").split("-")
    )
    assert all(begin <= each.hour * 60 + each.minute < end for each in minutes)
    assert texts[0].startswith("its hours (fetch.hours); it continues at ")


def test_links_of_pages_in_other_languages_are_not_followed(tmp_path: Path) -> None:
    english = "The weather was cold and the people of the town stayed in their houses. " * 5
    german = "Das Wetter war kalt und die Leute der Stadt blieben in ihren Häusern. " * 5
    a, b = "http://a.example/", "http://b.example/"
    answers = {
        a: page(a + "on", text=english),
        a + "on": page(text=english),
        b: page(b + "weiter", text=german),
        b + "weiter": page(text=german),
    }
    config = quick_config(scope=ScopeSection(languages=("en",)))
    parse = msgspec.structs.replace(config.parse, language=True)
    crawl, _ = scripted_crawl(tmp_path / "c", answers, msgspec.structs.replace(config, parse=parse))
    crawl.run([a, b])
    assert {url for url in asked(crawl.log) if "robots" not in url} == {a, a + "on", b}
    assert are_balanced(crawl).rule_refusals == {Reason.OTHER_LANGUAGE: 1}
