"""Crawls that die: what is left is the folder as it is at that instant, or as a loss of power would
leave it. The files that are appended to are then cut somewhere after what was synced (or their last
bytes are rubbish), and tables lack what was not flushed.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from judging import new_folder
from lycosa.base.config.sections import Config
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.kv.rocks import RocksKeyValue, SharedCache
from lycosa.synthetic import Crash, FaultRates, Faults, SyntheticWeb
from lycosa.worker.assemble import Assembled
from several_workers import SlowExchange, run_workers
from virtual_crawl import VirtualCrawl

_APPENDED = ("warc/*.open", "journal/*.open", "log/commit-*")


class Dying(Faults):
    """Calls ``keep`` at the instant of the crash, which is at the ``at``-th time that ``point`` is
    reached (empty: any point). What the harness does to the folder afterwards is not part of the
    history.
    """

    def __init__(
        self,
        keep: Callable[[], object],
        chance: random.Random,
        at: int,
        point: str = "",
        rates: FaultRates | None = None,
    ) -> None:
        super().__init__(chance, rates, crash_at=at, crash_point=point)
        self._keep = keep

    def reach(self, point: str) -> None:
        was_dead = self.is_dead
        try:
            super().reach(point)
        except Crash:
            if not was_dead:
                self._keep()
            raise


def copied(crawl: VirtualCrawl, image: Path) -> Callable[[], object]:
    """Copies the folder, as a kill would leave it."""
    return lambda: shutil.copytree(crawl.folder, image)


def runs_that_may_die(
    crawl: VirtualCrawl, seeds: Sequence[str], chance: random.Random, work: Path
) -> Iterator[bool]:
    """Three runs, each of which dies at some point or ends before; the folder is then what a kill
    leaves. Gives after each whether it died.
    """
    for number in range(3):
        image = work / f"image-{number}"
        is_dead = False
        try:
            crawl.run(seeds, Dying(copied(crawl, image), chance, chance.randrange(1, 60)))
        except Crash:
            is_dead = True
            shutil.rmtree(crawl.folder)
            shutil.move(image, crawl.folder)
        yield is_dead


class Disk:
    """Knows of every file how much of it is synced, and leaves the rest to chance. Within
    ``watched`` nothing is synced in truth.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._synced: dict[tuple[int, int], int] = {}
        self.torn = 0
        self.faults: Faults | None = None

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        calls = os.fsync, os.fdatasync
        os.fsync = os.fdatasync = self._sync  # type: ignore[assignment]  # called with descriptors only
        try:
            yield
        finally:
            os.fsync, os.fdatasync = calls

    def _sync(self, fd: int) -> None:
        if self.faults is not None:
            self.faults.reach("sync")  # written, and not yet on disk
        found = os.fstat(fd)
        self._synced[found.st_dev, found.st_ino] = found.st_size

    def image(self, folder: Path, to: Path) -> None:
        """Copies a folder as a loss of power would leave it."""
        shutil.copytree(folder, to)
        for pattern in _APPENDED:
            for copy in sorted(to.glob(pattern)):
                found = (folder / copy.relative_to(to)).stat()
                self._tear(copy, self._synced.get((found.st_dev, found.st_ino), 0), found.st_size)
        self._synced = {
            (found.st_dev, found.st_ino): found.st_size
            for path in to.rglob("*")
            if (found := path.stat())
        }

    def _tear(self, path: Path, synced: int, size: int) -> None:
        if size <= synced:
            return
        self.torn += 1
        kept = self._chance.randint(synced, size)
        with path.open("r+b") as file:
            file.truncate(kept)
            if self._chance.random() < 0.3:  # the length was written, the bytes were not
                file.seek(kept)
                file.write(bytes(size - kept))


class DyingCrawl:
    """A crawl by several workers with RocksDB and files, in virtual time, which dies and goes on from
    what its disk holds.
    """

    def __init__(
        self,
        path: Path,
        web: SyntheticWeb,
        seeds: Sequence[str],
        config: Config,
        chance: random.Random,
    ) -> None:
        self.web, self.seeds, self.chance, self._path = web, seeds, chance, path
        self.disk = Disk(chance)
        self.told: list[str] = []
        self._tables: list[RocksKeyValue] = []
        self._cache = SharedCache(64 << 20, 64 << 20)
        self.crawl = VirtualCrawl(new_folder(path / "crawl-0"), web, config, self._open)

    def _open(self, folder: Path) -> KeyValue:
        folder.mkdir(parents=True, exist_ok=True)
        table = RocksKeyValue(folder, self._cache)
        # A thread of a table that is dead must not change files while they are copied: in a real
        # crash it dies as well.
        table._db.set_options({"disable_auto_compactions": "true"})
        self._tables.append(table)
        return table

    def run(
        self,
        workers: int,
        faults: Faults | None = None,
        exchange: SlowExchange | None = None,
        meanwhile: Callable[[Assembled], None] = lambda _: None,
    ) -> None:
        """One run, to its end. Raises ``Crash`` when ``faults`` says so."""
        self.disk.faults = faults
        assert run_workers(self.crawl, workers, self.seeds, faults, exchange, meanwhile)

    def start_over(self, image: Path) -> None:
        """Go on with what the disk held when the crawl died."""
        self.disk.faults = None
        # closed before its files go: a flush that fails is tried again a second later, and others
        # wait for it
        for table in self._tables:
            table.close()
        self._tables.clear()
        shutil.rmtree(self.crawl.folder)
        self.crawl.folder = image
