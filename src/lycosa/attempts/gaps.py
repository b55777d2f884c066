"""What attempts prove about politeness: pauses per host, pauses between starts and requests at once
per address.

Pure functions over attempts in the order of their ends, as ``read_attempts`` gives them. One host's
requests never overlap when every pause is positive: of two that do overlap, the one that ends later
is seen second and began before the first ended. Times are compared on the monotonic clock within
one boot, on the wall clock otherwise. Times in the log are cut to microseconds, so a pause may look
shorter than it was by one of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from lycosa.attempts.files import Attempt


class Gap(NamedTuple):
    """The pause of a host between two attempts, in seconds; negative when they overlapped.

    After an unfinished attempt the pause is the least that is certain. ``previous.delay_s`` is what
    it should have been.
    """

    host: str
    previous: Attempt
    following: Attempt
    gap_s: float


class AddressUse(NamedTuple):
    """How an address was used: number of requests, least time between two starts (infinite with
    one request), most at once.
    """

    address: str
    requests: int
    least_gap_s: float
    most_at_once: int


def gaps(attempts: Iterable[Attempt]) -> Iterator[Gap]:
    """Each host's pauses. Remembers one attempt a host."""
    last: dict[str, Attempt] = {}
    for attempt in attempts:
        previous = last.get(attempt.host)
        if previous is not None:
            yield Gap(attempt.host, previous, attempt, between(previous, attempt))
        last[attempt.host] = attempt


def between(previous: Attempt, following: Attempt) -> float:
    """Seconds from the end of one attempt to the start of another."""
    if previous.boot == following.boot and previous.boot:
        return following.started - previous.ended
    return following.started_wall - previous.ended_wall


def address_use(attempts: Iterable[Attempt]) -> list[AddressUse]:
    """Each address's use. Remembers two numbers an attempt."""
    starts: dict[str, array[float]] = {}
    ends: dict[str, array[float]] = {}
    offsets: dict[
        str, float
    ] = {}  # wall minus monotonic time of each boot, so that all attempts share one time line
    for attempt in attempts:
        offset = offsets.setdefault(attempt.boot, attempt.started_wall - attempt.started)
        starts.setdefault(attempt.address, array("d")).append(attempt.started + offset)
        ends.setdefault(attempt.address, array("d")).append(attempt.ended + offset)
    return [
        _use(address, sorted(begun), sorted(ends[address])) for address, begun in starts.items()
    ]


def _use(address: str, starts: list[float], ends: list[float]) -> AddressUse:
    least = min((later - earlier for earlier, later in pairwise(starts)), default=float("inf"))
    most = over = 0
    for begun, start in enumerate(starts, 1):
        while ends[over] <= start and over < begun - 1:
            over += 1
        most = max(most, begun - over)
    return AddressUse(address, len(starts), least, most)
