"""The minimum pause that an operator decided for one host: it holds after a kill, and a server's
own Crawl-delay counts beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from judging import quick_config
from lycosa.base.calls import HostAction, HostDecision, encode_call
from lycosa.base.config.sections import FrontierSection, PolitenessSection
from lycosa.base.model.fetched import Fetched, FetchRequest
from lycosa.base.ports import Fetcher
from lycosa.inspect.audit.politeness_check import OwnersLogs, PolitenessChecks
from lycosa.state.attempts.attempt_files import attempt_files_of
from lycosa.state.folder.names import attempts_folder
from lycosa.synthetic import Crash
from lycosa.synthetic.synthetic_crawl import VirtualCrawl
from lycosa.worker.assemble import Assembled
from scripted import moved, page, robots, scripted_crawl

HOST = "a.example"
SITE = {
    f"http://{HOST}/": page("/1", "/2"),
    f"http://{HOST}/1": page(),
    f"http://{HOST}/2": page(),
}


def deciding(delay_s: float) -> Callable[[Assembled], None]:
    """Decide the delay of the host when a run begins."""

    def decide(assembled: Assembled) -> None:
        decision = HostDecision("c1", "me", HOST, HostAction.DELAY, delay_s=delay_s, is_new=True)
        call = assembled.calls.answer_call(
            assembled.intake.partition_of_host(HOST), encode_call(decision)
        )
        tasks.append(asyncio.get_running_loop().create_task(call))

    tasks: list[asyncio.Task[bytes]] = []
    return decide


def starts(crawl: VirtualCrawl) -> dict[str, float]:
    return {each.path: each.start for each in crawl.log.exchanges if each.host == HOST}


class EndingFetcher:
    """The process ends while it requests one path."""

    def __init__(self, inner: Fetcher, path: str) -> None:
        self._inner, self._path = inner, path

    async def fetch(self, request: FetchRequest) -> Fetched:
        if request.url.endswith(self._path):
            await asyncio.sleep(0.1)
            raise Crash(request.url)
        return await self._inner.fetch(request)

    async def close(self) -> None:
        await self._inner.close()


def test_a_request_that_a_kill_ended_is_followed_by_the_pause_of_the_operator(
    tmp_path: Path,
) -> None:
    config = quick_config(frontier=FrontierSection(partitions=3, finish_wait_s=7200.0))
    crawl, _ = scripted_crawl(tmp_path / "c", SITE, config)
    crawl.wrap = lambda inner: EndingFetcher(inner, "/1")
    with pytest.raises(Crash):
        crawl.run([f"http://{HOST}/"], meanwhile=deciding(600.0))
    (log,) = (path for path in attempts_folder(crawl.folder).iterdir() if b"/1\n" in _bytes(path))
    lines = log.read_bytes().splitlines(keepends=True)
    assert lines[-1].startswith(b"E\t")  # which a process that is killed does not write
    log.write_bytes(b"".join(lines[:-1]))
    crawl.wrap, died = lambda inner: inner, crawl.now
    crawl.run()
    assert starts(crawl)["/1"] >= died + 600


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def test_a_shorter_pause_of_the_operator_hides_no_crawl_delay_that_is_learned_late(
    tmp_path: Path,
) -> None:
    answers = {
        **SITE,
        f"http://{HOST}/robots.txt": moved("http://b.example/robots.txt", 301),
        "http://b.example/robots.txt": robots("User-agent: *\nCrawl-delay: 3\n"),
    }
    config = quick_config(politeness=PolitenessSection(delay_s=5.0))
    crawl, _ = scripted_crawl(tmp_path / "c", answers, config)
    crawl.run([f"http://{HOST}/"], meanwhile=deciding(0.1))
    times = starts(crawl)
    assert times["/"] - times["/robots.txt"] >= 3 and times["/2"] - times["/1"] >= 3


def test_the_audit_expects_the_pause_of_the_operator_after_a_request_that_was_cancelled(
    tmp_path: Path,
) -> None:
    config = quick_config(politeness=PolitenessSection(delay_s=60.0))
    crawl, _ = scripted_crawl(tmp_path / "c", SITE, config)
    crawl.wrap = lambda inner: EndingFetcher(inner, "/1")
    with pytest.raises(Crash):
        crawl.run([f"http://{HOST}/"], meanwhile=deciding(1.0))
    crawl.wrap = lambda inner: inner
    crawl.run()
    assert len(starts(crawl)) == 4
    checks = PolitenessChecks(config.politeness, False, lambda what, done, total: None)
    checks.check_logs([OwnersLogs(attempt_files_of(attempts_folder(crawl.folder)))])
    assert (checks.hosts.checked, checks.hosts.first) == (4, [])
