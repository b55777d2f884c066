"""Seeded histories of crawls that die again and again: at commits, between their steps, at any turn
of the loop.

Each history crawls one synthetic web twice, undisturbed and with crashes, and must come to the
same. A crash leaves what ``kill -9`` would leave: the folder as it is at that instant, and tables
without what was not flushed. ``LYCOSA_SEEDS=200`` runs more histories; the seed of a failing one is
in its name, and ``pytest -k 'seed-17]'`` repeats it.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from dying import Dying, copied
from histories import acquit
from judging import (
    are_balanced,
    asked,
    file_bytes,
    is_balanced,
    is_polite,
    new_folder,
    no_disallowed,
    outcomes,
    quick_config,
    stored_rows,
)
from lycosa.base.config.sections import Config, FrontierSection, PolitenessSection, StoreSection
from lycosa.base.model.end import End
from lycosa.base.model.url_state import UrlState
from lycosa.inspect.audit.folder_audit import audit
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.kv.memory_table import MemoryTables
from lycosa.state.kv.rocks import RocksKeyValue, SharedCache
from lycosa.synthetic import Crash, ExpectedOutcome, Faults, Misbehaviour, SyntheticWeb, WebPlan
from lycosa.worker.assemble import Assembled
from virtual_crawl import VirtualCrawl

_WANTED = int(os.environ.get("LYCOSA_SEEDS", "0"))
# The others are long tests: ``script/prove histories`` lives through the same, and more. The tables
# of the first are in memory, those of the second in files.
_QUICK = range(_WANTED) if _WANTED else (0, 3)
SEEDS = [
    pytest.param(seed, marks=[pytest.mark.long] * (seed not in _QUICK))
    for seed in range(max(_WANTED, 20))
]
POINTS = {  # how often each is reached in a run, about
    "commit:cut": 60,
    "commit:begin": 40,
    "commit:stored": 40,
    "commit:logged": 40,
    "commit:applied": 80,
    "commit:settled": 40,
    "flush:done": 2,
    "before:fetch": 120,
    "after:fetch": 120,
    "before:offload": 60,
    "after:offload": 60,
    "turn": 4000,
}
_SLOW = {
    "many-links",
    "many-attributes",
    "parser-bomb",
    "deep-nesting",
    "huge-title",
    "gzip-bomb",
    "br-bomb",
    "zstd-bomb",
    "endless-body",
}
_SLOW |= {"endless-chunks", "endless-headers", "huge-header-line"}
HARMFUL = [
    each.value
    for each in Misbehaviour
    if each.outcome is not ExpectedOutcome.ENDLESS and each.value not in _SLOW
]


def web_of(seed: int) -> SyntheticWeb:
    """A small web with a few kinds of trouble."""
    chance = random.Random(seed)
    return SyntheticWeb(
        WebPlan(
            seed=seed,
            hosts=chance.randint(10, 16),
            pages=chance.randint(15, 25),
            distribution=chance.choice(("fixed", "fixed", "lognormal")),
            page_bytes=2000,
            links=8,
            cross_links=0.2,
            redirects=0.08,
            gone=0.04,
            duplicates=0.06,
            error_rate=chance.choice((0.0, 0.1)),
            dead_hosts=0.1,
            robots=0.5,
            robots_variants=(
                "section",
                "wildcard",
                "delay",
                "closed",
                "redirect",
                "flaky",
                "redirect-loop",
                "absent",
            ),
            misbehaviours=dict.fromkeys(chance.sample(HARMFUL, 6), 0.03),
        )
    )


def settings(seed: int) -> Config:
    """Short waits, small segments, few hosts at a time."""
    return quick_config(
        seed=seed,
        frontier=FrontierSection(partitions=3, bands=3, head=3),
        politeness=PolitenessSection(backoff_s=2.0, max_backoff_s=20.0, adaptive_factor=2.0),
        store=StoreSection(segment_bytes=100_000, segment_age_s=60.0),
    )


class Tables:
    """The partitions' tables over crashes: in memory, where a crash loses what was not flushed,
    or RocksDB, of which the files stay.
    """

    def __init__(self, is_rocks: bool) -> None:
        self.stores = MemoryTables()
        self._cache = SharedCache(8 << 20, 4 << 20)
        self._open: list[RocksKeyValue] = []
        self.is_rocks = is_rocks

    def crash(self) -> None:
        """Loses what is not flushed, after the folder was copied. RocksDB is closed before its
        files go, or it tries to flush on and on.
        """
        self.stores.crash()
        for table in self._open:
            table.close()
        self._open.clear()

    def __call__(self, folder: Path) -> KeyValue:
        folder.mkdir(parents=True, exist_ok=True)
        if self.is_rocks:
            self._open.append(RocksKeyValue(folder, self._cache))
            return self._open[-1]
        return self.stores(Path(folder.name))  # the crawl's folder changes its place


class History:
    """One crawl with crashes."""

    def __init__(self, seed: int, path: Path, is_rocks: bool = False) -> None:
        self.tables = Tables(is_rocks)
        self.web = web_of(seed)
        self.crawl = VirtualCrawl(
            new_folder(path / "crawl-0"), self.web, settings(seed), self.tables
        )
        self.crashes: list[str] = []
        self._chance = random.Random(seed)
        self._path = path

    def live(self, most: int = 6) -> None:
        """Runs, dies and is started again, ``most`` times at most, and then comes to its end."""
        chance = self._chance
        while len(self.crashes) < most:
            point = chance.choice(list(POINTS))
            image = self._path / f"crawl-{len(self.crashes) + 1}"
            at = chance.randint(1, max(POINTS[point] // 2, 1))
            death = Dying(copied(self.crawl, image), chance, at, point)
            try:
                self.run(death)
                return
            except Crash as crash:
                self.crashes.append(f"{crash.point} at {self.crawl.now:.3f}")
                self._start_over(image)
        self.run(None)

    def run(self, faults: Faults | None) -> None:
        run = self.crawl.run([self.web.seed_url(0), self.web.seed_url(1)], faults, _check_start)
        assert run.end is End.FINISHED

    def _start_over(self, image: Path) -> None:
        self.tables.crash()
        shutil.rmtree(self.crawl.folder)
        self.crawl.folder = image
        if self.tables.is_rocks:
            _audit(image)
        self.crawl.now += self._chance.choice((0.0, 0.5, 20.0))


def _audit(folder: Path) -> None:
    """The audit, which knows nothing of this harness, finds the folder of a dead or finished
    crawl in order.
    """
    report = audit(folder)
    assert report.is_clean, report.first_breaches()


def _check_start(assembled: Assembled) -> None:
    """What recovery left adds up, after every crash."""
    acquit(assembled)
    for partition in assembled.worker.frontier.partitions.values():
        is_balanced(partition.table)


def undisturbed(seed: int, path: Path) -> VirtualCrawl:
    """The same crawl without a crash."""
    web = web_of(seed)
    crawl = VirtualCrawl(new_folder(path), web, settings(seed))
    crawl.run([web.seed_url(0), web.seed_url(1)])
    return crawl


def ends(crawl: VirtualCrawl) -> dict[str, UrlState]:
    return {url: state for url, (state, _) in outcomes(crawl).items()}


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_a_crawl_that_dies_often_comes_to_the_same_as_one_that_does_not(
    seed: int, tmp_path: Path
) -> None:
    reference = undisturbed(seed, tmp_path / "undisturbed")
    history = History(seed, tmp_path, is_rocks=seed % 4 == 3)
    history.live()
    crawl = history.crawl
    print(
        f"seed {seed}: {len(crawl.log)} requests, {len(set(asked(crawl.log)))} URLs, crashes:"
        f" {'; '.join(history.crashes)}"
    )
    assert ends(crawl) == ends(reference)
    are_balanced(crawl)
    is_polite(crawl.log, crawl.config.politeness)
    no_disallowed(history.web, crawl.log)
    rows, wanted = stored_rows(crawl.folder), stored_rows(reference.folder)
    fetched = {row.url for row in rows if row.kind == 0}
    assert fetched == {row.url for row in wanted if row.kind == 0}
    if history.tables.is_rocks:
        _audit(crawl.folder)
    assert max(Counter((row.url, row.fetch_number) for row in rows if row.kind == 0).values()) == 1


def test_after_the_log_was_dropped_the_tables_hold_what_it_held(tmp_path: Path) -> None:
    """So many commits that tables are flushed and files of the log dropped on the way; the crash
    comes some commits later.
    """
    web = SyntheticWeb(
        WebPlan(seed=1, hosts=16, pages=28, cross_links=0.3, page_bytes=500, links=6)
    )
    config = msgspec.structs.replace(settings(1), store=StoreSection(commit_s=0.05))
    tables = Tables(is_rocks=False)
    crawl = VirtualCrawl(new_folder(tmp_path / "crawl"), web, config, tables)
    death = Dying(copied(crawl, tmp_path / "image"), random.Random(1), 310, "commit:logged")

    def in_small_files(assembled: Assembled) -> None:
        assembled.worker._files.shard.storage.log._log._file_bytes = 10_000

    with pytest.raises(Crash):
        crawl.run([web.seed_url(0)], death, in_small_files)
    assert death.counts["flush:done"] == 1
    first = min(path.name for path in (tmp_path / "image" / "log").glob("commit-*"))
    assert int(first[12:24]) > 200, "files of the log were dropped"
    tables.stores.crash()
    crawl.folder = tmp_path / "image"
    assert crawl.run([web.seed_url(0)], None, _check_start).end is End.FINISHED
    truth = web.survey([web.seed_url(0)])
    assert set(asked(crawl.log)) == truth.requested
    assert are_balanced(crawl).captures == len(truth.requested)
    stored_rows(crawl.folder)


def test_one_seed_gives_one_history_crashes_included(tmp_path: Path) -> None:
    told, files = [], []
    for attempt in range(2):
        (tmp_path / str(attempt)).mkdir()
        history = History(5, tmp_path / str(attempt))
        history.live()
        told.append(
            (
                history.crashes,
                [
                    (each.start, each.end, each.host, each.path, each.status)
                    for each in history.crawl.log.exchanges
                ],
            )
        )
        files.append(file_bytes(history.crawl.folder))
    assert told[0] == told[1]
    assert told[0][0]
    assert files[0].keys() == files[1].keys()
    differing = {name for name, content in files[0].items() if content != files[1][name]}
    # Both begin with a number that is drawn, so that what an older file left behind is never taken
    # for their own.
    assert {name.split("-")[0] for name in differing} <= {"log/commit", "state/addresses"}
