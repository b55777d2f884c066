"""What every endpoint needs of a request: the crawl, and who asks."""

from __future__ import annotations

from fastapi import Request

from lycosa.base.config.near_names import near_name
from lycosa.service.api.gate import API
from lycosa.service.api.problems import Problem
from lycosa.service.api.quotas import Places
from lycosa.service.api.service import CrawlService
from lycosa.service.api.tokens import Client


async def known_parameters(request: Request) -> None:
    """Refuse query parameters that the endpoint does not have: ``reson=x`` would list everything.

    Raises ``Problem`` 422.
    """
    if not request.query_params:
        return
    paths = request.app.openapi()["paths"]  # made once
    path = API + request.scope["route"].path_format.removeprefix(API)
    described = paths[path][request.method.lower()]
    parameters = described.get("parameters", [])
    known = [each["name"] for each in parameters if each["in"] == "query"]
    for name in request.query_params:
        if name not in known:
            near = near_name(name, known)
            those = f"did you mean {near}?" if near else f"there are: {', '.join(known) or 'none'}"
            raise Problem(422, f"query.{name[:100]}: there is no such parameter; {those}")


def service_of(request: Request) -> CrawlService:
    """The crawl that this application serves."""
    service: CrawlService = request.app.state.service
    return service


def caller_name(request: Request) -> str:
    """The name of the client's token, for the log of actions."""
    client: Client | None = request.state.client
    return client.name if client is not None else ""


def caller_address(request: Request) -> str:
    """The address by which the client's places are counted."""
    address: str = request.state.peer
    return address


def polls_of(request: Request) -> Places:
    """The places for requests that wait."""
    polls: Places = request.app.state.polls
    return polls


def scrapes_of(request: Request) -> Places:
    """The places for requests that wait for a page."""
    scrapes: Places = request.app.state.scrapes
    return scrapes


def listeners_of(request: Request) -> Places:
    """The places for listeners of events."""
    listeners: Places = request.app.state.listeners
    return listeners
