"""The pages that show what the crawl does."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from lycosa.base.calls import (
    ActionsQuery,
    CapturesQuery,
    ContentQuery,
    DeadLettersQuery,
    HostsQuery,
    HostUrlsQuery,
)
from lycosa.base.config.fields import fields
from lycosa.base.config.policy_texts import POLICIES
from lycosa.base.reasons import Reason
from lycosa.inspect.text_diff import lines_of, side_by_side
from lycosa.service.api.answers import CoordinatorSilent, MergedList
from lycosa.service.api.merging import decoded_about
from lycosa.service.api.overview_answer import counted_status
from lycosa.service.api.problems import Problem
from lycosa.service.api.request_context import service_of
from lycosa.service.page.chart_samples import CrawlHistory
from lycosa.service.page.limits import SILENT_S, crawl_limits
from lycosa.service.page.number_text import text_of_bytes
from lycosa.service.page.rendering import page_response, shown

_MAX = 50
_MAX_TEXT = 200_000  # bytes of a text that one page shows
_MAX_LINES = 2000  # of a text that is compared with another one
_COMPARED = ("status", "title", "language", "etag", "last-modified", "digest", "outlinks")
_LONGEST = 8192  # characters of a value in an address
_HOST_STATES = ("ready", "snoozed", "parked", "paused", "retired", "exhausted")
_URL_STATES = (
    "queued", "parked", "fetched", "redirected", "failed", "refused", "retired", "gone",
)  # fmt: skip
_SORTS = ("name", "queue", "wait", "errors")


def reading_routes(history: CrawlHistory) -> APIRouter:
    """The pages, by address."""
    router = APIRouter(include_in_schema=False)
    pages = {
        "/": _overview,
        "/overview/numbers": _numbers,
        "/hosts": _hosts,
        "/hosts/{host}": _host,
        "/urls": _url,
        "/captures": _captures,
        "/captures/diff": _diff,
        "/content": _content,
        "/dead-letters": _letters,
        "/settings": _settings,
        "/policies": _policies,
        "/actions": _actions,
        "/cluster": _cluster,
    }
    for path, endpoint in pages.items():
        router.add_api_route(path, shown(endpoint), methods=["GET"], response_model=None)

    @router.get("/charts.json")
    async def charts(request: Request) -> Response:
        history.start()
        try:
            since = float(request.query_params.get("since", "0"))
        except ValueError:
            # A damaged parameter shows everything, which a chart can always draw.
            since = 0.0
        return JSONResponse(history.columns(since), headers={"cache-control": "no-store"})

    return router


async def _overview(request: Request) -> Response:
    return page_response(request, "overview.html", **await _overview_values(request))


async def _numbers(request: Request) -> Response:
    values = await _overview_values(request)
    shown_state = _value(request, "shown")
    return page_response(request, "update.html", is_update=True, shown=shown_state, **values)


async def _overview_values(request: Request) -> dict[str, Any]:
    service = service_of(request)
    try:
        status = await service.status()
    except CoordinatorSilent as error:
        return {"stats": None, "why": str(error)}
    stats = counted_status(status, service.rates())
    slots = int((await service.settings()).get("fetch.slots", "0"))
    failures = sorted(
        (
            (label, number, Reason[label.upper()].meaning)
            for label, number in stats["failures"].items()
        ),
        key=lambda each: -each[1],
    )
    return {
        "stats": stats,
        "limits": crawl_limits(status, slots),
        "has_counts": status.progress.has_counts,
        "failures": failures[:10],
        "refusals": sorted(status.progress.rule_refusals.items(), key=lambda each: -each[1])[:10],
    }


async def _hosts(request: Request) -> Response:
    asked = HostsQuery(
        search=_value(request, "search"),
        sort=_one_of(request, "sort", _SORTS, "name"),
        state=_one_of(request, "state", ("", *_HOST_STATES), ""),
        after=_value(request, "after"),
        most=_MAX,
    )
    listing = await service_of(request).hosts(asked)
    if asked.search and not (listing.rows or listing.cursor or asked.search.startswith("*")):
        # What looks like a domain that the crawl does not know may be a part of a name.
        asked = msgspec.structs.replace(asked, search=f"*{asked.search}")
        listing = await service_of(request).hosts(asked)
    values = {"search": asked.search, "sort": asked.sort, "state": asked.state}
    return page_response(
        request,
        "hosts.html",
        asked=asked,
        search=_value(request, "search"),
        states=_HOST_STATES,
        sorts=_SORTS,
        ordered_at=listing.ordered_at,
        **_listed(listing, values),
    )


async def _host(request: Request) -> Response:
    service, name = service_of(request), request.path_params["host"]
    state = _one_of(request, "state", ("", *_URL_STATES), "")
    asked = HostUrlsQuery(name, state, _value(request, "after"), _MAX)
    found, listing = await asyncio.gather(service.host(name), service.host_urls(asked))
    if found is None:
        raise Problem(404, f"the crawl does not know the host {name}")
    return page_response(
        request,
        "host.html",
        host=found,
        asked=asked,
        states=_URL_STATES,
        **_listed(listing, {"state": asked.state}),
    )


async def _url(request: Request) -> Response:
    asked = _value(request, "url").strip()
    if not asked:
        return page_response(request, "url.html", url=None, asked="")
    found = await service_of(request).url(asked)
    if found is None:
        raise Problem(
            404, "no URL of the crawl has this hash, or it takes too long to find: use the URL"
        )
    renders = service_of(request).renders_pages()
    return page_response(request, "url.html", url=found, asked=asked, renders=renders)


async def _captures(request: Request) -> Response:
    asked = CapturesQuery(_value(request, "url"), _value(request, "after"), _MAX)
    listing = await service_of(request).captures(asked)
    return page_response(
        request, "captures.html", asked=asked, **_listed(listing, {"url": asked.url})
    )


async def _content(request: Request) -> Response:
    at = _moment(request, "at")
    asked = ContentQuery(_value(request, "url"), at, True, 0, _MAX_TEXT)
    found = await service_of(request).content(asked)
    if found.total_bytes < 0:
        raise Problem(404, "there is no such capture")
    about = decoded_about(found.about)
    return page_response(
        request,
        "content.html",
        asked=asked,
        about=about,
        text=text_of_bytes(found.body),
        total=found.total_bytes,
        is_cut=found.total_bytes > len(found.body),
        headers=text_of_bytes(str(about.get("headers", "")).encode("utf-8", "replace")),
    )


async def _diff(request: Request) -> Response:
    """Two captures of a URL side by side, by default the newest and the one before its change."""
    service, url = service_of(request), _value(request, "url")
    before, after = _moment(request, "before"), _moment(request, "after")
    if not before or not after:
        listing = await service.captures(CapturesQuery(url, "", _MAX))
        rows = [row for row in listing.rows if not after or row["date"] <= after]
        older = [row for row in rows[1:] if row["digest"] != rows[0]["digest"]] or rows[1:]
        if not older:
            raise Problem(404, "there is no other capture to compare with in the index")
        before, after = before or older[0]["date"], rows[0]["date"]
    found = await asyncio.gather(
        *(service.content(ContentQuery(url, at, True, 0, _MAX_TEXT)) for at in (before, after))
    )
    if any(each.total_bytes < 0 for each in found):
        raise Problem(404, "there is no such capture")
    (old, is_old_cut), (new, is_new_cut) = (
        lines_of(text_of_bytes(each.body), _MAX_LINES) for each in found
    )
    is_cut = is_old_cut or is_new_cut or any(each.total_bytes > _MAX_TEXT for each in found)
    abouts = [decoded_about(each.about) for each in found]
    # On a thread: long texts take a while, and other pages are served by this loop.
    lines = await asyncio.to_thread(side_by_side, old, new)
    return page_response(
        request,
        "diff.html",
        abouts=abouts,
        facts=[(name, *(_fact(each, name) for each in abouts)) for name in _COMPARED],
        lines=lines,
        is_cut=is_cut,
    )


def _fact(about: dict[str, Any], name: str) -> str:
    """A fact of a capture, or a header of its answer, as text."""
    if name in about:
        return text_of_bytes(str(about[name]).encode("utf-8", "replace"))
    for line in str(about.get("headers", "")).splitlines()[1:]:
        key, _, value = line.partition(":")
        if key.strip().lower() == name:
            return text_of_bytes(value.strip().encode("utf-8", "replace"))
    return ""


def _moment(request: Request, name: str) -> float:
    """A time in seconds since 1970, 0 if there is none."""
    try:
        return float(_value(request, name) or 0)
    except ValueError:
        raise Problem(422, f"{name}: it must be a time in seconds since 1970") from None


async def _letters(request: Request) -> Response:
    asked = DeadLettersQuery(
        _value(request, "reason"), _value(request, "host"), _value(request, "after"), _MAX
    )
    listing = await service_of(request).dead_letters(asked)
    return page_response(
        request,
        "letters.html",
        asked=asked,
        **_listed(listing, {"reason": asked.reason, "host": asked.host}),
    )


async def _settings(request: Request) -> Response:
    return await _live_settings(request, "settings.html", lambda key: not _is_policy(key))


async def _policies(request: Request) -> Response:
    service = service_of(request)
    texts = fields()[POLICIES].read((await service.settings())[POLICIES])
    progress = (await service.status()).progress
    return await _live_settings(
        request,
        "policies.html",
        lambda key: _is_policy(key) and key != POLICIES,
        policies="\n".join(texts),
        left=progress.policy_records_left,
        promises=progress.promises,
        price=progress.meter.number("lycosa_refetch_price"),
        budget=progress.meter.number("lycosa_refetch_budget"),
        bound=progress.meter.whole("lycosa_refetch_bound_hosts"),
        planned=sum(progress.meter.numbers.get("lycosa_refetches_planned", {}).values()),
    )


def _is_policy(key: str) -> bool:
    return key.startswith("refetch.")


async def _live_settings(request: Request, template: str, is_shown: Any, **more: Any) -> Response:
    known = fields()
    rows = [
        (
            key,
            value,
            known[key].meaning,
            " ".join((known[key].type_text, known[key].bound_text)).strip(),
        )
        for key, value in (await service_of(request).settings()).items()
        if is_shown(key)
    ]
    return page_response(request, template, rows=rows, **more)


async def _actions(request: Request) -> Response:
    listing = await service_of(request).actions(ActionsQuery(_value(request, "after"), _MAX))
    return page_response(request, "actions.html", **_listed(listing, {}))


async def _cluster(request: Request) -> Response:
    status = await service_of(request).status()
    return page_response(request, "cluster.html", status=status, silent_s=SILENT_S)


def _listed(listing: MergedList, values: dict[str, str]) -> dict[str, Any]:
    """What every list shows; ``values`` are those of the address."""
    return {
        "listing": listing,
        "rows": listing.rows,
        "next": {**values, "after": listing.cursor} if listing.cursor else None,
    }


def _value(request: Request, name: str) -> str:
    return request.query_params.get(name, "")[:_LONGEST]


def _one_of(request: Request, name: str, allowed: tuple[str, ...], default: str) -> str:
    value = _value(request, name)
    return value if value in allowed else default
