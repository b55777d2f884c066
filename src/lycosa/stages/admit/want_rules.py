"""Which requests of a page that is rendered are fetched: rules in addition to those of every URL.

Scripts decide what is asked for, so a page could make the crawl send requests of its choice to
other sites, with data in them. From its own site a page gets everything that it asks for. From
other sites it gets only what pages load without scripts too, and only with short queries.
"""

from __future__ import annotations

from lycosa.base.model.parcel_items import FOREIGN_DESTINATIONS, MAX_WANT_CHARS
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import target_of
from lycosa.stages.admit.refusal import Refusal

MAX_QUERY = 256
"""Maximum number of bytes of a query that another site gets."""

_DATA = "data"


def judge_want(url: str, destination: str, is_foreign: bool) -> Refusal | None:
    """Why a request of a page for a canonical URL is not fetched, or ``None``.

    ``destination`` is that of the Fetch standard, empty for data. ``is_foreign``: the URL is on
    another site than the page.
    """
    if len(url) > MAX_WANT_CHARS:
        return Refusal(Reason.URL_TOO_LONG, "characters of a want", f"at most {MAX_WANT_CHARS}")
    if not is_foreign:
        return None
    if destination not in FOREIGN_DESTINATIONS:
        allowed = "scripts, styles, fonts and images of other sites"
        return Refusal(Reason.WANT_ELSEWHERE, allowed, destination or _DATA)
    query = target_of(url).partition("?")[2]
    if len(query.encode()) > MAX_QUERY:
        return Refusal(Reason.WANT_QUERY, "bytes of a query", f"{len(query)} of {MAX_QUERY}")
    return None
