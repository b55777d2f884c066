"""Crashes whose folder is kept as it is at their instant."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from lycosa.synthetic import Crash, FaultRates, Faults
from virtual_crawl import VirtualCrawl


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
