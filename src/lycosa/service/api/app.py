"""The application: endpoints, errors as problem details, OpenAPI, all behind the gate."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, Response
from starlette.exceptions import HTTPException

from lycosa.base.config.sources import SettingsError
from lycosa.base.messages.progress import ProcessMemory
from lycosa.base.system.metrics_text import CONTENT_TYPE, metrics_text
from lycosa.base.system.process_memory import cpu_s, held_by
from lycosa.base.urls.identity import InvalidUrl
from lycosa.base.urls.near_hosts import HostUnknown
from lycosa.cluster.coordinator.crawl_metrics import crawl_metrics
from lycosa.service.api.access_log import AccessLog
from lycosa.service.api.answers import (
    CoordinatorSilent,
    OwnerSilent,
    ServiceBusy,
    ServiceRefusal,
    SettingsChanged,
)
from lycosa.service.api.frontier_routes import frontier_router
from lycosa.service.api.gate import API, Gate, GateRules
from lycosa.service.api.host_routes import host_router
from lycosa.service.api.indexnow import NoticeInbox, indexnow_routes
from lycosa.service.api.login import login_routes
from lycosa.service.api.models import ProblemAnswer
from lycosa.service.api.problems import PROBLEM_TYPE, TITLES, Problem
from lycosa.service.api.process_log import ProcessLog
from lycosa.service.api.quotas import Places
from lycosa.service.api.request_context import known_parameters, service_of
from lycosa.service.api.scrape_routes import scrape_router
from lycosa.service.api.service import CrawlService
from lycosa.service.api.steering_routes import steering_router
from lycosa.service.api.stored_routes import stored_router
from lycosa.service.api.tokens import Tokens

_DOCUMENTED = (400, 401, 403, 404, 405, 408, 409, 412, 413, 415, 421, 422, 429, 431, 500, 503)
_ABOUT = """The state of a crawl and its control. See docs/api.md of Lycosa.

Lists have cursors. While the owner of a host or URL is away, an answer is 503 with Retry-After.
Every error is a problem of RFC 9457."""
_WHYS = {  # in place of the library's words
    "extra_forbidden": "there is no such field",
    "missing": "this is required, and missing",
}
_DETAILS = {
    404: f"there is no such address; {API}/openapi.json lists those of the interface",
    405: "the methods of this address: {allowed}",
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {
        "description": TITLES[status][1],
        "content": {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemAnswer"}}},
    }
    for status in _DOCUMENTED
}


def make_app(
    service: CrawlService,
    rules: GateRules,
    tokens: Tokens,
    log: ProcessLog,
    is_secure: bool = False,
    extend: Callable[[FastAPI], None] = lambda app: None,
) -> Gate:
    """The application for one crawl. ``extend`` adds routes that are no part of the API."""
    access = AccessLog(log)
    app = FastAPI(
        title="Lycosa",
        version=version("lycosa"),
        description=_ABOUT,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # its pages would load scripts from elsewhere
        redoc_url=None,
        responses=_RESPONSES,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.service = service
    app.state.polls = Places(rules.limits.polls, "requests that wait")
    app.state.scrapes = Places(rules.limits.scrapes, "pages that it waits for")
    app.state.listeners = Places(rules.limits.listeners, "listeners of events")
    for router in (frontier_router, host_router, stored_router, scrape_router, steering_router):
        app.include_router(router, prefix=API, dependencies=[Depends(known_parameters)])
    app.include_router(probe_router)
    app.include_router(login_routes(tokens, access, rules.cookie, is_secure))
    # docs/api.py describes the interface without a crawl.
    if service is not None and (section := service.addressing.config.indexnow).accept:
        inbox = NoticeInbox(section, service.addressing, service.submissions.notify)
        app.include_router(indexnow_routes(inbox, time.time))
    _add_errors(app, log)
    _add_schema(app, needs_token=not tokens.are_none)
    extend(app)
    return Gate(app, rules, tokens, access)


def _add_schema(app: FastAPI, needs_token: bool) -> None:
    """Describe errors and tokens in the OpenAPI."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        schema = plain()
        components = schema.setdefault("components", {})
        schemas = components.setdefault("schemas", {})
        schemas["ProblemAnswer"] = ProblemAnswer.model_json_schema()
        schemas.pop("HTTPValidationError", None)
        schemas.pop("ValidationError", None)
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        if needs_token:
            schema["security"] = [{"token": []}]
        return schema

    app.openapi = described  # type: ignore[method-assign]


def _add_errors(app: FastAPI, log: ProcessLog) -> None:
    """Answer every error with a problem."""

    def answer(request: Request, problem: Problem) -> Response:
        return Response(problem.body(request.url.path), problem.status, problem.header_lines())

    async def problem(request: Request, error: Exception) -> Response:
        return answer(request, problem_of(error))

    # Named one by one: an error that is none of these is a fault of ours, and its text is not for
    # clients.
    for kind in (
        Problem,
        HTTPException,
        RequestValidationError,
        OwnerSilent,
        CoordinatorSilent,
        ServiceBusy,
        HostUnknown,
        ServiceRefusal,
        SettingsChanged,
        SettingsError,
        InvalidUrl,
    ):
        app.add_exception_handler(kind, problem)

    # The text may have paths or addresses, so it goes to the log only.
    async def fault(request: Request, error: Exception) -> Response:
        log.tell_failure(f"{request.method} {request.url.path} failed: {error!r}", error)
        return answer(request, Problem(500, "the server made an error; its log has it"))

    app.add_exception_handler(Exception, fault)


def problem_of(error: Exception) -> Problem:
    """The problem that a client is told."""
    match error:
        case Problem():
            return error
        case RequestValidationError():
            broken = next((each for each in error.errors() if each["type"] == "json_invalid"), None)
            if broken is not None:
                why, where = broken.get("ctx", {}).get("error", ""), broken["loc"][-1]
                return Problem(400, f"the body is not JSON: {why} (at character {where})")
            errors = [
                {
                    "where": ".".join(map(str, each["loc"])),
                    "why": _WHYS.get(each["type"], each["msg"]),
                }
                # A body of a thousand wrong values must not get an answer that is larger than it
                # is.
                for each in error.errors()[:20]
            ]
            first = errors[0] if errors else {"where": "", "why": "a value is not allowed"}
            return Problem(422, f"{first['where']}: {first['why']}", errors=errors)
        # They pass: 503 with Retry-After makes clients repeat the request by themselves.
        case OwnerSilent() | CoordinatorSilent() | ServiceBusy():
            return Problem(503, str(error), error.retry_s)
        case HostUnknown():
            return Problem(404, str(error))
        case ServiceRefusal():
            return Problem(409, str(error))
        case SettingsChanged():
            errors = [
                {"where": f"body.values.{key}", "why": why} for key, why in error.reasons.items()
            ]
            return Problem(409, str(error), errors=errors)
        case InvalidUrl():
            return Problem(422, str(error))
        case SettingsError():
            errors = [
                {"where": f"body.values.{key}", "why": why}
                for key, _, why in (each.partition(": ") for each in error.problems)
            ]
            return Problem(422, "; ".join(error.problems), errors=errors)
        case HTTPException():
            headers = {name.lower(): value for name, value in (error.headers or {}).items()}
            ours = _DETAILS.get(error.status_code, "").format(allowed=headers.get("allow", ""))
            return Problem(error.status_code, ours or str(error.detail), -1, headers)
    return Problem(500, "the server made an error")


# What other programs watch: metrics for Prometheus, and whether this process works.
#
# ``/health/live`` says that this process answers. ``/health/ready`` says that it reaches the crawl.
# Neither needs a token, and neither tells anything about the crawl.


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
