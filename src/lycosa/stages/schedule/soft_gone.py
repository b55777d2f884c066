"""Pages that are gone although the server does not say so (*soft 404*).

Some servers answer every path with status 200, or redirect every path that they do not know to
their front page. What a host does is learned by one request for a path that does not exist
(``MissingPage``). It is sent when it matters, at most once a week, and once in 90 days after a
plain 404. A page that had content is gone when it answers as that path does: with the same body or
a near copy of its text, or by a redirect to the same place. A page whose content was always like
that answer has lost nothing.

Nothing is judged at a host that answers such a path with 404 or 410, and never the front page of a
host: it is what many servers show for paths that they do not know.

Source of the idea: Bar-Yossef, Broder, Kumar, Tomkins, Sic transit gloria telae (WWW 2004).
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec

from lycosa.base.model.host_memory import MissingPage
from lycosa.base.model.url_state import History
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import target_of
from lycosa.stages.schedule.page_change import had_content

ASK_EVERY_S = 7 * 86_400.0
"""Minimum time between two questions to a host whose answer looks like a page."""
MISSING_PATH = "/no-such-page-"
"""How the paths begin that are requested to learn how a host answers one that does not exist."""
_ASK_OTHERS_S = 90 * 86_400.0  # to one that said 404, or nothing of use
GONE_REASONS = frozenset({Reason.GONE, Reason.SOFT_GONE})
_KNOWN_S = 30 * 86_400.0  # for which an answer counts
_NEAR_BITS = 3
_COPIES = 5  # pages of a host that are copies of others, from which it is asked
_FRONT = "/"
_NEVER_ASKED = MissingPage()


class PageAnswer(NamedTuple):
    """An answer for a page: its URL, status, SHA-1 of the payload, SimHash of the text (0 = none),
    and the URL to which it redirects."""

    url: str
    status: int
    digest: bytes
    simhash: int
    target: str = ""


def missing_path(host: str, time: float) -> str:
    """A path of a host that does not exist; another one each week.

    Its name says to the owner of the site what it is.
    """
    week = int(time // ASK_EVERY_S)
    return f"{MISSING_PATH}{hashlib.sha1(f'{host} {week}'.encode()).hexdigest()[:12]}"


def is_missing(missing: MissingPage | None, found: PageAnswer, now: float) -> bool:
    """Whether a page answers as a path that does not exist does; ``now`` is crawl time."""
    if missing is None or target_of(found.url) == _FRONT or not _is_known(missing, now):
        return False
    if missing.target:
        return found.target == missing.target and found.url != missing.target
    if not 200 <= missing.status < 300 or found.status != 200:
        return False
    return (bool(found.digest) and found.digest == missing.digest) or _is_near(
        found.simhash, missing.simhash
    )


def is_soft_gone(
    missing: MissingPage | None, old: History, found: PageAnswer, was_gone: bool, now: float
) -> bool:
    """Whether a page that had content, whose record is ``old``, is gone by such an answer.

    ``was_gone``: it is known as gone.
    """
    if missing is None or not had_content(old) or not is_missing(missing, found, now):
        return False
    if was_gone:
        return True
    if missing.target:
        return old.status == 200
    return not _is_near(old.simhash, missing.simhash) and old.digest != missing.digest


def may_be_gone(old: History, found: PageAnswer, is_changed: bool) -> bool:
    """Whether the answer of a page that had content is one that a missing page may have.

    Its text has changed by more than a few bits, or it redirects to another place than before. What
    has no text, as a sitemap, is no page.
    """
    if target_of(found.url) == _FRONT or old.status != 200 or not is_changed:
        return False
    if found.target:
        return True
    return found.status == 200 and bool(old.simhash) and not _is_near(found.simhash, old.simhash)


def with_wish(
    missing: MissingPage | None, now: float, *, is_copy: bool = False
) -> MissingPage | None:
    """The state of a host of which an answer is wanted: at once, or as one more copy was found.

    ``None`` when it stays as it is, because it is wanted already or was asked not long ago.
    """
    known = missing or _NEVER_ASKED
    looks_like_page = 200 <= known.status < 400
    every_s = ASK_EVERY_S if looks_like_page else _ASK_OTHERS_S
    if known.is_wanted or (known.asked_at and 0 <= now - known.asked_at < every_s):
        return None
    copies = known.copies + is_copy
    return msgspec.structs.replace(known, copies=copies, is_wanted=not is_copy or copies >= _COPIES)


def _is_known(missing: MissingPage, now: float) -> bool:
    return missing.status > 0 and 0 <= now - missing.asked_at < _KNOWN_S


def _is_near(one: int, other: int) -> bool:
    return bool(one and other) and (one ^ other).bit_count() <= _NEAR_BITS
