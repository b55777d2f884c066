"""Packs crawl folders as the version makes them in whose checkout this is run: see README.md beside this file.

    cd CHECKOUT && PYTHONPATH=tests .venv/bin/python .../make_older_folders.py TO

It uses only what every version of the tests has under these names. A folder is made again with other points of its crash until everything
is in it that a later version has to take over.
"""

from __future__ import annotations

import asyncio
import math
import random
import shutil
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from dying import Disk
from judging import errands_are_kept, new_folder, quick_config
from lycosa.state.exchange.exchange_errors import ExchangeError
from lycosa.state.exchange.exchange_port import Parcel
from lycosa.state.exchange.outbox import Outbox
from lycosa.state.kv.rocks import RocksKeyValue, SharedCache
from lycosa.synthetic import Crash, Faults, SyntheticWeb, WebPlan
from several_workers import SlowExchange, run_workers
from virtual_crawl import VirtualCrawl

PLAN = WebPlan(
    hosts=9,
    pages=6,
    page_bytes=40,
    links=5,
    cross_links=0.4,
    redirects=0.05,
    gone=0.03,
    duplicates=0.05,
    error_rate=0.05,
    robots=0.5,
    robots_variants=("section", "delay", "closed", "redirect", *["redirect-hub"] * 4),
)
SMALL = msgspec.structs.replace(PLAN, hosts=6, pages=4)  # for one that is crawled to its end
SECTIONS = {
    "frontier": {"partitions": 4, "bands": 3, "head": 4},
    "politeness": {"backoff_s": 2.0, "max_backoff_s": 20.0},
    "retry": {"tries": 8, "first_s": 2.0, "max_s": 30.0, "host_failures": 10_000},
    "store": {"segment_bytes": 100_000},
}
LEAST_REQUESTS, MOST_REQUESTS = 20, 42  # one takes three kilobytes that cannot be packed
LAST_POINTS = ("commit:logged", "commit:stored", "commit:applied", "sync", "before:fetch")


class UnderWay(NamedTuple):
    """What a folder has to take over: parcels not acknowledged, questions without an answer, URLs with a count, open segments."""

    parcels: int
    questions: int
    counts: int
    segments: int


class Unreliable(SlowExchange):
    """Loses every parcel from ``deaf_from`` on."""

    deaf_from = math.inf

    async def deliver_parcel(self, parcel: Parcel) -> None:
        if asyncio.get_running_loop().time() >= self.deaf_from:
            raise ExchangeError("lost")
        await super().deliver_parcel(parcel)


class Death(Faults):
    """Takes an image of the folder at the instant of the crash."""

    def __init__(self, folder: Path, disk: Disk, point: str, at: int) -> None:
        super().__init__(random.Random(0), crash_at=at, crash_point=point)
        self._folder, self._disk = folder, disk

    def reach(self, point: str) -> None:
        was_dead = self.is_dead
        try:
            super().reach(point)
        except Crash:
            if not was_dead:
                self._disk.image(self._folder, self._folder.with_name("image"))
            raise


class Life:
    """A crawl by ``workers`` workers, all of which follows from the seed."""

    def __init__(self, path: Path, workers: int, seed: int, plan: WebPlan = PLAN) -> None:
        self.path, self.workers, self.seed = path, workers, seed
        self.chance = random.Random(f"{seed} {workers}")
        self.web = SyntheticWeb(msgspec.structs.replace(plan, seed=seed))
        self.seeds = [self.web.seed_url(0), self.web.seed_url(1)]
        plain = quick_config(seed=seed)
        config = msgspec.convert(_over(msgspec.to_builtins(plain), SECTIONS), type(plain))
        self.disk, self.cache = Disk(self.chance), SharedCache(32 << 20, 16 << 20)
        self.opened: dict[str, RocksKeyValue] = {}
        self.crawl = VirtualCrawl(new_folder(path / "crawl"), self.web, config, self._open)

    def _open(self, folder: Path) -> RocksKeyValue:
        folder.mkdir(parents=True, exist_ok=True)
        table = self.opened[folder.name] = RocksKeyValue(folder, self.cache)
        # a dead process has no thread that changes files
        table._db.set_options({"disable_auto_compactions": "true"})
        return table

    def finish(self) -> None:
        run_workers(self.crawl, self.workers, self.seeds)

    def stop(self, after_s: float) -> None:
        exchange = Unreliable()
        exchange.deaf_from = self.crawl.now + after_s * 0.7

        def stop_later(assembled: object) -> None:
            asyncio.get_running_loop().call_later(after_s, assembled.worker.stop)  # type: ignore[attr-defined]

        run_workers(self.crawl, self.workers, self.seeds, None, exchange, stop_later)

    def die(self, point: str, at: int, deaf_after_s: float = math.inf) -> None:
        exchange = Unreliable()
        exchange.deaf_from = self.crawl.now + deaf_after_s
        death = Death(self.crawl.folder, self.disk, point, at)
        try:
            with self.disk.watched():
                self.disk.faults = death
                run_workers(self.crawl, self.workers, self.seeds, death, exchange)
        except Crash:
            self.disk.faults = None
        else:
            raise TooLate
        for table in self.opened.values():
            table.close()
        shutil.rmtree(self.crawl.folder)
        self.crawl.folder.with_name("image").rename(self.crawl.folder)

    def under_way(self) -> UnderWay:
        """Looked up in a copy, which is brought to its last commit for it."""
        crashes = self.crawl.folder / "log" / "crashes.json"
        counts = (
            len(msgspec.json.decode(crashes.read_bytes())["crashes"]) if crashes.exists() else 0
        )
        segments = len(list(self.crawl.folder.glob("warc/*.open")))
        copy = VirtualCrawl(self.path / "copy", self.web, self.crawl.config, self._open)
        shutil.copytree(self.crawl.folder, copy.folder)
        copy.now = self.crawl.now + 20.0
        found: list[tuple[int, int]] = []

        def look(_: object) -> None:
            found.append(_look(list(self.opened.values())))
            raise Crash("looked")

        self.opened.clear()
        try:
            run_workers(copy, 1, (), None, None, look)
        except Crash:
            for table in self.opened.values():
                table.close()
        return UnderWay(*found[0], counts, segments)

    def pack(self, to: Path, how: str, under_way: UnderWay) -> None:
        told = {
            "how": how,
            "plan": msgspec.to_builtins(self.web.plan),
            "seeds": self.seeds,
            "workers": self.workers,
            "now": self.crawl.now,
            "under_way": under_way._asdict(),
            "requests": [msgspec.structs.astuple(each) for each in self.crawl.log.exchanges],
        }
        (self.path / "told.json").write_bytes(msgspec.json.encode(told))
        # what RocksDB says of itself, a third of all bytes
        for path in self.crawl.folder.glob("state/p*/LOG*"):
            path.unlink()
        with tarfile.open(to, "w:xz", preset=9) as archive:
            archive.add(self.path / "told.json", "told.json")
            archive.add(self.crawl.folder, "crawl")
        print(
            f"{to.name}: {to.stat().st_size:,} bytes, {len(self.crawl.log)} requests, {how},"
            f" {under_way}"
        )


class TooLate(Exception):
    """The run ended before its crash."""


def stopped(life: Life) -> tuple[str, UnderWay]:
    after_s = life.chance.uniform(2.0, 8.0)
    life.stop(after_s)
    return f"stopped after {after_s:.1f} s", life.under_way()


def crashed(life: Life) -> tuple[str, UnderWay]:
    life.die("before:fetch", life.chance.randint(8, 15))
    life.crawl.now += 20.0
    point = life.chance.choice(LAST_POINTS)
    deaf_after_s = life.chance.uniform(1.0, 4.0)
    life.die(point, life.chance.randint(4, 20 if point != "before:fetch" else 40), deaf_after_s)
    return f"crashed before a request, and again at {point}", life.under_way()


def finished(life: Life) -> tuple[str, UnderWay]:
    life.die("before:fetch", life.chance.randint(8, 15))
    life.crawl.now += 20.0
    life.finish()
    return "crashed before a request, then ended", life.under_way()


def make(
    to: Path,
    workers: int,
    live: Callable[[Life], tuple[str, UnderWay]],
    is_enough: Callable[[UnderWay], bool],
) -> None:
    for seed in range(200):
        with TemporaryDirectory() as name:
            life = Life(Path(name), workers, seed, SMALL if live is finished else PLAN)
            try:
                how, under_way = live(life)
            except TooLate:
                continue
            if (
                is_enough(under_way)
                and LEAST_REQUESTS < len(life.crawl.log) < MOST_REQUESTS
                and (live is finished or is_large(life))
            ):
                life.pack(to, how, under_way)
                return
    raise SystemExit(f"{to.name}: no seed gives all that is wanted")


def is_large(life: Life) -> bool:
    """Whether as much is left to be done as was done when a crawl is cut short."""
    return len(life.web.survey(life.seeds).requested) > LEAST_REQUESTS * 1.5


def _over(
    below: dict[str, dict[str, object]], above: dict[str, dict[str, object]]
) -> dict[str, object]:
    return {**below, **{name: {**below[name], **section} for name, section in above.items()}}


def _look(tables: list[RocksKeyValue]) -> tuple[int, int]:
    outboxes = [Outbox(number, table, table) for number, table in enumerate(tables)]
    parcels = sum(
        len(outbox.pending_parcels(destination, 0))
        for outbox in outboxes
        for destination in outbox.destinations()
    )
    return parcels, errands_are_kept(dict(enumerate(tables)))


def main() -> None:
    to = Path(sys.argv[1])
    make(to / "stopped-1.tar.xz", 1, stopped, lambda found: found.questions > 0)
    make(
        to / "stopped-4.tar.xz", 4, stopped, lambda found: found.questions > 0 and found.parcels > 2
    )
    make(
        to / "crashed-1.tar.xz",
        1,
        crashed,
        lambda found: min(found.questions, found.counts, found.segments) > 0,
    )
    make(to / "crashed-4.tar.xz", 4, crashed, lambda found: min(found) > 0)
    make(to / "finished-4.tar.xz", 4, finished, lambda found: True)


if __name__ == "__main__":
    main()
