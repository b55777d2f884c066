"""Templates, and the headers that every page has.

The templates escape everything that they insert. If one of them had a fault nevertheless, the
security policy would still forbid the browser to run what is inserted: scripts come from files of
this package only.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from fastapi import Request
from fastapi.responses import HTMLResponse, Response

from lycosa.base.config.sources import SettingsError
from lycosa.base.system.durations import short_duration
from lycosa.base.urls.identity import InvalidUrl
from lycosa.base.urls.near_hosts import HostUnknown
from lycosa.cluster.coordinator.crawl_metrics import crawl_state
from lycosa.service.api.answers import (
    CoordinatorSilent,
    OwnerSilent,
    ServiceBusy,
    ServiceRefusal,
    SettingsChanged,
)
from lycosa.service.api.app import problem_of
from lycosa.service.api.problems import TITLES, Problem
from lycosa.service.api.request_context import service_of
from lycosa.service.api.tokens import AccessScope, Client
from lycosa.service.page.number_text import ago_text, count_text, label_text, size_text, time_text

PAGE_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
"""The Content-Security-Policy: everything from this server, and no script inside a page."""

_EXPECTED = (
    Problem,
    OwnerSilent,
    CoordinatorSilent,
    ServiceBusy,
    ServiceRefusal,
    HostUnknown,
    SettingsChanged,
    SettingsError,
    InvalidUrl,
)
NOTICES = {
    "paused": "The crawl is paused: requests in flight end, and none begins.",
    "resumed": "The crawl runs again.",
    "stopping": "The crawl ends. It can be resumed.",
    "host": "The decision about this host is committed.",
    "letters": "The decision about these dead letters is committed.",
    "none": "Nothing was changed: there was nothing left to decide.",
    "same": "Nothing was changed: all values are those that the page showed.",
    "settings": "The settings are changed; all workers receive them.",
    "render": "The page is rendered as soon as a renderer takes it.",
    "seeded": "The seeds are given to the crawl.",
}
"""What a page says after a form, by the value of ``notice`` in its address."""


@cache
def _templates() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("lycosa.service.page"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        count=count_text,
        size=size_text,
        span=short_duration,
        time=time_text,
        ago=ago_text,
        label=label_text,
        query=lambda values: urlencode({k: v for k, v in values.items() if v not in ("", None)}),
        # a name with a port, or an address in brackets, as one segment of a path
        segment=lambda text: quote(str(text), safe=""),
        # one word of a command, whatever a URL has in it
        shell=lambda text: shlex.quote(str(text)),
    )
    return found


def page_response(
    request: Request, template: str, http_status: int = 200, **values: Any
) -> Response:
    """A page made of a template."""
    client: Client | None = getattr(request.state, "client", None)
    common = {
        "path": request.url.path,
        "notice": NOTICES.get(request.query_params.get("notice", ""), ""),
        "client": client.name if client else "",
        "may_operate": client is not None and client.scope >= AccessScope.OPERATE,
        "state": _state(request),
    }
    body = _templates().get_template(template).render(**common | values)
    headers = {"content-security-policy": PAGE_POLICY, "cache-control": "no-store"}
    return HTMLResponse(body, http_status, headers)


def _state(request: Request) -> str:
    try:
        return crawl_state(service_of(request).watch.status())
    except CoordinatorSilent:
        return "not running"


def _own_address(request: Request) -> str:
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


def error_page(request: Request, problem: Problem) -> Response:
    title = TITLES.get(problem.status, ("", "The request failed"))[1]
    is_question = request.method == "GET" and problem.retry_s >= 0
    answer = page_response(
        request,
        "error.html",
        problem.status,
        title=title,
        detail=problem.detail,
        again=_own_address(request) if is_question else "",
    )
    if problem.retry_s >= 0:
        answer.headers["retry-after"] = problem.header_lines()["retry-after"]
    return answer


Endpoint = Callable[[Request], Awaitable[Response]]


def shown(endpoint: Endpoint) -> Endpoint:
    """The endpoint with its errors as pages."""

    async def page(request: Request) -> Response:
        try:
            return await endpoint(request)
        except _EXPECTED as error:
            return error_page(request, problem_of(error))

    page.__name__ = endpoint.__name__
    return page
