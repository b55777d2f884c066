"""What attempts prove about politeness.

These are the pauses of each host, and for each address the pauses between starts and the number of
simultaneous requests. All functions are pure and take attempts in the order of their ends, as
``read_attempts`` gives them. One host's requests never overlap if every pause is positive: of two
that overlap, the one that ends later comes second and began before the first ended. Times are
compared on the monotonic clock within one boot, otherwise on the wall clock. Times in the log are
truncated to microseconds, so a pause may appear one microsecond too short.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from lycosa.attempts.files import Attempt


class Gap(NamedTuple):
    """The pause of a host between two attempts, in seconds; negative when they overlapped.

    After an unfinished attempt it is the minimum that is certain. ``previous.delay_s`` is the
    required pause.
    """

    host: str
    previous: Attempt
    following: Attempt
    gap_s: float


class AddressUse(NamedTuple):
    """How an address was used, by the requests of one place (``AttemptHead.place``).

    ``least_gap_s`` is the minimum time between two starts (infinite with one request),
    ``most_at_once`` the maximum number of simultaneous requests.
    """

    address: str
    requests: int
    least_gap_s: float
    most_at_once: int
    place: str = ""


def gaps(attempts: Iterable[Attempt], last: dict[str, Attempt] | None = None) -> Iterator[Gap]:
    """The pauses of each host. Keeps one attempt per host in memory.

    ``last`` has the last attempt of each host before these, and is continued.
    """
    last = {} if last is None else last
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
    """The use of each address. Keeps two numbers per attempt in memory."""
    starts: dict[tuple[str, str], array[float]] = {}
    ends: dict[tuple[str, str], array[float]] = {}
    # wall minus monotonic time of each boot, to put all attempts on one time line
    offsets: dict[str, float] = {}
    for attempt in attempts:
        offset = offsets.setdefault(attempt.boot, attempt.started_wall - attempt.started)
        key = attempt.address, attempt.place
        starts.setdefault(key, array("d")).append(attempt.started + offset)
        ends.setdefault(key, array("d")).append(attempt.ended + offset)
    return [_use(key, sorted(begun), sorted(ends[key])) for key, begun in starts.items()]


def _use(key: tuple[str, str], starts: list[float], ends: list[float]) -> AddressUse:
    least = min((later - earlier for earlier, later in pairwise(starts)), default=float("inf"))
    most = over = 0
    for begun, start in enumerate(starts, 1):
        while ends[over] <= start and over < begun - 1:
            over += 1
        most = max(most, begun - over)
    address, place = key
    return AddressUse(address, len(starts), least, most, place)
