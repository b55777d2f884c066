"""How fast the crawl is: captures, bytes, URLs found and URLs done, a second.

The counts are noted about once a second. Each rate is given over the last minute, over the run, and
as its peak, which is the highest minute. Captures come in bursts, because a commit finishes
hundreds, so no shorter time is meaningful.
"""

from __future__ import annotations

from collections import deque

from lycosa.base.messages.progress import Progress
from lycosa.base.model.url_state import UrlState
from lycosa.base.system.meter import Number

_EVERY_S = 1.0
_MINUTE_S = 60.0
_SHORTEST_S = 5.0  # a peak over a shorter time is noise
_METRICS = (
    "lycosa_captures_per_second",
    "lycosa_received_bytes_per_second",
    "lycosa_urls_discovered_per_second",
    "lycosa_urls_settled_per_second",
)
_OPEN = (UrlState.QUEUED.label, UrlState.PARKED.label)


class CrawlRates:
    """The rates of one run. ``now`` is monotonic, in seconds."""

    def __init__(self) -> None:
        self._noted: deque[tuple[float, tuple[int, ...]]] = deque()
        self._first: tuple[float, tuple[int, ...]] | None = None
        self._shards = 0
        self._peaks = [0.0] * len(_METRICS)

    def is_due(self, now: float) -> bool:
        """Whether a second has passed since the counts were noted."""
        return not self._noted or now - self._noted[-1][0] >= _EVERY_S

    def note(self, now: float, progress: Progress, shards: int = 1) -> None:
        """Note the counts of the crawl, which are the sums of so many shards.

        A coordinator that has just started hears of one shard after the other. What a shard counted
        before is nothing that was done since, so the rates begin again with each.
        """
        if not progress.discovered:
            return  # no worker has reported yet
        states = progress.states
        settled = progress.discovered - sum(states.get(name, 0) for name in _OPEN)
        counts = (progress.captures, progress.body_bytes, progress.discovered, settled)
        if self._first is None or shards != self._shards or self._fall(counts):
            self._first, self._shards = (now, counts), shards
            self._noted.clear()
        self._noted.append((now, counts))
        while len(self._noted) > 2 and now - self._noted[0][0] > _MINUTE_S:
            self._noted.popleft()
        if now - self._noted[0][0] >= _SHORTEST_S:
            minute = self._since(self._noted[0])
            self._peaks = [max(each, rate) for each, rate in zip(self._peaks, minute, strict=True)]

    def _fall(self, counts: tuple[int, ...]) -> bool:
        """Whether a worker lost what it had not committed, or has not reported again."""
        return any(new < old for new, old in zip(counts[:3], self._noted[-1][1][:3], strict=True))

    def tables(self) -> dict[str, dict[str, Number]]:
        """The rates by metric and window; nothing before two reports."""
        if self._first is None or len(self._noted) < 2:
            return {}
        minute, run = self._since(self._noted[0]), self._since(self._first)
        return {
            name: {
                "minute": round(minute[at], 3),
                "run": round(run[at], 3),
                "peak": round(max(self._peaks[at], 0.0), 3),
            }
            for at, name in enumerate(_METRICS)
        }

    def _since(self, start: tuple[float, tuple[int, ...]]) -> list[float]:
        then, before = start
        now, counts = self._noted[-1]
        span = max(now - then, 0.001)
        return [(new - old) / span for new, old in zip(counts, before, strict=True)]
