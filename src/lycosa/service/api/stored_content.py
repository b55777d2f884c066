"""Stored bodies for clients: as a download or as plain text, never with the declared media type.

A stored page is foreign. Shown as HTML from this server it could act with the rights of the
operator who looks at it, so no answer has its media type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lycosa.base.calls import ContentFound, ContentQuery
from lycosa.service.api.answers import OwnerSilent, ServiceBusy, ServiceRefusal
from lycosa.service.api.service import CrawlService

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
