"""How many requests a client may make, and how many bytes of bodies are held at the same time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lycosa.service.api.problems import Problem

_MAX_CLIENTS = 10_000


class RequestQuota:
    """A token bucket for each client, of those that were seen last."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> float:
        """Count a request: 0 when it may be made, else the seconds until one may."""
        now = self._clock()
        left, then = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        wait = 0.0 if left >= 1 else (1 - left) / self._rate
        self._buckets[client] = (left - 1 if not wait else left), now
        if len(self._buckets) > _MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return wait


class Places:
    """A bounded number of things at the same time; one client has at most half of them."""

    def __init__(self, most: int, what: str) -> None:
        self.taken, self._most, self._what = 0, most, what
        self._of_client: dict[str, int] = {}

    @contextmanager
    def hold(self, client: str, count: int = 1) -> Iterator[HeldPlaces]:
        """Hold places; more can be added. Raises ``Problem`` when there are not enough."""
        held = HeldPlaces(self, client)
        try:
            held.add(count)
            yield held
        finally:
            held.release()

    def take(self, client: str, count: int) -> None:
        """Count places of a client. Raises ``Problem`` when there are not enough."""
        theirs = self._of_client.get(client, 0) + count
        if theirs > max(self._most // 2, 1):
            raise Problem(503, f"this client has too many {self._what} now", 2.0)
        if self.taken + count > self._most:
            raise Problem(503, f"there are too many {self._what} now", 2.0)
        self.taken += count
        self._of_client[client] = theirs

    def release(self, client: str, count: int) -> None:
        """Count them no more."""
        self.taken -= count
        left = self._of_client.pop(client, 0) - count
        if left > 0:
            self._of_client[client] = left


class HeldPlaces:
    """Places that one request of a client holds."""

    def __init__(self, places: Places, client: str) -> None:
        self._places, self._client, self._count = places, client, 0

    def add(self, count: int) -> None:
        """Hold more. Raises ``Problem`` when there are not enough."""
        self._places.take(self._client, count)
        self._count += count

    def release(self) -> None:
        """Hold none; a repetition does nothing."""
        self._places.release(self._client, self._count)
        self._count = 0
