"""Name servers that fail: for one host, and for everybody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from judging import asked, host_states, quick_config
from lycosa.base.config.sections import DnsSection, RetrySection
from lycosa.base.ports import Clock, ResolveError
from lycosa.base.reasons import Reason
from lycosa.stages.fetch.dns import CachingResolver
from scripted import page, scripted_crawl
from virtual_crawl import VirtualCrawl

HOSTS = [f"h{number}.example" for number in range(30)]


class FailingQuery:
    """Answers for every name, an address each, unless ``fails`` says that nobody answers for
    this one at this time.
    """

    def __init__(self, clock: Clock, fails: Callable[[str, float], bool]) -> None:
        self._clock, self._fails = clock, fails

    async def query_name(self, name: str) -> Sequence[tuple[str, float]]:
        if self._fails(name, self._clock.monotonic()):
            await self._clock.sleep(10.0)
            raise ResolveError(name, Reason.DNS_TIMEOUT, "no answer within the limit")
        return [(f"198.18.2.{HOSTS.index(name)}", 60.0)]

    async def close(self) -> None:
        return None


def crawl_with(
    folder: Path, fails: Callable[[str, float], bool], retry: RetrySection | None = None
) -> VirtualCrawl:
    pages = {f"http://{host}/": page() for host in HOSTS}
    crawl, _ = scripted_crawl(folder, pages, quick_config(retry=retry or RetrySection()))
    crawl.resolver = CachingResolver(DnsSection(), crawl.clock, FailingQuery(crawl.clock, fails))
    return crawl


def test_while_nobody_is_answered_hosts_wait_and_none_is_given_up(tmp_path: Path) -> None:
    crawl = crawl_with(
        tmp_path / "c", lambda name, now: now < 900 and (name != HOSTS[0] or now > 5)
    )
    run = crawl.run([f"http://{host}/" for host in HOSTS])
    assert sorted(asked(crawl.log)) == sorted(f"http://{host}/" for host in HOSTS)
    assert 900 < run.duration_s < 900 + 300  # the waits grow, and stay short


def test_a_name_that_fails_for_a_while_is_asked_for_again(tmp_path: Path) -> None:
    crawl = crawl_with(tmp_path / "c", lambda name, now: name == HOSTS[3] and now < 15)
    crawl.run([f"http://{host}/" for host in HOSTS])
    assert sorted(asked(crawl.log)) == sorted(f"http://{host}/" for host in HOSTS)


def test_a_name_that_fails_for_hours_is_kept(tmp_path: Path) -> None:
    crawl = crawl_with(tmp_path / "c", lambda name, now: name == HOSTS[3] and now < 7200)
    for _ in range(3):
        crawl.run([f"http://{host}/" for host in HOSTS])
        crawl.now += 3600
    assert sorted(asked(crawl.log)) == sorted(f"http://{host}/" for host in HOSTS)


def test_names_that_nobody_answers_for_are_given_up_while_others_are_answered(
    tmp_path: Path,
) -> None:
    retry = RetrySection(away_s=60.0)
    crawl = crawl_with(tmp_path / "c", lambda name, now: name not in HOSTS[:2], retry)
    run = crawl.run([f"http://{host}/" for host in HOSTS])
    states = host_states(crawl)
    assert {states[host].reason for host in HOSTS[2:]} == {Reason.DNS_TIMEOUT}
    assert len(asked(crawl.log)) == 2 and run.duration_s < 300
