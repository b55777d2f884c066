"""The rate at which a host is crawled by how often it refuses: whole crawls of one host in
virtual time, as the host's own log saw them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from judging import is_polite, new_folder, quick_config
from lycosa.base.config.sections import FrontierSection, PolitenessSection
from lycosa.synthetic import Response, SyntheticWeb, WebPlan
from scripted import Names, error, page
from virtual_crawl import VirtualCrawl

HOST = "http://host.example/"
_POLITENESS = PolitenessSection()
_SPAN_S = 700.0
_SEEDS = (
    64  # enough that one that always refuses has URLs left after hours, as each is tried four times
)
_ROBOTS = HOST + "robots.txt"

Refuses = Callable[[int, float], bool]
"""Whether the host refuses, by the number of the request (0 is the first page) and its time."""


class Tree:
    """A host of endless pages, each with two links to new ones, that refuses some requests with
    503.
    """

    def __init__(self, refuses: Refuses) -> None:
        self._refuses = refuses
        self.requests = self.good = 0

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        if url == _ROBOTS:
            return error(404)
        number = self.requests
        self.requests += 1
        if self._refuses(number, at):
            return error(503)
        self.good += 1
        place = int(url.removeprefix(HOST))
        return page(f"{HOST}{2 * place}", f"{HOST}{2 * place + 1}")


def crawled(
    folder: Path,
    refuses: Refuses,
    politeness: PolitenessSection = _POLITENESS,
    span_s: float = _SPAN_S,
) -> tuple[Tree, VirtualCrawl]:
    tree = Tree(refuses)
    # waits for the host, however long its pause
    frontier = FrontierSection(partitions=1, finish_wait_s=1e9)
    config = quick_config(politeness=politeness, frontier=frontier)
    crawl = VirtualCrawl(new_folder(folder), SyntheticWeb(WebPlan()), config)
    crawl.answers, crawl.resolver, crawl.longest_s = tree, Names(), span_s
    with pytest.raises(TimeoutError):
        crawl.run([f"{HOST}{number}" for number in range(_SEEDS, 2 * _SEEDS)])
    is_polite(crawl.log, politeness)
    return tree, crawl


def gaps_s(crawl: VirtualCrawl) -> list[float]:
    """The pauses of the host in its own log, from the end of one page's exchange to the start of
    the next.
    """
    pages = [each for each in crawl.log.exchanges if each.path != "/robots.txt"]
    return [later.start - earlier.end for earlier, later in pairwise(pages)]


@pytest.fixture(scope="module")
def polite(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The pages of a host that never refuses, in the same time."""
    return crawled(tmp_path_factory.mktemp("polite") / "c", lambda *_: False)[0].good


def test_a_host_that_refuses_one_request_in_two_hundred_is_crawled_at_four_fifths_of_its_polite_rate(
    polite: int, tmp_path: Path
) -> None:
    tree, _ = crawled(tmp_path / "c", lambda number, _: number % 200 == 13)
    print(
        f"{tree.requests - tree.good} refusals: {tree.good} pages of {polite},"
        f" {tree.good / polite:.2f}"
    )
    assert tree.good >= 0.8 * polite
    assert tree.requests - tree.good >= 3


def test_a_host_that_keeps_refusing_is_asked_at_doubled_pauses_up_to_the_longest(
    tmp_path: Path,
) -> None:
    section = PolitenessSection(jitter=0.0, max_backoff_s=3600.0)
    _, crawl = crawled(tmp_path / "c", lambda *_: True, section, span_s=25_000)
    wanted = [min(30.0 * 2**number, 3600.0) for number in range(12)]
    assert gaps_s(crawl) == pytest.approx(wanted, abs=1.0)  # sleepers are woken at whole seconds


def test_jitter_does_not_make_a_host_that_keeps_refusing_begin_anew(tmp_path: Path) -> None:
    """The random part of the longest pause is longer than the quiet time after which a good
    answer forgives; there was no good answer.
    """
    section = PolitenessSection(jitter=0.1, max_backoff_s=3600.0, forgive_s=10.0)
    _, crawl = crawled(tmp_path / "c", lambda *_: True, section, span_s=50_000)
    assert len(gaps_s(crawl)) > 15
    assert all(gap >= 3600.0 for gap in gaps_s(crawl)[7:])


def test_a_host_that_refuses_every_second_request_is_asked_less_but_never_given_up(
    polite: int, tmp_path: Path
) -> None:
    half, crawl = crawled(tmp_path / "half", lambda number, _: number % 2 == 1)
    none, _ = crawled(tmp_path / "none", lambda *_: True)
    print(
        f"{half.requests} requests, {half.good} pages of {polite}; {none.requests} requests when it"
        " always refuses"
    )
    assert none.requests < half.requests / 5
    assert half.good < polite / 10
    assert max(gaps_s(crawl)) < 34


class Bucket:
    """The usual limiter of a server that gives no Retry-After: so many tokens a minute, at most
    ``burst`` at once.
    """

    def __init__(self, per_minute: float, burst: float) -> None:
        self._per_s, self._burst = per_minute / 60, burst
        self._tokens, self._filled = burst, 0.0

    def __call__(self, number: int, at: float) -> bool:
        self._tokens, self._filled = (
            min(self._burst, self._tokens + (at - self._filled) * self._per_s),
            at,
        )
        refuses = self._tokens < 1
        self._tokens -= not refuses
        return refuses


@pytest.mark.parametrize(("per_minute", "burst", "share"), [(5, 5, 0.6), (30, 1, 0.05)])
def test_a_host_with_a_rate_limit_and_no_retry_after_is_not_given_up(
    per_minute: int, burst: int, share: float, tmp_path: Path
) -> None:
    tree, crawl = crawled(tmp_path / "c", Bucket(per_minute, burst))
    permitted = per_minute * _SPAN_S / 60
    print(
        f"{tree.good} pages of {permitted:.0f} permitted, {tree.requests - tree.good} refusals,"
        f" longest pause {max(gaps_s(crawl)):.0f} s"
    )
    assert tree.good >= share * permitted
