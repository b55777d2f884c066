"""Simulates the shards of a cluster: each crawls its hosts, and they exchange URLs in parcels.

The hosts of a sample belong to shards by the hash of their site. Each shard is a worker with its
own part of the processors and of the network: its frontier, visits and meters are those of
``lycosa simulate``. Commits, parcels, topics and brokers are those of ``simulate.simulated_post``.
All shards advance together in steps of half a second. What a shard sends for its processors' work
on records and rows is taken from the processors that fetch its pages. A commit that the brokers
have not acknowledged when the next one is due stops its shard until then.

A page of the sample stands for ``1 / share`` pages. It sends the rows of so many, because rows for
one destination are what decides when a parcel leaves. Costs of the exchange count with ``share``.
One link of each page is followed by the simulation: it leads to a page of any host, which its shard
discovers when the parcel arrives.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import msgspec

from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.system.private_folder import private_folder
from lycosa.base.urls.identity import hash8, partition_of
from lycosa.simulate.drive import Drive, Point
from lycosa.simulate.resources import BROKERS, Meters, UsageMeter
from lycosa.simulate.sample import Host, Sample, draw
from lycosa.simulate.simulated_post import STEP_S, PostTally, SimulatedPost
from lycosa.simulate.simulated_table import SimulatedTable
from lycosa.simulate.simulation_run import Model
from lycosa.simulate.visits import Visits
from lycosa.stages.frontier.lease import Lease
from lycosa.state.exchange.exchange_port import Lateness

_HOSTS_OF_SHARD = 200
_WARM_UP = 1 / 3
SHARDS_DAYS = 300 / 86_400
"""Length of a simulation with shards by default: five minutes, as the rates are steady."""
LONGEST_SHARDS_DAYS = 3600 / 86_400
"""Most days of a simulation with shards: all of them advance in small steps."""


class ShardsOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the shards of a cluster do in ``seconds`` of steady work, after a warm-up.

    ``pages`` are those fetched for the first time by each shard. ``limits`` are the shares of the
    time by what held the shards back. ``exchange_cpu`` is the share of all processor time that the
    exchange takes. ``hosts`` is the size of the sample.
    """

    shards: int
    seconds: float
    pages: list[float]
    post: PostTally
    limits: dict[str, float]
    exchange_cpu: float
    hosts: int
    share: float
    wall_s: float


class _Shard:
    """One shard of the sample."""

    def __init__(
        self, number: int, model: Model, part: Sample, folder: Path, follow: Callable[[int], None]
    ) -> None:
        self.number, self.share = number, part.share
        config = msgspec.structs.replace(model.config, workers=1, seed=model.config.seed + number)
        meters = Meters(model.means, 1, config.fetch.slots, part.share, part.typical)
        self.meters, self.brokers = meters, UsageMeter(BROKERS, 1.0, 1.0)
        folder.mkdir()
        self.table = SimulatedTable(folder, config, part.share)
        self.visits = Visits(part, model.web, config, self.table, meters)
        self.visits.captures.on_new_page = self._note_page
        self.drive = Drive(part, self.visits, self.table)
        self._follow, self._commit_s = follow, config.store.commit_s
        self._commit_pages = config.store.commit_pages * part.share
        self.committed_at = self.acknowledged_at = 0.0
        self.rows: dict[int, int] = defaultdict(int)  # pages since the last commit, by step
        self.pages = 0
        self.points: list[Point] = []

    def _note_page(self, lease: Lease) -> None:
        self.rows[int(self.visits.clock.now / STEP_S)] += 1
        self.pages += 1
        self._follow(self.number)

    def commit_is_due(self, now: float) -> bool:
        """Whether a commit is cut now; the one before must be acknowledged."""
        is_full = sum(self.rows.values()) >= self._commit_pages
        return self.acknowledged_at <= now and (
            is_full or now - self.committed_at >= self._commit_s
        )

    def begin_commit(self, now: float, acknowledged_at: float) -> None:
        """A commit was cut; fetching continues until the next one is due."""
        self.committed_at, self.acknowledged_at = now, acknowledged_at
        self.rows.clear()
        if acknowledged_at - now > self._commit_s:
            self.meters.pause(self.brokers, acknowledged_at)

    def close(self) -> None:
        self.visits.close()
        self.table.close()


class _Cluster:
    """All shards and their post."""

    def __init__(self, model: Model, shards: int, sample: Sample, folder: Path) -> None:
        self._means = model.cluster
        self._hosts = sample.hosts
        self._chance = random.Random(f"links:{model.config.seed}")
        means = msgspec.structs.replace(
            model.means,
            cores=model.means.cores / shards,
            bandwidth_bytes_per_s=max(model.means.bandwidth_bytes_per_s // shards, 1),
        )
        own = msgspec.structs.replace(model, means=means)
        self.shards = [
            _Shard(number, own, part, folder / str(number), self._follow_link)
            for number, part in enumerate(shard_samples(sample, shards))
        ]
        self._owner = {host.name: partition_of(host.name, shards) for host in sample.hosts}
        self.post = SimulatedPost(shards, model.cluster, Lateness(), model.config.seed)
        self._links: dict[tuple[int, int], list[str]] = defaultdict(list)
        self.exchange_s = 0.0

    def _follow_link(self, source: int) -> None:
        """Note the link of a new page that the simulation follows."""
        host: Host = self._chance.choice(self._hosts)
        url = f"http://{host.name}/{self._chance.randrange(host.pages)}"
        self._links[source, self._owner[host.name]].append(url)

    def step(self, now: float) -> None:
        """Cut the commits that are due, post, and deliver what is posted."""
        for shard in self.shards:
            if shard.commit_is_due(now):
                self._commit(shard, now)
        records, pairs = self.post.post_due(now)
        for shard, number in zip(self.shards, records.tolist(), strict=True):
            if number:
                self._spend(shard, number * self._means.record_us / 1e6, now)
        pairs += [(shard.number, shard.number) for shard in self.shards]
        for pair in pairs:
            if urls := self._links.pop(pair, None):
                self._deliver(self.shards[pair[1]], urls)

    def _commit(self, shard: _Shard, now: float) -> None:
        means = self._means
        rows_of_page = (means.links + means.fingerprints) / shard.share
        pages = sum(shard.rows.values())
        rows = {step: number * rows_of_page for step, number in shard.rows.items()}
        done = self.post.commit(shard.number, rows, pages / shard.share, now)
        shard.begin_commit(now, done)
        away = 1.0 - 1.0 / len(self.shards)
        cost_us = means.question_us + (means.links + means.fingerprints) * (
            means.row_us + means.row_bytes / 1000 * means.record_kb_us
        )
        self._spend(shard, pages / shard.share * away * cost_us / 1e6, now)

    def _spend(self, shard: _Shard, seconds: float, now: float) -> None:
        """Use processors of a shard; seconds are those of the whole shard."""
        shard.meters.cpu.spend(seconds * shard.share, now)
        shard.meters.free_at = max(shard.meters.free_at, shard.meters.cpu.free_at)
        self.exchange_s += seconds * shard.share

    @staticmethod
    def _deliver(shard: _Shard, urls: list[str]) -> None:
        found = [
            Discovered(url, hash8(url.split("/")[2]), hash8(url), LinkKind.A, 1, importance=0.5)
            for url in urls
        ]
        shard.visits.partition.discover_urls(found, shard.visits.clock.wall())


def shard_samples(sample: Sample, shards: int) -> list[Sample]:
    """The hosts of each shard, which is a worker of the same share as the whole sample."""
    hosts: list[list[Host]] = [[] for _ in range(shards)]
    for host in sample.hosts:
        hosts[partition_of(host.name, shards)].append(host)
    if not all(hosts):
        raise ValueError(
            f"{len(sample):,} hosts are too few for {shards} shards: some have none; use more"
            " --hosts or a larger --sample"
        )
    return [Sample(sample.share, each) for each in hosts]


def simulate_shards(
    model: Model, shards: int, tell: Callable[[float], None] = lambda _: None
) -> ShardsOutcome:
    """Simulate ``model.days`` of a cluster; the last two thirds count.

    ``tell`` gets the share of the time that is done. Raises ``ValueError`` for a sample that is too
    small or too large, and for a longer time than ``LONGEST_SHARDS_DAYS``.
    """
    if model.days > LONGEST_SHARDS_DAYS:
        raise ValueError(
            f"--days {model.days:g}: with --shards an hour at most is simulated"
            f" (--days {LONGEST_SHARDS_DAYS:.3f}), because all shards advance in small steps"
        )
    began, end_s = time.monotonic(), model.days * 86_400.0
    wanted = max(model.sample or _HOSTS_OF_SHARD * shards, shards)
    sample = draw(model.web, min(wanted, model.web.hosts), model.config.seed, model.rows)
    with private_folder("simulate") as folder:
        cluster = _Cluster(model, shards, sample, folder)
        try:
            return _run(cluster, end_s, len(sample), sample.share, began, tell)
        finally:
            for shard in cluster.shards:
                shard.close()


def _run(
    cluster: _Cluster,
    end_s: float,
    hosts: int,
    share: float,
    began: float,
    tell: Callable[[float], None],
) -> ShardsOutcome:
    for shard in cluster.shards:
        shard.visits.seed()
    warm, steps, before = round(end_s * _WARM_UP / STEP_S), round(end_s / STEP_S), [0] * 0
    for number in range(1, steps + 1):
        now = number * STEP_S
        looks = [now] if number in (warm, steps) else []
        for shard in cluster.shards:
            shard.drive.run(now, looks, shard.points.append)
        cluster.step(now)
        if number == warm:
            before = [shard.pages for shard in cluster.shards]
            cluster.post.reset()
            cluster.exchange_s = 0.0
        tell(number / steps)
    limits: dict[str, float] = defaultdict(float)
    for shard in cluster.shards:
        for name, seconds in shard.points[-1].limits.items():
            limits[name] += seconds / len(cluster.shards) / (end_s - warm * STEP_S)
    cpu_s = sum(shard.points[-1].cpu_s - shard.points[0].cpu_s for shard in cluster.shards)
    pages = [
        (shard.pages - first) / share for shard, first in zip(cluster.shards, before, strict=True)
    ]
    return ShardsOutcome(
        shards=len(cluster.shards),
        seconds=end_s - warm * STEP_S,
        pages=pages,
        post=cluster.post.tally,
        limits=dict(limits),
        exchange_cpu=cluster.exchange_s / cpu_s if cpu_s else 0.0,
        hosts=hosts,
        share=share,
        wall_s=time.monotonic() - began,
    )
