"""Receives notices of sites that their pages have changed, as a participant of IndexNow does.

``GET /indexnow?url=&key=[&keyLocation=]``, and ``POST`` with JSON: ``host``, ``key``,
``keyLocation``, ``urlList`` with up to 10,000 URLs (https://www.indexnow.org/documentation). Only
what is in the request decides the answer: 202, or 400, 422 and 429 for one that no receiver could
use. The owners of the hosts are asked afterwards, so no sender learns from an answer, or from how
long it takes, what the crawl knows.

Anybody may send, so everything is bounded: notices of an address, URLs and bytes that wait, and
calls to owners at the same time. What a notice changes is decided by ``worker.visit.key_files``.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator

import msgspec
from fastapi import APIRouter, Request, Response

from lycosa.base.calls import SiteNotice
from lycosa.base.config.sections import IndexNowSection
from lycosa.base.model.parcel_items import MAX_URL_CHARS
from lycosa.base.urls.identity import InvalidUrl, host_of, scheme_of
from lycosa.service.api.places import PartitionFinder
from lycosa.service.api.problems import Problem
from lycosa.service.api.quotas import RequestQuota
from lycosa.service.api.request_context import caller_address

MOST_URLS = 10_000
MOST_WAITING_BYTES = 16_000_000
_MOST_PARTS = 2000
_PART = 1000  # URLs of one call
_CALLS = 4  # at the same time
_FULL_S = 60.0
_URL_BYTES = 50  # of a text, besides its characters
_KEY = re.compile(r"[a-zA-Z0-9-]{8,128}")

Notify = Callable[[int, SiteNotice], Awaitable[None]]
"""Gives a notice to the owner of a partition; an owner that is away does not get it."""


class GivenNotice(msgspec.Struct, frozen=True):
    """The JSON of a request; other members are ignored."""

    host: str
    key: str
    urlList: list[str]
    keyLocation: str = ""


_decode = msgspec.json.Decoder(GivenNotice).decode


class NoticeInbox:
    """Notices on their way to the owners of their hosts."""

    def __init__(self, section: IndexNowSection, addressing: PartitionFinder, notify: Notify):
        self._addressing, self._notify = addressing, notify
        rate = section.notices_per_hour / 3600
        self._quota = RequestQuota(rate, max(section.notices_per_hour / 10, 1.0))
        self._parts: deque[tuple[int, SiteNotice]] = deque()
        self._bytes = 0
        self._sending: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<NoticeInbox parts={len(self._parts)} bytes={self._bytes}>"

    def take(self, client: str, given: GivenNotice, now: float) -> None:
        """Take in a notice that came at wall time ``now``. Raises ``Problem``."""
        if wait := self._quota.take(client):
            raise Problem(429, "there are too many notices from this address", wait)
        # Before the URLs are looked at, which is what costs time.
        size = sum(map(len, given.urlList)) + _URL_BYTES * len(given.urlList)
        if self._bytes + size > MOST_WAITING_BYTES or len(self._parts) >= _MOST_PARTS:
            raise Problem(429, "there are too many notices at the moment", _FULL_S)
        parts = list(self._read(given, now))
        partition = self._addressing.of_host(parts[0].host)
        self._parts.extend((partition, part) for part in parts)
        self._bytes += sum(map(_size, parts))
        while len(self._sending) < min(_CALLS, len(self._parts)):
            task = asyncio.get_running_loop().create_task(self._send())
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    def _read(self, given: GivenNotice, now: float) -> Iterator[SiteNotice]:
        if not _KEY.fullmatch(given.key):
            raise Problem(422, "key: 8 to 128 of the characters a-z, A-Z, 0-9 and -")
        if not 0 < len(given.urlList) <= MOST_URLS:
            raise Problem(422, f"urlList: 1 to {MOST_URLS:,} URLs")
        if any(len(url) > MAX_URL_CHARS for url in (*given.urlList, given.keyLocation)):
            raise Problem(422, f"a URL has at most {MAX_URL_CHARS} characters")
        try:
            urls = [self._addressing.canonical(url) for url in given.urlList]
            host = self._addressing.host(given.host) if given.host else host_of(urls[0])
            key_url = self._addressing.canonical(
                given.keyLocation or f"{scheme_of(urls[0])}://{host}/{given.key}.txt"
            )
        except InvalidUrl as error:
            raise Problem(422, f"not a URL: {error.detail or error.reason.meaning}") from error
        if any(host_of(url) != host for url in (*urls, key_url)):
            raise Problem(422, f"all URLs and the key's location must be of the host {host}")
        for start in range(0, len(urls), _PART):
            yield SiteNotice(host, given.key, key_url, urls[start : start + _PART], now)

    async def _send(self) -> None:
        while self._parts:
            partition, part = self._parts.popleft()
            try:
                await self._notify(partition, part)
            finally:
                self._bytes -= _size(part)


def _size(part: SiteNotice) -> int:
    return sum(map(len, part.urls)) + _URL_BYTES * len(part.urls)


def indexnow_routes(inbox: NoticeInbox, wall: Callable[[], float]) -> APIRouter:
    """The receiving end; no part of the API, so it needs no token and is not in its description."""
    router = APIRouter()

    @router.get("/indexnow", include_in_schema=False)
    async def take_url(request: Request) -> Response:
        """Take one URL."""
        given = request.query_params
        url, key = given.get("url", ""), given.get("key", "")
        if not url or not key:
            raise Problem(400, "give url and key, and keyLocation if it is elsewhere")
        notice = GivenNotice("", key, [url], given.get("keyLocation", ""))
        inbox.take(caller_address(request), notice, wall())
        return Response(status_code=202)

    @router.post("/indexnow", include_in_schema=False)
    async def take_urls(request: Request) -> Response:
        """Take up to 10,000 URLs of one host."""
        try:
            notice = _decode(await request.body())
        except msgspec.MsgspecError as error:
            raise Problem(400, f"not a notice: {error}"[:300]) from error
        inbox.take(caller_address(request), notice, wall())
        return Response(status_code=202)

    return router
