"""Endpoints that give one page at once: fetched by the crawl, in its turn, if it has no fresh copy.

The URL passes the scope, robots.txt and the guard like any other, and the page is stored like any
other. A caller waits for the delay of its host, for at most a minute; then the answer is an id
with which to ask again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from lycosa.base import calls
from lycosa.base.model.url_state import UrlState
from lycosa.base.urls.identity import InvalidUrl
from lycosa.service.api.examples import SCRAPED_EXAMPLE, Documented, shown_as
from lycosa.service.api.merging import decoded_about
from lycosa.service.api.models import EXAMPLE_URL, Asked, JsonRow
from lycosa.service.api.problems import Problem
from lycosa.service.api.request_context import caller_name, scrapes_of, service_of
from lycosa.service.api.service import CrawlService

_LONGEST_WAIT_S = 60.0
_LOOK_S, _SLOWEST_LOOK_S = 0.25, 2.0  # between looks at the state of a URL
_MOST_HOPS = 5  # redirects
_TEXT_BYTES = 4 << 20
_REFUSED = ("refused_by_scope", "refused_by_trap")
"""Explanations of a URL without a record, which a rule of the crawl refuses."""
_WAITING = (UrlState.QUEUED.label, UrlState.PARKED.label)
_NEVER_REQUESTED = (UrlState.REFUSED.label, UrlState.RETIRED.label)
_SHOWN = (
    *("status", "date", "title", "language", "media_type", "digest", "record_id", "may_use"),
    *("parse_reason", "outlinks", "links", "privacy"),
)

_RESPONSES: Documented = {
    **shown_as(SCRAPED_EXAMPLE, "ScrapedPage"),
    202: {"description": "It waits for its turn"},
}

scrape_router = APIRouter(prefix="/scrape", tags=["pages"])


class ScrapeRequest(Asked):
    """A page that is wanted now."""

    url: str = Field(max_length=10_000, description="Its URL", examples=[EXAMPLE_URL])
    max_age_s: float = Field(
        86_400.0,
        ge=0,
        le=1e9,
        description="A stored copy of at most this age is the answer; 0 asks for a new one",
    )
    wait_s: float = Field(
        _LONGEST_WAIT_S,
        ge=0,
        le=_LONGEST_WAIT_S,
        description="How long to wait for the page; then the answer is 202",
    )
    has_links: bool = Field(False, description="Whether the answer lists the links of the page")


@scrape_router.post("", responses=_RESPONSES)
async def scrape_page(request: Request, body: ScrapeRequest, response: Response) -> JsonRow:
    """One page as text: a fresh copy, or fetched by the crawl when the delay of its host allows.

    At most 20 requests of a client wait. `state` is `fetched`, `failed`, `refused`, `gone` or
    `retired` with `reason`, or with 202 `queued`: ask `GET /scrape/{id}` again later."""
    service, by = service_of(request), caller_name(request)
    url = service.addressing.canonical(body.url)
    # Times of fetches are whole seconds: one that ends in the second of the question is new.
    since = float(int(time.time() - body.max_age_s))
    page = await _fresh_page(service, url, since)
    # Its host was retired earlier, and may be there again.
    if page is None or page["state"] == UrlState.RETIRED.label:
        with scrapes_of(request).hold(by):
            if not await _give(service, url, by):
                since = 0.0  # it is not fetched again now: what there is
            page = await _page_within(service, url, since, body.wait_s, request.is_disconnected)
    return await _answered(service, page, url, response, body.has_links)


@scrape_router.get("/{id}", responses=_RESPONSES)
async def show_scraped_page(
    request: Request,
    response: Response,
    id: str = Path(
        pattern="^[0-9a-f]{32}$",
        description="`id` of an answer",
        examples=["d847e26d48a2f35302dd5537d58f0c1b"],
    ),
    links: Literal["yes", "no"] = "no",
) -> JsonRow:
    """The newest copy of a page that was asked for, without waiting."""
    service = service_of(request)
    record = await _record_of(service, id)
    if not record:
        raise Problem(404, "no URL of the crawl has this id")
    url = str(record["url"])
    page = await _fresh_page(service, url, 0.0)
    return await _answered(service, page, url, response, links == "yes")


async def _give(service: CrawlService, url: str, by: str) -> bool:
    """Have a URL fetched; return whether it will be, which those that ended for good are not.

    Raises ``Problem`` if it is refused.
    """
    verdict = await service.want_page(url, by)
    if verdict.verdict is calls.UrlVerdict.REJECTED:
        raise Problem(409, f"the crawl does not take {url}: {verdict.reason}")
    if verdict.verdict is calls.UrlVerdict.UNKNOWN:
        raise Problem(503, verdict.reason or "the owner of the host does not answer", 2.0)
    return verdict.verdict is not calls.UrlVerdict.ENDED


async def _page_within(
    service: CrawlService,
    url: str,
    since: float,
    wait_s: float,
    is_gone: Callable[[], Awaitable[bool]],
) -> JsonRow | None:
    """The page, looked for until the time is over or the client ``is_gone``; ``None`` then."""
    until, look_s = time.monotonic() + wait_s, _LOOK_S
    while True:
        if (page := await _fresh_page(service, url, since)) is not None:
            return page
        left = until - time.monotonic()
        if left <= 0 or await is_gone():
            return None
        await asyncio.sleep(min(look_s, left))
        look_s = min(look_s * 1.5, _SLOWEST_LOOK_S)


async def _fresh_page(service: CrawlService, url: str, since: float) -> JsonRow | None:
    """How a URL ended that was fetched since then, over its redirects; ``None`` if it has not."""
    asked, hops = url, list[str]()
    while True:
        row = await service.url(url) or {}
        record: dict[str, Any] = row.get("record") or {}
        state = record.get("state", "")
        if hops and not record and row.get("verdict") in _REFUSED:
            return {"asked": asked, "redirects": hops, **_refused_target(url, row)}
        # a URL that was never requested has no time
        is_old = record.get("fetched_at", 0) < since and state not in _NEVER_REQUESTED
        if not state or state in _WAITING or is_old:
            return None
        if state == UrlState.RETIRED.label:
            return {"asked": asked, "redirects": hops, **_ending(record), **_reason_in(row)}
        if state != UrlState.REDIRECTED.label or len(hops) >= _MOST_HOPS:
            return {"asked": asked, "redirects": hops, **_ending(record)}
        hops.append(url)
        try:
            url = service.addressing.canonical(str(record["redirect_to"]))
        except InvalidUrl:
            return {"asked": asked, "redirects": hops, **_ending(record)}


async def _record_of(service: CrawlService, url: str) -> dict[str, Any]:
    """The record of a URL, empty if the crawl does not know it."""
    row = await service.url(url)
    record: dict[str, Any] = (row or {}).get("record") or {}
    return record


def _refused_target(url: str, row: JsonRow) -> JsonRow:
    """How a redirect ended whose target the crawl does not take, by the explanation of that."""
    detail = f"{row['facts']['rule']}: {row['facts']['value']}"
    about = {"url": url, "id": "", "state": UrlState.REFUSED.label}
    return about | _reason_in(row) | {"detail": detail}


def _reason_in(row: JsonRow) -> JsonRow:
    """The reason that the explanation of a URL gives, as that of its host."""
    facts = row["facts"]
    return {
        "reason": facts["reason"],
        "meaning": row["texts"]["reason"],
        "detail": facts.get("detail") or "",
    }


def _ending(record: dict[str, Any]) -> JsonRow:
    named = ("url", "id", "state", "reason", "meaning", "detail")
    return {name: record.get(name, "") for name in named}


async def _answered(
    service: CrawlService, page: JsonRow | None, url: str, response: Response, has_links: bool
) -> JsonRow:
    """The answer: the page with its text, or that it waits."""
    if page is None:
        record = await _record_of(service, url)
        response.status_code = 202
        response.headers["retry-after"] = "10"
        return {"asked": url, "redirects": [], **_ending(record or {"url": url})}
    if page["state"] not in (UrlState.FETCHED.label, UrlState.GONE.label):
        return page
    found = await service.content(calls.ContentQuery(page["id"], 0.0, True, 0, _TEXT_BYTES))
    if found.total_bytes < 0:
        return page
    about = decoded_about(found.about)
    shown = {name: about[name] for name in _SHOWN if name in about}
    if not has_links:
        shown.pop("links", None)
    text = found.body.decode("utf-8", "ignore")
    return page | shown | {"text": text, "is_cut": len(found.body) < found.total_bytes}
