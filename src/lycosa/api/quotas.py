"""How many requests a client may make, and how many bytes of bodies are held at the same time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lycosa.api.problems import Problem

_MOST_CLIENTS = 10_000


class RequestQuota:
    """A token bucket for each client, of those that were seen last."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<RequestQuota {self._rate:g}/s clients={len(self._buckets)}>"

    def take(self, client: str) -> float:
        """Count a request: 0 when it may be made, else the seconds until one may."""
        now = self._clock()
        left, then = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        wait = 0.0 if left >= 1 else (1 - left) / self._rate
        self._buckets[client] = (left - 1 if not wait else left), now
        if len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return wait


class Places:
    """A bounded number of things at the same time, such as long polls."""

    def __init__(self, most: int, what: str) -> None:
        self.taken, self._most, self._what = 0, most, what

    def __repr__(self) -> str:
        return f"<Places {self._what} {self.taken} of {self._most}>"

    @contextmanager
    def hold(self, count: int = 1) -> Iterator[None]:
        """Hold places. Raises ``Problem`` when there are not enough."""
        if self.taken + count > self._most:
            raise Problem(503, f"there are too many {self._what} now", 2.0)
        self.taken += count
        try:
            yield
        finally:
            self.taken -= count
