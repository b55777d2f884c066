"""One seeded history of a crawl on several nodes, and its judge.

Machines are lost, hang and wake, are cut off from the cluster while they still reach the web;
processes are killed; coordinators are replaced while they still speak; shards move; logs are fenced
by claims that never come, and by those of processes that end at once; other programs write into
topics; transactions of logs are
rolled back, expire and lose their answers, those of markers too; messages, parcels and puts are
lost, repeated and late; clocks differ. In the end every URL must be in the state that the web's own survey gives, every committed
capture must be readable, and the web's own log must show no host that was asked too early.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import msgspec

from joined_view import JoinedView
from judging import (
    asked,
    ends_as_surveyed,
    errands_are_kept,
    is_balanced,
    no_disallowed,
    outcomes_in,
    quick_config,
    urls_of,
    wants_are_kept,
)
from lycosa.base.config.sections import (
    Config,
    FetchSection,
    FrontierSection,
    PolitenessSection,
    RetrySection,
    RobotsSection,
    StoreSection,
)
from lycosa.base.messages.coordinator_messages import CALLER, Drain, MoreAsks, Move, NoMoreAsks
from lycosa.base.model.fetched import FetchKind
from lycosa.base.urls.identity import join_url
from lycosa.inspect.audit.crawl_audit import AuditedCrawl, audit_crawl
from lycosa.state.cold.whole_table import whole_table
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.seen.urls_sorted import SortedSeenUrls
from lycosa.state.shard.opened_shard import PartitionData, ShardStorage, open_shard
from lycosa.state.shard.snapshot_view import SnapshotView
from lycosa.state.shard.view import CrawlOrigin, CrawlView
from lycosa.state.store.journal_rows import JournalRow
from lycosa.synthetic import Crash, SyntheticWeb, WebPlan, run_virtual
from lycosa.synthetic.synthetic_web import Responder
from lycosa.worker.commit.committed_rows import PAGES
from memory_objects import MemoryStore
from memory_segments import MemorySegments
from memory_snapshots import MemorySnapshots
from nodes.machine import Machine
from nodes.near_copies import near_copies_are_told, rows_name_originals
from nodes.plugin import Plugin
from nodes.world import Setting, World
from planting import Plant, breaches, planted
from store_samples import crawl_rows

LONGEST_S = 2500.0
TROUBLE_S = 240.0
LEAST_FAULTS = 10
MOST_TURNS = 100_000  # of the loop, for each shard
_LEAST_URLS = 150


class Lived(msgspec.Struct, frozen=True):
    """What a history came to: requests, faults, takeovers of shards, virtual seconds."""

    requests: int
    faults: int
    takeovers: int
    seconds: float


def settings(seed: int, shards: int) -> Config:
    """Short waits; small segments; one partition for each shard."""
    return quick_config(
        seed=seed,
        frontier=FrontierSection(partitions=shards, bands=3, head=5, finish_wait_s=1800.0),
        politeness=PolitenessSection(
            delay_s=2.0, backoff_s=2.0, max_backoff_s=20.0, adaptive_factor=2.0, address_slots=10
        ),
        retry=RetrySection(
            tries=40,
            first_s=2.0,
            max_s=30.0,
            dns_tries=40,
            host_failures=10_000,
            away_s=600.0,
        ),
        robots=RobotsSection(retry_s=3.0),
        fetch=FetchSection(total_s=20.0),
        store=StoreSection(commit_s=2.0, segment_bytes=60_000, segment_age_s=40.0),
    )


def web_of(seed: int, hosts: int) -> tuple[SyntheticWeb, list[str]]:
    """Some hundred URLs, and the seeds from which enough of them can be reached."""
    chance = random.Random(seed)
    for pages in range(14, 200, 6):
        web = SyntheticWeb(
            WebPlan(
                seed=seed,
                hosts=hosts,
                pages=pages,
                page_bytes=900,
                links=6,
                cross_links=0.25,
                redirects=0.05,
                gone=0.03,
                duplicates=0.04,
                near_duplicates=0.08,
                error_rate=chance.choice((0.0, 0.03)),
                robots=0.4,
                robots_variants=(
                    "section",
                    "wildcard",
                    "delay",
                    "redirect",
                    "absent",
                    "redirect-hub",
                    "redirect-hub",
                ),
            )
        )
        for first in (0, 2):
            seeds = [web.seed_url(first), web.seed_url(first + 1)]
            if len(web.survey(seeds).requested) >= _LEAST_URLS:
                return web, seeds
    raise AssertionError("pages without end")


class NodesHistory:
    """``shards`` on ``nodes`` machines. ``plugins`` say what happens in addition to the faults
    below; ``plant`` is a bug that is put into the crawler, which may bring plug-ins of its own.
    """

    world: World

    def __init__(
        self,
        seed: int,
        folder: Path,
        plugins: Sequence[type[Plugin]] = (),
        shards: int = 0,
        nodes: int = 0,
        plant: Plant | None = None,
    ) -> None:
        self.seed, self._plant = seed, plant
        self.chance = random.Random(f"nodes {seed}")
        self.shards = shards = shards or self.chance.randint(4, 8)
        kinds = dict.fromkeys([*plugins, *(plant.plugins if plant else ())])
        least = max((kind.LEAST_NODES for kind in kinds), default=1)
        self.nodes = nodes or self.chance.randint(least, 5)
        self.web, self.seeds = web_of(seed, 16 + 2 * shards)
        self.surveyed = self.seeds  # where the web's own survey begins
        self.answers: Responder = self.web
        self.hosts_per_address = 3.0
        self.own_hosts: frozenset[str] = frozenset()  # they need not rest
        self.config = settings(seed, shards)
        self.folder = folder
        self.plugins = [kind(self) for kind in kinds]
        # Verdicts about near copies are judged by the only capture of a page.
        self.is_fetched_once = all(each.FETCHES_ONCE for each in self.plugins)
        self.rows: list[JournalRow] = []  # of pages, in the end
        self._kills: Counter[int] = Counter()
        self._turns = 0
        self.near_copies = self.near_rows = 0  # pages with a verdict, and those whose row has it
        self.bodies_elsewhere = 0  # URLs whose body is in the record of another capture

    def live(self) -> Lived:
        with planted(self._plant):
            return run_virtual(self._main(), seed=self.seed, on_turn=self._turn)

    def _turn(self) -> None:
        """Bounds what a worker may do while time stands still.

        Each visit of a correct worker ends a URL, makes its host wait, or ends the run, so it
        cannot follow itself at one instant. Of the planted bugs only a table that is older than its
        commits did that: a host counted URLs that its queue did not have (now ``QueueDamaged``).
        Whatever else reaches the bound is a breach.
        """
        self._turns += 1
        if self._turns > MOST_TURNS * self.shards:
            raise Crash("a place where it goes on for ever")

    async def _main(self) -> Lived:
        self.world = World(
            Setting(
                self.folder,
                self.seed,
                self.shards,
                self.nodes,
                self.config,
                self.web,
                self.answers,
                self.hosts_per_address,
                self.plugins,
            )
        )
        for _ in range(self.nodes):
            self.world.add_machine()
        self.world.start_coordinator()
        for plugin in self.plugins:
            self.world.spawn(plugin.attend())
        seeding = self.world.spawn(self._seed())
        troubling = self.world.spawn(self._trouble())
        try:
            async with asyncio.timeout(LONGEST_S):
                while not (
                    seeding.done() and troubling.done() and self.world.newest.coordinator.is_over
                ):
                    await asyncio.sleep(1.0)
                    if self.world.failure is not None:
                        raise self.world.failure
        except TimeoutError:
            self.world.told.append(self.world.state())
            raise
        finally:
            ended = asyncio.get_running_loop().time()
            self.world.wind_up()
        assert self.world.newest.coordinator.crawl_end is not None
        self.judge()
        takeovers = sum(map(self.world.logs.terms, range(self.shards)))
        return Lived(len(self.world.log), sum(self.world.faults.values()), takeovers, ended)

    async def _seed(self) -> None:
        """The seeds, and whatever operators do; then the crawl may end."""
        await self.world.give_seeds(self.seeds)
        for operating in [self.world.spawn(each.operate()) for each in self.plugins]:
            await operating
        while not self.world.newest.coordinator.is_over:
            self.world.no_more_seeds()
            await asyncio.sleep(5.0)

    # -- what happens

    async def _trouble(self) -> None:
        world, chance, loop = self.world, self.chance, asyncio.get_running_loop()
        kinds = [
            self._kill,
            self._kill,
            self._lose,
            self._lose,
            self._hang,
            self._hang,
            self._hang,
            self._cut,
            self._cut,
            self._cut,
        ]
        kinds += [
            self._late,
            self._late,
            self._replace,
            self._split,
            self._fence,
            self._move,
            self._move,
            self._drain,
            self._step,
            self._foreign,
        ]
        disturbing = [world.spawn(each.disturb()) for each in self.plugins]
        await asyncio.sleep(chance.uniform(20.0, 40.0))
        while loop.time() < TROUBLE_S:
            chance.choice(kinds)()
            await asyncio.sleep(chance.expovariate(1 / 12.0))
        world.is_troubled = False
        for each in disturbing:
            each.cancel()
        await asyncio.sleep(1.0)
        for machine in world.living():
            machine.wake()
            machine.is_cut_off, machine.hears_late_s = False, 0.0
        while len(world.living()) < self.nodes:
            world.add_machine()
        world.start_coordinator()
        for plugin in self.plugins:
            await plugin.repair()

    def tell(self, what: str) -> None:
        self.world.faults[what.split()[0]] += 1
        self.world.told.append(f"{asyncio.get_running_loop().time():.1f} {what}")

    def any_machine(self) -> Machine | None:
        living = self.world.living()
        return self.chance.choice(living) if living else None

    def _kill(self) -> None:
        machine = self.any_machine()
        shards = [
            shard for shard in (machine.processes if machine else ()) if self._kills[shard] < 2
        ]
        if machine is not None and shards and not machine.hangs:
            shard = self.chance.choice(shards)
            self._kills[shard] += 1
            self.tell(f"kill {machine.name} shard {shard}")
            machine.kill(shard)

    def _lose(self) -> None:
        machine = self.any_machine()
        if machine is not None:
            self.tell(f"lose {machine.name}")
            machine.lose()
            asyncio.get_running_loop().call_later(
                self.chance.uniform(1.0, 40.0), self.world.add_machine
            )

    def _hang(self) -> None:
        machine = self.any_machine()
        if machine is not None and not machine.hangs:
            seconds = self.chance.choice((5.0, 25.0, 45.0, 70.0)) * self.chance.uniform(0.8, 1.2)
            self.tell(f"hang {machine.name} for {seconds:.0f}")
            machine.hang()
            asyncio.get_running_loop().call_later(seconds, machine.wake)

    def _cut(self) -> None:
        machine = self.any_machine()
        if machine is not None and not machine.is_cut_off:
            seconds = self.chance.choice((5.0, 25.0, 45.0, 70.0)) * self.chance.uniform(0.8, 1.2)
            self.tell(f"cut off {machine.name} for {seconds:.0f}")
            machine.is_cut_off = True
            asyncio.get_running_loop().call_later(seconds, setattr, machine, "is_cut_off", False)

    def _late(self) -> None:
        """A machine hears late of what it appended, and is cut off meanwhile."""
        machine = self.any_machine()
        if machine is not None and not machine.is_cut_off:
            late_s, cut_s, loop = (
                self.chance.uniform(30.0, 75.0),
                self.chance.uniform(60.0, 90.0),
                asyncio.get_running_loop(),
            )
            self.tell(
                f"late acknowledgements of {late_s:.0f} s for {machine.name}, cut off for"
                f" {cut_s:.0f}"
            )
            machine.hears_late_s = late_s
            loop.call_later(3.0, setattr, machine, "is_cut_off", True)
            loop.call_later(cut_s, setattr, machine, "is_cut_off", False)
            loop.call_later(cut_s, setattr, machine, "hears_late_s", 0.0)

    def _replace(self) -> None:
        self.tell("restart of the coordinator")
        self.world.newest.end()
        self.world.start_coordinator()

    def _split(self) -> None:
        self.tell("split: a second coordinator, while the first still speaks")
        self.world.start_coordinator()

    def _fence(self) -> None:
        shard = self.chance.randrange(self.shards)
        self.tell(f"fence of shard {shard} without a claim")
        self.world.logs.fence(shard)

    def _foreign(self) -> None:
        """Another program writes into the topics of a shard."""
        shard = self.chance.randrange(self.shards)
        self.tell(f"foreign records in the topics of shard {shard}")
        self.world.topics.append_foreign(shard)
        self.world.logs.write_foreign(shard)

    def _move(self) -> None:
        machine = self.any_machine()
        if machine is not None:
            shard = self.chance.randrange(self.shards)
            self.tell(f"move of shard {shard} to {machine.name}")
            self.world.newest.receive(CALLER, Move(shard, machine.name))

    def _drain(self) -> None:
        machine = self.any_machine()
        if machine is not None and len(self.world.living()) > 1:
            self.tell(f"drain {machine.name}")
            newest = self.world.newest
            newest.receive(CALLER, Drain(machine.name))
            asyncio.get_running_loop().call_later(
                30.0, lambda: self.world.newest.receive(CALLER, Drain(machine.name, is_over=True))
            )

    def _step(self) -> None:
        machine = self.any_machine()
        if machine is not None:
            differ_s = self.world.clocks_differ_s
            machine.clock_off_s = self.chance.uniform(-differ_s, differ_s)
            self.tell(f"step of the clock of {machine.name}")

    def resume(self) -> None:
        """As ``lycosa cluster resume``."""
        self.tell("resume")
        if self.world.newest.is_over:
            self.world.start_coordinator()
        self.world.newest.receive(CALLER, MoreAsks())
        self.world.newest.receive(CALLER, NoMoreAsks())

    # -- judging

    def judge(self) -> None:
        """Raises ``AssertionError`` for the first promise that does not hold."""
        world = self.world
        opened = self.final_tables()
        truth = self.web.survey(self.surveyed)
        for plugin in self.plugins:
            plugin.expect(truth)
        store = MemoryStore(world.objects)
        whole = [whole_table(table, store) for table in opened.values()]
        found = {url: state for url, (state, _) in outcomes_in(whole).items()}
        ends_as_surveyed(truth, asked(world.log), found)
        for table in whole:
            is_balanced(table)
        errands_are_kept(opened)
        wants_are_kept(opened)
        if self.is_fetched_once:
            self.near_copies = near_copies_are_told(opened.values())
        no_disallowed(self.web, world.log)
        self._hosts_rested()
        twice = [(shard, each.term, each.sequence) for shard, each in world.logs.written_twice()]
        assert not twice, ("commits that are in a log twice", twice)
        self._captures_are_there(opened, truth.pages | truth.others)
        report = audit_crawl(AuditedCrawl(self._view(), is_running=False))
        assert report.is_clean, report.first_breaches()
        assert sum(world.faults.values()) >= LEAST_FAULTS, f"too little happened: {world.faults}"
        for plugin in self.plugins:
            plugin.judge()

    def _hosts_rested(self) -> None:
        least = self.world.config.politeness.delay_s
        for host in set(self.world.log.hosts()) - self.own_hosts:
            shortest = min(self.world.log.gaps(host), default=least)
            assert shortest >= least - 1e-6, ("too early", host, shortest)

    def final_tables(self) -> dict[int, KeyValue]:
        """Every shard as its next owner would find it."""
        tables: dict[int, KeyValue] = {}
        place = Path(tempfile.mkdtemp(dir=self.folder))
        for shard in range(self.shards):
            log = self.world.logs.log(shard)

            def make(shard: int = shard) -> PartitionData:
                return PartitionData(MemoryKeyValue(), SortedSeenUrls(place / f"seen-{shard}"))

            segments = MemorySegments(self.world.objects, shard)
            opened, _ = open_shard(
                shard,
                [shard],
                ShardStorage(
                    log,
                    segments,
                    MemorySnapshots(self.world.objects, shard, log, make),
                    cold=MemoryStore(self.world.objects),
                ),
            )
            assert not segments.find_segments(opened.term).open, (
                f"shard {shard} left a segment open"
            )
            tables[shard] = opened.tables[shard]
        return tables

    def _view(self) -> JoinedView:
        """The crawl as the audit sees it: every shard by its newest snapshot and the commits
        behind it.
        """
        world, place, made = self.world, Path(tempfile.mkdtemp(dir=self.folder)), count()

        def make() -> PartitionData:
            return PartitionData(MemoryKeyValue(), SortedSeenUrls(place / f"seen-{next(made)}"))

        origin = CrawlOrigin("cluster", world.manifest, lambda: world.sites, lambda: world.config)
        views: list[CrawlView] = []
        for shard in range(self.shards):
            log, segments = world.logs.log(shard), MemorySegments(world.objects, shard)
            views.append(
                SnapshotView(
                    origin,
                    log,
                    segments,
                    MemorySnapshots(world.objects, shard, log, make),
                    [shard],
                    objects=MemoryStore(world.objects),
                )
            )
        return JoinedView(origin, views)

    def _captures_are_there(
        self, opened: dict[int, KeyValue], wanted: Sequence[str] | set[str]
    ) -> None:
        for shard, table in opened.items():
            segments = MemorySegments(self.world.objects, shard)
            for host, _, record in urls_of(table):
                if record.history is not None and record.history.segment:
                    url = join_url("https" if record.secure else "http", host.host, record.target)
                    stored = segments.read_record(record.history.segment, record.history.offset)
                    assert stored.fields["WARC-Target-URI"] == url, (url, stored.fields)
                    # That of a body which was stored before is the other record's.
                    named = (
                        "WARC-Refers-To"
                        if stored.fields["WARC-Type"] == "revisit"
                        else "WARC-Record-ID"
                    )
                    assert stored.fields[named] == f"<{record.history.record_id}>", (
                        url,
                        record,
                        stored.fields,
                    )
                    # Whichever shard stored it, its body is found by one read.
                    body = segments.read_record(*record.history.body_place)
                    assert body.fields["WARC-Record-ID"] == f"<{record.history.record_id}>", url
                    self.bodies_elsewhere += record.history.body_offset > 0
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        for key, data in self.world.objects.items():
            if key.startswith(("warc/", "journal/")):
                (folder / key).parent.mkdir(exist_ok=True)
                (folder / key).write_bytes(data)
        rows = self.rows = [row for row in crawl_rows(folder) if row.kind is FetchKind.PAGE]
        numbered = Counter((row.url, row.fetch_number) for row in rows)
        assert not {key: n for key, n in numbered.items() if n > 1}, "a fetch was committed twice"
        assert self._feed() == numbered, "the feed has each capture once"
        if self.is_fetched_once:
            self.near_rows = rows_name_originals(rows)
        stored = {row.url for row in rows if row.status == 200}
        assert stored == set(wanted), ("captures", sorted(stored ^ set(wanted))[:5])
        shutil.rmtree(folder)

    def _feed(self) -> Counter[tuple[str, int]]:
        """The pages that readers outside got, by URL and fetch number."""
        return Counter(
            (row["url"], row["fetch_number"])
            for row in self.world.logs.feed(PAGES)
            if not row.get("kind") and "render" not in row
        )


def live_and_judge(
    seed: int,
    path: Path,
    plugins: Sequence[type[Plugin]] = (),
    shards: int = 0,
    nodes: int = 0,
    plant: Plant | None = None,
) -> Lived:
    """One history to its end. Raises ``Breach``, whatever went wrong."""
    history = NodesHistory(seed, path, plugins, shards, nodes, plant)
    with breaches(seed, lambda: history.world.told[-40:] if hasattr(history, "world") else ()):
        return history.live()
