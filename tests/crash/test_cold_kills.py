"""``kill -9`` of a whole crawl, again and again, while its records become cold."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clusters import LYCOSA, SETTINGS, seed_at
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from serving import served

KILLS = int(os.environ.get("KILLS", "50"))
COLD = {
    "cold.after_s": "1",
    "cold.least_records": "1",
    "refetch.rule": "off",
    "store.commit_s": "0.1",
    "politeness.delay_s": "0.02",
    "politeness.max_crawl_delay_s": "0",
}
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="kills a process group")


@linux
@pytest.mark.long
def test_fifty_kills_lose_no_record_and_leave_none_twice(tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(seed=5, hosts=12, pages=60, cross_links=0.3, page_bytes=1000))
    folder, chance = tmp_path / "crawl", random.Random(5)
    with served(web) as port:
        pairs = {**SETTINGS, **COLD}.items()
        settings = [part for each in pairs for part in ("--set", "=".join(each))]
        command = [
            *LYCOSA,
            "crawl",
            seed_at(port),
            "--dir",
            str(folder),
            *settings,
            "--set",
            "limits.continuous=true",
        ]
        found: list[tuple[int, int]] = []
        for _ in range(4 * KILLS):
            if len(found) < KILLS and _is_killed(command, chance, folder):
                found.append(_judge(folder))
    print(f"{KILLS} kills; cold, known: {found[:: max(len(found) // 10, 1)]} {found[-1]}")
    assert found[-1][0] > found[-1][1] // 2


def _is_killed(command: list[str], chance: random.Random, folder: Path) -> bool:
    """Run a crawl and kill it; false while workers of the one before still hold the folder."""
    output = folder.with_name("output")
    with output.open("w") as told:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=told, start_new_session=True
        )
    # From its first commit on, for some tenths of a second.
    before, left, ticks = _logged(folder), 2400, chance.randrange(2, 40)
    while ticks and left:
        try:
            process.wait(0.05)
            break
        except subprocess.TimeoutExpired:
            left -= 1
            ticks -= _logged(folder) != before
    else:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    assert "is in use" in output.read_text(), output.read_text()
    return False


def _logged(folder: Path) -> list[int]:
    """The sizes of the commit logs."""
    return [path.stat().st_size for path in sorted(folder.glob("log/commit-*"))]


def _judge(folder: Path) -> tuple[int, int]:
    """What the killed crawl has committed adds up; returns its cold and its known URLs."""
    report = audit(folder)
    assert report.is_clean, report.first_breaches()
    reader = read_folder(folder)
    counters = [view.counters() for view in reader.partition_views()]
    cold, known = sum(sum(c.cold.values()) for c in counters), sum(c.discovered for c in counters)
    urls = [entry.url for entry in reader.urls()]
    assert len(urls) == len(set(urls)) == known
    return cold, known
