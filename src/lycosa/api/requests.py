"""What every endpoint needs of a request: the crawl, and who asks."""

from __future__ import annotations

from fastapi import Request

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
