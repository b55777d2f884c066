"""The same crawl seen through its three views gives the same answers: a folder's files, a worker
that runs, a snapshot.

A crawl is made in a folder, finished or killed at some point, and what is committed of it is copied
to a log and objects in memory, where a shard of a cluster would have it. At the end a worker runs
over such a shard and is looked at while it does.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawling import HTML, QUICK, Names, Pages, crawl_folder, html, moved, page, robots
from joined_view import JoinedView
from judging import file_bytes
from lycosa.base.config.sections import Config, FrontierSection, PolitenessSection, StoreSection
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8
from lycosa.inspect.audit.crawl_audit import AuditedCrawl, audit_crawl
from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.crawl_status import CrawlStatus, crawl_status
from lycosa.inspect.crawl_tables import CrawlTables
from lycosa.inspect.explain.explanation import explain
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.inspect.state_rows import state_rows
from lycosa.processes.session import Session
from lycosa.stages.parse.inline_parser import InlineParser
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.state.commit import (
    Commit,
    LogTrimmed,
    MemoryChangelog,
    MemoryLog,
    marked,
    merged_by_worker,
    saved_logs,
)
from lycosa.state.folder import manifest as manifests
from lycosa.state.folder.names import log_folder, mark_of, spool_folder, suffix_list
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.seen.urls_sorted import SortedSeenUrls
from lycosa.state.shard.folder_view import FolderView
from lycosa.state.shard.live_view import LiveView, viewable
from lycosa.state.shard.opened_shard import (
    PartitionData,
    Shard,
    ShardStorage,
    SnapshotLimit,
    open_shard,
)
from lycosa.state.shard.snapshot_view import LogMovedOn, SnapshotView
from lycosa.state.shard.usable_snapshots import SnapshotUnusable
from lycosa.state.shard.view import CrawlOrigin, CrawlView
from lycosa.state.store import layout
from lycosa.state.store.stored_data import RecordError
from lycosa.synthetic import (
    VIRTUAL_EPOCH,
    Faults,
    Response,
    SyntheticFetcher,
    VirtualClock,
    VirtualOffload,
    run_virtual,
)
from lycosa.worker.assemble import assemble
from lycosa.worker.worker_ports import Ports
from memory_segments import MemorySegments
from memory_snapshots import MemorySnapshots

SITE = "http://www.example.org"
PAGES = {
    f"{SITE}/robots.txt": robots("User-agent: *", "Disallow: /cgi/"),
    f"{SITE}/": page(
        "/cgi/x",
        "/gone",
        "/busy",
        "/old",
        "http://elsewhere.org/",
        *(f"/{n}" for n in range(30)),
        text="Welcome",
    ),
    f"{SITE}/old": moved("/1"),
    f"{SITE}/busy": Response(503, [HTML], b"<p>Later."),
    f"{SITE}/29": html("<title>0</title><p>Page number 0, "),
    **{
        f"{SITE}/{n}": html(f"<title>{n}</title><p>Page number {n}, {'and so on ' * n}")
        for n in range(29)
    },
}
SEEDS = [f"{SITE}/", "http://dead.example.org/"]
CONFIG = msgspec.structs.replace(
    QUICK,
    frontier=FrontierSection(partitions=1),
    store=StoreSection(commit_pages=4, segment_age_s=60.0),
    politeness=PolitenessSection(jitter=0.0),
)
HOSTS = [f"www.h{number}.example" for number in range(8)]
OF_THREE = msgspec.structs.replace(CONFIG, frontier=FrontierSection(partitions=3))
NOW = VIRTUAL_EPOCH + 500.0
ENDS = {
    "finished": "",
    "killed after a commit": "commit:settled",
    "killed with a commit in the log": "commit:logged",
    "killed before one": "commit:stored",
}
FOLDER_ALONE = {
    "folder",
    "is_running",
    "holder",
    "seeds",
    "outputs",
    "lacking",
    "waits_for",
    "live",
}


def names(clock: object) -> Names:
    return Names({"dead.example.org": Reason.DNS_NO_SUCH_NAME})


class Cluster:
    """What a shard of a cluster has outside of its owner."""

    def __init__(self, crawl: str, folder: Path) -> None:
        self.changelog = MemoryChangelog(crawl, 0)
        self.objects: dict[str, bytes] = {}
        self._folder, self._numbers = folder, count()

    def snapshots(self, log: MemoryLog) -> MemorySnapshots:
        return MemorySnapshots(self.objects, 0, log, self._make)

    def storage(self, snapshot_commits: int = 300) -> ShardStorage:
        limit = SnapshotLimit(snapshot_commits)
        log = MemoryLog(self.changelog)
        return ShardStorage(log, MemorySegments(self.objects, 0), self.snapshots(log), limit)

    def content(self) -> tuple[str, dict[str, bytes]]:
        return repr(self.changelog), dict(self.objects)

    def _make(self) -> PartitionData:
        return PartitionData(
            MemoryKeyValue(), SortedSeenUrls(self._folder / f"seen-{next(self._numbers)}")
        )


def copied(folder: Path, to: Path, snapshot_of: int) -> Cluster:
    """The committed content of a crawl folder as a cluster has it, with a snapshot of its n-th
    commit.
    """
    manifest = manifests.load_manifest(folder)
    cluster = Cluster(manifest.crawl, to)
    producer = cluster.changelog.fence()
    cluster.changelog.claim(producer)
    lengths: dict[str, int] = {}
    data = cluster._make()
    for _, commit in merged_by_worker(saved_logs(log_folder(folder)).values()):
        cluster.changelog.append(
            producer, msgspec.structs.replace(commit, crawl=manifest.crawl, shard=0)
        )
        lengths = commit.lengths
        for batch in commit.batches if commit.sequence <= snapshot_of else ():
            data.table.write(marked(batch, commit.mark, 0))
    cluster.snapshots(MemoryLog(cluster.changelog)).save_partition(0, data, mark_of(data.table))
    for kind in (layout.WARC, layout.JOURNAL):
        for path in (folder / kind).iterdir():
            name = f"{kind}/{path.name}"
            if not name.endswith(layout.OPEN):
                cluster.objects[name] = path.read_bytes()
            elif name in lengths:
                cluster.objects[f"parts/00000/{layout.stem_of(path)}/{kind}/{0:012d}"] = (
                    path.read_bytes()[: lengths[name]]
                )
    return cluster


def origin(folder: Path) -> CrawlOrigin:
    seen = FolderView(folder).seen.origin
    return CrawlOrigin("shard 0", seen.manifest, seen.sites, seen.settings)


@pytest.fixture(scope="module", params=sorted(ENDS))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("view") / "crawl"
    point = ENDS[request.param]
    faults = Faults(random.Random(1), crash_at=5, crash_point=point) if point else None
    end = crawl_folder(folder, Pages(PAGES), SEEDS, CONFIG, resolver=names, faults=faults)
    assert (end is None) == bool(point)
    return folder


@pytest.fixture
def views(folder: Path, tmp_path: Path) -> Iterator[dict[str, CrawlView]]:
    cluster = copied(folder, tmp_path, 3)
    shard, _ = open_shard(0, [0], copied(folder, tmp_path, 2).storage())
    shard = viewable(shard)
    before = cluster.content(), file_bytes(folder)
    found: dict[str, CrawlView] = {
        "folder": FolderView(folder),
        "live": LiveView(origin(folder), shard, MemorySegments(cluster.objects, 0)),
        "snapshot": SnapshotView(
            origin(folder),
            MemoryLog(cluster.changelog),
            MemorySegments(cluster.objects, 0),
            cluster.snapshots(MemoryLog(cluster.changelog)),
            [0],
        ),
    }
    yield found
    for view in found.values():
        view.close()
    assert (cluster.content(), file_bytes(folder)) == before
    shard.close()


def equal(answers: dict[str, Any]) -> Any:
    """What all views answer."""
    for name, answer in answers.items():
        assert answer == answers["folder"], name
    return answers["folder"]


def status_of(view: CrawlView) -> CrawlStatus:
    reader = CrawlReader(view)
    return crawl_status(reader, load_saved_settings(reader), NOW, sites=5)


def of_a_crawl(status: CrawlStatus) -> dict[str, Any]:
    return {
        key: value
        for key, value in msgspec.structs.asdict(status).items()
        if key not in FOLDER_ALONE
    }


def facts_of(view: CrawlView, asked: str) -> dict[str, Any]:
    reader = CrawlReader(view)
    told = explain(reader, load_saved_settings(reader), asked, NOW).to_json()
    told["facts"] = {
        key: value
        for key, value in told["facts"].items()
        if key not in ("attempts", "attempts_read")
    }
    return told


def rows_of(view: CrawlView, query: str) -> list[Any]:
    with CrawlTables(CrawlReader(view)) as tables:
        return tables.connection.execute(query).fetchall()


def test_what_the_last_commit_says_is_the_same(views: dict[str, CrawlView]) -> None:
    assert equal({name: view.seen.last for name, view in views.items()}).wall > VIRTUAL_EPOCH


def test_every_row_of_the_tables_is_the_same(views: dict[str, CrawlView]) -> None:
    found = {}
    for name, view in views.items():
        table = view.open_table(0)
        found[name] = {key: value for key, value in table.scan(b"", b"\xff") if key[:1] != b"M"}
        assert [table.get(key) for key in found[name]] == list(found[name].values())
        table.close()
    assert len(equal(found)) > 30


def test_status_is_the_same(views: dict[str, CrawlView]) -> None:
    told = {name: status_of(view) for name, view in views.items()}
    same = equal({name: of_a_crawl(status) for name, status in told.items()})
    assert same["discovered"] > 30
    assert same["hosts_by_state"]
    sizes = {
        name: {
            each.kind: each.bytes
            for each in status.outputs
            if each.kind in (layout.WARC, layout.JOURNAL)
        }
        for name, status in told.items()
    }
    assert sizes["live"] == sizes["snapshot"]
    # what was not committed is in files too
    assert all(sizes["folder"][kind] >= sizes["live"][kind] > 0 for kind in sizes["live"])
    assert told["live"].is_running
    assert not told["snapshot"].is_running


def test_explain_says_the_same_of_every_url(views: dict[str, CrawlView]) -> None:
    known = [entry.url for entry in CrawlReader(views["folder"]).urls()]
    asked = [
        *known,
        f"{SITE}/cgi/y",
        "http://elsewhere.org/",
        f"{SITE}/never",
        "http://nowhere.test/",
        "not a url",
        hash8(known[0]).hex(),
        "0" * 16,
    ]
    verdicts = {
        equal({name: facts_of(view, url) for name, view in views.items()})["verdict"]
        for url in asked
    }
    assert {"fetched", "refused_by_scope", "never_seen", "not_a_url", "unknown_hash"} <= verdicts


def test_the_state_is_recounted_alike_and_is_in_order(views: dict[str, CrawlView]) -> None:
    reports = {
        name: audit_crawl(AuditedCrawl(view, is_running=False)) for name, view in views.items()
    }
    assert all(report.is_clean for report in reports.values()), reports["folder"].first_breaches()
    checks = equal(
        {
            name: [msgspec.structs.asdict(check) for check in report.checks]
            for name, report in reports.items()
        }
    )
    checked = {check["name"]: check["checked"] for check in checks}
    assert all(checked[name] > 0 for name in ("counters", "queues", "hosts", "parsed", "once"))
    assert not checked.keys() & {"host pauses", "warc", "pages", "url-seen"}, "not in every view"


@pytest.mark.parametrize("kind", ["urls", "hosts"])
def test_exported_state_is_the_same(views: dict[str, CrawlView], kind: str) -> None:
    assert equal({name: list(state_rows(CrawlReader(view), kind)) for name, view in views.items()})


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM fetches ORDER BY warc_filename, warc_record_offset",
        "SELECT source_url, target_url, kind, anchor FROM links ORDER BY ALL",
        "SELECT state, count(*) FROM urls GROUP BY state ORDER BY state",
    ],
)
def test_sql_answers_the_same(views: dict[str, CrawlView], query: str) -> None:
    assert equal({name: rows_of(view, query) for name, view in views.items()})


def test_a_breach_is_found_through_every_view(folder: Path, tmp_path: Path) -> None:
    cluster = copied(folder, tmp_path, 1)
    shard, _ = open_shard(0, [0], cluster.storage())
    key, value = next(shard.data[0].table.scan(b"H", b"I"))
    shard.data[0].table.write({key: None})
    view = LiveView(origin(folder), shard, MemorySegments(cluster.objects, 0))
    report = audit_crawl(AuditedCrawl(view, is_running=False))
    assert {check.name for check in report.checks if check.breaches} >= {"hosts", "counters"}
    assert value
    shard.close()


# A snapshot view.


def test_a_snapshot_view_restores_again_when_the_log_moved_on(folder: Path, tmp_path: Path) -> None:
    cluster = copied(folder, tmp_path, 1)
    log = MemoryLog(cluster.changelog)
    snapshots = cluster.snapshots(log)
    restored = 0

    class Moving:
        """While the first snapshot is restored, the owner takes two and trims its log."""

        def saved_partitions(self) -> list[int]:
            return snapshots.saved_partitions()

        def restore_partition(self, partition: int) -> PartitionData:
            nonlocal restored
            data = snapshots.restore_partition(partition)
            if not restored:
                owner, _ = open_shard(0, [0], cluster.storage())
                for back in (1, 0):
                    owner.storage.log.trim(owner.next_sequence - 1 - back)
                cluster.changelog.trim(owner.next_sequence)
            restored += 1
            return data

        def save_partition(self, partition: int, data: PartitionData, mark: object) -> None:
            raise AssertionError("a view saves nothing")

    expected = dict(FolderView(folder).open_table(0).scan(b"U", b"V"))
    view = SnapshotView(origin(folder), log, MemorySegments(cluster.objects, 0), Moving(), [0])
    assert dict(view.open_table(0).scan(b"U", b"V")) == expected
    view.close()


def test_a_snapshot_view_reads_a_log_again_that_was_trimmed_meanwhile(
    folder: Path, tmp_path: Path
) -> None:
    cluster, trimmed = copied(folder, tmp_path, 1), count()

    class Trimmed(MemoryLog):
        def read(self) -> Iterator[Commit]:
            for number, commit in enumerate(super().read()):
                if number and next(trimmed) == 0:
                    raise LogTrimmed(Path("t.changelog-0"), 5)
                yield commit

    expected = dict(FolderView(folder).open_table(0).scan(b"U", b"V"))
    segments, log = MemorySegments(cluster.objects, 0), Trimmed(cluster.changelog)
    view = SnapshotView(origin(folder), log, segments, cluster.snapshots(log), [0])
    assert dict(view.open_table(0).scan(b"U", b"V")) == expected
    assert next(trimmed) > 1
    view.close()


def test_a_snapshot_view_that_cannot_be_caught_up_says_so(folder: Path, tmp_path: Path) -> None:
    cluster = copied(folder, tmp_path, 1)
    log = MemoryLog(cluster.changelog)
    empty = Cluster(cluster.changelog.crawl, tmp_path)
    owner, _ = open_shard(0, [0], cluster.storage())
    first = owner.next_sequence - 1
    cluster.changelog._entries = [
        each
        for each in cluster.changelog._entries
        if not each.payload or sequence_of(each.payload) >= first
    ]
    with pytest.raises(LogMovedOn):
        SnapshotView(
            origin(folder),
            log,
            MemorySegments(cluster.objects, 0),
            empty.snapshots(MemoryLog(empty.changelog)),
            [0],
        )
    cluster.objects = {
        key: value for key, value in cluster.objects.items() if not key.startswith("snapshots/")
    }
    with pytest.raises(SnapshotUnusable):
        SnapshotView(
            origin(folder), log, MemorySegments(cluster.objects, 0), cluster.snapshots(log), [0]
        )
    owner.close()


def sequence_of(payload: bytes) -> int:
    return msgspec.msgpack.decode(payload, type=Commit).sequence


# A worker that runs.


class Looker:
    """Looks at a running worker again and again. A live view does not move, and a snapshot view
    of that moment shows the same.
    """

    def __init__(self, cluster: Cluster, shard: Shard, origin: CrawlOrigin) -> None:
        self._cluster, self._shard, self._origin = cluster, shard, origin
        self.looks = self.moved = 0

    async def look(self, clock: VirtualClock) -> None:
        while True:
            await clock.sleep(7.3)
            log = MemoryLog(self._cluster.changelog)
            segments = MemorySegments(self._cluster.objects, 0)
            live = LiveView(self._origin, self._shard, segments)
            snapshot = SnapshotView(self._origin, log, segments, self._cluster.snapshots(log), [0])
            first = self.told(live)
            assert self.told(snapshot) == first
            await clock.sleep(11.7)
            assert self.told(live) == first
            live.close()
            later = LiveView(self._origin, self._shard, segments)
            self.moved += self.told(later) != first
            report = audit_crawl(AuditedCrawl(later, is_running=True))
            assert report.is_clean, report.first_breaches()
            later.close()
            snapshot.close()
            self.looks += 1

    def told(self, view: CrawlView) -> Any:
        rows, facts = dict(view.open_table(0).scan(b"", b"\xff")), facts_of(view, f"{SITE}/7")
        facts["facts"].pop("warc", None)  # its segment may be closed meanwhile
        return rows, of_a_crawl(status_of(view)), facts, view.seen.last


def test_a_worker_is_looked_at_while_it_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    folder.mkdir()
    suffix_list(folder).write_text("// VERSION: of-the-tests\ncom\norg\ntest\nexample\n")
    config: Config = msgspec.structs.replace(
        CONFIG, politeness=PolitenessSection(delay_s=5.0, jitter=0.0)
    )

    async def run() -> tuple[Looker, CrawlStatus]:
        clock = VirtualClock()
        with Session(folder, config, rocks_opener(8 << 20, 4 << 20), clock) as session:
            ports = Ports(
                clock=clock,
                offload=VirtualOffload(random.Random(5)),
                fetcher=SyntheticFetcher(
                    Pages(PAGES), clock, spool_dir=spool_folder(folder), agent=session.user_agent
                ),
                resolver=names(clock),
                parser=InlineParser(
                    ParserConfig(config.parse, config.canonical, config.agent.product)
                ),
                open_table=rocks_opener(8 << 20, 4 << 20),
                reach=lambda point: None,
            )
            (folder / "state").mkdir()
            cluster = Cluster(session.job(0, (0,)).manifest.crawl, tmp_path)
            shard = viewable(open_shard(0, [0], cluster.storage(snapshot_commits=6))[0])
            assembled = assemble(session.job(0, (0,)), ports, shard=shard)
            looker = Looker(cluster, shard, origin(folder))
            looking = asyncio.get_running_loop().create_task(looker.look(clock))
            for seed in SEEDS:
                assembled.intake.take_seed(seed)
            await assembled.worker.run()
            is_looking = looking.cancel()
            await asyncio.gather(looking, return_exceptions=is_looking)
            assembled.close()
            log = MemoryLog(cluster.changelog)
            view = SnapshotView(
                origin(folder), log, MemorySegments(cluster.objects, 0), cluster.snapshots(log), [0]
            )
            return looker, status_of(view)

    looker, status = run_virtual(run(), seed=5, start=0.0)
    assert looker.looks >= 5
    assert looker.moved >= 3
    assert status.states["fetched"] == 31
    assert status.is_balanced


# Several shards.


def test_several_shards_are_looked_at_as_one_crawl(tmp_path: Path) -> None:
    """A crawl of one worker over three partitions, of which each is made a shard: its rows and,
    by the names of its hosts, its captures.
    """
    folder = tmp_path / "crawl"
    web = {
        f"http://{host}/{path}": page("/a", "/b", text=f"{path} of {host}")
        for host in HOSTS
        for path in ("", "a")
    }
    crawl_folder(folder, Pages(web), [f"http://{host}/" for host in HOSTS], OF_THREE)
    whole = FolderView(folder)
    shards: list[CrawlView] = []
    for number in range(3):
        cluster = Cluster(whole.seen.origin.manifest.crawl, tmp_path)
        producer = cluster.changelog.fence()
        cluster.changelog.claim(producer)
        for _, commit in merged_by_worker(saved_logs(log_folder(folder)).values()):
            batches = [batch for batch in commit.batches if batch.partition == number]
            lengths = commit.lengths if number == 0 else {}
            made = msgspec.structs.replace(
                commit,
                batches=batches,
                crawl=cluster.changelog.crawl,
                shard=0,
                before={},
                lengths=lengths,
            )
            cluster.changelog.append(producer, made)
        if number == 0:  # the worker that wrote them all
            for path in [*(folder / layout.WARC).iterdir(), *(folder / layout.JOURNAL).iterdir()]:
                cluster.objects[f"{path.parent.name}/{path.name}"] = path.read_bytes()
        log = MemoryLog(cluster.changelog)
        shards.append(
            SnapshotView(
                origin(folder),
                log,
                MemorySegments(cluster.objects, 0),
                cluster.snapshots(log),
                [number],
            )
        )
    assert all(
        len(dict(shard.open_table(number).scan(b"U", b"V"))) > 0
        for number, shard in enumerate(shards)
    )
    joined = JoinedView(origin(folder), shards)
    views: dict[str, CrawlView] = {"folder": whole, "joined": joined}
    assert equal({name: of_a_crawl(status_of(view)) for name, view in views.items()})[
        "discovered"
    ] == 3 * len(HOSTS)
    assert len(
        equal({name: list(state_rows(CrawlReader(view), "urls")) for name, view in views.items()})
    ) == 3 * len(HOSTS)
    for url in [f"http://{host}/{path}" for host in HOSTS for path in ("", "a", "b", "c")]:
        equal({name: facts_of(view, url) for name, view in views.items()})
    report = audit_crawl(AuditedCrawl(joined, is_running=False))
    assert report.is_clean, report.first_breaches()
    alone = CrawlReader(shards[0])
    assert sum(alone.find_url(f"http://{host}/") is not None for host in HOSTS) < len(HOSTS)
    with pytest.raises(RecordError, match="is not a segment"):
        joined.read_record("none.warc.gz", 0)
    joined.close()
