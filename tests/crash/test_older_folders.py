"""Crawl folders that an older version made are read, audited and crawled to their right end, by as
many workers as may be.

The folders are packed in ``tests/data/older`` with what the web saw until then
(``tests/data/README.md``). What came of a crawl is judged by the web's own survey, over the
requests of both versions.
"""

from __future__ import annotations

import asyncio
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from histories import judge_end
from judging import errands_are_kept, file_bytes, outcomes
from lycosa.cli.main import main
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.state.attempts import crashed_attempts, left_storing
from lycosa.state.exchange.outbox import Outbox
from lycosa.state.folder import manifest as manifests
from lycosa.state.folder.folder_notes import saved_settings
from lycosa.state.folder.names import attempts_folder
from lycosa.state.kv.rocks import RocksKeyValue, SharedCache
from lycosa.state.kv.table_records import CRASH_PREFIX, prefix_end
from lycosa.synthetic import SyntheticWeb, WebPlan
from lycosa.synthetic.request_log import LoggedRequest
from lycosa.worker.assemble import Assembled
from several_workers import run_workers
from virtual_crawl import VirtualCrawl

PACKED = Path(__file__).parents[1] / "data" / "older"
FORMATS_1 = ("formats-1-stopped-4", "formats-1-crashed-1")
CUT_SHORT = ("stopped-1", "stopped-4", "crashed-1", "crashed-4", *FORMATS_1)
FOLDERS = (*CUT_SHORT, "finished-4")
QUICK = {
    *(("stopped-1", 1), ("stopped-1", 3), ("stopped-4", 1), ("stopped-4", 3), ("stopped-4", 4)),
    *(("crashed-1", 1), ("crashed-1", 4), ("crashed-4", 1), ("crashed-4", 3), ("crashed-4", 4)),
    *(("formats-1-stopped-4", 3), ("formats-1-crashed-1", 3)),
}
"""Folders, and numbers of workers that continue them."""
OUTPUTS = ("warc", "cdxj", "journal", "pages", "links", "text")


class Told(msgspec.Struct):
    """``told.json`` of a packed folder: how it came about, the web and its seeds, how many workers
    there were, the virtual time, what was under way, and every request that the web saw.
    """

    how: str
    plan: WebPlan
    seeds: list[str]
    workers: int
    now: float
    under_way: dict[str, int]
    requests: list[tuple[str, str, str, float, float, float | None, int]]


class Older:
    """A crawl in an unpacked folder, which goes on 20 seconds after its last run."""

    def __init__(self, name: str, path: Path) -> None:
        with tarfile.open(PACKED / f"{name}.tar.xz") as archive:
            archive.extractall(
                path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {})
            )
        self.folder = path / "crawl"
        self.told = msgspec.json.decode((path / "told.json").read_bytes(), type=Told)
        self.web = SyntheticWeb(self.told.plan)
        self.tables: dict[str, RocksKeyValue] = {}
        self._cache = SharedCache(32 << 20, 16 << 20)
        config = saved_settings(self.folder)
        assert config is not None
        self.crawl = VirtualCrawl(self.folder, self.web, config, self._open)
        self.crawl.now = self.told.now + 20.0
        self.crawl.log.exchanges = [
            LoggedRequest(*each[:5], each[5] or each[3], each[6]) for each in self.told.requests
        ]

    def _open(self, folder: Path) -> RocksKeyValue:
        folder.mkdir(parents=True, exist_ok=True)
        table = self.tables[folder.name] = RocksKeyValue(folder, self._cache)
        return table

    def go_on(self, workers: int, after_s: float | None = None) -> None:
        """Crawls on, to the end or for ``after_s``; at the start it looks at what was taken
        over.
        """
        started: list[Assembled] = []

        def look(assembled: Assembled) -> None:
            started.append(assembled)
            if after_s is not None:
                asyncio.get_running_loop().call_later(after_s, assembled.worker.stop)

        run_workers(self.crawl, workers, self.told.seeds, meanwhile=look)
        assert len(started) == workers


@pytest.fixture
def older(name: str, tmp_path: Path) -> Older:
    return Older(name, tmp_path)


def printed(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """What a command says; it must end with 0 and complain of nothing."""
    code = main([str(arg) for arg in args])
    found = capsys.readouterr()
    assert (code, found.err) == (0, ""), (args, found)
    return found.out


def lines(capsys: pytest.CaptureFixture[str], older: Older, kind: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed(capsys, "export", older.folder, kind).splitlines()]


def is_clean(folder: Path) -> None:
    report = audit(folder)
    assert report.is_clean, report.first_breaches()


@pytest.mark.parametrize("name", FOLDERS)
def test_an_older_folder_is_read_as_it_is(
    name: str, older: Older, capsys: pytest.CaptureFixture[str]
) -> None:
    before = file_bytes(older.folder)
    is_clean(older.folder)
    printed(capsys, "audit", older.folder)
    states = json.loads(printed(capsys, "status", older.folder, "--json"))["states"]
    urls, pages = lines(capsys, older, "urls"), lines(capsys, older, "pages")
    assert sum(states.values()) == len(urls) > 0 and lines(capsys, older, "hosts")
    asked = {each[0] for each in older.told.requests}
    assert pages and {page["url"].split("/")[2] for page in pages} <= asked
    for each in (urls[0], urls[-1]):
        assert each["url"] in printed(capsys, "explain", older.folder, each["url"])
    counted = printed(capsys, "sql", older.folder, "SELECT count(*) AS n FROM pages", "--json")
    assert json.loads(counted) == [{"n": len(pages)}]
    assert file_bytes(older.folder) == before


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] * name.startswith(("stopped", "crashed-1")))
        for name in CUT_SHORT
    ],
)
def test_an_older_folder_is_crawled_by_one_worker_then_by_three(name: str, older: Older) -> None:
    older.go_on(1, after_s=10.0)
    is_clean(older.folder)
    older.crawl.now += 20.0
    older.go_on(3)
    judge_end(older.crawl, older.web, older.told.seeds)
    is_clean(older.folder)


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        # Each folder with fewer or more workers than it had, and the largest one with as many.
        pytest.param(name, workers, marks=[pytest.mark.long] * ((name, workers) not in QUICK))
        for name in CUT_SHORT
        for workers in (1, 3, 4)
    ],
)
def test_an_older_folder_is_crawled_to_its_right_end_with_what_was_under_way(
    name: str, older: Older, workers: int
) -> None:
    """Taken over are parcels, open questions, open segments and counts of crashes."""
    assert len(list(older.folder.glob("warc/*.open"))) == older.told.under_way["segments"]
    counted = crash_counts(older.folder)
    assert name in FORMATS_1 or len(counted) == older.told.under_way["counts"]
    logs = attempts_folder(older.folder)
    unended = {each.url for each in crashed_attempts(logs, left_storing(logs))}
    seen: list[Mapping[str, int]] = []
    accused: list[Mapping[str, int]] = []

    def look(assembled: Assembled) -> None:
        crashes = assembled.worker._files.crashes
        accused.append({url: crashes.suspicion_of(url) for url in crashes.suspects()})
        if len(accused) == workers:  # all tables are open, and nothing has happened yet
            tables = [table for _, table in sorted(older.tables.items())]
            outboxes = [Outbox(number, table, table) for number, table in enumerate(tables)]
            parcels = sum(
                len(each.pending_parcels(to, 0)) for each in outboxes for to in each.destinations()
            )
            seen.append(
                {"parcels": parcels, "questions": errands_are_kept(dict(enumerate(tables)))}
            )

    run_workers(older.crawl, workers, older.told.seeds, meanwhile=look)
    assert seen == [{key: older.told.under_way[key] for key in ("parcels", "questions")}]
    wanted = {url: counted.get(url, 0) + (url in unended) for url in counted.keys() | unended}
    found = {url: count for each in accused for url, count in each.items()}
    # A worker that opens its partitions after the crashed worker's successor began its log finds
    # that run instead of the crashed one, so an attempt at a host that moved to it is not counted.
    moved = {url for url in unended if older.told.workers < workers}
    assert found.keys() | moved == wanted.keys()
    assert found == {url: wanted[url] for url in found}
    judge_end(older.crawl, older.web, older.told.seeds)
    is_clean(older.folder)


@pytest.mark.parametrize("workers", [1, 3, 4])
@pytest.mark.parametrize("name", ["finished-4"])
def test_an_older_crawl_that_had_ended_is_left_as_it_is(
    name: str, older: Older, workers: int
) -> None:
    requests, runs = len(older.crawl.log), manifests.load_manifest(older.folder).term
    files, found = outputs(older.folder), outcomes(older.crawl)
    older.go_on(workers)
    assert len(older.crawl.log) == requests
    assert manifests.load_manifest(older.folder).term == runs + 1
    assert (outputs(older.folder), outcomes(older.crawl)) == (files, found)
    judge_end(older.crawl, older.web, older.told.seeds)
    is_clean(older.folder)


@pytest.mark.parametrize("name", FORMATS_1)
def test_a_folder_of_formats_1_has_late_fields_from_its_next_run_on(
    name: str, older: Older
) -> None:
    """An older program, which would drop them, refuses it then."""
    assert manifests.load_manifest(older.folder).format == 1
    before = {entry.url: entry.record for entry in read_folder(older.folder).urls()}
    older.go_on(3)
    assert manifests.load_manifest(older.folder).format == manifests.FOLDER_FORMAT > 2
    after = {entry.url: entry.record for entry in read_folder(older.folder).urls()}
    kept = [url for url, record in before.items() if record.history is not None]
    assert kept and before.keys() < after.keys()
    for url in kept:
        assert after[url].history == before[url].history or after[url].history.fetches > 1


def test_an_interrupted_folder_has_everything_that_must_be_taken_over() -> None:
    """Else the tests above prove less than they say."""
    for name in CUT_SHORT:
        with tarfile.open(PACKED / f"{name}.tar.xz") as archive:
            member = archive.extractfile("told.json")
            assert member is not None
            told = msgspec.json.decode(member.read(), type=Told)
        wanted = (
            {"questions"}
            | ({"parcels"} if told.workers > 1 else set())
            | ({"segments"} if "crashed" in name else set())
            | ({"counts"} if "crashed" in name and name not in FORMATS_1 else set())
        )
        assert all(told.under_way[key] > 0 for key in wanted), (name, told.under_way)


def crash_counts(folder: Path) -> dict[str, int]:
    """By URL: in a file of its own, and later in rows of the tables."""
    path = folder / "log" / "crashes.json"
    if path.exists():
        return json.loads(path.read_bytes())["crashes"]
    rows = [
        msgspec.msgpack.decode(value)
        for view in read_folder(folder).partition_views()
        for _, value in view.scan(CRASH_PREFIX, prefix_end(CRASH_PREFIX))
    ]
    return {url: crashes for url, crashes, _ in rows}


def outputs(folder: Path) -> dict[str, bytes]:
    """What was captured and what is made of it."""
    return {
        name: data for name, data in file_bytes(folder).items() if name.split("/")[0] in OUTPUTS
    }


@pytest.mark.parametrize("name", FOLDERS)
def test_failed_urls_of_an_older_folder_are_listed_and_retried(
    name: str, older: Older, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = printed(capsys, "feed", "pages", older.folder).splitlines()
    fetched = lines(capsys, older, "fetches")
    assert len(rows) == len(fetched) > 0
    failed = {row["url"] for row in lines(capsys, older, "urls") if row["state"] == "failed"}
    # once they were not numbered
    numbered = failed if name in FORMATS_1 else set()
    letters = printed(capsys, "feed", "dlq", older.folder).splitlines()
    assert {json.loads(letter)["url"] for letter in letters} == numbered
    listed = json.loads(printed(capsys, "dlq", "list", older.folder, "--json"))["dead_letters"]
    assert {letter["url"] for letter in listed} == failed
    assert {letter["url"] for letter in listed if letter["failed"]} == numbered
    printed(capsys, "dlq", "retry", older.folder, "--all")
    assert printed(capsys, "dlq", "list", older.folder, "--urls") == ""
    is_clean(older.folder)
