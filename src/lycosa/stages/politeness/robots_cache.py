"""The stored result of an origin's robots.txt, and what a response to it means.

Source: RFC 9309 §2.3 and §2.4. The promise: no URL is fetched from a host whose robots.txt is not
known. Each response is in one of three classes:

* 2xx, complete or cut at our limit: *a file*, applied for at most 24 hours;
* other 3xx (six redirects, no usable target) and 4xx: *unavailable*, everything is allowed for at
  most 24 hours;
* 429, 5xx, no response, an incomplete response: *unreachable*, nothing is fetched and the request
  is retried at doubling intervals.

401 and 403 are "unavailable" because §2.3.1.3 says so of all 4xx. 429 is not: a server that asks us
to slow down must not get more requests in return. While a host is unreachable, the last *file*
still applies, however old (§2.3.1.4); an earlier result without a file does not count as one.
Without a file, an outage of ``outage_s`` that at least ten requests observed counts as unavailable:
a crawl that paused for a month has not observed a month of outage.

A record belongs to the origin that was requested first, whatever redirects followed (§2.3.1.2).
Everything here is a function of the record and ``now`` (crawl time, seconds).
"""

from __future__ import annotations

import base64
import hashlib
import re
from enum import Enum
from urllib.parse import urlsplit

import msgspec

from lycosa.base.config.sections import RobotsSection
from lycosa.base.model.capture import RobotsDecision
from lycosa.base.model.fetched import Fetched
from lycosa.base.reasons import Reason
from lycosa.stages.politeness.robots_parser import parse_robots
from lycosa.stages.politeness.robots_rules import RobotsRules, RobotsVerdict

LONGEST_USE_S = 86400.0
"""RFC 9309 §2.4: a file should not be used for more than 24 hours."""

MIN_USE_S = 300.0
"""A shorter ``max-age`` is raised to this. Otherwise every page could cost two requests."""

_OUTAGE_WITNESSES = 10
_WHOLE = frozenset({Reason.NONE, Reason.BODY_TRUNCATED, Reason.DECODE_LIMIT, Reason.CONTENT_TYPE})
_AT_ADDRESS = frozenset(
    {Reason.CONNECT_REFUSED, Reason.CONNECT_TIMEOUT, Reason.NETWORK_UNREACHABLE}
)
_MAX_AGE = re.compile(r'(?:^|,)\s*max-age\s*=\s*"?([0-9]{1,10})"?\s*(?:,|$)', re.IGNORECASE)
_UNCACHED = re.compile(r"(?:^|,)\s*no-(?:store|cache)\s*(?:,|$)", re.IGNORECASE)


class RobotsAnswer(msgspec.Struct, frozen=True, gc=False):
    """The result of a robots.txt fetch, after all redirects.

    ``status`` is that of the last response (0 = none), ``body`` is content-decoded, ``max_age_s``
    is the limit of Cache-Control (-1 = none given), and ``detail`` describes what went wrong.
    """

    status: int
    body: bytes = b""
    reason: Reason = Reason.NONE
    max_age_s: float = -1.0
    detail: str = ""


class RobotsRecord(msgspec.Struct, frozen=True, array_like=True):
    """The stored result for one origin. Times are crawl time (seconds), 0 = none.

    ``rules``, ``version`` (SHA-1 in base32, empty = no file), ``status`` (0 = unreachable) and
    ``fetched`` describe the response that decides. ``first_failure``, ``failures`` and ``next_try``
    describe the outage that may have followed it, ``error`` and ``detail`` its last failure.
    ``is_usage_read`` says that a program read the file that also reads lines about use.
    """

    rules: RobotsRules = RobotsRules()
    version: str = ""
    status: int = 0
    fetched: float = 0.0
    expires: float = 0.0
    first_failure: float = 0.0
    failures: int = 0
    next_try: float = 0.0
    error: Reason = Reason.NONE
    detail: str = ""
    is_usage_read: bool = False

    @property
    def outage(self) -> str:
        """A description of the outage: its last failure and the number of failures; or empty."""
        if not self.failures:
            return ""
        often = "once" if self.failures == 1 else f"{self.failures} times"
        if self.error is Reason.NONE:  # a record from before this field existed
            return f"robots.txt: could not be fetched ({often})"
        between = " by " if self.error is Reason.CONNECT_REFUSED else ", "
        return (
            f"robots.txt: {self.error.meaning}{between if self.detail else ''}{self.detail}"
            f" ({often})"
        )

    @property
    def has_file(self) -> bool:
        """Whether there is a robots.txt to apply, new or old."""
        return 200 <= self.status < 300


class RobotsState(Enum):
    """What has to happen before a page of the origin is fetched."""

    FRESH = "fresh"  # apply the record
    NEEDED = "needed"  # fetch robots.txt first
    WAIT = "wait"  # unreachable: the host is snoozed until next_try


def robots_state(record: RobotsRecord | None, now: float, needs_usage: bool = False) -> RobotsState:
    """The state of an origin's record at ``now``.

    A time further ahead than any that we set comes from a clock that was moved back, so the file is
    then fetched again. So is a file in a record of an older program if the crawl ``needs_usage``:
    that program did not keep lines about use, and their absence must not count as silence.
    """
    if record is None:
        return RobotsState.NEEDED
    if needs_usage and record.has_file and not record.is_usage_read and not record.failures:
        return RobotsState.NEEDED
    until = record.next_try if record.failures else record.expires
    if not 0 < until - now <= LONGEST_USE_S:
        return RobotsState.NEEDED
    # Unreachable and no file: nothing may be fetched, unless the outage lasted so long that it
    # counts as no file (``expires``).
    if record.failures and not record.has_file and record.expires <= now:
        return RobotsState.WAIT
    return RobotsState.FRESH


def after_fetch(
    record: RobotsRecord | None,
    answer: RobotsAnswer,
    product: str,
    section: RobotsSection,
    now: float,
) -> RobotsRecord:
    """The record after ``answer``; ``record`` is the one before, if any."""
    if is_unreachable(answer):
        return _after_failure(record or RobotsRecord(), answer, section, now)
    expires = now + lifetime_s(answer.max_age_s, section)
    # RFC 9309 section 2.3.1.3: there is no file, so everything is allowed. It is asked again like a
    # file.
    if not 200 <= answer.status < 300:
        return RobotsRecord(status=answer.status or 404, fetched=now, expires=expires)
    rules = parse_robots(answer.body, product, section.max_bytes)
    version = base64.b32encode(hashlib.sha1(answer.body, usedforsecurity=False).digest()).decode(
        "ascii"
    )
    return RobotsRecord(rules, version, answer.status, now, expires, is_usage_read=True)


def decision(record: RobotsRecord, verdict: RobotsVerdict) -> RobotsDecision:
    """The decision to store with a fetch or a refusal: which file and which line decided."""
    return RobotsDecision(
        allowed=verdict.allowed,
        version=record.version,
        fetched=record.fetched,
        status=record.status,
        group=record.rules.group,
        line=verdict.line,
        rule=verdict.rule,
        bound=verdict.bound,
    )


def answer_of(fetched: Fetched, body: bytes) -> RobotsAnswer:
    """The result of a robots.txt fetch from its last response and the content-decoded ``body``.

    A fetch that ran out of redirects passes its last response with reason ``TOO_MANY_REDIRECTS``.
    """
    return RobotsAnswer(
        fetched.status,
        body,
        fetched.reason,
        max_age_of(fetched.header("cache-control")),
        _detail(fetched),
    )


def _detail(fetched: Fetched) -> str:
    """The server or the failure, for messages; empty without a failure."""
    if fetched.reason in _AT_ADDRESS and fetched.address:
        parts = urlsplit(fetched.url)
        address = f"[{fetched.address}]" if ":" in fetched.address else fetched.address
        default = 443 if parts.scheme == "https" else 80
        return f"{address}:{default if parts.port is None else parts.port}"  # 0 is a port too
    if fetched.reason is Reason.NONE and (fetched.status == 429 or fetched.status >= 500):
        return f"status {fetched.status}"
    return fetched.detail


def max_age_of(cache_control: str) -> float:
    """Seconds that a Cache-Control value allows, -1 when it gives none (RFC 9111 §5.2.2)."""
    if _UNCACHED.search(cache_control):
        return 0.0
    found = _MAX_AGE.search(cache_control)
    return float(found[1]) if found else -1.0


def is_unreachable(answer: RobotsAnswer) -> bool:
    """Whether an answer leaves open what the file is, so that it is asked for again soon."""
    # RFC 9309 section 2.3.1.2: after five redirects the file counts as unavailable, not as
    # unreachable.
    if answer.reason in (Reason.TOO_MANY_REDIRECTS, Reason.BAD_REDIRECT):
        return False
    if 200 <= answer.status < 300:
        return answer.reason not in _WHOLE  # a partial file may lack the line that disallows
    return answer.status < 200 or answer.status == 429 or answer.status >= 500


def _error(answer: RobotsAnswer) -> Reason:
    if answer.reason is not Reason.NONE:
        return answer.reason
    if answer.status == 429:
        return Reason.HTTP_TOO_MANY_REQUESTS
    return Reason.HTTP_SERVER_ERROR if answer.status >= 500 else Reason.EMPTY_RESPONSE


def _after_failure(
    record: RobotsRecord, answer: RobotsAnswer, section: RobotsSection, now: float
) -> RobotsRecord:
    error, detail = _error(answer), answer.detail
    failures = record.failures + 1
    # A later time than now is of a clock that was set back.
    began = record.first_failure if record.failures and 0 < record.first_failure <= now else now
    longest = min(section.max_age_s, LONGEST_USE_S)
    pause = retry_pause_s(failures, section)
    # RFC 9309 section 2.3.1.4: while a server fails, the copy that is known may be used.
    if record.has_file:
        return msgspec.structs.replace(
            record,
            first_failure=began,
            failures=failures,
            next_try=now + pause,
            error=error,
            detail=detail,
        )
    # Long by the clock and by several tries: one failed try after a pause of ours proves nothing.
    is_long = now - began >= section.outage_s and failures >= _OUTAGE_WITNESSES
    until = now + (longest if is_long else pause)
    expires = until if is_long else 0.0
    return RobotsRecord(
        expires=expires,
        first_failure=began,
        failures=failures,
        next_try=until,
        error=error,
        detail=detail,
    )


def retry_pause_s(failures: int, section: RobotsSection) -> float:
    """Seconds until a file is asked for again that could not be fetched so many times in a row."""
    longest = min(section.max_age_s, LONGEST_USE_S)
    return min(section.retry_s * 2.0 ** min(failures - 1, 40), longest)


def lifetime_s(max_age_s: float, section: RobotsSection) -> float:
    """For how long an answer applies; ``max_age_s`` as in ``RobotsAnswer``."""
    longest = min(section.max_age_s, LONGEST_USE_S)
    return longest if max_age_s < 0 else min(max(max_age_s, MIN_USE_S), longest)
