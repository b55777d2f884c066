"""``kill -9`` of a whole crawl, again and again, while its records become cold."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from clusters import LONGEST_S, LYCOSA, SETTINGS, await_death, seed_at
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.state.cold.cold_rows import cold_files
from lycosa.state.shard.folder_view import FolderView
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from serving import served

KILLS = int(os.environ.get("KILLS", "50"))
COLD = {
    "cold.after_s": "1",
    "cold.least_records": "1",
    "frontier.partitions": "4",
    "limits.continuous": "true",
    "store.commit_s": "0.1",
    "politeness.delay_s": "0.02",
    "politeness.max_crawl_delay_s": "0",
}
_POLL_S = 0.005
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


class Found(NamedTuple):
    """What a kill left: cold URLs, known ones, and cold files that commits name, and that none does."""

    cold: int
    known: int
    files: int
    orphans: int


@linux
@pytest.mark.long
def test_fifty_kills_lose_no_record_and_leave_none_twice(tmp_path: Path) -> None:
    web = SyntheticWeb(WebPlan(seed=5, hosts=12, pages=60, cross_links=0.3, page_bytes=1000))
    folder, chance = tmp_path / "crawl", random.Random(5)
    found: list[Found] = []
    with served(web) as port:
        pairs = {**SETTINGS, **COLD}.items()
        settings = [part for each in pairs for part in ("--set", "=".join(each))]
        command = [*LYCOSA, "crawl", seed_at(port), "--dir", str(folder), *settings]
        while len(found) < KILLS:
            _kill(command, chance, folder)
            found.append(_judge(folder))
    orphans = sum(each.orphans > 0 for each in found)
    print(f"{len(found)} kills, {orphans} between file and commit")
    print(*found[:: max(KILLS // 10, 1)], found[-1], sep="\n")
    assert orphans > 0, "no kill was between a file and its commit"
    assert found[-1].cold > 0 and found[-1].files > KILLS // 10, "hardly a life archived anything"


def _kill(command: list[str], chance: random.Random, folder: Path) -> None:
    """Run a crawl and kill all of its processes: after some commits, or when a file is there."""
    output = folder.with_name("output")
    with output.open("w") as told:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=told, start_new_session=True
        )
    try:
        logged, files = _logged(folder), _files(folder)
        _await(process, lambda: _logged(folder) != logged, LONGEST_S)
        if chance.random() < 0.5:
            # It may have nothing to archive, so not for long.
            _await(process, lambda: not _files(folder) <= files, 3.0)
        else:
            _await(process, lambda: False, chance.uniform(0.0, 1.0))
        assert process.poll() is None, output.read_text()
        children = _children(process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, output.read_text()
    await_death(children)


def _await(process: subprocess.Popen[bytes], happens: Callable[[], bool], longest_s: float) -> None:
    """Wait until something happens in a crawl, its end, or the time is over."""
    end = time.monotonic() + longest_s
    while not happens() and process.poll() is None and time.monotonic() < end:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_S)


def _children(pid: int) -> list[int]:
    """All processes below one, which would hold the folder while they end."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *_children(child)]
    return found


def _logged(folder: Path) -> list[int]:
    """The sizes of the commit logs."""
    return [path.stat().st_size for path in sorted(folder.glob("log/commit-*"))]


def _files(folder: Path) -> set[Path]:
    return set(folder.glob("cold/*/*.parquet"))


def _judge(folder: Path) -> Found:
    """What the killed crawl has committed adds up."""
    report = audit(folder)
    assert report.is_clean, report.first_breaches()
    reader = read_folder(folder)
    counters = [view.counters() for view in reader.partition_views()]
    cold, known = sum(sum(c.cold.values()) for c in counters), sum(c.discovered for c in counters)
    urls = [entry.url for entry in reader.urls()]
    assert len(urls) == len(set(urls)) == known
    view, names, replaced = FolderView(folder), set[str](), set[str]()
    for number in view.seen.partitions:
        table = view.open_table(number)
        rows = cold_files(table).values()
        names |= {row.name for row in rows}
        replaced |= {name for row in rows for _, name in row.replaced}
        table.close()
    written = {path.relative_to(folder / "cold").as_posix() for path in _files(folder)}
    assert names <= written
    return Found(cold, known, len(names), len(written - names - replaced))
