"""What every endpoint needs of a request: the crawl, and who asks."""

from __future__ import annotations

from fastapi import Request

from lycosa.api.quotas import Places
from lycosa.api.service import CrawlService
from lycosa.api.tokens import Client


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


def listeners_of(request: Request) -> Places:
    """The places for listeners of events."""
    listeners: Places = request.app.state.listeners
    return listeners
