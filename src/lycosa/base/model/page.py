"""A capture as a page sink gets it."""

from __future__ import annotations

import msgspec

from lycosa.base.model.capture import Capture, Location
from lycosa.base.model.parsed import Link, Parsed
from lycosa.base.preferences.preference_model import NOTHING_STATED, Preferences
from lycosa.base.preferences.use_policy import RECORD_ONLY, UsePolicy


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One stored response, with what the parser found in it.

    ``body`` is as received, still content-encoded; a large one is in the file ``spool`` during the
    call. ``duplicate_of`` is the URL of an earlier capture with the same body or nearly the same
    text. ``location`` is that of the record. ``preferences`` are what the site stated about the use
    of the page. ``may_use`` says whether the purpose of the crawl may use it (``None`` without a
    purpose); if not, ``title``, ``description``, ``text`` and the anchors of links are empty.
    """

    url: str
    status: int
    headers: list[tuple[str, str]]
    body: bytes
    spool: str
    media_type: str
    charset: str
    title: str
    description: str
    language: str
    text: str
    links: list[Link]
    depth: int
    via: str
    duplicate_of: str
    location: Location
    preferences: Preferences = NOTHING_STATED
    may_use: bool | None = None


_UNPARSED = Parsed()  # has the default of every field


def page_of(capture: Capture, location: Location, policy: UsePolicy = RECORD_ONLY) -> Page:
    """The page of a capture, with its content as far as the policy allows."""
    fetched, parsed = capture.fetched, capture.parsed or _UNPARSED
    duplicate = capture.original or capture.near_duplicate_of
    may_use = policy.verdict(capture.preferences)
    if may_use is False:
        links = [msgspec.structs.replace(link, anchor="") for link in parsed.links]
        parsed = msgspec.structs.replace(parsed, title="", description="", text="", links=links)
    return Page(
        url=fetched.url,
        status=fetched.status,
        headers=fetched.headers(),
        body=fetched.body,
        spool=fetched.spool,
        media_type=capture.media_type or parsed.media_type,
        charset=parsed.charset,
        title=parsed.title,
        description=parsed.description,
        language=parsed.language,
        text=parsed.text,
        links=parsed.links,
        depth=capture.depth,
        via=capture.via,
        duplicate_of=duplicate.url if duplicate and duplicate.url != fetched.url else "",
        location=location,
        preferences=capture.preferences,
        may_use=may_use,
    )
