"""Crawls that die while records become cold and come back: between the file and the commit that
names it, before it, behind it, and anywhere else.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from test_worker_crashes import History, ends, undisturbed

from dying import Dying, copied
from histories import acquit
from judging import are_balanced, is_balanced, is_polite, no_disallowed, tables
from lycosa.base.config.sections import ColdSection, RefetchRule, RefetchSection
from lycosa.base.model.end import End
from lycosa.state.cold.cold_rows import cold_files, object_key
from lycosa.state.cold.whole_table import whole_table
from lycosa.state.objects.folder import FolderStore
from lycosa.synthetic import Crash, Faults
from lycosa.worker.assemble import Assembled
from virtual_crawl import VirtualCrawl

_WANTED = int(os.environ.get("LYCOSA_SEEDS", "0"))
SEEDS = [
    pytest.param(seed, marks=[pytest.mark.long] * (not _WANTED and seed != 3))
    for seed in range(max(_WANTED, 10))
]
POINTS = {
    "cold:stored": 4,
    "cold:removed": 4,
    "cold:merged": 3,
    "commit:stored": 20,
    "commit:logged": 20,
}
POINTS |= {"commit:applied": 40, "commit:settled": 20, "after:offload": 40, "turn": 3000}
CHOICE = [*POINTS, *["cold:stored", "cold:removed", "cold:merged"] * 3]
KILLS = 6


class ColdHistory(History):
    """A history whose records become cold some seconds after their fetch.

    Each start gives the seeds again, so those that are cold come back.
    """

    def __init__(self, seed: int, path: Path, is_rocks: bool) -> None:
        super().__init__(seed, path, is_rocks)
        cold = ColdSection(after_s=8.0, return_after_s=1e6, least_records=1)
        self.crawl.config = msgspec.structs.replace(
            self.crawl.config, cold=cold, refetch=RefetchSection(rule=RefetchRule.OFF)
        )

    def run(self, faults: Faults | None) -> None:
        seeds = [self.web.seed_url(0), self.web.seed_url(1)]
        assert self.crawl.run(seeds, faults, self._check_start).end is End.FINISHED

    def _check_start(self, assembled: Assembled) -> None:
        """What recovery left adds up, after every crash."""
        acquit(assembled)
        folder = self.crawl.folder
        for partition in assembled.worker.frontier.partitions.values():
            is_balanced(whole_table(partition.table, FolderStore(str(folder), folder)))

    def live(self, most: int = KILLS) -> None:
        while len(self.crashes) < most:
            point = self._chance.choice(CHOICE)
            image = self._path / f"crawl-{len(self.crashes) + 1}"
            at = self._chance.randint(1, POINTS[point])
            try:
                self.run(Dying(copied(self.crawl, image), self._chance, at, point))
                return
            except Crash as crash:
                self.crashes.append(f"{crash.point} at {self.crawl.now:.3f}")
                self._start_over(image)
        self.run(None)


def files_without_a_row(crawl: VirtualCrawl) -> set[str]:
    """Cold files that no row names."""
    store = FolderStore(str(crawl.folder), crawl.folder)
    with tables(crawl) as opened:
        rows = [row for table in opened for row in cold_files(table).values()]
    named = {row.name for row in rows} | {name for row in rows for _, name in row.replaced}
    return {each.key for each in store.list("cold/")} - set(map(object_key, named))


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_a_crawl_that_dies_while_it_archives_loses_and_repeats_nothing(
    seed: int, tmp_path: Path
) -> None:
    reference = undisturbed(seed, tmp_path / "undisturbed")
    history = ColdHistory(seed, tmp_path, is_rocks=seed % 4 == 3)
    history.live()
    crawl = history.crawl
    counters = are_balanced(crawl)
    print(f"seed {seed}: {sum(counters.cold.values())} cold; {'; '.join(history.crashes)}")
    assert ends(crawl) == ends(reference)
    assert sum(counters.cold.values()) > counters.discovered // 4
    # The last run may have ended while it wrote a file, which the next start deletes.
    assert len(files_without_a_row(crawl)) <= crawl.config.frontier.partitions
    is_polite(crawl.log, crawl.config.politeness)
    no_disallowed(history.web, crawl.log)
