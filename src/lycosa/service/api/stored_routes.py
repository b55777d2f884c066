"""Endpoints of what is stored: URLs, captures and contents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.utils import formatdate
from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from lycosa.base.calls import CapturesQuery, ContentFound, ContentQuery, ListingsQuery
from lycosa.base.model.capture import TOLD_CHANGES
from lycosa.inspect.queries.changed_list import BadCursor
from lycosa.service.api.answers import OwnerSilent, ServiceBusy, ServiceRefusal
from lycosa.service.api.examples import (
    CAPTURE_EXAMPLE,
    CHANGE_EXAMPLE,
    SITEMAP_EXAMPLE,
    URL_EXAMPLE,
    listed_as,
    shown_as,
)
from lycosa.service.api.merging import decoded_about
from lycosa.service.api.models import ChangesAnswer, JsonRow, RowsPage
from lycosa.service.api.paging import Cursor, ListPlace, Most, UrlOrHash
from lycosa.service.api.problems import Problem
from lycosa.service.api.request_context import service_of
from lycosa.service.api.service import CrawlService

_PIECE = 1 << 20
_ONE_CHANGE = f"({'|'.join(each.label for each in TOLD_CHANGES)})"
_CHANGES_EXAMPLE = {
    "rows": [CHANGE_EXAMPLE],
    "cursor": "changes/79376cae/0:0.4,1.0,2.17",
    "has_more": False,
    "silent": [],
}
stored_router = APIRouter(tags=["stored"])


@stored_router.get("/urls/{url:path}", responses=shown_as(URL_EXAMPLE, "ExplainedUrl"))
async def show_url(request: Request, url: UrlOrHash) -> JsonRow:
    """Everything about one URL, as ``lycosa explain --json`` shows it."""
    found = await service_of(request).url(url)
    if found is None:
        raise Problem(404, "no URL of the crawl has this hash")
    return found


@stored_router.get("/captures/{url:path}", responses=listed_as(CAPTURE_EXAMPLE, "CaptureRow"))
async def list_captures(
    request: Request, url: UrlOrHash, cursor: Cursor = "", most: Most = 50
) -> RowsPage:
    """The captures of a URL, newest first."""
    place = ListPlace(cursor, "captures", url)
    asked = CapturesQuery(url, place.after, most)
    return place.page(await service_of(request).captures(asked))


@stored_router.get("/sitemaps", responses=listed_as(SITEMAP_EXAMPLE, "SitemapRow"))
async def list_sitemaps(
    request: Request,
    host: Annotated[str, Query(max_length=300, description="Those of this host")] = "",
    cursor: Cursor = "",
    most: Most = 50,
) -> RowsPage:
    """Sitemaps and feeds: what they listed, when they are read, how far their host is believed."""
    place = ListPlace(cursor, "sitemaps", host)
    return place.page(await service_of(request).listings(ListingsQuery(host, place.after, most)))


@stored_router.get("/changes", responses=shown_as(_CHANGES_EXAMPLE, "ChangesPage"))
async def list_changes(
    request: Request,
    since: Annotated[
        str,
        Query(
            max_length=30_000,
            description="The cursor of an answer, or a time (seconds since 1970, or ISO 8601);"
            " empty: from the first change that is kept",
        ),
    ] = "",
    change: Annotated[
        str,
        Query(
            pattern=f"^({_ONE_CHANGE}(,{_ONE_CHANGE})*)?$",
            description="Only these, separated by commas: new, changed, gone, back",
        ),
    ] = "",
    host: Annotated[str, Query(max_length=300, description="Only this host")] = "",
    limit: Annotated[int, Query(ge=1, le=1000, description="Rows at most")] = 100,
) -> ChangesAnswer:
    """Captures whose content is new, changed, gone or back, in the order of commits.

    Ask again with the cursor of the answer, at any time: each change comes once, also across
    restarts and imports. Changes are kept for ``frontier.changes_days``."""
    meant = [each for each in TOLD_CHANGES if each.label in change.split(",")]
    try:
        page, cursor, silent = await service_of(request).changes(since, meant, host, limit)
    except BadCursor as error:
        raise Problem(422, f"query.since: {error}") from error
    rows = [msgspec.to_builtins(each) for each in page.rows]
    return ChangesAnswer(rows=rows, cursor=cursor, has_more=page.has_more, silent=silent)


@stored_router.get(
    "/crawl/{url_hash}/content",
    response_class=Response,
    responses={
        200: {
            "description": "The stored body, or its visible text",
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
                "text/plain": {"schema": {"type": "string"}},
            },
        }
    },
)
async def read_content(
    request: Request,
    url_hash: Annotated[
        str,
        Path(
            pattern="^[0-9a-f]{16}([0-9a-f]{16}|[0-9a-f]{48})?$",
            description="`id` or `url_hash` of a row, or the SHA-256 of the URL",
            examples=["d847e26d48a2f35302dd5537d58f0c1b"],
        ),
    ],
    at: Annotated[
        float,
        Query(ge=0, le=1e11, description="The last capture up to this time (seconds since 1970)"),
    ] = 0,
    form: Annotated[
        Literal["raw", "text"],
        Query(alias="as", description="The body as stored, or its visible text"),
    ] = "raw",
) -> Response:
    """A stored body. It is never shown as what it claims to be: text is plain text, and
    everything else is a download."""
    service, is_text = service_of(request), form == "text"
    asked = ContentQuery(url_hash, at, is_text, 0, _PIECE)
    first = await service.content(asked)
    if first.total_bytes < 0:
        raise Problem(404, "there is no such capture")
    about = decoded_about(first.about)
    # all pieces are of this capture, also when a newer one is stored meanwhile; no piece takes
    # another search for a hash
    asked = msgspec.structs.replace(asked, url=about["id"], at=about["date"])
    return ContentStream(service, asked, first, about)


# Stored bodies for clients: as a download or as plain text, never with the declared media type.
#
# A stored page is foreign. Shown as HTML from this server it could act with the rights of the
# operator who looks at it, so no answer has its media type.


_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 80
_LONGEST_HEADER = 4000


class ContentStream(Response):
    """A stored body, read piece by piece. ``first`` is the first piece."""

    def __init__(
        self, service: CrawlService, asked: ContentQuery, first: ContentFound, about: dict[str, Any]
    ) -> None:
        kind = "text/plain; charset=utf-8" if asked.as_text else "application/octet-stream"
        headers = {
            "content-length": str(first.total_bytes),
            "content-disposition": _disposition(about, asked.as_text),
            "content-security-policy": "default-src 'none'; sandbox",
            "cache-control": "private, no-store",
            **{name: _header_text(value) for name, value in _metadata(about, first) if value},
        }
        super().__init__(None, media_type=kind, headers=headers)
        self._service, self._asked, self._first = service, asked, first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        piece, offset = self._first, 0
        while True:
            offset += len(piece.body)
            is_last = offset >= piece.total_bytes or not piece.body
            await send({"type": "http.response.body", "body": piece.body, "more_body": not is_last})
            if is_last:
                return
            try:
                piece = await self._service.content(
                    msgspec.structs.replace(self._asked, offset=offset)
                )
            except (OwnerSilent, ServiceBusy, ServiceRefusal) as error:
                # the answer has begun: the client sees that it is shorter than announced
                raise ConnectionAbortedError(str(error)) from error


def _metadata(about: dict[str, Any], first: ContentFound) -> Iterator[tuple[str, str]]:
    """Headers that say of which capture the body is; the time and the URL as RFC 7089 has them."""
    yield "memento-datetime", formatdate(about["date"], usegmt=True)
    yield "link", f'<{about["url"]}>; rel="original"'
    yield "x-lycosa-status", str(about["status"])
    yield "x-lycosa-media-type", first.media_type
    yield "x-lycosa-digest", about["digest"]
    yield "x-lycosa-record", about["record_id"]
    yield "x-lycosa-remark", about["reason"]


def _disposition(about: dict[str, Any], is_text: bool) -> str:
    """The header that makes a browser save the body, under a harmless name."""
    url = about["url"]
    name = _UNSAFE.sub("_", url.partition("?")[0].rstrip("/").rpartition("/")[2]).strip("._")
    name = name[:_LONGEST_NAME] or "page"
    kind = "inline" if is_text else "attachment"
    suffix = ".txt" if is_text else ".bin"
    return f"{kind}; filename=\"{name}{suffix}\"; filename*=UTF-8''{quote(name + suffix)}"


def _header_text(text: str) -> str:
    return "".join(sign for sign in text[:_LONGEST_HEADER] if " " <= sign <= "~")
