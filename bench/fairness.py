"""Whether every host has its turn, and important URLs come first: ``python -m bench.fairness
[--hosts 100000] [--pages 5000000]``.

A synthetic crawl of many hosts, of which one has millions of pages and the others one to nine. It
drives what decides the order of a crawl, and nothing else: the real partitions over RocksDB, front
queues, workbench, delays and commits, under a virtual clock. There is no fetcher and no parser: a
request takes the time of its host (50 to 500 ms), and ``--slots`` of them go on at once. All pages
of the large host wait from the start, with half of the other hosts; the rest of the hosts are found
a few with each page fetched.

Printed are, of the times from when a host lines up to when its turn comes: the greatest, and the
greatest share of its bound (module ``frontier.front_queues``: turns by its place and band, times
the partitions); the same for its first visit, in visits; and Spearman's rank correlation of
priority with the order in which URLs were fetched, over all URLs that were known from the start and
within hosts (1 is best first). Ends with 1 when a host was late or was not visited at all.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import random
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from bench.frontier import NOW, PARTITIONS, Crawl
from bench.interpreter import described
from numpy.typing import NDArray

from lycosa.base.config.sections import FrontierSection, PolitenessSection
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.url_state import Completed, UrlState
from lycosa.base.urls.identity import hash8
from lycosa.stages.frontier.frontier import QUANTUM
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.politeness.delay import delay_s, pace_after_request

_CACHE_BYTES = 256 << 20
_BATCH = 20_000
_FOUND = 5  # hosts that are found with each page fetched
_PER_ADDRESS = 3  # hosts of one address
_COMMIT_S = 5.0  # virtual
_POLITENESS = PolitenessSection()


@dataclass
class Promise:
    """What a host was promised when it lined up, in turns of the worker since the start and in
    visits, and what came of it.
    """

    turns: int
    most_turns: int
    visits: int
    most_visits: int
    turn: int = 0
    visit: int = 0


@dataclass
class Report:
    """What was measured; see ``main``."""

    promises: list[Promise] = field(default_factory=list)
    fetched: dict[str, list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))
    late: int = 0
    unvisited: int = 0

    @property
    def worst_turns(self) -> Promise:
        return max(self.promises, key=lambda each: (each.turn - each.turns) / each.most_turns)

    @property
    def worst_visits(self) -> Promise:
        return max(self.promises, key=lambda each: (each.visit - each.visits) / each.most_visits)


class Fairness:
    """One crawl: the large host is number 0."""

    def __init__(self, folder: Path, hosts: int, pages: int, slots: int, seed: int = 1) -> None:
        self.on_workbench: list[str] = []
        self.crawl = Crawl(folder, _CACHE_BYTES, self.on_workbench)
        for partition in self.crawl.partitions:
            if partition.seen.stamp < 0:
                partition.seen.rebuild((), 0)
        self.chance = random.Random(seed)
        self.frontier = self.crawl.frontier
        self.hosts, self.pages, self.slots = hosts, pages, slots
        self.report, self.known = Report(), 0
        self.waiting: dict[str, Promise] = {}  # lined up for the first time, and not visited
        self.priorities: dict[
            bytes, float
        ] = {}  # of what was known at the start, the large host's left out
        self.turns = self.visits = 0
        self.now, self.committed = 0.0, 0.0

    # -- what is found

    def load(self) -> None:
        """What is known from the start."""
        for start in range(0, self.pages, _BATCH):
            self._discover(0, range(start, min(start + _BATCH, self.pages)))
            if start % 100_000 == 0:
                self.crawl.commit()
        self.known = 1
        self.find(self.hosts // 2)
        self.crawl.commit()

    def find(self, count: int) -> None:
        """More hosts, with all their pages."""
        for h in range(self.known, min(self.known + count, self.hosts)):
            self._discover(h, range(1 + h * 7919 % 9))
            self.known = h + 1

    def _discover(self, h: int, numbers: range) -> None:
        host = f"host{h}.example"
        host8 = hash8(host)
        partition = self.crawl.partitions[h % PARTITIONS]
        batch = []
        for number in numbers:
            importance, depth = self.chance.random(), self.chance.randrange(12)
            url = f"http://{host}/pages/{number}.html"
            batch.append(
                Discovered(url, host8, hash8(url), LinkKind.A, depth, importance=importance)
            )
        partition.discover_urls(batch, NOW + self.now)
        if h and self.known <= self.hosts // 2:
            self.priorities |= {found.url8: _priority_of(partition, found) for found in batch}
        visit = partition.visits.find_host(host8)
        assert visit is not None
        if host not in self.waiting and visit.record.front is not None and numbers.start == 0:
            most = PARTITIONS * partition.front.turns_to(*visit.record.front)
            bench = len(self.frontier.workbench) + len(self.frontier.in_process)
            # A turn needs a host to leave the workbench, which each does after a quantum of visits;
            # then its own visit is among the next.
            self.waiting[host] = Promise(
                self.turns, most, self.visits, QUANTUM * (most + bench) + 64
            )

    # -- the crawl

    def _note_benched(self) -> None:
        """Count the turns of the hosts that have entered the workbench since the last call."""
        for host in self.on_workbench:
            self.turns += 1
            promise = self.waiting.get(host)
            if promise is not None and not promise.turn:
                promise.turn = self.turns
        self.on_workbench.clear()

    def run(self, visits: int) -> None:
        """Until nobody but the large host waits, at most so many visits."""
        going: list[tuple[float, int, VisitState, Lease, float]] = []
        while self.visits < visits and (
            self.waiting or self.known < self.hosts or self._small_wait()
        ):
            while (
                len(going) < self.slots
                and (host := self.frontier.acquire(self.now, NOW + self.now)) is not None
            ):
                self._note_benched()
                lease = self._begin(host)
                if lease is not None:
                    duration = 0.05 + 0.45 * (host.host8[0] / 255)
                    heapq.heappush(going, (self.now + duration, self.visits, host, lease, duration))
            self._note_benched()
            ready = self.frontier.next_time()
            if going and (len(going) >= self.slots or ready is None or ready > going[0][0]):
                self.now, _, host, lease, duration = heapq.heappop(going)
                self._end(host, lease, duration)
            elif ready is not None:
                self.now = max(self.now, ready)
            else:
                break
            if self.now - self.committed >= _COMMIT_S:
                self.crawl.commit()
                self.committed = self.now
        self.report.unvisited = len(self.waiting)

    def _small_wait(self) -> bool:
        partitions = self.frontier.partitions.values()
        return sum(p.counters.count_in(UrlState.QUEUED) for p in partitions) > self.pages or bool(
            self.frontier.waiting_in_front()
        )

    def _begin(self, host: VisitState) -> Lease | None:
        lease = self.crawl.partitions[host.partition].lease_next(host)
        if lease is None:
            self.frontier.give_back(host)
            return None
        self.visits += 1
        number = int(host.name.partition(".")[0][4:])
        host.record.address = f"198.18.{number // _PER_ADDRESS >> 8}.{number // _PER_ADDRESS & 255}"
        self.frontier.workbench.rejoin_address(host, host.record.address)
        self.frontier.workbench.postpone_address(
            host.record.address, self.now + _POLITENESS.address_delay_s
        )
        promise = self.waiting.pop(host.name, None)
        if promise is not None:
            promise.visit = self.visits
            self.report.promises.append(promise)
            self.report.late += (
                promise.turn - promise.turns > promise.most_turns
                or promise.visit - promise.visits > promise.most_visits
            )
        if number == 0:
            self.report.fetched[host.name].append((float(lease.record.priority), self.visits))
        elif lease.entry.url8 in self.priorities:
            self.report.fetched[host.name].append((self.priorities[lease.entry.url8], self.visits))
        return lease

    def _end(self, host: VisitState, lease: Lease, duration: float) -> None:
        wall, partition = NOW + self.now, self.crawl.partitions[host.partition]
        host.record.pace = pace_after_request(
            host.record.pace, _POLITENESS, 200, "", duration, wall
        )
        delay = delay_s(host.record.pace, _POLITENESS, wall, self.chance).seconds
        partition.note_capture(
            host, body_bytes=50_000, duration_s=duration, is_page=True, is_capture=True
        )
        partition.complete_lease(
            lease, Completed(host.host8, lease.entry.url8, lease.number, UrlState.FETCHED)
        )
        self.frontier.release(host, self.now + delay, wall + delay)
        self._note_benched()
        self.find(_FOUND)


def _priority_of(partition: Partition, found: Discovered) -> float:
    record = partition.find_record(found.host8, found.url8)
    assert record is not None
    return float(record.priority)


def spearman(pairs: list[tuple[float, int]]) -> float:
    """Spearman's rank correlation of priority with earliness: 1 when the highest came first.
    Equal values share their mean rank.
    """
    first, second = (
        _ranks(np.array(values, dtype=np.float64)) for values in zip(*pairs, strict=True)
    )
    if first.std() == 0 or second.std() == 0:
        return 0.0
    return float(-np.corrcoef(first, second)[0, 1])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place], dtype=np.float64)


def within(fetched: dict[str, list[tuple[float, int]]], least: int = 5) -> tuple[float, int]:
    """The mean over hosts with at least ``least`` URLs fetched, and how many those are."""
    found = [spearman(pairs) for host, pairs in fetched.items() if len(pairs) >= least]
    return (sum(found) / len(found) if found else 0.0), len(found)


def out_of_order(fetched: dict[str, list[tuple[float, int]]]) -> int:
    """How many hosts had URLs fetched in another order than that of their bands."""
    most = FrontierSection().bands
    orders = (
        [int(255 - priority) * most // 256 for priority, _ in pairs] for pairs in fetched.values()
    )
    return sum(bands != sorted(bands) for bands in orders)


def measure(folder: Path, hosts: int, pages: int, slots: int) -> Report:
    """Loads, crawls, prints."""
    start = time.process_time()
    crawl = Fairness(folder, hosts, pages, slots)
    crawl.load()
    others = f"{len(crawl.priorities):,} of {hosts // 2:,} others"
    print(
        f"{pages:,} URLs of one host and {others} wait ({time.process_time() - start:.0f} s of"
        " CPU)",
        flush=True,
    )
    crawl.run(hosts * 20)
    crawl.crawl.close()
    report = crawl.report
    turn, visit = report.worst_turns, report.worst_visits
    longest = max(report.promises, key=lambda each: each.turn - each.turns)
    print(
        f"{crawl.visits:,} visits and {crawl.turns:,} turns in {crawl.now:,.0f} virtual s:"
        f" {len(report.promises):,} of {hosts:,} hosts visited, {report.late} late"
        f" ({time.process_time() - start:.0f} s of CPU)"
    )
    print(
        f"  longest wait for a turn: {longest.turn - longest.turns:,} turns, promised"
        f" {longest.most_turns:,}"
    )
    print(f"  nearest to its bound in turns: {turn.turn - turn.turns:,} of {turn.most_turns:,}")
    print(
        f"  nearest to its bound in visits: {visit.visit - visit.visits:,} of {visit.most_visits:,}"
    )
    large = report.fetched.pop("host0.example")
    overall = [pair for pairs in report.fetched.values() for pair in pairs]
    mean, count = within(report.fetched)
    print(
        f"rank correlation of priority with fetch order: {spearman(overall):.2f} over"
        f" {len(overall):,} URLs of {hosts // 2:,} hosts, {mean:.2f} within hosts (mean of"
        f" {count:,})"
    )
    print(
        f"  not in the order of their bands: {out_of_order(report.fetched):,} of"
        f" {len(report.fetched):,} hosts"
    )
    print(
        f"  of the large host's {len(large):,} fetched URLs the lowest priority is"
        f" {min(p for p, _ in large) / 255:.2f}"
    )
    return report


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=100_000)
    parser.add_argument("--pages", type=int, default=5_000_000, help="of the large host")
    parser.add_argument("--slots", type=int, default=400, help="requests at once")
    parser.add_argument(
        "--folder", type=Path, help="where the tables are made; removed at the end if not given"
    )
    options = parser.parse_args()
    print(described())
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    with tempfile.TemporaryDirectory() as name:
        report = measure(options.folder or Path(name), options.hosts, options.pages, options.slots)
    sys.exit(1 if report.late or report.unvisited else 0)


if __name__ == "__main__":
    main()
