"""A capture as a page sink gets it."""

from __future__ import annotations

import msgspec

from lycosa.base.model.capture import Capture, Location
from lycosa.base.model.parsed import Link, Parsed


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One stored response, with what the parser found in it.

    ``body`` is as received, still content-encoded; a large one is in the file ``spool`` during the
    call. ``duplicate_of`` is the URL of an earlier capture with the same body or nearly the same
    text. ``location`` is that of the record.
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


_UNPARSED = Parsed()  # has the default of every field


def page_of(capture: Capture, location: Location) -> Page:
    """The page of a capture."""
    fetched, parsed = capture.fetched, capture.parsed or _UNPARSED
    duplicate = capture.original or capture.near_duplicate_of
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
    )
