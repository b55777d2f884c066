"""Endpoints of what is stored and of the crawl as a whole."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from lycosa.api.answers import Listing
from lycosa.api.content import ContentStream, content_disposition
from lycosa.api.events import EventStream
from lycosa.api.models import (
    Changed,
    Done,
    LettersRequest,
    Page,
    Row,
    SettingsAnswer,
    SettingsRequest,
    StopRequest,
    Why,
)
from lycosa.api.overview import crawl_state
from lycosa.api.problems import Problem
from lycosa.api.quotas import Places
from lycosa.api.requests import caller_name, service_of
from lycosa.calls import (
    ActionsQuery,
    CapturesQuery,
    ContentQuery,
    DeadLetterAction,
    DeadLetterDecision,
    DeadLettersQuery,
    HostAction,
    HostDecision,
    HostsQuery,
    HostUrlsQuery,
)

_PIECE = 1 << 20
Cursor = Annotated[str, Query(max_length=2000, description="The cursor of the page before")]
Most = Annotated[int, Query(ge=1, le=1000, description="Rows of one page")]
HostName = Annotated[str, Path(min_length=1, max_length=300)]
UrlOrHash = Annotated[
    str,
    Path(
        min_length=1,
        max_length=8192,
        description="A URL, percent-encoded; or the hash or id that rows of URLs have",
    ),
]


def host_routes() -> APIRouter:
    """Hosts, their URLs, and decisions about them."""
    router = APIRouter(prefix="/hosts", tags=["hosts"])

    @router.get("")
    async def hosts(
        request: Request,
        query: Annotated[str, Query(max_length=300, description="A part of the name")] = "",
        sort: Literal["name", "queue", "wait", "errors"] = "name",
        state: Annotated[str, Query(max_length=30)] = "",
        cursor: Cursor = "",
        most: Most = 50,
    ) -> Page:
        """Hosts by name or by an order."""
        asked = HostsQuery(query, sort, state, cursor, most)
        return _page(await service_of(request).hosts(asked))

    @router.get("/{host}")
    async def host(request: Request, host: HostName) -> Row:
        """One host: state, delay with its sources, robots.txt, queue, errors, last fetches."""
        found = await service_of(request).host(host)
        if found is None:
            raise Problem(404, f"the crawl does not know the host {host}")
        return found

    @router.get("/{host}/urls")
    async def host_urls(
        request: Request,
        host: HostName,
        state: Annotated[str, Query(max_length=30)] = "",
        cursor: Cursor = "",
        most: Most = 50,
    ) -> Page:
        """The URLs of a host."""
        asked = HostUrlsQuery(host, state, cursor, most)
        return _page(await service_of(request).host_urls(asked))

    @router.post("/{host}/pause")
    async def pause_host(request: Request, host: HostName, body: Why | None = None) -> Changed:
        """Request nothing from a host until it is resumed."""
        return await _decided(request, host, HostAction.PAUSE, body)

    @router.post("/{host}/resume")
    async def resume_host(request: Request, host: HostName, body: Why | None = None) -> Changed:
        """End the pause or the retirement of a host."""
        return await _decided(request, host, HostAction.RESUME, body)

    @router.post("/{host}/retire")
    async def retire_host(request: Request, host: HostName, body: Why | None = None) -> Changed:
        """Never request anything from a host again; its waiting URLs are refused."""
        return await _decided(request, host, HostAction.RETIRE, body)

    return router


def stored_routes() -> APIRouter:
    """URLs, captures and contents."""
    router = APIRouter(tags=["stored"])

    @router.get("/urls/{url:path}")
    async def url(request: Request, url: UrlOrHash) -> Row:
        """Everything about one URL, as ``lycosa explain --json`` shows it."""
        found = await service_of(request).url(url)
        if found is None:
            raise Problem(404, "no URL of the crawl has this hash")
        return found

    @router.get("/captures/{url:path}")
    async def captures(
        request: Request, url: UrlOrHash, cursor: Cursor = "", most: Most = 50
    ) -> Page:
        """The captures of a URL, newest first."""
        return _page(await service_of(request).captures(CapturesQuery(url, cursor, most)))

    @router.get(
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
    async def content(
        request: Request,
        url_hash: Annotated[str, Path(pattern="^[0-9a-f]{16}([0-9a-f]{16}|[0-9a-f]{48})?$")],
        at: Annotated[float, Query(ge=0, le=1e11, description="The last one up to then")] = 0,
        form: Annotated[Literal["raw", "text"], Query(alias="as")] = "raw",
    ) -> Response:
        """A stored body. It is never shown as what it claims to be: text is plain text, and
        everything else is a download."""
        service, is_text = service_of(request), form == "text"
        asked = ContentQuery(url_hash, at, is_text, 0, _PIECE)
        first = await service.content(asked)
        if first.total_bytes < 0:
            raise Problem(404, "there is no such capture")
        about = msgspec.json.decode(first.about)
        name = content_disposition(about, url_hash, is_text)
        return ContentStream(service, asked, first, name)

    return router


def steering_routes(listeners: Places) -> APIRouter:
    """Counters, dead letters, settings, pause and stop, and events."""
    router = APIRouter(tags=["crawl"])

    @router.get("/stats")
    async def stats(request: Request) -> Row:
        """Counters of the whole crawl, rates, hosts, storage and workers."""
        return await service_of(request).counts()

    @router.get("/dlq")
    async def letters(
        request: Request,
        reason: Annotated[str, Query(max_length=100)] = "",
        host: Annotated[str, Query(max_length=300)] = "",
        cursor: Cursor = "",
        most: Most = 50,
    ) -> Page:
        """Dead letters: URLs that failed for good."""
        asked = DeadLettersQuery(reason, host, cursor, most)
        return _page(await service_of(request).dead_letters(asked))

    @router.post("/dlq")
    async def decide_letters(request: Request, body: LettersRequest) -> Changed:
        """Retry or drop dead letters. Without hashes, reason and host it is about all of them."""
        decision = DeadLetterDecision(
            call=f"api {uuid.uuid4().hex}",
            by=caller_name(request),
            action=DeadLetterAction(body.action),
            hashes=list(body.hashes),
            reason=body.reason,
            host=body.host,
            why=body.why,
        )
        answer = await service_of(request).decide_dead_letters(decision)
        return Changed(changed=answer.changed)

    @router.get("/actions")
    async def actions(request: Request, cursor: Cursor = "", most: Most = 50) -> Page:
        """The log of operators' decisions, newest first."""
        return _page(await service_of(request).actions(ActionsQuery(cursor, most)))

    @router.post("/crawl/pause")
    async def pause(request: Request, body: Why | None = None) -> Done:
        """Start no request until the crawl is resumed."""
        return await _paused(request, True)

    @router.post("/crawl/resume")
    async def resume(request: Request, body: Why | None = None) -> Done:
        """End a pause; a crawl that was stopped runs again."""
        return await _paused(request, False)

    @router.post("/crawl/stop")
    async def stop(request: Request, body: StopRequest | None = None) -> Done:
        """End the crawl. It can be resumed."""
        service = service_of(request)
        await service.stop(caller_name(request), body is not None and body.at_once)
        return Done(state="stopping")

    @router.get("/settings")
    async def settings(request: Request) -> SettingsAnswer:
        """The settings that can change while the crawl runs."""
        return SettingsAnswer(values=await service_of(request).settings())

    @router.patch("/settings")
    async def change_settings(request: Request, body: SettingsRequest) -> Done:
        """Change such settings. Either all are changed or none."""
        service = service_of(request)
        await service.change_settings(body.values, caller_name(request))
        return Done(state=crawl_state(await service.status()))

    @router.get(
        "/events",
        response_class=Response,
        responses={
            200: {
                "description": "Server-sent events: `stats` about once a second, `state` changes",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            }
        },
    )
    async def events(
        request: Request,
        most: Annotated[int, Query(ge=0, le=1_000_000, description="End after so many")] = 0,
    ) -> Response:
        """Follow the crawl. The number of listeners is bounded."""
        return EventStream(service_of(request), listeners, most)

    return router


async def _decided(request: Request, host: str, action: HostAction, body: Why | None) -> Changed:
    """Make the decision; returns after the commit of the host's owner."""
    call, why = f"api {uuid.uuid4().hex}", body.why if body else ""
    decision = HostDecision(call, caller_name(request), host, action, why)
    answer = await service_of(request).decide_host(decision)
    return Changed(changed=answer.changed)


async def _paused(request: Request, is_paused: bool) -> Done:
    service = service_of(request)
    await service.pause(is_paused, caller_name(request))
    return Done(state="paused" if is_paused else "running")


def _page(listing: Listing) -> Page:
    values: dict[str, Any] = {
        "rows": listing.rows,
        "cursor": listing.cursor,
        "wall": listing.wall,
        "is_partial": listing.is_partial,
        "silent": listing.silent,
    }
    return Page(**values)
