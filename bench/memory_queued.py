"""Resident memory of a worker by the number of queued URLs: ``python -m bench.memory_queued [--few
10000] [--many 1000000]``.

A worker is put together as a crawl puts it together (``worker.assemble``), with its real tables, logs and
store, and pages of 190 links are given to it as the parse stage gives them, through intake,
URL-seen, partitions and commits. Then as many hosts as the workbench takes are acquired, so that
the heads of their queues are in memory. What is printed is the process's resident memory then ("in
a rush": 80,000 new URLs a second, with tables on their way to disk), and three seconds later, when
what is free has been given back as workers do every ten seconds; and that of a second process that
opens the same folder, as after a restart. Over a thousand hosts, and all of it on one.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from lycosa.base.config.sections import BudgetSection, Config, ScopeRule, ScopeSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.parsed import Link, Parsed
from lycosa.base.model.url_state import UrlState
from lycosa.base.system.clock import SystemClock
from lycosa.base.system.process_memory import give_back, use_few_arenas
from lycosa.base.urls.identity import hash8
from lycosa.processes.session import Session
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.state.kv.rocks import rocks_opener
from lycosa.worker.assemble import Assembled, assemble
from lycosa.worker.real_ports import real_ports

_PAGE_LINKS = 190
_COMMIT_LINKS = 10_000  # about what a quick crawl finds in the second between two commits
# No host is held back for bringing many URLs: what is measured here is the queue.
_CONFIG = Config(
    scope=ScopeSection(rule=ScopeRule.ANY), budgets=BudgetSection(discovery_per_page=0)
)
_LIMIT_MB = 100
_CALM_S = 3.0


def resident_mb(kind: str = "VmRSS") -> float:
    """Memory of this process in the core: all (``VmRSS``), its own (``RssAnon``), mapped files
    (``RssFile``).
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) / 1000
    raise LookupError(kind)


async def hold(folder: Path, urls: int, hosts: int) -> None:
    """Opens the crawl in ``folder``, finds ``urls`` URLs over ``hosts`` hosts there (0 = none: a
    restart), and prints what it holds.
    """
    with Session(folder, _CONFIG, rocks_opener(), SystemClock()) as session:
        job = session.job(0, tuple(range(_CONFIG.frontier.partitions)))
        assembled = assemble(job, ports := real_ports(job))
        try:
            if urls:
                await discover(assembled, urls, hosts)
            on_workbench = fill_workbench(assembled)
            await assembled.worker.committer.commit()  # as every second
            rush = resident_mb()
            await asyncio.sleep(_CALM_S)
            give_back()  # as a worker's process does every ten seconds
            states = [
                partition.counters for partition in assembled.worker.frontier.partitions.values()
            ]
            queued = sum(counters.count_in(UrlState.QUEUED) for counters in states)
            print(
                f"{queued} {on_workbench} {rush} {resident_mb()} {resident_mb('RssAnon')}"
                f" {resident_mb('RssFile')}"
            )
        finally:
            await ports.parser.close()
            await assembled.sender.close()
            assembled.close()


async def discover(assembled: Assembled, urls: int, hosts: int) -> None:
    """URLs come as the links of one page, which is leased meanwhile."""
    worker, intake = assembled.worker, assembled.intake
    intake.take_seeds(["http://host0.example/"])
    await worker.committer.commit()
    host = worker.frontier.acquire(time.monotonic(), time.time())
    assert host is not None, "the seed's host is ready"
    partition = worker.frontier.partitions[host.partition]
    lease = partition.lease_next(host)
    assert lease is not None, "the seed waits"
    names = [f"host{number}.example" for number in range(hosts)]
    keys = [hash8(name) for name in names]
    for start in range(0, urls, _PAGE_LINKS):
        links = []
        for number in range(start, min(start + _PAGE_LINKS, urls)):
            url = f"http://{names[number % hosts]}/articles/{number % 977}/a-page-with-a-name-of-some-length-{number}.html"
            links.append(Link(url, keys[number % hosts], hash8(url), LinkKind.A, "a page"))
        intake.take_outlinks(lease, Parsed(links=links))
        if start // _COMMIT_LINKS != (start + _PAGE_LINKS) // _COMMIT_LINKS:
            await worker.committer.commit()
    partition.restore_lease(lease)
    worker.frontier.give_back(host)
    await worker.committer.commit()


def fill_workbench(assembled: Assembled) -> int:
    """Acquires every host that the workbench gives, and reads the head of its queue; all are
    given back.
    """
    frontier = assembled.worker.frontier
    taken: list[VisitState] = []
    while (host := frontier.acquire(time.monotonic() + 1e6, time.time())) is not None:
        taken.append(host)
    for host in taken:
        partition = frontier.partitions[host.partition]
        lease = partition.lease_next(host)
        if lease is not None:
            partition.restore_lease(lease)
        frontier.give_back(host)
    return len(taken)


def _run(folder: Path, urls: int, hosts: int) -> list[float]:
    command = [
        sys.executable,
        "-m",
        "bench.memory_queued",
        "--hold",
        str(folder),
        str(urls),
        str(hosts),
    ]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(word) for word in output.split()]


def compare(few: int, many: int, hosts: int) -> bool:
    """Prints both sizes, fresh and restarted; whether they differ by less than the limit."""
    columns = (
        ("queued", 9),
        ("hosts held", 10),
        ("in a rush", 9),
        ("resident, MB", 12),
        ("own", 8),
        ("mapped", 8),
    )
    print(
        f"\n{hosts:7} host{'s' if hosts > 1 else ' '} "
        + " ".join(f"{title:>{width}}" for title, width in columns)
    )
    measured: dict[str, list[float]] = {"crawling": [], "restarted": []}
    for urls in (few, many):
        with TemporaryDirectory(prefix="queued-") as folder:
            for when in measured:
                queued, on_workbench, rush, resident, own, mapped = _run(
                    Path(folder), urls if when == "crawling" else 0, hosts
                )
                measured[when].append(resident)
                print(
                    f"{when:>13} {queued:9.0f} {on_workbench:10.0f} {rush:9.1f} {resident:12.1f}"
                    f" {own:8.1f} {mapped:8.1f}"
                )
    is_met = True
    for when, (at_few, at_many) in measured.items():
        print(f"{when}: {at_many - at_few:+.1f} MB (wanted: less than {_LIMIT_MB})")
        is_met &= at_many - at_few < _LIMIT_MB
    return is_met


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--few", type=int, default=10_000)
    parser.add_argument("--many", type=int, default=1_000_000)
    parser.add_argument(
        "--hold", nargs=3, metavar=("FOLDER", "URLS", "HOSTS"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.hold:
        folder, urls, hosts = options.hold
        use_few_arenas()  # as a worker's process does
        uvloop.run(hold(Path(folder), int(urls), int(hosts)))
        return
    met = [compare(options.few, options.many, hosts) for hosts in (1000, 1)]
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
