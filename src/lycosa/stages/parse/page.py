"""A capture as a program gets it: in a page sink while it is stored, or read from a folder later.

Both are a ``Page``. The body is decoded when it is asked for, so a program that needs only titles
pays for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from lycosa.base.content_disposition import disposition_name
from lycosa.base.model.capture import Capture, Location
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.parsed import Link, Parsed
from lycosa.base.model.remark import Remark, distinct
from lycosa.base.preferences.preference_model import NOTHING_STATED, Preferences
from lycosa.base.preferences.use_policy import RECORD_ONLY, UsePolicy
from lycosa.base.reasons import Reason
from lycosa.base.system.content_encoding import Decoded, decode_content

MAX_BODY_BYTES = 64 << 20
"""Of a body that decodes to more, ``Page.body`` has the beginning."""
MAX_RATIO = 1000
"""Of decoded to received bytes, beyond the first megabyte."""


class Received(msgspec.Struct, frozen=True):
    """The answer of the server: header fields, and the body in memory or in the file ``spool``.

    ``encodings`` are the content encodings of this body: that of a revisit is another record's.
    """

    headers: list[tuple[str, str]]
    body: bytes = b""
    spool: str = ""
    encodings: list[str] = []


class Page(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One stored response, with what the parser found in it.

    ``fetched`` is when the request began. ``text`` is the visible text, without markup;
    ``duplicate_of`` is the URL of an earlier capture with the same body, or of a stored page with
    nearly the same text. ``remarks`` are what there is to note about fetch and parse, as reason and
    detail. ``preferences`` are what the site stated about the use of the page. ``may_use`` says
    whether the purpose of the crawl may use it (``None`` without a purpose); if not, ``title``,
    ``description``, ``text`` and the anchors of links are empty.

    ``location`` is that of the record; a sink gets the page before it has one. ``is_unchanged``:
    the server answered "not modified", so the page has the body of an earlier capture, and neither
    text nor links. ``text_from`` is ``render`` if title, text and links are those of the document
    after its scripts ran; ``headers`` and ``body`` are those of the answer all the same.
    """

    url: str
    status: int
    fetched: datetime
    media_type: str = ""
    charset: str = ""
    title: str = ""
    description: str = ""
    language: str = ""
    text: str = ""
    links: Sequence[Link] = ()
    depth: int = 0
    via: str = ""
    kind: FetchKind = FetchKind.PAGE
    duplicate_of: str = ""
    is_unchanged: bool = False
    remarks: tuple[Remark, ...] = ()
    location: Location | None = None
    preferences: Preferences = NOTHING_STATED
    may_use: bool | None = None
    text_from: str = "page"
    source: Any = None
    """A ``Received``, or a function that reads it from the store."""

    @cached_property
    def _received(self) -> Received:
        read: Callable[[], Received] | Received = self.source
        return read if isinstance(read, Received) else read()

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Header fields of the answer in their order; names in lower case, values stripped.

        A page from a folder reads its record; ``headers``, ``raw_body`` and ``body`` then raise
        ``RecordError`` or ``OSError`` when it cannot be read.
        """
        return self._received.headers

    def header(self, name: str) -> str:
        """The first value of a header field (name in lower case), or the empty string."""
        return next((value for key, value in self.headers if key == name), "")

    @property
    def file_name(self) -> str:
        """The name that the server gives the file (Content-Disposition), without any folder.

        Empty if it gives none. A page from a folder reads its record.
        """
        return disposition_name(self.header("content-disposition"))

    @property
    def raw_body(self) -> bytes:
        """The body as received: with its content encoding.

        A sink gets a large one in a file that is deleted after the call. So the first use of
        ``body`` or ``raw_body`` belongs into the call.
        """
        received = self._received
        return Path(received.spool).read_bytes() if received.spool else received.body

    @cached_property
    def _decoded(self) -> Decoded:
        encodings = self._received.encodings
        return decode_content(self.raw_body, encodings, MAX_BODY_BYTES, MAX_RATIO)

    @property
    def body(self) -> bytes:
        """The body without content encodings, up to ``MAX_BODY_BYTES``."""
        return self._decoded.body[:MAX_BODY_BYTES]

    @property
    def body_reason(self) -> Reason:
        """Why ``body`` is not complete: ``decode_failed``, ``decode_limit``, or no reason."""
        is_long = len(self._decoded.body) > MAX_BODY_BYTES
        return Reason.DECODE_LIMIT if is_long else self._decoded.reason

    @property
    def body_text(self) -> str:
        """The body as text, by its charset; bytes that are not valid become U+FFFD."""
        # Here, because a worker needs no HTML library in its memory.
        from lycosa.stages.parse.charset import decode_text

        return decode_text(self.body, self.charset or None)[0]


_UNPARSED = Parsed()  # has the default of every field


def page_of(capture: Capture, policy: UsePolicy = RECORD_ONLY) -> Page:
    """The page of a capture, with its content as far as the policy allows."""
    fetched, parsed = capture.fetched, capture.parsed or _UNPARSED
    duplicate = capture.original or capture.near_duplicate_of
    may_use = policy.verdict(capture.preferences)
    if may_use is False:
        links = [msgspec.structs.replace(link, anchor="") for link in parsed.links]
        parsed = msgspec.structs.replace(parsed, title="", description="", text="", links=links)
    headers = fetched.headers()
    encodings = [value for name, value in headers if name == "content-encoding"]
    return Page(
        url=fetched.url,
        status=fetched.status,
        fetched=datetime.fromtimestamp(fetched.started, UTC),
        media_type=capture.media_type or parsed.media_type,
        charset=parsed.charset,
        title=parsed.title,
        description=parsed.description,
        language=parsed.language,
        text=parsed.text,
        links=parsed.links,
        depth=capture.depth,
        via=capture.via,
        kind=capture.kind,
        duplicate_of=duplicate.url if duplicate and duplicate.url != fetched.url else "",
        is_unchanged=capture.not_modified,
        remarks=distinct(
            (
                Remark(fetched.reason, fetched.detail),
                *(parsed.remarks or (Remark(parsed.reason, parsed.detail),)),
            )
        ),
        preferences=capture.preferences,
        may_use=may_use,
        source=Received(headers, fetched.body, fetched.spool, encodings),
    )
