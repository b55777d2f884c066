"""What a registry costs: ``python -m bench.registry [--database cassandra] [--urls 1000000]``.

A crawl folder is made: URLs on hosts of 100 URLs each in 16 partitions, half of them fetched. Its
state is read whole into an empty schema; then commits are appended to its log as one worker makes
them (200 fetched pages and 2,000 new URLs each, every 2 s of crawl time) and followed. Printed are
rows a second and CPU time of projector and server for a row. Last, commits are appended at a fixed
pace while the projector runs, and its lag is measured: from the moment of the append until the
transaction is committed. The server is started (``script/services``)
unless ``--dsn`` names one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.urls.identity import hash8
from lycosa.feeds.folder_source import FolderSource
from lycosa.feeds.registry.cassandra_connection import CassandraConnection, parsed_address
from lycosa.feeds.registry.cassandra_place import CassandraPlace
from lycosa.feeds.registry.postgres_tables import PostgresPlace
from lycosa.feeds.registry.projector import ProjectionReport, Projector
from lycosa.feeds.registry.registry import Registry
from lycosa.feeds.registry.registry_port import RegistryPlace
from lycosa.stages.frontier.visit_state import HostState, VisitRecord
from lycosa.state.commit import Commit, CommitLog, LastCommit, Mark, PartitionBatch, marked
from lycosa.state.folder import manifest as manifests
from lycosa.state.folder.names import last_commit_path, table_folder
from lycosa.state.kv.rocks import RocksKeyValue
from lycosa.state.kv.table_records import UrlRecord, encode_record, encode_url, host_key, url_key

ROOT = Path(__file__).parents[1]
PARTITIONS, PER_HOST, PAGES, NEW = 16, 100, 200, 2000
_TICK = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """Rows and what they took."""

    rows: int
    seconds: float
    client_s: float
    server_s: float

    def __str__(self) -> str:
        return (
            f"{self.rows} rows in {self.seconds:.1f} s: {self.rows / self.seconds:,.0f} a second;"
            f" CPU a row: projector {self.client_s / self.rows * 1e6:.1f} µs, server"
            f" {self.server_s / self.rows * 1e6:.1f} µs"
        )


class MadeCrawl:
    """A crawl folder with tables and a log, without pages."""

    def __init__(self, folder: Path, urls: int) -> None:
        self.folder, self._next = folder, urls
        identity = manifests.Identity(
            partitions=PARTITIONS, bands=8, canonical={}, canonical_version=1, suffixes=""
        )
        manifests.create_crawl(folder, identity, "bench", time.time())
        self._log = CommitLog(
            folder / "log", 0, last_commit=LastCommit(last_commit_path(folder, 0))
        )
        self._before = dict.fromkeys(range(PARTITIONS), Mark(0, 0))
        for start in range(PARTITIONS):
            self._fill(start, range(start * urls // PARTITIONS, (start + 1) * urls // PARTITIONS))

    def append(self) -> Commit:
        """One commit of a worker: pages that were fetched, and URLs that were found."""
        first, self._next = self._next, self._next + NEW
        writes: list[dict[bytes, bytes | None]] = [{} for _ in range(PARTITIONS)]
        fetched = range(first - NEW, first - NEW + PAGES)
        for number in (*range(first, self._next), *fetched):
            key, value = _url(number, number in fetched)
            host, record = _host(number)
            writes[key[1] % PARTITIONS][key] = value
            writes[key[1] % PARTITIONS][host] = record
        batches = [PartitionBatch(number, each) for number, each in enumerate(writes) if each]
        commit = Commit(
            term=1,
            sequence=self._log.next_sequence,
            wall=time.time(),
            batches=batches,
            before=dict(self._before),
        )
        self._log.append(commit)
        self._before |= {batch.partition: commit.mark for batch in batches}
        return commit

    def _fill(self, partition: int, numbers: range) -> None:
        table = RocksKeyValue(table_folder(self.folder, partition))
        batch: dict[bytes, bytes | None] = {}
        for number in numbers:
            key, value = _url(number, number % 2 == 0)
            batch[key] = value
            if number % PER_HOST == 0:
                host, record = _host(number)
                batch[host] = record
            if len(batch) >= 20_000:
                table.write(batch)
                batch = {}
        table.write(marked(PartitionBatch(partition, batch), Mark(0, 1), 0))
        table.flush()
        table.close()
        self._before[partition] = Mark(0, 1)


def _url(number: int, is_fetched: bool) -> tuple[bytes, bytes]:
    host = f"www.site-{number // PER_HOST}.example"
    target = f"/section/{number % 7}/article-{number}.html?from=list"
    record = UrlRecord(
        UrlState.FETCHED if is_fetched else UrlState.QUEUED,
        True,
        target,
        3,
        number % 256,
        LinkKind.A,
        1_780_000_000 + number % 10_000,
        due_at=1_790_000_000 if is_fetched else 0,
    )
    if is_fetched:
        digest = hash8(target) + hash8(host) + b"four"
        record.history = History(1, 1_780_100_000, 200, digest, 1 << 62, etag='"5f3c-1a2b"')
    return url_key(hash8(host), hash8(f"https://{host}{target}")), encode_url(record)


def _host(number: int) -> tuple[bytes, bytes]:
    host = f"www.site-{number // PER_HOST}.example"
    record = VisitRecord(host, HostState.READY, waiting=PER_HOST, next_at=1_780_000_000.0)
    return host_key(hash8(host)), encode_record(record)


@contextmanager
def server(database: str, dsn: str) -> Iterator[tuple[str, int]]:
    """The database, and the pid of its server if it was started here."""
    if dsn:
        yield dsn, 0
        return
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        services = ROOT / "script" / "services"
        run = subprocess.run(
            [services, "start", database, folder], stdout=subprocess.PIPE, text=True, check=True
        )
        values = dict(line.split("=", 1) for line in run.stdout.split())
        place, pid = values[database.upper()], int(values[f"{database.upper()}_PID"])
        try:
            yield f"cassandra://{place}" if database == "cassandra" else place, pid
        finally:
            subprocess.run([services, "stop", database, folder], check=True)


def place_of(database: str, dsn: str) -> RegistryPlace:
    """Where the registry is filled; a keyspace is created with one copy."""
    if database == "postgres":
        return PostgresPlace(dsn, "bench")
    connection = CassandraConnection(parsed_address(dsn))
    connection.run(
        "CREATE KEYSPACE IF NOT EXISTS bench WITH replication ="
        " {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    connection.close()
    return CassandraPlace(dsn, "bench")


def cpu_s(pid: int) -> float:
    """CPU time of the server and of its processes that have ended or run."""
    if not pid:
        return 0.0
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    total = 0
    for each in (str(pid), *children):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split()
        except FileNotFoundError:
            continue
        total += sum(map(int, fields[11:15] if each == str(pid) else fields[11:13]))
    return total / _TICK


def measured(pid: int, projector: Projector, follow: Callable[[], object]) -> Cost:
    """What a call of the projector costs."""
    rows, began, client, database = (
        projector.report.rows,
        time.monotonic(),
        time.process_time(),
        cpu_s(pid),
    )
    follow()
    return Cost(
        projector.report.rows - rows,
        time.monotonic() - began,
        time.process_time() - client,
        cpu_s(pid) - database,
    )


def lags(crawl: MadeCrawl, registry: Registry, source: FolderSource, rate: float, n: int) -> str:
    """Appends ``n`` commits at ``rate`` a second; the time until the registry has each."""
    appended: dict[int, float] = {}
    waited: list[float] = []
    is_over = threading.Event()

    def append() -> None:
        began = time.monotonic()
        for number in range(n):
            is_over.wait(max(began + number / rate - time.monotonic(), 0))
            at = time.monotonic()
            appended[crawl.append().sequence] = at
        is_over.wait(30)

    def tell(report: ProjectionReport) -> None:
        done = max(mark.sequence for mark in registry.positions.values())
        there = [sequence for sequence in appended if sequence <= done]
        waited.extend(time.monotonic() - appended.pop(sequence) for sequence in there)

    thread = threading.Thread(target=append)
    projector = Projector(
        source, registry, tell, lambda seconds: len(waited) >= n or is_over.wait(seconds)
    )
    thread.start()
    projector.follow()
    is_over.set()
    thread.join()
    waited.sort()
    return (
        f"{rate:g} commits a second ({rate * (PAGES + NEW):,.0f} URLs): lag median"
        f" {waited[len(waited) // 2]:.2f} s, 90 % {waited[int(len(waited) * 0.9)]:.2f} s, most"
        f" {waited[-1]:.2f} s"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--rates", default="0.5,2,5")
    parser.add_argument("--database", choices=("postgres", "cassandra"), default="postgres")
    parser.add_argument("--dsn", default="")
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder,
        server(asked.database, asked.dsn) as (dsn, pid),
    ):
        crawl = MadeCrawl(Path(folder) / "crawl", asked.urls)
        crawl.append()
        source = FolderSource(crawl.folder)
        registry = Registry(place_of(asked.database, dsn), source.origin)
        # a database that is too busy for a moment is waited for
        wait = threading.Event().wait
        projector = Projector(source, registry, lambda report: None, wait)
        print(
            "read whole, then completed:", measured(pid, projector, lambda: projector.follow(True))
        )
        for _ in range(asked.commits):
            crawl.append()
        print("followed:", measured(pid, projector, lambda: projector.follow(True)))
        for rate in map(float, asked.rates.split(",")):
            print(lags(crawl, registry, source, rate, int(20 * min(rate, 2))))
        registry.close()


if __name__ == "__main__":
    main()
