"""Endpoints of hosts, their URLs, and decisions about them."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request

from lycosa.base.calls import HostAction, HostDecision, HostsQuery, HostUrlsQuery, new_call
from lycosa.base.model.url_state import UrlState
from lycosa.service.api.examples import (
    HOST_EXAMPLE,
    URL_ROW_EXAMPLE,
    WHOLE_HOST_EXAMPLE,
    listed_as,
    shown_as,
)
from lycosa.service.api.models import (
    ChangeAnswer,
    DelayRequest,
    HostRequest,
    JsonRow,
    RowsPage,
    one_of,
)
from lycosa.service.api.paging import Cursor, HostName, ListPlace, Most
from lycosa.service.api.problems import Problem
from lycosa.service.api.request_context import caller_name, service_of
from lycosa.stages.frontier.visit_state import HostState

HostStateLabel = Annotated[str, one_of(state.label for state in HostState)]
UrlStateLabel = Annotated[str, one_of(state.label for state in UrlState)]
host_router = APIRouter(prefix="/hosts", tags=["hosts"])


@host_router.get("", responses=listed_as(HOST_EXAMPLE, "HostRow"))
async def list_hosts(
    request: Request,
    query: Annotated[
        str,
        Query(
            max_length=300,
            description="A part of the name; or a domain, with a dot before it for all below it",
            examples=["example.org"],
        ),
    ] = "",
    sort: Annotated[
        Literal["name", "queue", "wait", "errors"],
        Query(description="By reversed name, or by the most URLs waiting, wait or errors"),
    ] = "name",
    state: Annotated[HostStateLabel, Query(description="Those in this state")] = "",
    cursor: Cursor = "",
    most: Most = 50,
) -> RowsPage:
    """Hosts by name or by an order."""
    place = ListPlace(cursor, "hosts", query, sort, state)
    asked = HostsQuery(query, sort, state, place.after, most)
    return place.page(await service_of(request).hosts(asked))


@host_router.get("/{host}", responses=shown_as(WHOLE_HOST_EXAMPLE, "WholeHost"))
async def show_host(request: Request, host: HostName) -> JsonRow:
    """One host: state, delay with its sources, robots.txt, queue, errors, last fetches."""
    found = await service_of(request).host(host)
    if found is None:
        raise Problem(404, f"the crawl does not know the host {host}")
    return found


@host_router.get("/{host}/urls", responses=listed_as(URL_ROW_EXAMPLE, "UrlRow"))
async def list_host_urls(
    request: Request,
    host: HostName,
    state: Annotated[UrlStateLabel, Query(description="Those in this state")] = "",
    cursor: Cursor = "",
    most: Most = 50,
) -> RowsPage:
    """The URLs of a host, in the order of their hashes."""
    place = ListPlace(cursor, "urls", host, state)
    asked = HostUrlsQuery(host, state, place.after, most)
    return place.page(await service_of(request).host_urls(asked))


@host_router.post("/{host}/pause")
async def pause_host(
    request: Request, host: HostName, body: HostRequest | None = None
) -> ChangeAnswer:
    """Request nothing from a host until it is resumed."""
    return await _decided(request, host, HostAction.PAUSE, body)


@host_router.post("/{host}/resume")
async def resume_host(
    request: Request, host: HostName, body: HostRequest | None = None
) -> ChangeAnswer:
    """End the pause or the retirement of a host."""
    return await _decided(request, host, HostAction.RESUME, body)


@host_router.post("/{host}/retire")
async def retire_host(
    request: Request, host: HostName, body: HostRequest | None = None
) -> ChangeAnswer:
    """Never request anything from a host again; its waiting URLs are refused."""
    return await _decided(request, host, HostAction.RETIRE, body)


@host_router.post("/{host}/delay")
async def delay_host(request: Request, host: HostName, body: DelayRequest) -> ChangeAnswer:
    """Change the minimum pause between two requests to a host, from its next request on."""
    return await _decided(request, host, HostAction.DELAY, body, body.seconds())


async def _decided(
    request: Request,
    host: str,
    action: HostAction,
    body: HostRequest | None,
    delay_s: float = -1.0,
) -> ChangeAnswer:
    """Make the decision; returns after the commit of the host's owner."""
    body = body or HostRequest(whole_site=False, new=False)
    decision = HostDecision(
        new_call("api"),
        caller_name(request),
        host,
        action,
        body.why,
        body.whole_site,
        body.new,
        delay_s,
    )
    answer = await service_of(request).decisions.decide_host(decision)
    return ChangeAnswer(changed=answer.changed, hosts=answer.hosts or [host])
