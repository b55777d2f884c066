"""Starts over folders from which committed data is missing, and over folders that look like it
and lack nothing.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import xxhash

from damaging import files_of_folder, record_ends
from dying import Dying, copied
from histories import judge_end
from judging import new_folder, quick_config
from lycosa.base.config.sections import FrontierSection, LimitSection, SeenUrlsKind, StoreSection
from lycosa.stages.frontier.back_queue import QueueDamaged
from lycosa.stages.frontier.visit_state import decode_visit
from lycosa.state.commit import MARK_KEY, Mark, saved_logs
from lycosa.state.exchange.exchange_errors import ParcelsLost
from lycosa.state.folder import manifest as manifests
from lycosa.state.folder.names import log_folder, table_folder
from lycosa.state.folder.start_check import CommittedDataMissing, check_crawl
from lycosa.state.kv.kv_port import TableLocked
from lycosa.state.kv.memory_table import MemoryTables
from lycosa.state.kv.read_only import table_reader
from lycosa.state.kv.rocks import RocksKeyValue
from lycosa.state.kv.table_records import encode_record, prefix_end
from lycosa.synthetic import Crash, Faults, SyntheticServer, SyntheticWeb, WebPlan
from lycosa.worker.assemble import Assembled
from proofs import damage
from proofs.crawls import FAST, RunningCrawl, Whom, crawl
from several_workers import run_workers
from virtual_crawl import VirtualCrawl, in_memory

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="finds the processes of a crawl in /proc"
)


def test_damaged_logs_lose_nothing_in_silence(tmp_path: Path) -> None:
    """Short form of ``script/prove damage``."""
    print("\n".join(damage.prove(tmp_path, short=True, first=1)))


class Scene:
    """A small crawl by some workers that dies at a chosen point, and is started again after
    something was done to its folder.
    """

    def __init__(self, path: Path, workers: int, point: str, at: int) -> None:
        self.path, self.workers = path, workers
        self.web = SyntheticWeb(
            WebPlan(seed=5, hosts=10, pages=12, page_bytes=300, links=6, cross_links=0.4)
        )
        self.seeds = [self.web.seed_url(0)]
        config = quick_config(
            frontier=FrontierSection(partitions=4, bands=3, head=4),
            store=StoreSection(segment_bytes=10_000_000),
        )
        self._open: list[RocksKeyValue] = []
        self.crawl = VirtualCrawl(new_folder(path / "living"), self.web, config, self._table)
        with pytest.raises(Crash):
            self.run(Dying(copied(self.crawl, path / "dead"), random.Random(0), at, point))
        self.close()
        self.crawl.folder = path / "dead"
        self.crawl.now += 20.0

    def _table(self, folder: Path) -> RocksKeyValue:
        folder.mkdir(parents=True, exist_ok=True)
        self._open.append(RocksKeyValue(folder))
        return self._open[-1]

    def close(self) -> None:
        for table in self._open:
            table.close()
        self._open.clear()

    def run(
        self, faults: Faults | None = None, meanwhile: Callable[[Assembled], None] = lambda _: None
    ) -> None:
        run_workers(self.crawl, self.workers, self.seeds, faults, None, meanwhile)

    def ends_well(self) -> None:
        self.run()
        judge_end(self.crawl, self.web, self.seeds)

    def is_refused(self, *texts: str) -> None:
        """And not one file is touched."""
        before = files_of_folder(self.folder)
        with pytest.raises(CommittedDataMissing) as caught:
            self.run()
        assert files_of_folder(self.folder) == before
        for text in texts:
            assert text in str(caught.value), str(caught.value)

    @property
    def folder(self) -> Path:
        return self.crawl.folder

    @contextmanager
    def without(self, *patterns: str) -> Iterator[None]:
        """While these files are taken away."""
        taken = [path for pattern in patterns for path in self.folder.glob(pattern)]
        assert taken, patterns
        for number, path in enumerate(taken):
            shutil.move(path, self.path / f"taken-{number}")
        yield
        for number, path in enumerate(taken):
            shutil.move(self.path / f"taken-{number}", path)


# -- what lacks nothing is not refused


@pytest.mark.parametrize(
    ("point", "workers"),
    [
        *(("commit:cut", 3), ("commit:begin", 3), ("commit:stored", 3), ("commit:logged", 3)),
        *(("commit:applied", 3), ("commit:cut", 1), ("commit:logged", 1)),
    ],
)
def test_a_crawl_that_dies_around_its_first_commit_goes_on(
    point: str, workers: int, tmp_path: Path
) -> None:
    Scene(tmp_path, workers, point, 1).ends_well()


def test_a_crawl_that_dies_between_its_manifest_and_its_logs_goes_on(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2, "commit:cut", 1)
    manifest = manifests.load_manifest(scene.folder)
    # as after create: nothing but the manifest, its settings and the lock
    for name in (
        "log",
        "state",
        "warc",
        "journal",
    ):
        shutil.rmtree(scene.folder / name, ignore_errors=True)
    manifests.save_manifest(scene.folder, msgspec.structs.replace(manifest, term=0, workers=0))
    scene.ends_well()


@pytest.mark.parametrize("torn", [0, 7, 15])
def test_a_head_that_was_never_finished_goes_on(torn: int, tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1, "commit:cut", 1)
    [log] = (scene.folder / "log").glob("commit-*")
    # the manifest that counts the worker comes after its log
    log.write_bytes(log.read_bytes()[:torn])
    manifests.save_manifest(
        scene.folder,
        msgspec.structs.replace(manifests.load_manifest(scene.folder), workers=0, term=0),
    )
    shutil.rmtree(scene.folder / "state")
    scene.ends_well()


def test_an_ended_crawl_and_other_numbers_of_workers_go_on(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 4, "commit:logged", 9)
    for scene.workers in (4, 1, 2, 4):
        scene.ends_well()


def test_a_record_that_was_not_acknowledged_may_be_torn(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1, "commit:stored", 6)
    [log] = (scene.folder / "log").glob("commit-*")
    with log.open("ab") as file:
        file.write(b"\xc5LyR\x00\x00\x10\x00 and no more")
    scene.ends_well()


@pytest.mark.parametrize(
    "lost", [("state/last-commit-w000",), ("state/seen-*", "lock", "status.json")]
)
def test_files_that_can_be_made_again_may_be_missing(lost: tuple[str, ...], tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2, "commit:applied", 20)
    for pattern in lost:
        for path in scene.folder.glob(pattern):
            path.unlink()
    scene.ends_well()


# -- what lacks something is


@pytest.mark.parametrize(
    ("empty", "workers"),
    [(False, 1), (False, 4), (True, 2)],
    ids=["deleted-1", "deleted-4", "emptied-2"],
)
def test_missing_logs_are_named_and_restoring_them_is_all_it_takes(
    empty: bool, workers: int, tmp_path: Path
) -> None:
    # by then each of four workers has committed more than its seeds
    scene = Scene(tmp_path, workers, "commit:logged", 13)
    with scene.without("log/commit-w000-*"):
        if empty:
            (scene.folder / "log" / "commit-w000-000000000001.log").touch()
            scene.is_refused(
                "log/commit-w000-000000000001.log has no commit, but state/last-commit-w000 names"
                " commit"
            )
            (scene.folder / "log" / "commit-w000-000000000001.log").unlink()
        else:
            scene.is_refused(
                "log/commit-w000-*.log is missing, but state/last-commit-w000 names commit",
                "lycosa export",
            )
    with scene.without("log/commit-*", "state/last-commit-*"):
        scene.is_refused(f"the crawl had {workers} worker", "Restore the missing files from a copy")
    scene.ends_well()


def test_a_log_folder_from_an_older_copy_is_not_taken_for_the_present(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2, "commit:logged", 5)
    shutil.copytree(scene.folder / "log", tmp_path / "older")
    scene.run()
    shutil.copytree(scene.folder / "log", tmp_path / "newer")
    shutil.rmtree(scene.folder / "log")
    shutil.copytree(tmp_path / "older", scene.folder / "log")
    scene.is_refused("of run 1, but", "of run 2")
    shutil.rmtree(scene.folder / "log")
    shutil.copytree(tmp_path / "newer", scene.folder / "log")
    scene.ends_well()


def test_a_table_that_is_missing_is_named(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1, "commit:logged", 4)
    scene.run(
        None
        # the log keeps its last file, which is small here: let it lack the front, as that of a long
        # crawl does
    )
    [log] = saved_logs(log_folder(scene.folder)).values()
    drop_front(log.files[0], 3)
    with scene.without("state/p00002"):
        scene.is_refused("state/p00002 is missing: its table had commit")
    scene.ends_well()


def test_a_host_that_counts_urls_which_its_queue_lacks_ends_the_crawl(tmp_path: Path) -> None:
    """Its visits would follow each other without end: none of them finds a URL."""
    web = SyntheticWeb(WebPlan(seed=5, hosts=4, pages=12, page_bytes=300, links=6))
    folder = new_folder(tmp_path / "crawl")
    crawl = VirtualCrawl(
        folder, web, quick_config(limits=LimitSection(max_pages=8)), in_memory(MemoryTables())
    )
    crawl.run([web.seed_url(0)])
    damaged = 0
    for partition in range(crawl.config.frontier.partitions):
        table = crawl.open_table(table_folder(folder, partition))
        for key, value in list(table.scan(b"H", prefix_end(b"H"))):
            record = decode_visit(value)
            if record.waiting:
                record.waiting += 1
                table.write({key: encode_record(record)})
                damaged += 1
        table.flush()
        table.close()
    assert damaged
    crawl.config = quick_config()
    with pytest.raises(QueueDamaged, match="visit state counts 1 waiting URLs"):
        crawl.run(faults=Faults(random.Random(0), crash_at=100_000, crash_point="turn"))


def test_a_first_file_of_the_log_that_a_table_still_needs_is_missed(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1, "commit:logged", 9)
    [log] = saved_logs(log_folder(scene.folder)).values()
    data = log.files[0].read_bytes()
    drop_front(log.files[0], 5)
    scene.is_refused("no log has the commits after it up to commit 5 of run 1")
    next((scene.folder / "log").glob("commit-*")).unlink()
    log.files[0].write_bytes(data)
    scene.ends_well()


def drop_front(path: Path, records: int) -> None:
    """Leaves only what comes behind so many records, under the name that a log of which the
    front was dropped has.
    """
    data, ends = path.read_bytes(), record_ends(path)
    path.unlink()
    path.with_name(f"{path.name[:12]}{records + 1:012d}.log").write_bytes(
        data[:16] + data[ends[records] :]
    )


# -- folders of earlier versions


def make_old(folder: Path) -> None:
    """The folder as a version made it that kept nothing apart from the logs: the end of a log,
    the makers of marks, commits before.
    """
    manifests.save_manifest(
        folder, msgspec.structs.replace(manifests.load_manifest(folder), workers=0)
    )
    for path in (folder / "state").glob("last-commit-*"):
        path.unlink()
    for log in saved_logs(log_folder(folder)).values():
        [path] = log.files
        head, records = path.read_bytes()[:16], list(log.records())
        frames = b""
        for record in records:
            batches = [[batch.partition, batch.writes] for batch in record.batches]
            payload = msgspec.msgpack.encode(
                [record.term, record.sequence, record.wall, record.lengths, batches]
            )
            checksum = xxhash.xxh3_64_intdigest(payload, int.from_bytes(head[8:]))
            frames += b"\xc5LyR" + len(payload).to_bytes(4) + checksum.to_bytes(8) + payload
        if records:
            path.write_bytes(head + frames)
        else:
            path.unlink()  # it was made by the first commit
    for place in (folder / "state").glob("p*"):
        table = RocksKeyValue(place)
        if (value := table.get(MARK_KEY)) is not None:
            table.write([(MARK_KEY, Mark.unpack(value).pack())])
        table.close()


@pytest.mark.parametrize(("point", "at"), [("commit:cut", 1), ("commit:logged", 9)])
def test_a_folder_of_an_earlier_version_goes_on_and_is_protected_from_then_on(
    point: str, at: int, tmp_path: Path
) -> None:
    scene = Scene(tmp_path, 2, point, at)
    make_old(scene.folder)
    scene.ends_well()
    assert manifests.load_manifest(scene.folder).workers == 2
    with scene.without("log/commit-w001-*"):
        scene.is_refused(
            "log/commit-w001-*.log is missing, but state/last-commit-w001 names commit"
        )


def test_the_logs_of_an_earlier_version_are_missed_by_what_is_stored(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2, "commit:logged", 12)
    make_old(scene.folder)
    with scene.without("log/commit-*"):
        scene.is_refused(
            "log/commit-w000-*.log is missing: without it the committed length of warc/",
            ".warc.gz.open (",
        )
    with scene.without("log/commit-w001-*"):
        scene.is_refused("log/commit-w001-*.log is missing: without it the committed length")
    scene.ends_well()


def test_records_that_one_worker_of_an_earlier_version_lost_are_told_by_the_parcels_of_the_others(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, 4, "commit:logged", 30)
    make_old(scene.folder)
    told: list[str] = []
    for log in saved_logs(log_folder(scene.folder)).values():
        whole, ends = log.files[0].read_bytes(), record_ends(log.files[0])
        for end in ends[1:-1]:
            log.files[0].write_bytes(whole[:end])
            told += refusal(scene.folder)
        log.files[0].write_bytes(whole)
    assert any("lost the commits that made parcel" in each for each in told), told
    assert any("lost the commits that took parcel" in each for each in told), told
    assert refusal(scene.folder) == []
    scene.ends_well()


def refusal(folder: Path) -> list[str]:
    """What the first phase of a start finds missing."""
    try:
        check_crawl(folder, manifests.load_manifest(folder), SeenUrlsKind.SORTED, table_reader())
    except CommittedDataMissing as error:
        return error.findings
    return []


# -- while it runs


def test_parcels_that_can_never_arrive_end_the_crawl_and_are_named(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2, "commit:logged", 12)

    def forget(assembled: Assembled) -> None:
        """A receiver loses the last parcel that it took from each source, which passed the check
        a moment ago.
        """
        for table in assembled.worker._files.shard.tables.values():
            for key, value in list(table.scan(b"I", b"J")):
                table.write([(key, (int.from_bytes(value) - 1).to_bytes(8))])

    with pytest.raises(
        ParcelsLost,
        match=(
            r"partition \d has taken \d+ parcels from partition \d, of which \d+ were acknowledged"
        ),
    ):
        scene.run(None, forget)


# -- other processes


def test_a_table_that_another_process_has_open_stops_the_start_before_anything_is_touched(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, 1, "commit:logged", 5)
    held, ready = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:  # a process of its own, since the lock belongs to a process
        table = RocksKeyValue(table_folder(scene.folder, 1))
        os.write(ready[1], b"x")
        os.read(held[0], 1)
        table.close()
        os._exit(0)
    os.read(ready[0], 1)
    before = files_of_folder(scene.folder)
    with pytest.raises(TableLocked, match="state/p00001 is in use by another process"):
        scene.run()
    assert files_of_folder(scene.folder) == before
    os.write(held[1], b"x")
    os.waitpid(child, 0)
    scene.ends_well()


@linux
async def test_a_second_start_leaves_a_running_crawl_alone_although_its_lock_file_is_gone(
    tmp_path: Path,
) -> None:
    web, folder = (
        SyntheticWeb(WebPlan(seed=3, hosts=1, pages=150, page_bytes=300, links=8, latency_s=0.0)),
        tmp_path / "c",
    )
    async with SyntheticServer(web) as server:
        seed = web.seed_url(0, server.port)
        options = [
            "--resolve",
            "*=127.0.0.1",
            *FAST,
            "--set",
            "parse.language=false",
            "--delay",
            "0.05s",
            seed,
        ]
        running = RunningCrawl(folder, options, tmp_path / "log")
        await asyncio.to_thread(
            running.runs_until, lambda: list(folder.glob("warc/*.open")) and len(server.log) > 20
        )
        (folder / "lock").unlink()
        second = await asyncio.to_thread(crawl, folder, *options, timeout=300)
        assert second.code == 2 and "is in use by another process" in second.err, second
        for pid in running.workers():
            os.kill(pid, signal.SIGSTOP)
        third = await asyncio.to_thread(crawl, folder, *options, timeout=300)
        for pid in running.workers():
            os.kill(pid, signal.SIGCONT)
        assert third.code == 2, third
        running.kill(Whom.SUPERVISOR)
        again = await asyncio.to_thread(crawl, folder, *options, "--delay", "0s", timeout=300)
        assert again.code == 0, again
