"""Endpoints of the crawl as a whole: counters, dead letters, settings, pause and stop, events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from lycosa.base.calls import ActionsQuery, DeadLetterDecision, DeadLettersQuery, new_call
from lycosa.base.model.dead_letter import DeadLetterAction
from lycosa.cluster.coordinator.crawl_metrics import crawl_state
from lycosa.inspect.queries.scope_trial import trial_values
from lycosa.service.api.answers import CoordinatorSilent
from lycosa.service.api.examples import (
    ACTION_EXAMPLE,
    DEAD_LETTER_EXAMPLE,
    STATS_EXAMPLE,
    listed_as,
    shown_as,
)
from lycosa.service.api.models import (
    JsonRow,
    LettersAnswer,
    LettersRequest,
    ReasonLabel,
    RowsPage,
    ScopeTrialAnswer,
    SettingsAnswer,
    SettingsRequest,
    StateAnswer,
    StopRequest,
    WhyRequest,
)
from lycosa.service.api.overview_answer import counted_status
from lycosa.service.api.paging import Cursor, ListPlace, Most
from lycosa.service.api.quotas import HeldPlaces
from lycosa.service.api.request_context import caller_address, caller_name, listeners_of, service_of
from lycosa.service.api.service import CrawlService
from lycosa.service.api.settings_tag import IfMatch, change_tagged, tagged_settings

_EVENT = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("id", "event", "data")},
}
steering_router = APIRouter(tags=["crawl"])


@steering_router.get("/stats", responses=shown_as(STATS_EXAMPLE, "CrawlStats"))
async def show_stats(request: Request) -> JsonRow:
    """Counters of the whole crawl, rates, hosts, storage and workers."""
    return await service_of(request).counts()


@steering_router.get("/dlq", responses=listed_as(DEAD_LETTER_EXAMPLE, "DeadLetter"))
async def list_dead_letters(
    request: Request,
    reason: Annotated[ReasonLabel, Query(description="Those of this reason")] = "",
    host: Annotated[str, Query(max_length=300, description="Those of this host")] = "",
    cursor: Cursor = "",
    most: Most = 50,
) -> RowsPage:
    """Dead letters: URLs that failed for good, newest first."""
    place = ListPlace(cursor, "letters", reason, host)
    asked = DeadLettersQuery(reason, host, place.after, most)
    return place.page(await service_of(request).dead_letters(asked))


@steering_router.post("/dlq")
async def decide_dead_letters(request: Request, body: LettersRequest) -> LettersAnswer:
    """Retry or drop dead letters. Without hashes, reason and host it is about all of them.

    A decision about very many is not complete after one request.
    """
    decision = DeadLetterDecision(
        body.call or new_call("api"),
        caller_name(request),
        DeadLetterAction(body.action),
        list(body.hashes),
        body.reason,
        body.host,
        body.why,
    )
    answer = await service_of(request).decisions.decide_dead_letters(decision)
    return LettersAnswer(changed=answer.changed, is_complete=answer.is_complete, call=decision.call)


@steering_router.get("/actions", responses=listed_as(ACTION_EXAMPLE, "Action"))
async def list_actions(request: Request, cursor: Cursor = "", most: Most = 50) -> RowsPage:
    """The log of operators' decisions, newest first."""
    place = ListPlace(cursor, "actions")
    return place.page(await service_of(request).actions(ActionsQuery(place.after, most)))


@steering_router.post("/crawl/pause")
async def pause_crawl(request: Request, body: WhyRequest | None = None) -> StateAnswer:
    """Start no request until the crawl is resumed."""
    return await _paused(request, True, body)


@steering_router.post("/crawl/resume")
async def resume_crawl(request: Request, body: WhyRequest | None = None) -> StateAnswer:
    """End a pause; a crawl that was stopped runs again."""
    return await _paused(request, False, body)


@steering_router.post("/crawl/stop")
async def stop_crawl(request: Request, body: StopRequest | None = None) -> StateAnswer:
    """End the crawl. It can be resumed."""
    body = body or StopRequest()
    await service_of(request).stop(caller_name(request), body.why, body.at_once)
    return StateAnswer(state="stopping")


@steering_router.get("/settings")
async def show_settings(request: Request, response: Response) -> SettingsAnswer:
    """The settings that can change while the crawl runs. The `ETag` is their version."""
    return tagged_settings(response, await service_of(request).settings())


@steering_router.patch("/settings")
async def change_settings(
    request: Request, response: Response, body: SettingsRequest, if_match: IfMatch = ""
) -> SettingsAnswer:
    """Change such settings. Either all are changed or none."""
    await change_tagged(request, body, if_match)
    return tagged_settings(response, await service_of(request).settings())


@steering_router.post("/settings/trial")
async def try_scope(request: Request, body: SettingsRequest) -> ScopeTrialAnswer:
    """How many waiting URLs a change of `scope.*` would drop. Nothing is changed."""
    return ScopeTrialAnswer(**trial_values(await service_of(request).try_scope(body.values)))


@steering_router.get(
    "/events",
    response_class=Response,
    responses={
        200: {
            "description": "Server-sent events: `stats` about once a second, `state` changes",
            "content": {"text/event-stream": {"schema": _EVENT}},
        }
    },
)
async def follow_events(
    request: Request,
    most: Annotated[int, Query(ge=0, le=1_000_000, description="End after so many")] = 0,
) -> Response:
    """Follow the crawl. The number of listeners is bounded."""
    places = partial(listeners_of(request).hold, caller_address(request))
    return EventStream(service_of(request), places, most)


async def _paused(request: Request, is_paused: bool, body: WhyRequest | None) -> StateAnswer:
    why = body.why if body else ""
    await service_of(request).pause(is_paused, caller_name(request), why)
    return StateAnswer(state="paused" if is_paused else "running")


# Server-sent events: the state of the crawl about once a second.
#
# A listener holds one of a bounded number of places, from the first byte of its answer to the end
# of its connection. It is released by the answer itself, because an answer whose client left early
# may never be begun.


_QUIET_S = 15.0


class EventStream(Response):
    """The events for one listener; it ends after ``most`` of them (0 = with the connection).

    ``place`` holds a place for it.
    """

    def __init__(
        self,
        service: CrawlService,
        place: Callable[[], AbstractContextManager[HeldPlaces]],
        most: int,
    ) -> None:
        super().__init__(
            None,
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )
        self._service, self._place, self._most = service, place, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place():
            headers = [line for line in self.raw_headers if line[0] != b"content-length"]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            sending = asyncio.ensure_future(self._send(send))
            leaving = asyncio.ensure_future(_gone(receive))
            try:
                await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    sending.result()
            finally:
                for task in (sending, leaving):
                    task.cancel()
                await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        state, number = "", 0
        while not self._most or number < self._most:
            text = b": waiting\n\n"
            # No news is no end of the stream: a comment keeps the connection, which proxies close
            # when it is quiet.
            with suppress(TimeoutError, CoordinatorSilent):
                async with asyncio.timeout(_QUIET_S):
                    status = await self._service.watch.next_status()
                number += 1
                now = crawl_state(status)
                kind = "state" if now != state else "stats"
                state = now
                body = msgspec.json.encode(counted_status(status, self._service.rates()))
                text = b"id: %d\nevent: %s\ndata: %s\n\n" % (number, kind.encode(), body)
            await send({"type": "http.response.body", "body": text, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
