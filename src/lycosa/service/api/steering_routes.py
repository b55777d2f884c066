"""Endpoints of the crawl as a whole: counters, dead letters, settings, pause and stop, events."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from lycosa.base.calls import ActionsQuery, DeadLetterDecision, DeadLettersQuery, new_call
from lycosa.base.model.dead_letter import DeadLetterAction
from lycosa.inspect.queries.scope_trial import trial_values
from lycosa.service.api.events import EventStream
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
from lycosa.service.api.paging import Cursor, ListPlace, Most
from lycosa.service.api.request_context import caller_address, caller_name, listeners_of, service_of
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
