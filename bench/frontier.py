"""What the frontier costs, without a network: ``python -m bench.frontier [--millions 10] [--links
5000000] [--folder DIR]``.

A crawl's state of that many known URLs is made first (``frontier_load``; kept under ``--folder`` if
that is given). Then pages of links come in, nine of ten known, hosts by a Zipf law, as canonical
strings, and for each tenth link one URL is acquired, leased and completed with a capture's history.
Commits are the worker's, one for the links of 400 pages: frozen batches, one record of the commit
log with its fsync, the tables' writes, URL-seen saved when it asks. What is measured is the CPU
time of the whole process, RocksDB's threads included, without reading the links from the process
that makes them up. Memory is that of the process, and what the page cache holds of the files.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import mmap
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import msgspec
import numpy as np
from bench.frontier_load import NOW, SECTION, history, load, seen_path, table_folder
from bench.frontier_web import Web, pages
from bench.interpreter import described

from lycosa.base.config.sections import CanonicalSection, PrioritySection, ScopeSection, TrapSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.parsed import Link
from lycosa.base.model.url_state import Completed, UrlState
from lycosa.base.urls.identity import Canonicalizer, Sites, hash8, hash8_all, hosts_of
from lycosa.stages.admit.scope import Scope
from lycosa.stages.admit.traps import Traps
from lycosa.stages.frontier.frontier import Frontier
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.partition_rules import FrontierRules
from lycosa.stages.frontier.workbench import Workbench
from lycosa.stages.schedule.priority import link_importance, prioritizer
from lycosa.state.commit import Commit, CommitLog, PartitionBatch, marked
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.seen.recent import RecentHashes
from lycosa.state.seen.urls_sorted import SortedSeenUrls
from lycosa.worker.intake.admission import Admission
from lycosa.worker.intake.intake import Intake
from lycosa.worker.intake.outgoing_parcels import OutgoingParcels
from lycosa.worker.intake.owners import Addressing

PARTITIONS = 16
PAGE_LINKS = 100
COMMIT_LINKS = 40_000  # of 400 pages
_CHUNK = 50  # pages read from the other process at a time


class _Clock:
    def monotonic(self) -> float:
        return 0.0

    def wall(self) -> float:
        return float(NOW)

    async def sleep(self, delay_s: float) -> None: ...


class Crawl:
    """The frontier of one worker over a folder made by ``load``.

    ``on_workbench`` gets the names of hosts that enter the workbench.
    """

    def __init__(
        self, folder: Path, cache_bytes: int, on_workbench: list[str] | None = None
    ) -> None:
        opener = rocks_opener(cache_bytes, 64 << 20)
        self.tables = {n: opener(table_folder(folder, n)) for n in range(PARTITIONS)}
        self.partitions = [
            Partition(
                n,
                Overlay(table),
                SortedSeenUrls(seen_path(folder, n)),
                SECTION,
                FrontierRules(prioritize=prioritizer(PrioritySection())),
            )
            for n, table in self.tables.items()
        ]
        self.frontier = Frontier(
            self.partitions, Workbench(4), SECTION.workbench, on_workbench=on_workbench
        )
        self.log = CommitLog(folder / "log", 0)
        self.intake = self._intake()
        self.chance = random.Random(7)
        self.histories = [history(self.chance, NOW) for _ in range(1000)]
        self.now, self.completed, self.flushed = 0.0, 0, 0
        self.spent = dict.fromkeys(("discover", "acquire", "commit"), 0.0)

    def _intake(self) -> Intake:
        canonicalizer, sites = Canonicalizer(CanonicalSection()), Sites()
        admission = Admission(Scope(ScopeSection(), sites.site_of), Traps(TrapSection(), 2025))
        return Intake(
            {p.number: p for p in self.partitions},
            Addressing(canonicalizer, sites, PARTITIONS),
            admission,
            RecentHashes(0),
            _Clock(),
            OutgoingParcels(
                {p.number: p for p in self.partitions},
                {number: MemoryKeyValue() for number in range(PARTITIONS)},
                None,
                asyncio.sleep,
                lambda error: None,
                PARTITIONS,
            ),
        )

    def discover(self, urls: list[str]) -> None:
        """The links of one page."""
        origin = self.intake.link_source(urls[0], 6, link_importance(0.1, len(urls)))
        hosts = hosts_of(urls)
        # for each page anew, as the parse child does
        known = {host: hash8(host) for host in set(hosts)}
        host8s = [known[host] for host in hosts]
        self.intake.gather_links(
            origin,
            list(map(Link, urls, host8s, hash8_all(urls), repeat(LinkKind.A))),
            self.partitions[0],
        )

    def fetch(self) -> None:
        """One URL, as far as the frontier is concerned."""
        self.now += 0.001
        host = self.frontier.acquire(self.now, NOW + self.now)
        if host is None:
            return
        partition = self.partitions[host.partition]
        lease = partition.lease_next(host)
        if lease is None:
            self.frontier.give_back(host)
            return
        self.frontier.release(host, self.now + 1.0, NOW + self.now + 1.0)
        partition.note_capture(
            host, body_bytes=50_000, duration_s=0.2, is_page=True, is_capture=True
        )
        done = self.histories[self.completed % 1000]
        partition.complete_lease(
            lease,
            Completed(
                host.host8,
                lease.entry.url8,
                lease.number,
                UrlState.FETCHED,
                due_at=NOW + int(self.now) + 604_800,
                history=done,
            ),
        )
        self.completed += 1

    def close(self) -> None:
        """Close the tables. One whose folder was removed before needs a second to give up."""
        for table in self.tables.values():
            table.close()

    def commit(self) -> None:
        """As the worker does, in one thread."""
        batches = [
            PartitionBatch(p.number, writes) for p in self.partitions if (writes := p.freeze())
        ]
        record = Commit(
            term=1, sequence=self.log.next_sequence, wall=NOW + self.now, batches=batches
        )
        for batch in batches:
            self.partitions[batch.partition].seen.seal(record.sequence)
        self.log.append(record)
        for batch in batches:
            self.tables[batch.partition].write(marked(batch, record.mark, 0))
            self.partitions[batch.partition].table.settle()
        for partition in self.partitions:
            if partition.seen.should_save:
                partition.seen.save(record.sequence)
        if record.sequence - self.flushed >= 200:
            for table in self.tables.values():
                table.flush()
            self.log.drop_until(record.sequence)
            self.flushed = record.sequence

    def run(self, stream: Iterator[list[list[str]]], links: int) -> float:
        """Gives the CPU seconds of ``links`` links."""
        spent, gone, since = self.spent, 0, 0
        began, set_aside_hosts = time.process_time(), 0.0

        def lap(name: str, mark: float) -> float:
            now = time.thread_time()
            spent[name] += now - mark
            return now

        while gone < links:
            start = time.thread_time()
            chunk = next(stream)
            mark = time.thread_time()
            set_aside_hosts += mark - start
            for page in chunk:
                self.discover(page)
            mark = lap("discover", mark)
            count = sum(map(len, chunk))
            for _ in range(count // 10):
                self.fetch()
            mark = lap("acquire", mark)
            gone, since = gone + count, since + count
            if since >= COMMIT_LINKS:
                since = 0
                self.commit()
                lap("commit", mark)
        self.commit()
        return time.process_time() - began - set_aside_hosts


def stream(urls: int, hosts: int, seed: int) -> Iterator[list[list[str]]]:
    """Pages of links, made up by another process."""
    maker = subprocess.Popen(
        [sys.executable, "-m", "bench.frontier", "--make", f"{urls},{hosts},{seed}"],
        stdout=subprocess.PIPE,
    )
    assert maker.stdout is not None
    decoder = msgspec.msgpack.Decoder(list[list[str]])
    try:
        while size := maker.stdout.read(4):
            yield decoder.decode(maker.stdout.read(int.from_bytes(size, "big")))
    finally:
        maker.kill()
        maker.wait()


def make(urls: int, hosts: int, seed: int) -> None:
    """The other process."""
    source = pages(Web(urls, hosts), np.random.default_rng(seed), PAGE_LINKS)
    while True:
        data = msgspec.msgpack.encode([next(source) for _ in range(_CHUNK)])
        sys.stdout.buffer.write(len(data).to_bytes(4, "big") + data)
        sys.stdout.buffer.flush()


def rss_bytes() -> tuple[int, int]:
    """Memory of this process: its own, and of files that it has mapped."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return tuple(int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile"))  # type: ignore[return-value]


def cached_bytes(folder: Path) -> int:
    """What the page cache holds of a folder's files, mapped or not (mincore(2))."""
    libc, pages = ctypes.CDLL(None, use_errno=True), 0
    for path in folder.rglob("*"):
        if not path.is_file() or not (size := path.stat().st_size):
            continue
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), size, mmap.MAP_SHARED, mmap.PROT_READ) as mapped,
        ):
            seen = np.zeros(-(-size // mmap.PAGESIZE), dtype=np.uint8)
            view = np.frombuffer(mapped, dtype=np.uint8)
            libc.mincore(
                ctypes.c_void_p(view.ctypes.data),
                ctypes.c_size_t(size),
                ctypes.c_void_p(seen.ctypes.data),
            )
            pages += int((seen & 1).sum())
            del view
    return pages * mmap.PAGESIZE


def forget(folder: Path) -> None:
    """Drops a folder's files from the page cache: a cgroup is charged only for what its own
    processes bring there.
    """
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def disk_bytes(folder: Path) -> int:
    """Of tables and URL-seen."""
    return sum(
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and path.parent.name != "log"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--millions", type=float, default=1.0, help="known URLs")
    parser.add_argument("--links", type=int, default=5_000_000)
    parser.add_argument(
        "--per-host", type=float, default=100.0, help="known URLs of a host on average"
    )
    parser.add_argument(
        "--folder", type=Path, help="where the state is made, and kept for the next time"
    )
    parser.add_argument(
        "--cache-mb", type=int, default=512, help="RocksDB's cache, memtables included"
    )
    parser.add_argument("--warm", type=int, default=200_000, help="links before the measurement")
    parser.add_argument(
        "--cgroup",
        type=Path,
        help=(
            "a memory cgroup (version 1 or 2, its limit set) to run in; needs the right to join it"
        ),
    )
    parser.add_argument("--make", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make(*map(int, options.make.split(",")))
        return
    print(described())
    urls = int(options.millions * 1e6)
    hosts = int(urls / options.per_host)
    with tempfile.TemporaryDirectory() as name:
        base = options.folder or Path(name)
        gc.freeze()  # as worker processes do
        gc.set_threshold(20_000, 50, 100)
        kept, work = base / f"known-{options.millions:g}", base / "run"
        if not kept.exists():
            start = time.monotonic()
            known, length = load(kept, urls, hosts, PARTITIONS, os.cpu_count() or 1)
            print(
                f"made {known} URLs of {length / known:.1f} bytes in"
                f" {time.monotonic() - start:.0f} s"
            )
        print(
            f"{options.millions:g} million known: {disk_bytes(kept) / urls:.1f} bytes of disk each"
        )
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(kept, work, copy_function=os.link)  # table files are never written again
        for path in [
            *work.glob("seen-*"),
            *work.glob("p*/[A-Z]*"),
            *work.glob("p*/*.json"),
            *work.glob("p*/*.log"),
        ]:
            data = path.read_bytes()
            path.unlink()
            path.write_bytes(data)
        source = stream(urls, hosts, 5)
        next(source)  # its process is outside the cgroup
        if options.cgroup:
            forget(work)
            (options.cgroup / "cgroup.procs").write_text(str(os.getpid()))
        crawl = Crawl(work, options.cache_mb << 20)
        crawl.run(source, options.warm)
        crawl.spent, before = dict.fromkeys(crawl.spent, 0.0), crawl.completed
        start = time.monotonic()
        cpu = crawl.run(source, options.links)
        wall = time.monotonic() - start
        main_s, done = sum(crawl.spent.values()), crawl.completed - before
        rate, cost = options.links / cpu, cpu / options.links * 1e6
        print(
            f"{rate:,.0f} links a second of CPU ({cost:.2f} us a link), {options.links / wall:,.0f}"
            " on the clock;"
        )
        parts = {name: s / options.links * 1e6 for name, s in crawl.spent.items()} | {
            "other threads": (cpu - main_s) / options.links * 1e6
        }
        print(
            "  us a link: "
            + ", ".join(f"{name} {us:.2f}" for name, us in parts.items())
            + f"; completed {done}"
        )
        anon, mapped = rss_bytes()
        print(
            f"memory: {anon / 1e6:.0f} MB own, {mapped / 1e6:.0f} MB mapped; page cache"
            f" {cached_bytes(work) / 1e6:.0f} MB"
        )
        if options.cgroup:
            peaks = [options.cgroup / name for name in ("memory.peak", "memory.max_usage_in_bytes")]
            print(
                "cgroup: at most"
                f" {max(int(path.read_text()) for path in peaks if path.exists()) / 1e6:.0f} MB,"
                " page cache included"
            )
        print(f"disk after: {disk_bytes(work) / 1e6:.0f} MB")
        source.close()  # type: ignore[attr-defined]
        crawl.close()
        if options.folder:
            shutil.rmtree(work)


if __name__ == "__main__":
    main()
