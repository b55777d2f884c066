"""Everything that reads URL records gives the same answers whether every record is cold that may be,
or none is.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cold_crawls import cold_copy
from crawling import HTML, QUICK, Pages, crawl_folder, html, moved, page, robots
from lycosa.base.calls import Found, HostUrlsQuery, UrlQuery
from lycosa.base.config.sections import FrontierSection, RefetchSection, StoreSection
from lycosa.base.urls.identity import hash8
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import CrawlReader, read_folder
from lycosa.inspect.crawl_status import crawl_status
from lycosa.inspect.crawl_tables import CrawlTables
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.queries.answering import answer_question
from lycosa.inspect.queries.time_budget import BudgetedView, OutOfTime, TimeBudget
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.inspect.state_rows import state_rows
from lycosa.moves.stopped_folder import gather_folder
from lycosa.state.commit import (
    MARK_KEY,
    Mark,
    MemoryChangelog,
    MemoryLog,
    merged_by_worker,
    saved_logs,
)
from lycosa.state.folder.manifest import load_manifest
from lycosa.state.folder.names import log_folder, table_folder
from lycosa.state.folder.start_check import CommittedDataMissing
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.kv.table_records import encode_url, url_key
from lycosa.state.objects.folder import FolderStore
from lycosa.state.seen.urls_sorted import SortedSeenUrls
from lycosa.state.shard.counters import COUNTERS_KEY, counters_of
from lycosa.state.shard.folder_view import FolderView
from lycosa.state.shard.live_view import LiveView, viewable
from lycosa.state.shard.opened_shard import PartitionData, Shard, ShardStorage
from lycosa.state.shard.snapshot_view import SnapshotView
from lycosa.state.shard.view import CrawlView
from lycosa.state.store.segment_files import SegmentFiles
from lycosa.synthetic import VIRTUAL_EPOCH, Response
from lycosa.worker.commit.recovery import recover_crawl

SITE = "http://www.example.org"
PAGES = {
    f"{SITE}/robots.txt": robots("User-agent: *", "Disallow: /cgi/"),
    f"{SITE}/": page("/cgi/x", "/gone", "/busy", "/old", *(f"/{n}" for n in range(20))),
    f"{SITE}/old": moved("/1"),
    f"{SITE}/busy": Response(503, [HTML], b"<p>Later."),
    **{
        f"{SITE}/{n}": html(f"<title>{n}</title><p>Page {n}, {'and so on ' * n}") for n in range(20)
    },
}
CONFIG = msgspec.structs.replace(
    QUICK,
    frontier=FrontierSection(partitions=2),
    refetch=RefetchSection(policies=("www.example.org /1* never",)),  # the others are due one day
    store=StoreSection(commit_pages=4),
)
NOW = VIRTUAL_EPOCH + 500.0
COLD_FACTS = {"cold_file"}
OPENER = rocks_opener(8 << 20, 4 << 20)


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A crawl that was stopped while a URL waits, and the same with cold files."""
    folder = tmp_path_factory.mktemp("cold") / "crawl"
    seeds = [f"{SITE}/", "http://other.example.com/"]
    crawl_folder(folder, Pages(PAGES), seeds, CONFIG, stop_after_s=300.0)
    cold = folder.with_name("cold")
    assert cold_copy(folder, cold) > 20
    return folder, cold


def status_of(reader: CrawlReader) -> dict[str, Any]:
    told = crawl_status(reader, load_saved_settings(reader), NOW, sites=5)
    return {
        key: value
        for key, value in msgspec.structs.asdict(told).items()
        if key not in ("folder", "outputs", "cold", "cold_files", "cold_bytes")
    }


def explained(reader: CrawlReader) -> list[dict[str, Any]]:
    asked = [*(entry.url for entry in reader.urls()), hash8(f"{SITE}/3").hex(), f"{SITE}/never"]
    found = [explain(reader, load_saved_settings(reader), url, NOW).to_json() for url in asked]
    return [
        told | {"facts": {key: x for key, x in told["facts"].items() if key not in COLD_FACTS}}
        for told in found
    ]


def answered(reader: CrawlReader) -> list[Any]:
    host = "www.example.org"
    questions = [
        HostUrlsQuery(host),
        UrlQuery(f"{SITE}/3"),
        UrlQuery(hash8(f"{SITE}/3").hex()),
        UrlQuery((hash8(host) + hash8(f"{SITE}/4")).hex()),
    ]
    replies = [
        answer_question(reader.source, number, question, 10.0)
        for number in reader.here
        for question in questions
    ]
    return [
        without_cold(json.loads(reply.rows)) if isinstance(reply, Found) else reply
        for reply in replies
    ]


def without_cold(value: Any) -> Any:
    """An answer without the facts that tell that a record is cold."""
    if isinstance(value, list):
        return [without_cold(each) for each in value]
    if isinstance(value, dict):
        return {key: without_cold(each) for key, each in value.items() if key not in COLD_FACTS}
    return value


def sql_rows(reader: CrawlReader) -> list[Any]:
    with CrawlTables(reader) as tables:
        query = "SELECT state, count(*), min(url), max(fetched_at) FROM urls GROUP BY 1 ORDER BY 1"
        return tables.connection.execute(query).fetchall()


READERS: Mapping[str, Callable[[CrawlReader], Any]] = {
    "status": status_of,
    "explain": explained,
    "questions of callers": answered,
    "sql": sql_rows,
    "export of URLs": lambda reader: list(state_rows(reader, "urls")),
    "export of hosts": lambda reader: list(state_rows(reader, "hosts")),
}


@pytest.mark.parametrize("name", READERS)
def test_a_reader_answers_alike(crawls: tuple[Path, Path], name: str) -> None:
    answers = [READERS[name](read_folder(folder)) for folder in crawls]
    assert answers[0] == answers[1] and answers[0]


def test_status_counts_cold_records(crawls: tuple[Path, Path]) -> None:
    plain, cold = (
        crawl_status(reader, load_saved_settings(reader), NOW)
        for reader in map(read_folder, crawls)
    )
    assert (plain.cold, plain.cold_files) == ({}, 0)
    assert cold.cold_files == 3 and cold.cold == {k: n for k, n in cold.states.items() if n}
    assert cold.cold_bytes == sum(path.stat().st_size for path in crawls[1].glob("cold/*/*"))


def test_explain_names_the_cold_file(crawls: tuple[Path, Path]) -> None:
    reader = read_folder(crawls[1])
    facts = explain(reader, load_saved_settings(reader), f"{SITE}/3", NOW).to_json()["facts"]
    assert (crawls[1] / facts["cold_file"]).is_file()


def test_the_audit_finds_the_same_and_no_breach(crawls: tuple[Path, Path]) -> None:
    reports = [audit(folder) for folder in crawls]
    assert all(report.is_clean for report in reports), reports[1].first_breaches()
    checked = [{each.name: each.checked for each in report.checks} for report in reports]
    assert checked[1].pop("cold files") == 3
    assert checked[0] == checked[1]


def test_url_seen_is_rebuilt_from_cold_records_too(
    crawls: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "cold"
    shutil.copytree(crawls[1], folder)
    for path in folder.glob("state/seen-*"):
        path.unlink()
    assert recover_crawl(folder, CONFIG, OPENER, 1).rebuilt == 2
    checks = {each.name: each for each in audit(folder).checks}
    assert checks["url-seen"].breaches == 0 and checks["url-seen"].checked > 20


class NoSnapshots:
    """The snapshots of a log that has all commits: every partition begins empty."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._numbers = folder, count()

    def saved_partitions(self) -> list[int]:
        return []

    def restore_partition(self, partition: int) -> PartitionData:
        seen = SortedSeenUrls(self._folder / f"seen-{next(self._numbers)}")
        return PartitionData(MemoryKeyValue(), seen)

    def save_partition(self, partition: int, data: PartitionData, mark: Mark) -> None:
        """Nothing is kept."""


def log_of(folder: Path) -> MemoryLog:
    """The commits of a folder as a cluster's log has them."""
    crawl = load_manifest(folder).crawl
    changelog = MemoryChangelog(crawl, 0)
    producer = changelog.fence()
    changelog.claim(producer)
    for _, commit in merged_by_worker(saved_logs(log_folder(folder)).values()):
        changelog.append(producer, msgspec.structs.replace(commit, crawl=crawl, shard=0))
    return MemoryLog(changelog)


@pytest.fixture
def views(crawls: tuple[Path, Path], tmp_path: Path) -> Iterator[dict[str, CrawlView]]:
    """The crawl with cold files through each kind of view."""
    folder = tmp_path / "cold"
    shutil.copytree(crawls[1], folder)
    plain, store = FolderView(crawls[0]), FolderStore(str(folder), folder)
    log = log_of(folder)
    found: dict[str, CrawlView] = {
        "nothing cold": plain,
        "folder": FolderView(folder),
        "snapshot": SnapshotView(
            FolderView(folder).seen.origin,
            log,
            SegmentFiles(folder),
            NoSnapshots(tmp_path),
            [0, 1],
            objects=store,
        ),
    }
    recover_crawl(folder, CONFIG, OPENER, 1)
    data = {
        number: PartitionData(OPENER(table_folder(folder, number)), SortedSeenUrls(tmp_path / "x"))
        for number in range(2)
    }
    storage = ShardStorage(log, SegmentFiles(folder), NoSnapshots(tmp_path), cold=store)
    shard = viewable(Shard(0, 1, storage, data))
    found["live"] = LiveView(plain.seen.origin, shard, SegmentFiles(folder))
    yield found
    for view in found.values():
        view.close()
    shard.close()


def test_every_view_shows_cold_records_where_they_were(views: dict[str, CrawlView]) -> None:
    for number in range(2):
        found = {}
        for name, view in views.items():
            table = view.open_table(number)
            found[name] = dict(table.scan(b"U", b"V"))
            assert {key: table.get(key) for key in found[name]} == found[name]
            table.close()
        assert found["nothing cold"]
        assert all(rows == found["nothing cold"] for rows in found.values()), found.keys()


def test_a_budget_counts_cold_records_too(views: dict[str, CrawlView]) -> None:
    view = BudgetedView(views["live"], TimeBudget(0.0))
    with pytest.raises(OutOfTime):
        list(view.open_table(0).scan(b"U", b"V"))


def test_a_record_that_returned_hides_the_cold_one(
    crawls: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "cold"
    shutil.copytree(crawls[1], folder)
    recover_crawl(folder, CONFIG, OPENER, 1)
    entry = read_folder(folder).find_url(f"{SITE}/gone")
    assert entry is not None
    key = url_key(entry.host8, entry.url8)
    entry.record.tries = 7
    table = OPENER(table_folder(folder, entry.partition))
    table.write({key: encode_url(entry.record)})
    table.flush()
    table.close()
    reader = read_folder(folder)
    found = reader.find_url(entry.url)
    assert found is not None and found.record.tries == 7
    assert [each.record.tries for each in reader.urls() if each.url == entry.url] == [7]
    told = explain(reader, load_saved_settings(reader), entry.url, NOW).to_json()
    assert "cold_file" not in told["facts"]
    # what the counters say of cold records is wrong now, and nothing else
    breaches = {each.name: each.breaches for each in audit(folder).checks if each.breaches}
    assert breaches == {"counters": 1}


def test_a_damaged_file_is_a_breach_and_the_rest_is_audited(
    crawls: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "cold"
    shutil.copytree(crawls[1], folder)
    path = max(folder.glob("cold/*/*.parquet"), key=lambda each: each.stat().st_size)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    checks = {each.name: each for each in audit(folder).checks}
    assert path.name in checks["cold files"].first[0]
    assert "records" in checks["counters"].first[0], "what was in it is missing there"
    assert not checks["queues"].breaches


@pytest.mark.parametrize("cut", [0, 100, None], ids=["empty", "shorter", "missing"])
def test_a_start_without_a_cold_file_is_refused(
    crawls: tuple[Path, Path], tmp_path: Path, cut: int | None
) -> None:
    folder = tmp_path / "cold"
    shutil.copytree(crawls[1], folder)
    path = min(folder.glob("cold/*/*.parquet"))
    if cut is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(CommittedDataMissing, match=path.name):
        crawl_folder(folder, Pages(PAGES), [], CONFIG, start=600.0)


def rows_in(folder: Path, number: int) -> dict[bytes, bytes]:
    table = OPENER(table_folder(folder, number))
    try:
        rows = dict(table.scan(b"", b"\xff" * 32))
        counted = msgspec.to_builtins(counters_of(table), order="deterministic")
        rows[COUNTERS_KEY] = repr(counted).encode()
        return {key: value for key, value in rows.items() if key != MARK_KEY}
    finally:
        table.close()


def test_an_import_gathers_the_same_rows(crawls: tuple[Path, Path], tmp_path: Path) -> None:
    gathered = [
        gather_folder(folder, tmp_path / folder.name, OPENER, lambda number: None)
        for folder in crawls
    ]
    for number in range(2):
        plain, cold = (rows_in(each.folder, number) for each in gathered)
        assert plain == cold and any(key[:1] == b"U" for key in plain)
    # what was gathered is a copy, and the cold files stay where they are
    assert list((crawls[1] / "cold").rglob("*.parquet"))
