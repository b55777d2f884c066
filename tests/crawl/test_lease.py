"""A worker whose lease on its shard runs out sends nothing until it has it again, and no URL is
the worse for it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from judging import are_balanced, is_polite, outcomes, quick_config
from lycosa.base.config.sections import FrontierSection, PolitenessSection
from lycosa.base.model.end import End
from lycosa.base.model.fetched import Fetched, FetchKind, FetchRequest
from lycosa.base.model.url_state import UrlState
from lycosa.base.ports import Fetcher
from lycosa.base.reasons import Reason
from lycosa.inspect.audit.folder_audit import audit
from lycosa.state.attempts import read_attempts
from lycosa.state.commit import ShardLease
from lycosa.state.folder.names import attempts_folder
from lycosa.state.kv.rocks import RocksKeyValue
from lycosa.worker.assemble import Assembled
from scripted import Answer as WebAnswer
from scripted import moved, page, robots, scripted_crawl
from virtual_crawl import VirtualCrawl

_PERIOD_S, _CONNECT_S = 40.0, 1.9
_HOSTS = [f"http://s{n}.example/" for n in range(5)]
_HUB = "http://hub.test/"


def web() -> dict[str, WebAnswer]:
    """Hosts with pages of their own, whose robots.txt leads to one host."""
    answers: dict[str, WebAnswer] = {f"{_HUB}robots.txt": robots("User-agent: *\nDisallow: /no")}
    for url in _HOSTS:
        answers |= {
            f"{url}robots.txt": moved(f"{_HUB}robots.txt"),
            url: page("/a", "/b", "/c", "/no"),
        }
        answers |= {f"{url}{name}": page() for name in "abc"}
    return answers


class Connecting:
    """The fetcher port around another one: a connection takes a while."""

    def __init__(self, inner: Fetcher) -> None:
        self._inner = inner

    async def fetch(self, request: FetchRequest) -> Fetched:
        await asyncio.sleep(_CONNECT_S)
        return await self._inner.fetch(request)

    async def close(self) -> None:
        await self._inner.close()


class PeriodicLease(ShardLease):
    """A lease that commits do not renew, as when the log is away."""

    def renew(self, began: float) -> None:
        pass

    def grant(self, began: float) -> None:
        super().renew(began)


def _crawl(folder: Path, lease_s: float) -> VirtualCrawl:
    """A crawl whose worker has its lease for so long in each period only."""
    config = quick_config(
        frontier=FrontierSection(partitions=3, bands=4, head=6),
        politeness=PolitenessSection(delay_s=2.0, jitter=0.0),
    )
    crawl, _ = scripted_crawl(folder, web(), config)
    crawl.open_table = RocksKeyValue
    crawl.wrap = Connecting
    lease = PeriodicLease(lease_s)

    async def renew() -> None:
        while True:
            lease.grant(crawl.clock.monotonic())
            await asyncio.sleep(_PERIOD_S)

    tasks = []

    def meanwhile(_: Assembled) -> None:
        tasks.append(asyncio.get_running_loop().create_task(renew()))

    crawl.lease = lambda: lease
    assert crawl.run(_HOSTS, meanwhile=meanwhile).end is End.FINISHED
    return crawl


@pytest.mark.parametrize("lease_s", [2.5, 5.0, 11.0])
def test_nothing_is_requested_without_the_lease_and_all_is_fetched_with_it(
    lease_s: float, tmp_path: Path
) -> None:
    crawl = _crawl(tmp_path / "c", lease_s)
    assert crawl.now > _PERIOD_S, "the lease was away for some time"
    assert all(each.start % _PERIOD_S < lease_s for each in crawl.log.exchanges)
    found, pages = outcomes(crawl), {f"{url}{name}" for url in _HOSTS for name in ("", *"abc")}
    assert {url for url, (state, _) in found.items() if state is UrlState.FETCHED} == pages
    assert {url for url, (state, _) in found.items() if state is UrlState.REFUSED} == {
        f"{url}no" for url in _HOSTS
    }
    assert len(crawl.log) == len(set(crawl.log.urls())), "nothing was asked for twice"
    counters = are_balanced(crawl)
    assert counters.captures == counters.requests == len(pages)
    is_polite(crawl.log, crawl.config.politeness)
    report = audit(crawl.folder)
    assert report.is_clean, report.first_breaches()


def test_what_was_broken_off_stands_in_the_attempt_log_and_is_no_request(tmp_path: Path) -> None:
    kinds = set()
    for lease_s in (2.5, 5.0):
        crawl = _crawl(tmp_path / str(lease_s), lease_s)
        attempts = list(read_attempts(attempts_folder(crawl.folder)))
        broken_off = [each for each in attempts if each.outcome is Reason.LEASE_EXPIRED]
        assert all(
            each.is_finished and each.status == 0 and each.delay_s == 0 for each in broken_off
        )
        assert len(attempts) - len(broken_off) == len(crawl.log)
        kinds |= {each.kind for each in broken_off}
    assert kinds == {FetchKind.PAGE, FetchKind.ROBOTS}
