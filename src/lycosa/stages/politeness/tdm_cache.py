"""The stored result of an origin's ``/.well-known/tdmrep.json``, and what a response to it means.

Source: W3C community report TDMRep, "TDM File on the Origin Server". The report says nothing about
how long the file applies, or about failures, so the rules of robots.txt are used for both:

* 2xx: *a file*, applied for as long as a robots.txt would be, at most 24 hours;
* 3xx and 4xx: there is none, which applies for as long. A redirect is not followed: the pages of an
  origin that redirects are at its target, where the file is asked for too;
* 429, 5xx, no response, an incomplete response: a *failure*. The last file still applies, however
  old. Without one nothing is stated. It is requested again at doubling intervals.

The promise: whatever the answer, the pages of the origin are fetched after it. Only robots.txt can
stop them. Everything here is a function of the record and ``now`` (crawl time, seconds).
"""

from __future__ import annotations

import base64
import hashlib

import msgspec

from lycosa.base.config.sections import RobotsSection
from lycosa.base.preferences.tdm_file import TdmRules, parse_tdmrep
from lycosa.stages.politeness.robots_cache import (
    LONGEST_USE_S,
    RobotsAnswer,
    is_unreachable,
    lifetime_s,
    retry_pause_s,
)


class TdmRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The stored result for one origin. Times are crawl time (seconds), 0 = none.

    ``rules`` and ``version`` (SHA-1 in base32, empty = no file) are those of the file. ``status``
    is that of the last response (0 = none). ``fetched`` is the time of the response that decides,
    ``expires`` that of the next request, and ``failures`` counts requests in a row that failed.
    """

    rules: TdmRules = TdmRules()
    version: str = ""
    status: int = 0
    fetched: float = 0.0
    expires: float = 0.0
    failures: int = 0


decode_tdm_record = msgspec.msgpack.Decoder(TdmRecord).decode


def is_needed(record: TdmRecord | None, now: float) -> bool:
    """Whether the file has to be requested before a page of the origin is.

    A time further ahead than any that we set comes from a clock that was moved back.
    """
    return record is None or not 0 < record.expires - now <= LONGEST_USE_S


def after_response(
    record: TdmRecord | None, answer: RobotsAnswer, section: RobotsSection, now: float
) -> TdmRecord:
    """The record after ``answer``; ``record`` is the one before, if any."""
    if is_unreachable(answer):
        old = record or TdmRecord()
        failures = old.failures + 1
        expires = now + retry_pause_s(failures, section)
        return msgspec.structs.replace(
            old, status=answer.status, expires=expires, failures=failures
        )
    expires = now + lifetime_s(answer.max_age_s, section)
    if not 200 <= answer.status < 300:
        return TdmRecord(status=answer.status, fetched=now, expires=expires)
    version = base64.b32encode(hashlib.sha1(answer.body, usedforsecurity=False).digest())
    return TdmRecord(parse_tdmrep(answer.body), version.decode(), answer.status, now, expires)
