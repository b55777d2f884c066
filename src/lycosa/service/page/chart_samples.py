"""The last hour of the crawl for the charts: a sample every two seconds, in memory."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import Any

from lycosa.base.messages.coordinator_messages import ClusterStatus
from lycosa.base.messages.progress import Progress
from lycosa.cluster.coordinator.crawl_metrics import unreported_shards
from lycosa.service.api.answers import CoordinatorSilent
from lycosa.service.api.service import CrawlService

_EVERY_S = 2.0
_SAMPLES = 1800
_LATENCY = "lycosa_fetch_seconds"
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

HistorySample = tuple[float, float, int, float, float | None]
"""Wall time, captures a second, URLs that wait, failures a second, median latency in seconds."""


class CrawlHistory:
    """Samples of one crawl, from ``start`` on."""

    def __init__(self, service: CrawlService) -> None:
        self._service = service
        self._samples: deque[HistorySample] = deque(maxlen=_SAMPLES)
        self._following: asyncio.Task[None] | None = None
        self._last: tuple[float, int, int, list[int]] | None = None

    def start(self) -> None:
        """Begin to take samples, if that has not begun. Raises ``RuntimeError`` without a loop."""
        if self._following is None or self._following.done():
            loop = asyncio.get_running_loop()
            self._following = loop.create_task(self._follow())

    def columns(self, since: float = 0.0) -> list[list[Any]]:
        """The samples after a wall time, by column."""
        found = [sample for sample in self._samples if sample[0] > since]
        return [list(column) for column in zip(*found, strict=True)] if found else [[]] * 5

    def add_status(self, status: ClusterStatus, wall: float) -> None:
        """Add the sample of a state.

        While shards have not reported, the sums lack their parts, and what these report first is
        not new. So there is no sample then, and none across a counter that fell.
        """
        if unreported_shards(status):
            self._last = None
            return
        progress = status.progress
        failed = progress.states.get("failed", 0)
        counts = _latency_counts(progress)
        if self._last is not None and self._last[0] < wall and self._last[1] <= progress.captures:
            then, captures, failures, before = self._last
            span = wall - then
            fresh = [
                max(a - b, 0) for a, b in zip(counts, before or [0] * len(counts), strict=False)
            ]
            self._samples.append(
                (
                    round(wall, 1),
                    round((progress.captures - captures) / span, 2),
                    progress.states.get("queued", 0),
                    round(max(failed - failures, 0) / span, 3),
                    _median(fresh),
                )
            )
        self._last = wall, progress.captures, failed, counts

    async def _follow(self) -> None:
        while True:
            # A gap in the chart shows that it was silent.
            with suppress(CoordinatorSilent):
                self.add_status(self._service.watch.status(), time.time())
            await asyncio.sleep(_EVERY_S)


def _latency_counts(progress: Progress) -> list[int]:
    """The buckets of the latency of fetches so far; empty where it is not measured."""
    tables = progress.meter.distributions.get(_LATENCY, {})
    columns = zip(*(each.counts for each in tables.values()), strict=True)
    return [sum(column) for column in columns]


def _median(counts: list[int]) -> float | None:
    """The median of a histogram, within its bucket by proportion."""
    total, before, low = sum(counts), 0, 0.0
    if not total:
        return None
    for number, high in zip(counts, (*_BOUNDS, _BOUNDS[-1]), strict=False):
        if before + number >= total / 2:
            return round(low + (high - low) * (total / 2 - before) / max(number, 1), 4)
        before, low = before + number, high
    return _BOUNDS[-1]
