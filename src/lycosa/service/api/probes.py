"""What other programs watch: metrics for Prometheus, and whether this process works.

``/health/live`` says that this process answers. ``/health/ready`` says that it reaches the crawl.
Neither needs a token, and neither tells anything about the crawl.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from lycosa.base.messages.progress import ProcessMemory
from lycosa.base.system.metrics_text import CONTENT_TYPE, metrics_text
from lycosa.base.system.process_memory import cpu_s, held_by
from lycosa.cluster.coordinator.crawl_metrics import crawl_metrics
from lycosa.service.api.answers import CoordinatorSilent
from lycosa.service.api.request_context import service_of

probe_router = APIRouter(include_in_schema=False)


@probe_router.get("/metrics")
async def show_metrics(request: Request) -> Response:
    """Everything that the crawl measures, in the text form of Prometheus."""
    status = await service_of(request).status()
    mine = ProcessMemory("api", *held_by(), cpu_s())
    return Response(metrics_text(crawl_metrics(status, [mine])), media_type=CONTENT_TYPE)


@probe_router.get("/health/live")
async def show_life() -> Response:
    """This process answers."""
    return PlainTextResponse("alive\n")


@probe_router.get("/health/ready")
async def show_readiness(request: Request) -> Response:
    """Whether the coordinator of the crawl answers."""
    try:
        await service_of(request).status()
    except CoordinatorSilent:
        return PlainTextResponse("the coordinator does not answer\n", 503, {"retry-after": "5"})
    return PlainTextResponse("ready\n")
