"""Whether validators (ETag, Last-Modified) of a page are sent with its next request, and what the
answer says about them.

A 304 that hides a change would keep an outdated copy permanently, because nothing else tells. So a
sample of them is checked: the page is fetched again within the hour, without validators. Which ones
is a function of the URL and its number of fetches, so it is the same in every run. Findings are
pooled by host, because validators are made by one program for all of its pages.

What counts is the share of changes that the validators hid, among all answers that could tell:
checks, and changes that a conditional request brought. When the lower bound of this share exceeds
one in a hundred, the validators of the host are not sent any more, except with one request
in fifty, whose 304 is always checked. So a host whose validators are right again recovers.

A check on a page that has not changed agrees whether the validators lie or not. Only changes tell.
So the sample is larger at a host that gave many 304s before it showed its first change, until it is
known whether it hides some, and smaller where validators have revealed several changes and hidden
none.

Sources: RFC 9110 sections 8.8 and 13, RFC 9111 section 4.3.4; the bound is that of
``base.lower_bound``.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from lycosa.base.lower_bound import JEFFREYS, lower_bound
from lycosa.base.model.fetched import Fetched
from lycosa.base.model.host_memory import ValidatorCounts, ValidatorFinding
from lycosa.base.model.url_state import History
from lycosa.base.reasons import Reason
from lycosa.stages.schedule.change_rate import estimate_rate, is_restless

CHECK_AFTER_S = 600.0
"""Seconds from an answer that is to be checked until the check."""
CHECK_WITHIN_S = 3600.0
"""A difference that is found later than this may be a later change."""
TO_CHECK = frozenset({Reason.TO_BE_CHECKED, Reason.PERHAPS_GONE})
"""Reasons of a record whose next fetch is a check: unconditional, and soon."""

_MOST_HIDDEN = 0.01  # share of hidden changes that is tolerated
_MOST_OTHER_TAGS = 0.5  # share of ETags that differ without a change
_DENSE = 5  # times as many checks of a host that confirms everything, until it had enough
_ENOUGH_CONFIRMED, _FIRST_CHECKS = 100, 30
_SPARSE = 10  # times fewer checks of a host whose validators were right
_ENOUGH_REVEALED, _ENOUGH_AGREED = 3, 100
_TRIED_EVERY = 50  # requests of a host whose validators are not believed
_SURPRISE = 0.1  # chance of a change between a 304 and its check, from which it proves nothing
_DAY_S = 86_400.0
_CLOCKS_S = 3600.0  # by which the clock of a server may be ahead
_MOST_TAG, _MOST_DATE = 300, 64  # characters
_TAG = re.compile(r'(?:W/)?(?:"[\x21\x23-\x7e\x80-\xff]+"|[\x21\x23-\x29\x2b\x2d-\x7e]+)')
_CODED = re.compile(r'(?:--?|;)(?:gzip|br|deflate|zstd|df)("?)$')
_NO_COUNTS = ValidatorCounts()


class Conditions(NamedTuple):
    """The validators of a request; empty ones are not sent."""

    etag: str = ""
    last_modified: str = ""


NO_CONDITIONS = Conditions()


class RefetchAnswer(NamedTuple):
    """An answer to a refetch, as far as it tells something about validators.

    ``sent`` are those of the request. ``is_same`` says that the text is that of the capture before.
    ``gap_s`` is the time since that.
    """

    sent: Conditions
    status: int
    etag: str
    last_modified: str
    is_same: bool
    gap_s: float


# -- keeping and sending


def kept_validators(fetched: Fetched) -> Conditions:
    """The validators of an answer that are worth keeping.

    A tag must be one tag: ``*`` would match anything (RFC 9110 section 13.1.2), and a list would
    match each of its tags. Quotes may be missing, as they often are. A Last-Modified that equals
    Date was made for the answer (section 8.8.2.1), so it says nothing about the page.
    """
    modified = fetched.header("last-modified")
    if modified and (len(modified) > _MOST_DATE or modified == fetched.header("date")):
        modified = ""
    etag = fetched.header("etag")
    if not etag and not modified:
        return NO_CONDITIONS
    return Conditions(one_tag(etag), modified)


def one_tag(etag: str) -> str:
    """A tag that may be sent back; empty if it is none, or too long."""
    return etag if etag and len(etag) <= _MOST_TAG and _TAG.fullmatch(etag) else ""


def conditions_of(
    history: History | None, reason: Reason, counts: ValidatorCounts | None, url8: bytes
) -> Conditions:
    """The validators for the next request of a URL, whose record has this history and reason."""
    if history is None or history.status != 200 or not (history.etag or history.last_modified):
        return NO_CONDITIONS
    if reason in TO_CHECK or reason is Reason.UNASKED_NOT_MODIFIED:
        return NO_CONDITIONS
    etag, modified = one_tag(history.etag), history.last_modified
    if modified and not _is_past(modified, history.fetched_at):
        modified = ""
    if counts is not None and (is_distrusted(counts) or has_useless_tags(counts)):
        if is_sampled(url8, history.fetches, _TRIED_EVERY):
            return Conditions(etag, modified)
        if is_distrusted(counts):
            return NO_CONDITIONS
        etag = ""
    return Conditions(etag, modified)


def is_answer_to(sent: Conditions, etag: str) -> bool:
    """Whether a 304 with this ETag (may be empty) can be the answer to these conditions.

    A 304 is for the representation that its ETag names. When that is another one than was asked
    for, the stored body must not be used for it (RFC 9111 section 4.3.4).
    """
    if not (sent.etag or sent.last_modified):
        return False
    return not (sent.etag and etag) or _opaque(sent.etag) == _opaque(etag)


# -- judging


def judge_validators(old: History, reason: Reason, found: RefetchAnswer) -> ValidatorFinding:
    """What an answer shows about validators; ``old`` and ``reason`` are of the record before it."""
    if found.status == 304:
        return ValidatorFinding.NOT_MODIFIED
    if found.status != 200 or old.status != 200:
        return ValidatorFinding.NOTHING
    is_check = reason is Reason.TO_BE_CHECKED
    if found.is_same:
        if is_check:
            return ValidatorFinding.AGREED
        is_other = bool(found.sent.etag) and _opaque(found.etag) != _opaque(found.sent.etag)
        if is_other and found.last_modified and found.last_modified == old.last_modified:
            return ValidatorFinding.OTHER_TAG
        return ValidatorFinding.NOTHING
    if is_restless(old.observations):
        return ValidatorFinding.NOTHING  # it differs from one request to the next
    if _says_same(old, found):
        return ValidatorFinding.HIDDEN
    if is_check:
        return ValidatorFinding.HIDDEN if _is_late(old, found) else ValidatorFinding.NOTHING
    return ValidatorFinding.REVEALED if any(found.sent) else ValidatorFinding.NOTHING


def _says_same(old: History, found: RefetchAnswer) -> bool:
    """Whether a conditional request would have been answered with 304 (section 13.2.2)."""
    if old.etag and found.etag:
        return _opaque(old.etag) == _opaque(found.etag)
    return bool(old.last_modified) and old.last_modified == found.last_modified


def _is_late(old: History, found: RefetchAnswer) -> bool:
    """Whether the difference that a check found is older than the 304 before it."""
    if not 0 <= found.gap_s <= CHECK_WITHIN_S:
        return False
    modified = _seconds(found.last_modified) if found.last_modified else None
    if modified is not None and modified > old.fetched_at:
        return False
    changes = estimate_rate(old.observations) * found.gap_s / _DAY_S
    return -math.expm1(-changes) < _SURPRISE


# -- the host


def is_distrusted(counts: ValidatorCounts) -> bool:
    """Whether the validators of a host are dropped, because they hide changes."""
    told = counts.hidden + counts.agreed + counts.revealed
    return lower_bound(counts.hidden, told - counts.hidden, JEFFREYS) > _MOST_HIDDEN


def has_useless_tags(counts: ValidatorCounts) -> bool:
    """Whether the ETags of a host differ from request to request.

    They must be left out then: a server ignores If-Modified-Since next to If-None-Match (RFC 9110
    section 13.1.3).
    """
    return lower_bound(counts.other_tags, counts.tags, JEFFREYS) > _MOST_OTHER_TAGS


def check_every(counts: ValidatorCounts | None, usual: int) -> int:
    """Of how many 304s of a host one is checked; 0 when none is.

    ``usual`` is the setting.
    """
    counts = counts or _NO_COUNTS
    if is_distrusted(counts):
        return 1  # also when none are to be checked: it is how the host recovers
    if not usual:
        return 0
    is_proven = counts.revealed >= _ENOUGH_REVEALED or counts.agreed >= _ENOUGH_AGREED
    if is_proven and not counts.hidden:
        return usual * _SPARSE
    is_odd = counts.confirmed >= _ENOUGH_CONFIRMED and not counts.revealed
    is_open = counts.hidden + counts.agreed < _FIRST_CHECKS
    return max(usual // _DENSE, 1) if is_odd and is_open else usual


def is_sampled(url8: bytes, fetches: int, every: int) -> bool:
    """Whether this fetch of a URL is in a sample of one in ``every``; the same in every run."""
    if every <= 1:
        return every == 1
    mixed = (int.from_bytes(url8, "big") ^ (fetches * 0x9E3779B97F4A7C15)) & 0xFFFFFFFFFFFFFFFF
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    return (mixed ^ (mixed >> 27)) % every == 0


# -- values


def _opaque(tag: str) -> str:
    """A tag for the weak comparison (RFC 9110 section 8.8.3.2).

    Without the suffix that some servers add to the tag of a compressed body.
    """
    return _CODED.sub(r"\1", tag.removeprefix("W/"))


def _is_past(modified: str, fetched_at: int) -> bool:
    """Whether a Last-Modified is a date, and not one in the future of its answer.

    A server ignores another one (section 13.1.3), or takes it for later than any change.
    """
    seconds = _seconds(modified)
    return seconds is not None and seconds <= fetched_at + _CLOCKS_S


def _seconds(date: str) -> float | None:
    """A date in seconds since 1970; ``None`` when it is none."""
    from email.utils import parsedate_to_datetime  # slow to import

    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError, TypeError):
        return None
