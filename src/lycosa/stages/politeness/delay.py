"""How long a host rests between the end of one request and the start of the next.

The promise: the effective delay is the *maximum* over all sources, so no source can shorten what
another one requires, and jitter only adds. ``SOURCES`` is the table of the sources, each with a
separate upper limit; everything that depends on all sources reads it.

**Back-off.** Each refusal raises the level by one. Each good response after the pause halves it,
rounding down. So a host that keeps refusing is asked at doubling intervals, a single refusal costs
one pause of 30 s, and a host that refuses a share of the requests stays at the level where both
balance. A good response is one that a host in trouble does not give: 2xx, 3xx, 404 or 410 for a
page. A response for robots.txt does not count, because servers often refuse pages and still serve
that file. A good response after ``forgive_s`` without a refusal ends the back-off at once. Time
alone does not: a host that was not asked may not have recovered.

The state of a host is one small frozen ``Pace``, stored with its visit state. Its times are crawl
time because they outlive the process, and ``clamp`` bounds them when they are loaded.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from datetime import UTC
from functools import lru_cache
from math import inf
from typing import NamedTuple

import msgspec

from lycosa.base.config.sections import PolitenessSection
from lycosa.base.model.host_memory import Pace

LONGEST_RETRY_AFTER_S = 366 * 86400.0
"""The maximum that is read from a header; the settings limit it further."""

REPLACED = -inf
"""What a source requires that another one replaces for this host."""

_SECONDS = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?)")
_LONGEST_DATE = 64  # characters
_MAX_DOUBLINGS = 40
_DAY_S = 86400.0


class Delay(msgspec.Struct, frozen=True, gc=False):
    """Seconds until the next start, and the name of the source that requires them."""

    seconds: float
    source: str


class DelaySource(NamedTuple):
    """One source of delay: its name in ``explain`` and the log, and what it requires.

    ``required_s`` returns the seconds that it requires at a crawl time after the last request, from
    the pace of the host; ``longest_s`` the most that it ever requires by these settings.
    ``is_refusal`` is for what a host in trouble asks for: it is no ordinary delay, and it is
    committed at once, so that the next owner of the shard knows it. ``meaning`` is for people.
    """

    name: str
    required_s: Callable[[Pace, PolitenessSection, float], float]
    longest_s: Callable[[PolitenessSection], float]
    is_refusal: bool
    meaning: str


def _floor(pace: Pace, section: PolitenessSection, now: float) -> float:
    return section.delay_s if pace.operator_delay_s < 0 else REPLACED


def _operator(pace: Pace, section: PolitenessSection, now: float) -> float:
    return pace.operator_delay_s if pace.operator_delay_s >= 0 else REPLACED


def _crawl_delay(pace: Pace, section: PolitenessSection, now: float) -> float:
    return min(pace.crawl_delay_s, section.max_crawl_delay_s)


def _adaptive(pace: Pace, section: PolitenessSection, now: float) -> float:
    # A slow server gets fewer requests (Mercator, Heydon and Najork 1999).
    return min(section.adaptive_factor * pace.last_duration_s, section.max_adaptive_delay_s)


def _retry_after(pace: Pace, section: PolitenessSection, now: float) -> float:
    # RFC 9110 section 10.2.3; kept as a point in time.
    return pace.retry_at - now if pace.retry_at else 0.0


def _backoff(pace: Pace, section: PolitenessSection, now: float) -> float:
    return pace.backoff_at + _backoff_s(pace.backoffs, section) - now if pace.backoffs else 0.0


SOURCES = (
    DelaySource(
        "floor",
        _floor,
        lambda section: section.delay_s,
        is_refusal=False,
        meaning="the operator's delay for all hosts",
    ),
    DelaySource(
        "operator",
        _operator,
        lambda section: 0.0,  # decided for single hosts; no setting bounds it
        is_refusal=False,
        meaning="the operator's delay for this host, in place of that for all",
    ),
    DelaySource(
        "crawl-delay",
        _crawl_delay,
        lambda section: section.max_crawl_delay_s,
        is_refusal=False,
        meaning="Crawl-delay of robots.txt",
    ),
    DelaySource(
        "adaptive",
        _adaptive,
        lambda section: section.max_adaptive_delay_s,
        is_refusal=False,
        meaning="a multiple of the duration of the last request",
    ),
    DelaySource(
        "retry-after",
        _retry_after,
        lambda section: section.max_retry_after_s,
        is_refusal=True,
        meaning="Retry-After of the last answers",
    ),
    DelaySource(
        "backoff",
        _backoff,
        lambda section: section.max_backoff_s,
        is_refusal=True,
        meaning="429 or 503 without a usable Retry-After; the pause doubles with each level",
    ),
)
"""Every source of delay. Of equal delays that of the first source is reported."""

_REQUIRED = tuple((each.name, each.required_s) for each in SOURCES)  # for the loop of each request

REFUSALS = frozenset(each.name for each in SOURCES if each.is_refusal)
"""The names of the sources by which a host asks for a longer rest."""


def pace_after_request(
    pace: Pace,
    section: PolitenessSection,
    status: int,
    retry_after: str,
    duration_s: float,
    now_wall: float,
    *,
    is_robots: bool = False,
) -> Pace:
    """The pace after a response with ``status`` (0 = none) and Retry-After value ``retry_after``.

    ``retry_after`` is empty without the header. ``is_robots`` says that the request was for
    robots.txt or another file about the origin; its response never shortens a back-off.
    """
    backoffs, backoff_at = pace.backoffs, pace.backoff_at
    retry_at = pace.retry_at if pace.retry_at > now_wall else 0.0
    wait_s = (
        parse_retry_after(retry_after, now_wall)
        if retry_after and not 200 <= status < 300
        else None
    )
    if wait_s:
        retry_at = max(retry_at, now_wall + min(wait_s, section.max_retry_after_s))
    elif status in (429, 503):  # no header, an invalid one, or "at once", which no refusal means
        backoffs, backoff_at = backoffs + 1, now_wall
    elif backoffs and not is_robots and _is_good(status):
        backoffs = _recovered(pace, section, now_wall)
        backoff_at = backoff_at if backoffs else 0.0
    return Pace(
        pace.crawl_delay_s,
        max(duration_s, 0.0),
        backoffs,
        backoff_at,
        retry_at,
        pace.operator_delay_s,
    )


def delay_s(
    pace: Pace, section: PolitenessSection, now_wall: float, chance: random.Random
) -> Delay:
    """The effective delay of a host whose last request has just ended."""
    longest, name = 0.0, ""
    for source, required_s in _REQUIRED:
        seconds = required_s(pace, section, now_wall)
        # The first of equal ones is reported. One is always 0 or more: the operator's or the floor.
        if seconds > longest or (not name and seconds >= 0):
            longest, name = seconds, source
    return Delay(longest * (1.0 + section.jitter * chance.random()), name)


def ordinary_delay_s(pace: Pace, section: PolitenessSection) -> float:
    """Seconds that the sources require of a host that refuses nothing, without jitter."""
    return max(each.required_s(pace, section, 0.0) for each in SOURCES if not each.is_refusal)


def asked_delays(
    pace: Pace, section: PolitenessSection, now_wall: float
) -> tuple[tuple[float, str], ...]:
    """The seconds that each source requires now; the greatest of them is the delay.

    A source that another one replaces is left out.
    """
    required = ((each.required_s(pace, section, now_wall), each.name) for each in SOURCES)
    return tuple((seconds, name) for seconds, name in required if seconds > REPLACED)


def parse_retry_after(value: str, now_wall: float) -> float | None:
    """Seconds that a Retry-After value asks for; ``None`` when it cannot be read.

    The value is a number or an HTTP date (RFC 9110 §10.2.3 and §5.6.7). A time in the past gives 0;
    the maximum is a year, however many digits a number has.
    """
    value = value.strip()
    number = _SECONDS.fullmatch(value)
    if number:
        return 0.0 if number[1] == "-" else min(float(number[2]), LONGEST_RETRY_AFTER_S)
    if len(value) > _LONGEST_DATE:
        return None
    from email.utils import parsedate_to_datetime  # slow to import, and few servers send a date

    try:
        moment = parsedate_to_datetime(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return min(max(moment.timestamp() - now_wall, 0.0), LONGEST_RETRY_AFTER_S)
    # what email.utils raises for text that is not a date
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def in_seconds(value: str, now_wall: float) -> str:
    """A Retry-After value in which a date is replaced by the seconds until then."""
    seconds = parse_retry_after(value, now_wall) if value else None
    return value if seconds is None else f"{seconds:.3f}"


def clamp(pace: Pace, section: PolitenessSection, now_wall: float) -> Pace:
    """``pace`` as loaded from disk, with its times limited.

    No time may be further ahead than this clock and these settings can have set it.
    """
    return msgspec.structs.replace(
        pace,
        last_duration_s=max(pace.last_duration_s, 0.0),
        backoffs=max(pace.backoffs, 0),
        backoff_at=min(pace.backoff_at, now_wall),
        retry_at=min(pace.retry_at, now_wall + section.max_retry_after_s),
    )


@lru_cache(maxsize=8)  # it is asked for at every request, and changes with the settings
def longest_delay(section: PolitenessSection) -> float:
    """The longest delay after an ordinary response, for hosts whose last request may be unknown.

    A power loss can remove the last lines of the attempt log. Retry-After and back-off are not
    included: they can reach a day, and then one such host would delay all of them.
    """
    longest = max(each.longest_s(section) for each in SOURCES if not each.is_refusal)
    return longest * (1.0 + section.jitter)


def longest_wait(section: PolitenessSection) -> float:
    """The longest time that a host can be made to wait, at least a day.

    A robots.txt that cannot be fetched may require a day.
    """
    asked = max(longest_delay(section), *(each.longest_s(section) for each in SOURCES), _DAY_S)
    return asked * (1.0 + section.jitter)


def hosts_of_address(section: PolitenessSection) -> float:
    """How many hosts of one address are useful at a time.

    As many as there may be requests to the address within the longest ordinary delay, because after
    that the first host may be requested again. Infinite when the address has no delay.
    """
    return (
        longest_delay(section) / section.address_delay_s + section.address_slots
        if section.address_delay_s > 0
        else inf
    )


def _is_good(status: int) -> bool:
    return 200 <= status < 400 or status in (404, 410)


def _recovered(pace: Pace, section: PolitenessSection, now_wall: float) -> int:
    """The back-off level after a good response.

    A response before the end of the pause changes nothing; this happens when the clock was set
    back.
    """
    quiet_s = now_wall - pace.backoff_at - _backoff_s(pace.backoffs, section)
    if quiet_s < 0:
        return pace.backoffs
    return 0 if quiet_s >= section.forgive_s else pace.backoffs // 2


def _backoff_s(backoffs: int, section: PolitenessSection) -> float:
    return min(section.backoff_s * 2.0 ** min(backoffs - 1, _MAX_DOUBLINGS), section.max_backoff_s)
