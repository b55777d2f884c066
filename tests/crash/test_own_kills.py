"""``kill -9`` of a crawl while its own host has several requests at once, judged by the server."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from crawling import page
from killing import kill_machine
from lycosa.base.urls.identity import host_of, target_of
from lycosa.stages.politeness.own_proofs import OWN_PATH, token_of
from lycosa.state.attempts import Attempt, read_attempts
from lycosa.state.folder.names import attempts_folder
from lycosa.synthetic import LoggedRequest, Response
from proofs.crawls import LOOPBACK, LYCOSA, crawl, environment, lycosa
from serving import served_with_log

SECRET, MOST, DELAY_S = "s" * 40, 4, 1.0
TEXT = [("Content-Type", "text/plain")]
PAGES = [f"/p{number}" for number in range(40)]


class OwnHost:
    """Pages that take half a second each, and the file that proves the host."""

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        target = target_of(url)
        if target == OWN_PATH:
            return Response(200, TEXT, token_of(SECRET.encode(), host_of(url)).encode())
        if target == "/robots.txt":
            return Response(200, TEXT, b"User-agent: *\n")
        found = page(*PAGES) if target == "/" else page(text=f"page {target} ")
        return Response(200, found.headers, found.body, latency_s=0.5)


def open_at(log: list[LoggedRequest], at: float) -> int:
    """How many requests the server had open when one began."""
    return sum(each.start <= at and (not each.end or at < each.end) for each in log)


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_killed_crawl_proves_its_host_again_before_it_sends_several(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "crawl"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    with served_with_log(OwnHost(), pace=1.0) as (port, log):
        host = f"own.test:{port}"
        settings = {
            "requests.own_hosts": f'["{host}"]',
            "requests.own_secret": f"file:{secret}",
            "requests.own_concurrency": str(MOST),
            "politeness.delay_s": str(DELAY_S),
            "politeness.address_delay_s": "0",
            "politeness.max_crawl_delay_s": "0",
            "politeness.max_adaptive_delay_s": "0",
            "store.commit_s": "0.2",
        }
        given = [part for pair in settings.items() for part in ("--set", "=".join(pair))]
        start = [f"http://{host}/", "--resolve", "own.test=127.0.0.1", *given]
        process = subprocess.Popen(
            [*LYCOSA, "crawl", "--dir", str(folder), *LOOPBACK, *start],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(None),
        )
        try:
            deadline = time.monotonic() + 60
            while len(log.exchanges) < 20:
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.02)  # the server is another thread
        finally:
            kill_machine(process.pid)
            process.wait()
        killed = len(log.exchanges)
        broken = [each for each in attempts(folder) if not each.is_finished]
        assert len(broken) > 1 and {each.at_once for each in broken} == {MOST}
        assert lycosa("audit", str(folder)).code == 0
        done = crawl(folder, *start[1:])
        assert done.code == 0, done.err
        later = log.exchanges[killed:]
    asked = [each.path for each in later]
    assert {target_of(each.url) for each in broken} <= set(asked)
    assert set(PAGES) <= {each.path for each in log.exchanges}
    proof = asked.index(OWN_PATH)
    for before, after in pairwise(later[: proof + 2]):
        assert after.start - before.end >= DELAY_S - 0.01
    assert max(open_at(later, each.start) for each in later) == MOST
    audited = lycosa("audit", str(folder))
    assert audited.code == 0, audited.out


def attempts(folder: Path) -> list[Attempt]:
    return list(read_attempts(attempts_folder(folder)))
