"""Damaged folders: a crawl that dies, whose commit logs are then deleted, emptied or cut, and that
is started again.

A start must come to the same end as an undisturbed crawl, or be refused with not one file changed;
and once what was taken away is put back, the same command must come to that end. Real files and
RocksDB, virtual time, one to four workers (``several_workers``).
"""

from __future__ import annotations

import random
import shutil
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from dying import Dying, DyingCrawl
from histories import judge_end
from judging import quick_config
from lycosa.base.config.sections import FrontierSection, PolitenessSection, StoreSection
from lycosa.state.commit import LogDamaged, SavedLog, saved_logs
from lycosa.state.folder.names import log_folder
from lycosa.state.folder.start_check import CommittedDataMissing
from lycosa.state.store.damage import StoreDamaged
from lycosa.synthetic import Crash, SyntheticWeb, WebPlan

WORKERS = (1, 2, 4)
_POINTS = {
    "commit:begin": 12,
    "commit:stored": 12,
    "commit:logged": 12,
    "commit:applied": 30,
    "before:fetch": 250,
    "turn": 5000,
    "sync": 60,
}


class Kind(Enum):
    """What is done to the files of one log, or of all."""

    DELETED = "deleted"
    EMPTIED = "emptied"
    BYTE = "cut by one byte"
    RECORD = "cut by the last record"
    RECORDS = "cut by several records"


class Came(NamedTuple):
    """What a round came to: the start was refused (with the message), or the crawl ended as it
    should at once.
    """

    refusal: str
    workers: int
    crashes: str


class DamagedCrawl(DyingCrawl):
    """One crawl, all of which follows from the seed. ``has_statement`` False removes what says
    apart from the logs where they end, as a folder of an earlier version has none and a disk may
    lose it: then tables, outputs and the other workers must tell.
    """

    def __init__(self, seed: int, path: Path, workers: int, has_statement: bool = True) -> None:
        self._workers, self._has_statement = workers, has_statement
        web = SyntheticWeb(
            WebPlan(
                seed=seed,
                hosts=14,
                pages=14,
                page_bytes=300,
                links=6,
                cross_links=0.4,
                redirects=0.05,
            )
        )
        config = quick_config(
            seed=seed,
            frontier=FrontierSection(partitions=4, bands=3, head=4),
            politeness=PolitenessSection(backoff_s=2.0, max_backoff_s=20.0),
            store=StoreSection(segment_bytes=60_000, segment_age_s=60.0),
        )
        seeds = [web.seed_url(0), web.seed_url(1)]
        super().__init__(path, web, seeds, config, random.Random(f"damage {seed} {workers}"))

    def live(self, kind: Kind) -> Came:
        """Dies once or more, is damaged, started, put right and started again. Raises
        ``AssertionError`` when a promise is broken.
        """
        with self.disk.watched():
            for number in range(1, self.chance.randint(1, 3) + 1):
                if not self._run_and_die(self._path / f"crawl-{number}"):
                    break
            folder = self.crawl.folder
            shutil.copytree(folder, self._path / "whole")
            told = self._damage(kind)
            refusal = self._start(folder, told)
            if refusal:
                self._put_back(folder)
                self.run(self._workers)
        judge_end(self.crawl, self.web, self.seeds)
        return Came(refusal, self._workers, "; ".join([*self.told, told]))

    def _run_and_die(self, image: Path) -> bool:
        point = self.chance.choice(list(_POINTS))
        at = self.chance.randint(1, _POINTS[point])
        death = Dying(
            lambda: self.disk.image(self.crawl.folder, image), random.Random(0), at, point
        )
        try:
            self.run(self._workers, death)
        except Crash as crash:
            self.told.append(f"{crash.point} at {self.crawl.now:.1f}")
        else:
            self.told.append("ended")
            return False
        self.start_over(image)
        self.crawl.now += 20.0
        return True

    def _start(self, folder: Path, told: str) -> str:
        """The refusal; empty when the crawl ran to its end."""
        before = files_of_folder(folder)
        try:
            self.run(self._workers)
        except (CommittedDataMissing, LogDamaged, StoreDamaged) as refusal:
            after = files_of_folder(folder)
            changed = sorted(
                name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
            )
            assert not changed, f"refused, but changed {changed} ({told}): {refusal}"
            return str(refusal)
        return ""

    # -- damage

    def _damage(self, kind: Kind) -> str:
        logs = saved_logs(log_folder(self.crawl.folder))
        everyone = kind in (Kind.DELETED, Kind.EMPTIED) and self.chance.random() < 0.3
        chosen = list(logs.values()) if everyone else [self.chance.choice(list(logs.values()))]
        for log in chosen:
            damage(log, kind, self.chance)
        if not self._has_statement:
            for path in (self.crawl.folder / "state").glob("last-commit-*"):
                path.unlink()
        return (
            f"{kind.value}: workers {', '.join(str(log.worker) for log in chosen)} of {len(logs)}"
        )

    def _put_back(self, folder: Path) -> None:
        for path in (self._path / "whole").rglob("*"):
            if path.is_file() and ("commit-w" in path.name or "last-commit-w" in path.name):
                shutil.copy2(path, folder / path.relative_to(self._path / "whole"))


def damage(log: SavedLog, kind: Kind, chance: random.Random) -> None:
    """Damages one log as ``kind`` says."""
    path = log.files[-1]
    if kind is Kind.DELETED:
        for each in log.files:
            each.unlink()
        return
    size = path.stat().st_size
    if kind is Kind.EMPTIED:
        kept = 0
    elif kind is Kind.BYTE:
        kept = size - 1
    else:
        ends = record_ends(path)
        records = 1 if kind is Kind.RECORD else chance.randint(2, 8)
        kept = ends[max(len(ends) - 1 - records, 0)]
    with path.open("r+b") as file:
        file.truncate(kept)


def record_ends(path: Path) -> list[int]:
    """Where the head of a log's file and each of its whole records end (docs/formats-state.md)."""
    data, ends = path.read_bytes(), [16]
    while len(data) >= ends[-1] + 16:
        end = ends[-1] + 16 + int.from_bytes(data[ends[-1] + 4 : ends[-1] + 8])
        if end > len(data):
            break
        ends.append(end)
    return ends


def files_of_folder(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file with its time and bytes."""
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
