"""The example of an outside fetcher, killed twice, crawls a whole web: nothing is lost, no host is
overloaded, by the log of the server itself. The crawl requests robots.txt only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from api_crawl import served_folder
from lycosa.synthetic import SyntheticWeb, WebPlan
from lycosa.synthetic.oracle import OracleRules, survey
from serving import served_with_log

pytestmark = pytest.mark.long
EXAMPLE = Path(__file__).parents[2] / "examples" / "outside_fetcher.py"
DELAY_S, LONGEST_S = 0.2, 400.0


def _started(url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(EXAMPLE), url], env={**os.environ, "IDLE_S": str(LONGEST_S)}
    )


def _counts(url: str) -> dict[str, int]:
    answer = httpx.get(f"{url}/api/v1/frontier/stats", timeout=30).json()
    return {"discovered": answer["discovered"], "queued": answer["queued"], **answer["states"]}


def test_a_fetcher_that_is_killed_twice_crawls_everything_politely(tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(hosts=10, pages=8, cross_links=0.3, redirects=0.0))
    folder, pause = tmp_path / "c", threading.Event()
    with (
        served_with_log(web) as (port, log),
        served_folder(
            folder,
            [web.seed_url(0, port)],
            *("--set", f"politeness.delay_s={DELAY_S}s", "--set", "fetch.own_pages=false"),
        ) as crawl,
    ):
        truth = survey(web, [web.seed_url(0, port)], OracleRules())
        fetcher, kills = _started(crawl.url), [8, 25]
        try:
            deadline = time.monotonic() + LONGEST_S
            while True:
                counts = _counts(crawl.url)
                done = counts["discovered"] - counts["queued"]
                if kills and done >= kills[0]:
                    fetcher.kill()
                    fetcher.wait()
                    fetcher = _started(crawl.url)
                    kills.pop(0)
                if done >= len(truth.requested) and not counts["queued"]:
                    break
                assert time.monotonic() < deadline, (counts, len(truth.requested))
                pause.wait(0.3)
        finally:
            fetcher.kill()
            fetcher.wait()
        assert not kills
        assert crawl.stop() == 0
    asked = {f"http://{each.host}{each.path}" for each in log.exchanges}
    assert truth.requested <= asked
    for host in {each.host for each in log.exchanges}:
        assert min(log.gaps(host), default=DELAY_S) >= DELAY_S - 1e-3, host
    status = subprocess.run(
        [sys.executable, "-m", "lycosa", "status", str(folder), "--json"],
        capture_output=True,
        text=True,
    )
    states = json.loads(status.stdout)["states"]
    assert states["fetched"] == len(truth.pages | truth.others), states
    audit = subprocess.run(
        [sys.executable, "-m", "lycosa", "audit", str(folder)], capture_output=True, text=True
    )
    assert audit.returncode == 0, audit.stdout[-3000:]
