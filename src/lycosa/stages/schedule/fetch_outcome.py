"""What a response means for its URL: done, redirected, retried, or a dead letter.

A pure function of the response.
"""

from __future__ import annotations

import re
from enum import Enum

import msgspec

from lycosa.base.config.sections import RetrySection
from lycosa.base.model.fetched import Fetched
from lycosa.base.reasons import Reason

REDIRECTS = frozenset({301, 302, 303, 307, 308})
_WHOLE = frozenset({Reason.NONE, Reason.BODY_TRUNCATED, Reason.TYPE_REFUSED})
_FINAL = frozenset(
    {
        Reason.ADDRESS_FORBIDDEN,
        Reason.HEADERS_TOO_LARGE,
        Reason.MALFORMED_RESPONSE,
        Reason.PAYMENT_REQUIRED,
    }
)
_CONNECTION = frozenset(
    {
        Reason.CONNECT_REFUSED,
        Reason.CONNECT_TIMEOUT,
        Reason.TLS_FAILED,
        Reason.NETWORK_UNREACHABLE,
        Reason.ADDRESS_FORBIDDEN,
        Reason.PROXY_FAILED,
    }
)
_AWAY = _CONNECTION - {Reason.ADDRESS_FORBIDDEN}
_SILENT = frozenset(
    {
        Reason.CONNECTION_LOST,
        Reason.EMPTY_RESPONSE,
        Reason.FIRST_BYTE_TIMEOUT,
        Reason.REQUEST_UNANSWERED,
    }
)
_NAMES = frozenset({Reason.DNS_NO_SUCH_NAME, Reason.DNS_FAILED, Reason.DNS_TIMEOUT})
LONGEST_PROBE_S = 120.0  # a host with a longer wait would leave the workbench


class Meaning(Enum):
    """What to do with the URL."""

    FETCHED = "a document or other content arrived"
    NOT_MODIFIED = "the last capture is still valid"
    REDIRECTED = "the answer names another URL"
    RETRY = "try again later"
    FAILED = "do not try again"


class FetchOutcome(msgspec.Struct, frozen=True, gc=False):
    """The meaning, its reason unless it is a plain success, and the wait before a retry."""

    meaning: Meaning
    reason: Reason = Reason.NONE
    wait_s: float = 0.0


def judge_answer(
    fetched: Fetched,
    *,
    tries: int,
    conditional: bool,
    section: RetrySection,
    is_mismatch: bool = False,
) -> FetchOutcome:
    """The outcome of a fetch.

    ``tries`` counts earlier failed requests of this URL; ``conditional`` says that the request had
    validators, ``is_mismatch`` that a 304 is not for what they named. Then the URL is requested
    again without them.
    """
    reason = _failure(fetched, conditional, is_mismatch)
    if reason is None:
        if fetched.status == 304:
            return FetchOutcome(Meaning.NOT_MODIFIED, Reason.NOT_MODIFIED)
        if fetched.status in REDIRECTS:
            return FetchOutcome(Meaning.REDIRECTED, Reason.REDIRECTED)
        return FetchOutcome(Meaning.FETCHED, fetched.reason)
    if not _is_passing(reason, fetched) or tries + 1 >= section.tries:
        return FetchOutcome(Meaning.FAILED, reason)
    return FetchOutcome(Meaning.RETRY, reason, wait_s(tries, section))


def wait_s(tries: int, section: RetrySection) -> float:
    """Seconds to wait after ``tries`` earlier failures (exponential back-off)."""
    return float(min(section.first_s * 2 ** min(tries, 30), section.max_s))


def probe_wait_s(outage_s: float, section: RetrySection) -> float:
    """Seconds until a host is tried again in an outage of our own that has lasted ``outage_s``.

    The time doubles from ``section.first_s`` and stays short, because all hosts wait for it.
    """
    return min(max(outage_s, section.first_s), LONGEST_PROBE_S)


def is_connection_failure(reason: Reason) -> bool:
    """Whether no connection was made. This concerns the host and not one URL."""
    return reason in _CONNECTION


def is_away(reason: Reason) -> bool:
    """Whether the host accepted no connection although the crawl's rules allow one."""
    return reason in _AWAY


def is_silent(reason: Reason) -> bool:
    """Whether a connection was made and no byte of an answer came, if there is no status.

    One such failure may be due to the URL. Several in a row, of different URLs, are due to the
    host: a load balancer without a server behind it accepts and closes connections, and the system
    of a server that hangs still accepts them.
    """
    return reason in _SILENT


def is_unreached(reason: Reason) -> bool:
    """Whether the host was not reached: no address or no connection."""
    return reason in _CONNECTION or reason in _NAMES


def _failure(fetched: Fetched, conditional: bool, is_mismatch: bool) -> Reason | None:
    if fetched.reason not in _WHOLE and not (
        fetched.reason is Reason.TOTAL_TIMEOUT and fetched.truncated and fetched.status == 200
    ):
        return fetched.reason
    status = fetched.status
    if status == 304:
        if is_mismatch:
            return Reason.UNASKED_NOT_MODIFIED
        return None if conditional else Reason.MALFORMED_RESPONSE
    if status in REDIRECTS:
        return None if fetched.location else Reason.BAD_REDIRECT
    if status == 206 and not is_whole_range(fetched.header("content-range")):
        return Reason.PARTIAL_ANSWER
    if 200 <= status < 300:
        return None
    if status == 429:
        return Reason.HTTP_TOO_MANY_REQUESTS
    if status == 402:
        return Reason.PAYMENT_REQUIRED
    if 300 <= status < 400:
        return Reason.BAD_REDIRECT
    return Reason.HTTP_SERVER_ERROR if status >= 500 else Reason.HTTP_CLIENT_ERROR


_RANGE = re.compile(r"bytes\s+0-(\d{1,18})/(\d{1,18})", re.IGNORECASE)


def is_whole_range(value: str) -> bool:
    """Whether Content-Range (RFC 9110 section 14.4) says that the body is all there is.

    No request asks for a range, so another answer with 206 is a fault of a server or a cache: it
    must not count as the page.
    """
    found = _RANGE.fullmatch(value.strip())
    return found is not None and int(found[1]) + 1 == int(found[2])


def _is_passing(reason: Reason, fetched: Fetched) -> bool:
    """Whether a retry can help."""
    if reason in _FINAL or reason is Reason.BAD_REDIRECT:
        return False
    if reason is Reason.HTTP_CLIENT_ERROR:
        return fetched.status in (408, 425)
    if reason is Reason.HTTP_SERVER_ERROR:
        return fetched.status not in (501, 505)
    return True
