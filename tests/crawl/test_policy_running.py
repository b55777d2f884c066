"""Operators change refetch policies while the crawl of a folder runs; then it is killed."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from test_dlq_running import decided

from clusters import LONGEST_S, LYCOSA, SETTINGS, WatchedLog, seed_at
from lycosa.inspect.audit.folder_audit import audit
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from serving import served_with_log

pytestmark = pytest.mark.long
PLAN = WebPlan(hosts=4, pages=200, seed=5, latency_s=0.0, page_bytes=2000)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_running_crawl_follows_new_policies_and_keeps_them_after_a_kill(
    tmp_path: Path, workers: int
) -> None:
    folder, log = tmp_path / "crawl", WatchedLog()
    settings = {**SETTINGS, "politeness.delay_s": "0.2", "workers": str(workers)}
    pairs = [part for each in settings.items() for part in ("--set", "=".join(each))]
    with served_with_log(SyntheticWeb(PLAN), log=log) as (port, _):
        command = [*LYCOSA, "crawl", seed_at(port), "--dir", str(folder), *pairs]
        crawl = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            log.await_more(30)
            found = decided("policy", "set", str(folder), "/* every 400d", "* never")
            assert found["records_left"] == 0 and found["records_moved"] >= 20
            assert decided("policy", "test", str(folder), seed_at(port))["line"] == 1
            before = len(log)
            log.await_that(lambda: len(log) > before + 4)
            # not waited for: the kill comes while the rules are being applied, or soon after
            decided("policy", "set", str(folder), "* never", "--wait", "0")
        finally:
            crawl.send_signal(signal.SIGKILL)
            crawl.wait(LONGEST_S)
    shown = decided("policy", "show", str(folder))
    assert [each["rule"] for each in shown["rules"]] == ["* never"]
    again = decided("policy", "set", str(folder), "* never", "--wait", "60")
    assert again["records_left"] == 0
    assert decided("policy", "test", str(folder), seed_at(port))["next_due"] == 0
    report = audit(folder)
    assert report.is_clean, report.first_breaches()
