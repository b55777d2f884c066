"""The requests of a page that is rendered: what the archive answers, what is wanted, what fails.

Each request is held by the browser (``Fetch`` domain) until it is answered here. Requests of one
moment are asked of the archive together. Nothing waits for a server: what is not stored fails at
once.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence

import msgspec

from lycosa.base.model.capture import Want
from lycosa.base.model.parcel_items import FOREIGN_DESTINATIONS
from lycosa.base.model.rendered_page import (
    ArchiveQuery,
    MissingAnswer,
    PageRequest,
    RenderTask,
    StoredAnswer,
)
from lycosa.base.ports import Archive
from lycosa.base.reasons import Reason
from lycosa.base.urls.cache_busters import with_callback, without_busters
from lycosa.base.urls.url_parts import host_of, name_of
from lycosa.stages.render.devtools import DevTools
from lycosa.stages.render.stored_headers import HeaderFields, as_answered, preflight_answer

_BATCH = 200  # requests that are asked together
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_URL = 8192

# The words of the Fetch standard for those of the protocol.
_DESTINATIONS = {
    "Document": "iframe",
    "Stylesheet": "style",
    "Script": "script",
    "Font": "font",
    "Image": "image",
    "Media": "media",
    "TextTrack": "track",
    "XHR": "",
    "Fetch": "",
    "Manifest": "manifest",
    "Other": "",
}
_REFUSED = {
    "EventSource": "stream",
    "WebSocket": "websocket",
    "Ping": "beacon",
    "CSPViolationReport": "beacon",
    "Prefetch": "prefetch",
    "SignedExchange": "prefetch",
    "FedCM": "permission",
}
# What is listed first if there is more than may be wanted.
_ORDER = {"script": 0, "document": 0, "style": 1, "": 1, "iframe": 2, "font": 3, "image": 4}


class PausedRequest(msgspec.Struct, gc=False):
    """``request`` of ``Fetch.requestPaused``."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}


class Paused(msgspec.Struct, gc=False):
    """``Fetch.requestPaused``: the browser waits until the request is answered."""

    requestId: str
    request: PausedRequest
    frameId: str = ""
    resourceType: str = "Other"
    redirectedRequestId: str = ""


class PageRequests:
    """Answers the requests of one page.

    ``open`` is how many the browser still waits for, ``last_at`` the loop's time of the last one.
    ``document`` is what the archive had for the page itself, once it was asked.
    """

    def __init__(self, devtools: DevTools, task: RenderTask, archive: Archive) -> None:
        self._devtools, self._task, self._archive = devtools, task, archive
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[str, Paused, ArchiveQuery]] = []
        self._asked: dict[str, StoredAnswer | MissingAnswer] = {}
        self._outcomes: dict[str, PageRequest] = {}
        self._wants: dict[str, Want] = {}
        self._main_frame = ""
        self._main_ids: set[str] = set()  # of the page itself and its redirects
        self._bytes, self._number = 0, 0
        self._is_over = False
        self._wake = asyncio.Event()
        self.open = 0
        self.last_at = self._loop.time()
        self.refused: Counter[str] = Counter()
        self.changed: Counter[str] = Counter()
        self.document: StoredAnswer | MissingAnswer | None = None

    def begin(self, main_frame: str) -> None:
        """The next document that this frame asks for is the page."""
        self._main_frame = main_frame

    def end(self) -> None:
        """Fail everything from now on: the page is as it is."""
        self._is_over = True

    def take(self, session: str, paused: Paused) -> None:
        """A request that the browser holds."""
        self.last_at = self._loop.time()
        url, method = paused.request.url.partition("#")[0], paused.request.method
        query = ArchiveQuery(url, self._destination(paused), without_busters(url))
        self._number += 1
        refusal = self._refusal(paused, query)
        if refusal:
            self._fail(session, paused, query, refusal)
        elif method == "OPTIONS" or paused.resourceType == "Preflight":
            wanted = _header(paused, "access-control-request-headers")
            self.changed["preflight"] += 1
            self._fulfil(session, paused, 204, preflight_answer(_origin(paused) or "*", wanted))
        elif (known := self._asked.get(url)) is not None:
            self._answer(session, paused, query, known)
        else:
            self.open += 1
            self._waiting.append((session, paused, query))
            self._wake.set()

    async def answer_all(self) -> None:
        """Ask the archive, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(0)  # requests that came with the same bytes
            while self._waiting:
                batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
                await self._ask(batch)

    def wants(self) -> tuple[tuple[Want, ...], int]:
        """What is wanted, within the bounds, and how many more; what matters most first."""
        listed: list[Want] = []
        foreign = 0
        for want in sorted(self._wants.values(), key=lambda each: _ORDER.get(each.destination, 5)):
            is_foreign = not self._is_of_site(want.url)
            if len(listed) >= self._task.bounds.wants or (
                is_foreign and foreign >= self._task.bounds.foreign_wants
            ):
                continue
            foreign += is_foreign
            listed.append(want)
        return tuple(listed), len(self._wants) - len(listed)

    def outcomes(self) -> tuple[PageRequest, ...]:
        return tuple(self._outcomes.values())

    # -- decisions

    def _destination(self, paused: Paused) -> str:
        if paused.resourceType == "Document" and paused.frameId == self._main_frame:
            return "document"
        return _DESTINATIONS.get(paused.resourceType, "")

    def _refusal(self, paused: Paused, query: ArchiveQuery) -> str:
        """Why a request is not even looked up; empty if it is."""
        bounds = self._task.bounds
        if query.destination == "document":
            if self._main_ids and paused.redirectedRequestId not in self._main_ids:
                return "navigation"
            self._main_ids.add(paused.requestId)
        if self._is_over or self._number > bounds.requests or len(query.url) > _MAX_URL:
            return "bounds"
        if self._bytes > bounds.body_bytes:
            return "bounds"
        if not query.url.lower().startswith(("http://", "https://")):
            return "scheme"
        if paused.resourceType in _REFUSED:
            return _REFUSED[paused.resourceType]
        if paused.request.method not in ("GET", "HEAD", "OPTIONS"):
            return "method"
        if paused.resourceType == "Other" and _header(paused, "accept").startswith("image/"):
            return "icon"  # of a tab; a browser without windows does not ask for it
        return "prefetch" if _is_prefetch(paused) else ""

    def _is_fetchable(self, query: ArchiveQuery) -> bool:
        """Whether the crawl fetches for a page what this is (``admit.want_rules`` decides)."""
        return query.destination in FOREIGN_DESTINATIONS or self._is_of_site(query.url)

    def _is_of_site(self, url: str) -> bool:
        name, site = name_of(host_of(url)), self._task.site
        return name == site or name.endswith(f".{site}")

    # -- answers

    async def _ask(self, batch: Sequence[tuple[str, Paused, ArchiveQuery]]) -> None:
        queries = {query.url: query for _, _, query in batch if query.url not in self._asked}
        try:
            answers = await self._archive.find(list(queries.values())) if queries else ()
            self._asked.update(zip(queries, answers, strict=True))
        finally:
            self.last_at = self._loop.time()
            self.open -= len(batch)
        for session, paused, query in batch:
            self._answer(session, paused, query, self._asked[query.url])

    def _answer(
        self, session: str, paused: Paused, query: ArchiveQuery, found: StoredAnswer | MissingAnswer
    ) -> None:
        if query.destination == "document":
            self.document = found
        if isinstance(found, MissingAnswer):
            self._want(session, paused, query, found)
            return
        kind = next((value for name, value in found.headers if name == "content-type"), "")
        self._outcomes[query.url] = PageRequest(
            query.url,
            query.destination,
            found.record,
            status=found.status,
            media_type=kind.partition(";")[0].strip().lower(),
        )
        self._bytes += len(found.body)
        body = found.body
        if found.is_other:
            self.changed["matched"] += 1
            body = with_callback(query.url, body)
            self.changed["jsonp"] += body is not found.body
        fields = as_answered(found.headers, _origin(paused), self.changed)
        is_redirect = found.status in _REDIRECTS
        if is_redirect and not any(name.lower() == "location" for name, _ in fields):
            self._fail(session, paused, query, "redirect")
            return
        is_empty = is_redirect or paused.request.method == "HEAD"
        self._fulfil(session, paused, found.status, fields, b"" if is_empty else body)

    def _want(
        self, session: str, paused: Paused, query: ArchiveQuery, found: MissingAnswer
    ) -> None:
        if found.reason is Reason.NONE and not self._is_fetchable(query):
            # It must not use up what the page may want of other sites.
            label = Reason.WANT_ELSEWHERE.label
            self._fail(session, paused, query, label, is_counted=False)
        elif found.reason is Reason.NONE:
            url = query.also or query.url
            self._wants.setdefault(url, Want(url, query.destination))
            self._fail(session, paused, query, "wanted", is_counted=False)
        else:
            self._fail(session, paused, query, found.reason.label, is_counted=False)

    def _fail(
        self,
        session: str,
        paused: Paused,
        query: ArchiveQuery,
        refusal: str,
        *,
        is_counted: bool = True,
    ) -> None:
        if is_counted:
            self.refused[refusal] += 1
        if len(self._outcomes) < self._task.bounds.requests:
            outcome = PageRequest(query.url[:_MAX_URL], query.destination, refusal=refusal)
            self._outcomes.setdefault(outcome.url, outcome)
        if refusal == "navigation":
            # Without content the page stays as it is; an error would replace it or end its parsing.
            self._fulfil(session, paused, 204, [])
            return
        parameters = {"requestId": paused.requestId, "errorReason": "InternetDisconnected"}
        self._devtools.tell("Fetch.failRequest", parameters, session)

    def _fulfil(
        self, session: str, paused: Paused, status: int, fields: HeaderFields, body: bytes = b""
    ) -> None:
        parameters = {
            "requestId": paused.requestId,
            "responseCode": status if 100 <= status <= 599 else 200,
            "responseHeaders": [{"name": name, "value": value} for name, value in fields],
            "body": b64encode(body).decode("ascii"),
        }
        self._devtools.tell("Fetch.fulfillRequest", parameters, session)


def _header(paused: Paused, name: str) -> str:
    found = paused.request.headers
    return next((value for key, value in found.items() if key.lower() == name), "")


def _origin(paused: Paused) -> str:
    return _header(paused, "origin")


def _is_prefetch(paused: Paused) -> bool:
    purpose = _header(paused, "sec-purpose") or _header(paused, "purpose")
    return purpose.startswith("prefetch")
