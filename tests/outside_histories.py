"""Histories with an outside fetcher that outlives the workers (``outside_fetching``). The crawl comes
to what the web's own survey says.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import msgspec

from histories import History, judge_end, judged
from judging import is_polite
from lycosa.base.calls import ResultVerdict
from lycosa.inspect.audit.folder_audit import audit
from lycosa.synthetic import RequestLog, SyntheticFetcher
from lycosa.worker.assemble import Assembled
from outside_fetching import OutsideFetcher
from planting import Plant

_LONGEST_REQUEST_S = 20.0


class OutsideHistory(History):
    """A history in which an outside fetcher takes part."""

    def __init__(self, seed: int, path: Path, plant: Plant | None = None) -> None:
        super().__init__(seed, path, plant)
        chance = random.Random(f"outside {seed}")
        self.fetcher = OutsideFetcher(chance, self.crawl.clock.wall, _LONGEST_REQUEST_S)
        self.fetcher_log = RequestLog()
        self._working: set[asyncio.Task[None]] = set()

    def live(self, deaths: int = 4) -> None:
        super().live(deaths)

    def _check_start(self, assembled: Assembled) -> None:
        super()._check_start(assembled)
        crawl = self.crawl
        fetcher = SyntheticFetcher(
            crawl.answers, crawl.clock, self.fetcher_log, spool_dir=crawl.folder / "spool"
        )
        for partition in assembled.worker.frontier.partitions:
            work = self.fetcher.work(partition, assembled.calls.answer_call, fetcher)
            task = asyncio.get_running_loop().create_task(work)
            self._working.add(task)
            task.add_done_callback(self._working.discard)

    def judge(self, with_audit: bool = True) -> None:
        """As in every history; the pauses of hosts are judged over both logs."""
        crawl, politeness = self.crawl, self.crawl.config.politeness
        is_polite(crawl.log, politeness)
        crawl.log.exchanges = sorted(
            [*crawl.log.exchanges, *self.fetcher_log.exchanges], key=lambda each: each.start
        )
        # An outside fetcher cannot know when other hosts of an address were requested.
        lax = msgspec.structs.replace(politeness, address_delay_s=0.0, address_slots=1000)
        before, crawl.config = crawl.config, msgspec.structs.replace(crawl.config, politeness=lax)
        judge_end(crawl, self.web, self.seeds)
        crawl.config = before
        if with_audit:
            report = audit(crawl.folder)
            assert report.is_clean, report.first_breaches()
        assert self.fetcher.verdicts[ResultVerdict.TAKEN] > 20, self.fetcher.verdicts


def live_with_fetcher(
    seed: int, path: Path, plant: Plant | None = None, with_audit: bool = True
) -> OutsideHistory:
    """One history to its end. Raises ``Breach``, whatever went wrong."""
    return judged(OutsideHistory(seed, path, plant), with_audit)
