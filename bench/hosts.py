"""Whether any structure holds all hosts in memory: ``python -m bench.hosts [--millions 10] [--few
10000] [--folder DIR]``.

Each host has one URL that waits, brought in by the partitions' own code, commit by commit. A second
process then opens the tables, as after a restart, and does what makes a worker remember hosts:
links come in that lead to hosts all over the crawl, one in ten to a new URL; URLs are fetched; and
as many hosts are acquired as the workbench takes. Prints the time of the start and the memory of
either process, at many hosts and at few, and the difference. RocksDB has a small cache, memtables
included, which is in these figures; what it holds is printed beside them, because few hosts do not
fill it.
"""

from __future__ import annotations

import argparse
import gc
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.frontier import NOW, PARTITIONS, Crawl, rss_bytes
from bench.frontier_load import seen_path, table_folder
from bench.frontier_web import host_name

from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.system.process_memory import give_back, use_few_arenas
from lycosa.base.urls.identity import Sites, hash8, partition_of
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.state.commit import Commit

_CACHE_BYTES = 64 << 20
_COMMIT = 40_000
_PAGE_LINKS = 100
_LIMIT_MB = 200


def load(folder: Path, hosts: int, part: int) -> None:
    """Discovers one URL of each host; of two processes each takes every second partition."""
    crawl, site_of = Crawl(folder, _CACHE_BYTES), Sites().site_of
    for partition in crawl.partitions:
        if partition.seen.stamp < 0:
            partition.seen.rebuild((), 0)
    batches: list[list[Discovered]] = [[] for _ in range(PARTITIONS)]
    chance, since = random.Random(3), 0
    for h in range(hosts):
        host = host_name(h)
        url = f"http://{host}/"
        number = partition_of(site_of(host), PARTITIONS)
        if number % 2 == part:
            batches[number].append(
                Discovered(
                    url,
                    hash8(host),
                    hash8(url),
                    LinkKind.A,
                    1,
                    "http://www.example.org/",
                    0,
                    chance.random(),
                )
            )
            since += 1
        if since == _COMMIT or h == hosts - 1:
            for partition, found in zip(crawl.partitions, batches, strict=True):
                partition.discover_urls(found, float(NOW))
                found.clear()
            crawl.commit()
            since = 0
    for partition in crawl.partitions:
        partition.seen.save(crawl.log.next_sequence - 1)
    crawl.close()
    give_back()
    print(f"{own_mb():.0f} MB own in the process that brought them in", flush=True)


def own_mb() -> float:
    """Memory of this process without files that it has mapped."""
    return rss_bytes()[0] / 1e6


def measure(folder: Path, hosts: int, links: int, visits: int) -> None:
    """Opens what ``load`` made and works with it."""
    start = time.monotonic()
    crawl = Crawl(folder, _CACHE_BYTES)
    opened = time.monotonic() - start
    while crawl.log.next_sequence <= max(partition.seen.stamp for partition in crawl.partitions):
        # The tables were made by two processes, with a log each: this one's goes on behind both.
        crawl.log.append(
            Commit(term=1, sequence=crawl.log.next_sequence, wall=float(NOW), batches=[])
        )
    waiting = sum(len(partition.front) for partition in crawl.partitions)
    assert waiting == hosts, (waiting, hosts)
    at_start = own_mb()
    chance = random.Random(5)
    for done in range(0, links, _PAGE_LINKS):
        crawl.discover([_link(chance, hosts, done) for _ in range(_PAGE_LINKS)])
        for _ in range(visits * _PAGE_LINKS // links):
            crawl.fetch()
        if done % _COMMIT == 0:
            crawl.commit()
    held = _fill_workbench(crawl)
    crawl.commit()
    gc.collect()
    give_back()
    cached = crawl.tables[0]._cache.snapshot()["cache"] / 1e6
    states = sum(len(partition.visits) for partition in crawl.partitions)
    front = sum(partition.front.in_memory for partition in crawl.partitions)
    print(
        f"{hosts:,} hosts: opened in {opened:.1f} s with {at_start:.0f} MB own; after {links:,}"
        f" links, {crawl.completed:,} fetches and with {held:,} hosts acquired:\n  {own_mb():.0f}"
        f" MB own, of it {cached:.0f} MB RocksDB's cache, and {rss_bytes()[1] / 1e6:.0f} MB mapped;"
        f" in memory {states:,} visit states and {front:,} places of front queues"
    )
    print(f"own {own_mb():.1f} cached {cached:.1f}", flush=True)


def _link(chance: random.Random, hosts: int, number: int) -> str:
    host = host_name(chance.randrange(hosts))
    return (
        f"http://{host}/{number}-{chance.getrandbits(40):x}.html"
        if chance.random() < 0.1
        else f"http://{host}/"
    )


def _fill_workbench(crawl: Crawl) -> int:
    """Acquires every host that the workbench gives, and reads the head of its queue; they are
    kept until the memory is measured.
    """
    taken: list[VisitState] = []
    while (host := crawl.frontier.acquire(crawl.now + 1e6, NOW + crawl.now)) is not None:
        lease = crawl.partitions[host.partition].lease_next(host)
        if lease is not None:
            crawl.partitions[host.partition].restore_lease(lease)
        taken.append(host)
        if (
            len(taken) >= crawl.frontier.snapshot(0.0).front + len(crawl.frontier.workbench)
            or len(taken) >= 20_000
        ):
            break
    return len(taken)


def _start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench.hosts", *words], stdout=subprocess.PIPE, text=True
    )


def _said(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"a process of the benchmark ended with {process.returncode}")
    print("\n".join(line for line in said.splitlines() if not line.startswith("own ")), flush=True)
    return said


def _make(kept: Path, hosts: int) -> None:
    start = time.monotonic()
    halves = [kept.with_name(f"making-{part}") for part in range(2)]
    for half in halves:
        shutil.rmtree(half, ignore_errors=True)
    processes = [
        _start("--load", str(half), str(hosts), str(part)) for part, half in enumerate(halves)
    ]
    for process in processes:
        _said(process)
    kept.mkdir()
    for number in range(PARTITIONS):
        for place in (table_folder, seen_path):
            place(halves[number % 2], number).rename(place(kept, number))
    for half in halves:
        shutil.rmtree(half)
    print(f"{hosts:,} hosts brought in within {time.monotonic() - start:.0f} s", flush=True)


def own_and_cached(base: Path, hosts: int, links: int, visits: int) -> tuple[float, float]:
    """Memory of a worker with so many hosts, and what of it is RocksDB's cache; the tables are
    made when they are not there.
    """
    kept, work = base / f"hosts-{hosts}", base / "run"
    if not kept.exists():
        _make(kept, hosts)
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(kept, work)
    words = (
        _said(_start("--measure", str(work), str(hosts), str(links), str(visits)))
        .splitlines()[-1]
        .split()
    )
    shutil.rmtree(work)
    return float(words[1]), float(words[3])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--millions", type=float, default=10.0, help="hosts of the large crawl")
    parser.add_argument("--few", type=int, default=10_000, help="hosts of the small one")
    parser.add_argument("--links", type=int, default=500_000)
    parser.add_argument("--visits", type=int, default=50_000)
    parser.add_argument(
        "--folder", type=Path, help="where the tables are made, and kept for the next time"
    )
    parser.add_argument("--load", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load or options.measure:
        use_few_arenas()  # as a worker's process does
    if options.load:
        load(Path(options.load[0]), *map(int, options.load[1:]))
        return
    if options.measure:
        measure(Path(options.measure[0]), *map(int, options.measure[1:]))
        return
    with tempfile.TemporaryDirectory() as name:
        base = options.folder or Path(name)
        base.mkdir(parents=True, exist_ok=True)
        few, few_cached = own_and_cached(base, options.few, options.links, options.visits)
        many, many_cached = own_and_cached(
            base, int(options.millions * 1e6), options.links, options.visits
        )
    print(
        f"{options.millions:g} million hosts take {many - few:.0f} MB more than {options.few:,}, of"
        f" which {many_cached - few_cached:.0f} MB are the cache, which few do not fill (wanted: at"
        f" most {_LIMIT_MB} MB more without it)"
    )
    sys.exit(0 if many - few - many_cached + few_cached <= _LIMIT_MB else 1)


if __name__ == "__main__":
    main()
