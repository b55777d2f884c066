"""Operators decide about hosts and dead letters while the crawl of a folder runs."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clusters import LONGEST_S, LYCOSA, SETTINGS, WatchedLog, seed_at
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from serving import served_with_log

pytestmark = pytest.mark.long
PLAN = WebPlan(hosts=4, pages=200, seed=5, latency_s=0.0, page_bytes=2000)


def dlq(folder: Path, action: str, *options: str) -> dict[str, Any]:
    return decided("dlq", action, str(folder), *options)


def decided(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [*LYCOSA, *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("workers", [1, 2])
def test_the_owners_of_a_running_crawl_carry_decisions_out(tmp_path: Path, workers: int) -> None:
    folder, log = tmp_path / "crawl", WatchedLog()
    settings = {**SETTINGS, "politeness.delay_s": "0.5", "workers": str(workers)}
    pairs = [part for each in settings.items() for part in ("--set", "=".join(each))]
    with served_with_log(SyntheticWeb(PLAN), log=log) as (port, _):
        missing = [f"http://h{n:06}.site{n:06}.example:{port}/missing" for n in range(3)]
        command = [*LYCOSA, "crawl", *missing, seed_at(port), "--dir", str(folder), *pairs]
        crawl = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            log.await_that(lambda: _asked(log, "/missing") >= 3)
            log.await_more(8)  # a commit later
            assert len(dlq(folder, "list")["dead_letters"]) == 3
            assert dlq(folder, "drop", missing[0])["urls"] == 1
            assert dlq(folder, "retry", "--all")["urls"] == 2
            log.await_that(lambda: _asked(log, "/missing") >= 5)
            assert decided("reparse", str(folder)) == {"is_running": True, "wanted": 0}
            for action in ("pause", "resume"):
                answer = decided("host", action, str(folder), missing[0])
                assert (answer["changed"], len(answer["hosts"])) == (1, 1)
        finally:
            crawl.send_signal(signal.SIGINT)
            assert crawl.wait(LONGEST_S) == 4
        listed = {each["url"] for each in dlq(folder, "list")["dead_letters"]}
        assert missing[0] not in listed
        # the same command carries a decision out when the crawl does not run
        assert dlq(folder, "drop", "--all")["urls"] == len(listed)
        assert decided("host", "pause", str(folder), missing[0])["changed"] == 1
        assert decided("reparse", str(folder))["done"]["parsed"] == 0


def _asked(log: WatchedLog, path: str) -> int:
    return sum(each.path == path for each in log.exchanges)
