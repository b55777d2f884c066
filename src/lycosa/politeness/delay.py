"""How long a host rests between the end of one request and the start of the next.

The promise: the effective delay is the *greatest* of all that ask for one, so that no source can
shorten what another demands, and jitter only adds. The sources, each with its own cap:

* ``floor``: the operator's delay;
* ``crawl-delay``: robots.txt;
* ``adaptive``: a multiple of the last fetch's duration, so that a slow server is asked less
  (Mercator, Heydon and Najork 1999);
* ``retry-after``: the server's own words (RFC 9110 §10.2.3), kept as a point in time;
* ``backoff``: 429 or 503 without usable words. The pause is 30 s at level 1 and doubles with each
  level, up to a day.

**Back-off.** Each refusal raises the level by one; each good answer after the pause halves it,
rounded down. So a host that keeps refusing is asked at doubled pauses, a passing refusal costs one
pause of 30 s, and a host that refuses a share of the requests stays at the level where both
balance. A good answer is one that a host in trouble does not give: 2xx, 3xx, 404 or 410 for a page.
An answer for robots.txt is none, because servers often refuse pages and still give that file. A
good answer after ``forgive_s`` without a refusal ends the back-off at once. Time alone does not: a
host that was not asked has not recovered.

All memory of a host is one small frozen ``Pace`` that is stored with its visit state; times in it
are crawl time because they outlive the process, and ``clamp`` bounds them when they are loaded.
"""

from __future__ import annotations

import random
import re
from datetime import UTC
from math import inf
from typing import Literal

import msgspec

from lycosa.config.sections import PolitenessSection
from lycosa.model.pace import Pace

Source = Literal["floor", "crawl-delay", "adaptive", "retry-after", "backoff"]

LONGEST_RETRY_AFTER_S = 366 * 86400.0
"""What is read from a header at most; the settings cut it further."""

_SECONDS = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?)")
_LONGEST_DATE = 64  # characters
_MAX_DOUBLINGS = 40
_DAY_S = 86400.0


class Delay(msgspec.Struct, frozen=True, gc=False):
    """Seconds from now to the next start, and who asked for that many."""

    seconds: float
    source: Source


def after_exchange(
    pace: Pace,
    section: PolitenessSection,
    status: int,
    retry_after: str,
    duration_s: float,
    now_wall: float,
    *,
    is_robots: bool = False,
) -> Pace:
    """The pace after an exchange with ``status`` (0 = no answer) and the Retry-After value
    ``retry_after`` (empty = none).

    ``is_robots`` says that it was for robots.txt, whose answer does not shorten a back-off.
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
    elif status in (429, 503):  # no header, nonsense, or "at once", which a refusal does not mean
        backoffs, backoff_at = backoffs + 1, now_wall
    elif backoffs and not is_robots and _is_good(status):
        backoffs = _recovered(pace, section, now_wall)
        backoff_at = backoff_at if backoffs else 0.0
    return Pace(pace.crawl_delay_s, max(duration_s, 0.0), backoffs, backoff_at, retry_at)


def delay_s(
    pace: Pace, section: PolitenessSection, now_wall: float, chance: random.Random
) -> Delay:
    """The effective delay of a host whose last exchange has just ended."""
    seconds, source = max(_asked(pace, section, now_wall), key=_seconds_of)
    return Delay(max(seconds, 0.0) * (1.0 + section.jitter * chance.random()), source)


def parse_retry_after(value: str, now_wall: float) -> float | None:
    """Seconds that a Retry-After value asks for: a number or an HTTP date (RFC 9110 §10.2.3 and
    §5.6.7).

    A time in the past is 0, the longest is a year, however many digits a number has; ``None`` when
    it is neither.
    """
    value = value.strip()
    number = _SECONDS.fullmatch(value)
    if number:
        return 0.0 if number[1] == "-" else min(float(number[2]), LONGEST_RETRY_AFTER_S)
    if len(value) > _LONGEST_DATE:
        return None
    from email.utils import parsedate_to_datetime  # at the first date: few servers send one

    try:
        moment = parsedate_to_datetime(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return min(max(moment.timestamp() - now_wall, 0.0), LONGEST_RETRY_AFTER_S)
    # what email.utils raises on texts that are no dates
    except (
        ValueError,
        TypeError,
        OverflowError,
        IndexError,
    ):
        return None


def in_seconds(value: str, now_wall: float) -> str:
    """A Retry-After value whose date, if it is one, is replaced by the seconds until then."""
    seconds = parse_retry_after(value, now_wall) if value else None
    return value if seconds is None else f"{seconds:.3f}"


def clamp(pace: Pace, section: PolitenessSection, now_wall: float) -> Pace:
    """``pace`` as loaded from disk, with no time further ahead than this clock and these
    settings can have set.
    """
    return Pace(
        pace.crawl_delay_s,
        max(pace.last_duration_s, 0.0),
        max(pace.backoffs, 0),
        min(pace.backoff_at, now_wall),
        min(pace.retry_at, now_wall + section.max_retry_after_s),
    )


def longest_delay(section: PolitenessSection) -> float:
    """The longest delay after an ordinary exchange: for hosts whose last exchange may have been
    lost with the power.

    Retry-After and back-off are not in it: they can reach a day, which would punish every host for
    one.
    """
    ordinary = max(section.delay_s, section.max_crawl_delay_s, section.max_adaptive_delay_s)
    return ordinary * (1.0 + section.jitter)


def longest_wait(section: PolitenessSection) -> float:
    """The longest that a host can be made to wait, a day at least: robots.txt that cannot be
    fetched asks for that much.
    """
    asked = max(longest_delay(section), section.max_retry_after_s, section.max_backoff_s, _DAY_S)
    return asked * (1.0 + section.jitter)


def hosts_of_address(section: PolitenessSection) -> float:
    """How many hosts of one address can be of use at a time: as many as it may be asked within the
    longest ordinary delay, because then the first of them may be asked again. Infinite when the
    address has no delay.
    """
    return (
        longest_delay(section) / section.address_delay_s + section.address_slots
        if section.address_delay_s > 0
        else inf
    )


def _asked(
    pace: Pace, section: PolitenessSection, now_wall: float
) -> tuple[tuple[float, Source], ...]:
    backoff_s = (
        pace.backoff_at + _backoff_s(pace.backoffs, section) - now_wall if pace.backoffs else 0.0
    )
    return (  # of equals the first is named
        (section.delay_s, "floor"),
        (min(pace.crawl_delay_s, section.max_crawl_delay_s), "crawl-delay"),
        (
            min(section.adaptive_factor * pace.last_duration_s, section.max_adaptive_delay_s),
            "adaptive",
        ),
        (pace.retry_at - now_wall if pace.retry_at else 0.0, "retry-after"),
        (backoff_s, "backoff"),
    )


def _is_good(status: int) -> bool:
    return 200 <= status < 400 or status in (404, 410)


def _recovered(pace: Pace, section: PolitenessSection, now_wall: float) -> int:
    """The back-off level after a good answer. One that comes before the pause is over, because
    the clock was set back, changes nothing.
    """
    quiet_s = now_wall - pace.backoff_at - _backoff_s(pace.backoffs, section)
    if quiet_s < 0:
        return pace.backoffs
    return 0 if quiet_s >= section.forgive_s else pace.backoffs // 2


def _seconds_of(asked: tuple[float, Source]) -> float:
    return asked[0]


def _backoff_s(backoffs: int, section: PolitenessSection) -> float:
    return min(section.backoff_s * 2.0 ** min(backoffs - 1, _MAX_DOUBLINGS), section.max_backoff_s)
