"""What attempts prove about politeness.

These are the pauses of each host, and for each address the pauses between starts and the number of
simultaneous requests. All functions are pure and take attempts in the order of their ends, as
``read_attempts`` returns them. One host's requests never overlap if every pause is positive: of two
that overlap, the one that ends later comes second and began before the first ended. Times are
compared on the monotonic clock within one boot, otherwise on the wall clock. Times in the log are
truncated to microseconds, so a pause may appear one microsecond too short.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from math import inf, nextafter
from typing import NamedTuple

from lycosa.base.model.pool_time import parse_pool_time
from lycosa.state.attempts.attempt_files import Attempt


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

    ``min_gap_s`` is the minimum time from one start to the next (infinite with one request),
    ``most_at_once`` the maximum number of simultaneous requests. With ``is_shared`` both are those
    at the starts of requests whose slot the address pool gave by the limits of the crawl, otherwise
    those at all other starts. With ``server`` they are the requests of all places that this server
    of the pool knew, on its clock; what they are then is certain, to the width of its answers.
    """

    address: str
    requests: int
    min_gap_s: float
    most_at_once: int
    place: str = ""
    is_shared: bool = False
    server: str = ""


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


class WrongAttempt(NamedTuple):
    """What was wrong at the start of an attempt of a host that may have several at once.

    ``number`` attempts were open where ``most`` may be; or the start came ``early_s`` before the
    end of the pause that ``previous`` requires.
    """

    attempt: Attempt
    number: int
    most: int
    previous: Attempt | None = None
    early_s: float = 0.0


def overlaps(
    attempts: Sequence[Attempt], due_s: Callable[[Attempt], float], tolerance_s: float
) -> Iterator[WrongAttempt]:
    """Judge attempts of one host of which some were begun while others were open.

    An attempt that may not have others next to it has an ``at_once`` of 1. ``due_s`` returns the
    pause that one requires after its end. Keeps all of them in memory.
    """
    is_one_clock = len({each.boot for each in attempts}) == 1 and attempts[0].boot != ""

    def times(each: Attempt) -> tuple[float, float]:
        started, ended = each.started_wall, each.ended_wall
        if is_one_clock:
            started, ended = each.started, each.ended
        # One that never ended was still open at the last line of its run, which may be a start.
        return started, ended if each.is_finished else nextafter(ended, inf)

    is_open: list[tuple[float, int]] = []  # a heap: the end, and the number of the attempt
    required, by = -inf, None
    order = sorted(range(len(attempts)), key=lambda at: times(attempts[at])[0])
    for at in order:
        start, end = times(attempts[at])
        while is_open and is_open[0][0] <= start:
            ended, number = heappop(is_open)
            if (until := ended + due_s(attempts[number])) > required:
                required, by = until, attempts[number]
        if start < required - tolerance_s:
            yield WrongAttempt(attempts[at], 0, 0, by, required - start)
        heappush(is_open, (end, at))
        most = min(attempts[number].at_once for _, number in is_open)
        if len(is_open) > most:
            yield WrongAttempt(attempts[at], len(is_open), most)


def address_use(attempts: Iterable[Attempt]) -> list[AddressUse]:
    """The use of each address. Keeps six numbers per attempt in memory.

    The request of a worker that was killed counts as open until the last line that this worker
    wrote. When it died after that is unknown, and its connections ended with it: another worker may
    have its slot long before it starts again.

    Raises ``ValueError`` for the field ``slot`` of an attempt that cannot be read.
    """
    times: dict[_Key, _Times] = {}
    # wall minus monotonic time of each boot, to put all attempts on one time line
    offsets: dict[str, float] = {}
    for attempt in attempts:
        offset = offsets.setdefault(attempt.boot, attempt.started_wall - attempt.started)
        given, start = parse_pool_time(attempt.slot), attempt.started + offset
        is_shared = given is not None and given.is_shared
        here = times.setdefault((attempt.address, attempt.place, ""), _Times())
        here.add(start, start, start + attempt.open_s, is_shared)
        if given is not None:
            latest = given.latest_us / 1e6
            first = latest - given.width_us / 1e6
            pool = times.setdefault((attempt.address, "", given.server), _Times())
            pool.add(first, latest, first + attempt.open_s, is_shared)
    return [use for key, each in times.items() for use in _uses(key, each)]


_Key = tuple[str, str, str]
"""Address, place and server."""


class _Times:
    """The starts of requests, each within an interval, with their ends and how they got a slot."""

    __slots__ = ("ends", "firsts", "lasts", "shared")

    def __init__(self) -> None:
        self.firsts, self.lasts, self.ends = array("d"), array("d"), array("d")
        self.shared = array("b")

    def add(self, first: float, last: float, end: float, is_shared: bool) -> None:
        self.firsts.append(first)
        self.lasts.append(last)
        self.ends.append(end)
        self.shared.append(is_shared)


def _uses(key: _Key, times: _Times) -> Iterator[AddressUse]:
    """The use by requests that got their slots alike; in the pool's time only by shared ones."""
    address, place, server = key
    order = sorted(range(len(times.lasts)), key=times.lasts.__getitem__)
    for is_shared in (True,) if server else (False, True):
        numbers = [at for at, each in enumerate(order) if times.shared[each] == is_shared]
        if not numbers:
            continue
        least = min(
            (times.lasts[order[at]] - times.firsts[order[at - 1]] for at in numbers if at),
            default=float("inf"),
        )
        most = _max_at_once(times, order, set(numbers))
        yield AddressUse(address, len(numbers), least, most, place, is_shared, server)


def _max_at_once(times: _Times, order: list[int], judged: set[int]) -> int:
    """The maximum number of requests that were open at one of the judged starts."""
    ends: list[float] = []  # a heap
    most = 0
    for at, each in enumerate(order):
        while ends and ends[0] <= times.lasts[each]:
            heappop(ends)
        heappush(ends, times.ends[each])
        if at in judged:
            most = max(most, len(ends))
    return most
