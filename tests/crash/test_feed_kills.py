"""Feeds of a running crawl: crawl and readers are killed again and again, each row and each item of
user code is given once.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.url_state import UrlState
from lycosa.inspect.committed_state import read_folder
from lycosa.inspect.crawl_tables import CrawlTables
from lycosa.inspect.sql_query import ask
from lycosa.synthetic import SyntheticWeb, WebPlan
from proofs.crawls import RunningCrawl, Whom, lycosa
from serving import served

pytestmark = [pytest.mark.service, pytest.mark.slow]
KILLS = 20  # of each reader
_PLAN = WebPlan(hosts=30, pages=30, cross_links=0.4, gone=0.1, seed=12)
_SETTINGS = {
    "politeness.address_delay_s": 0,
    "politeness.address_slots": 100,
    "store.segment_bytes": 200_000,
    "store.commit_s": 0.1,
}
_CODE = """
import lycosa

class Title(lycosa.Item, frozen=True):
    url: str
    part: int

@lycosa.extract(Title)
def titles(page):
    for part in range(3):
        yield Title(page.url, part)
"""


class Reader:
    """``lycosa feed KIND DIR --follow --output FILE`` as a process that is killed and started."""

    def __init__(self, kind: str, folder: Path, file: Path) -> None:
        self._kind, self._folder, self.file = kind, folder, file
        self.kills = 0
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "lycosa", "feed", self._kind, str(self._folder)),
                *("--follow", "--output", str(self.file)),
            ]
        )

    def kill(self, and_start: bool = True) -> None:
        assert self._process.poll() is None, "the reader ended by itself"
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)
        self.kills += 1
        if and_start:
            self._start()

    def has_grown(self, since: int) -> Callable[[], bool]:
        return lambda: self.file.exists() and self.file.stat().st_size > since

    @property
    def size(self) -> int:
        return self.file.stat().st_size if self.file.exists() else 0


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")
def test_crawl_and_readers_are_killed_and_each_row_is_given_once(tmp_path: Path) -> None:
    web, folder = SyntheticWeb(_PLAN), tmp_path / "crawl"
    (tmp_path / "shop.py").write_text(_CODE)
    with served(web) as port:
        crawl = [
            web.seed_url(port=port),
            *("--scope", "any", "--resolve", "*=127.0.0.1", "--delay", "300ms"),
            *("--workers", "2", "--extension", f"{tmp_path / 'shop.py'}:titles"),
            *(word for name, value in _SETTINGS.items() for word in ("--set", f"{name}={value}")),
        ]
        running = RunningCrawl(folder, crawl, tmp_path / "crawl.out")
        assert running.runs_until(lambda: any(folder.glob("journal/*")), 60)
        kinds = "pages", "dlq", "items.titles"
        readers = [Reader(kind, folder, tmp_path / f"{kind}.jsonl") for kind in kinds]
        for kill in range(KILLS):
            running.runs_until(readers[0].has_grown(readers[0].size), 20)
            for reader in readers:
                reader.kill()
            if kill % 3 == 2:
                running.kill(Whom.ALL)
                running = RunningCrawl(folder, crawl, tmp_path / "crawl.out")
        assert running.finish(240) == 0, (tmp_path / "crawl.out").read_text()[-2000:]
    for reader in readers:
        reader.kill(and_start=False)
        done = lycosa("feed", reader.file.stem, str(folder), "--output", str(reader.file))
        assert done.code == 0, done.err
    pages = [json.loads(row) for row in readers[0].file.read_bytes().splitlines()]
    stored = read_folder(folder)
    rows = [
        row for segment in stored.source.list_segments() for row in stored.source.read_rows(segment)
    ]
    assert Counter(row["record_id"] for row in pages) == Counter(row.record_id for row in rows)
    items = [json.loads(row) for row in readers[2].file.read_bytes().splitlines()]
    made = {(row.record_id, row.url, part) for row in rows if row.items for part in range(3)}
    assert Counter((row["_capture"], row["url"], row["part"]) for row in items) == Counter(made)
    read = {
        row.url
        for row in rows
        if row.status == 200 and row.kind is FetchKind.PAGE and row.media_type == "text/html"
    }
    assert {row.url for row in rows if row.items} == read
    with CrawlTables(stored, ["titles"]) as tables:
        found = ask(tables, "SELECT url, count(*) FROM titles GROUP BY url")[1]
        assert dict(found) == dict.fromkeys(read, 3)
    captures = Counter((row["url8"], row["fetch_number"]) for row in pages if not row.get("kind"))
    assert set(captures.values()) == {1} and len(captures) > 500
    dead = Counter(json.loads(row)["url"] for row in readers[1].file.read_bytes().splitlines())
    failed = {entry.url for entry in stored.urls() if entry.state is UrlState.FAILED}
    assert dead == dict.fromkeys(failed, 1) and failed
    print(
        f"{len(pages)} rows of {len(captures)} pages, {len(dead)} dead letters,"
        f" {len(items)} items, each once"
    )
