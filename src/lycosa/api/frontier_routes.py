"""Endpoints of the frontier: seeds, URLs, leases of outside fetchers, and their results."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from lycosa.api.examples import FRONTIER_EXAMPLE, shown_as
from lycosa.api.models import (
    FetchResult,
    JsonRow,
    LeaseResult,
    LeasesAnswer,
    OutsideLease,
    ResultsAnswer,
    ResultsRequest,
    SeedRequest,
    SettingsAnswer,
    SettingsRequest,
    UrlResult,
    UrlsAnswer,
    UrlsRequest,
)
from lycosa.api.overview import frontier_counts
from lycosa.api.problems import Problem
from lycosa.api.requests import caller_address, caller_name, polls_of, service_of
from lycosa.api.settings_tag import IfMatch, change_tagged, tagged_settings
from lycosa.calls import GivenUrl, GivenVerdict, LeasedUrl, OutsideResult, UrlVerdict

_POLICY = "refetch."  # live settings with this prefix are the recrawl policy
_LEASE_S = 120.0
_LONGEST_POLL_S = 60.0


frontier_router = APIRouter(prefix="/frontier", tags=["frontier"])


@frontier_router.post("/seed")
async def give_seeds(request: Request, body: SeedRequest) -> UrlsAnswer:
    """Give seeds. The call may be repeated: a known seed changes nothing."""
    service, by = service_of(request), caller_name(request)
    return _verdicts(await service.seed(body.urls, by, body.priority))


@frontier_router.post("/urls")
async def give_urls(request: Request, body: UrlsRequest) -> UrlsAnswer:
    """Give URLs. They are answered for after the commits of their owners."""
    given = [
        GivenUrl(
            url=each.url,
            priority=-1.0 if each.priority is None else each.priority,
            source_url=each.source_url,
            depth=each.depth,
            discovered_at=each.discovered_at,
        )
        for each in body.urls
    ]
    return _verdicts(await service_of(request).give_urls(given, caller_name(request)))


@frontier_router.get("/next")
async def lease_urls(
    request: Request,
    worker_id: Annotated[
        str,
        Query(
            min_length=1,
            max_length=100,
            description="The name of the fetcher, which its results repeat",
            examples=["fetcher-1"],
        ),
    ],
    batch_size: Annotated[int, Query(ge=1, le=1000, description="URLs at most")] = 10,
    timeout_ms: Annotated[
        int,
        Query(
            ge=0,
            le=int(_LONGEST_POLL_S * 1000),
            description="How long to wait for the first URL; the answer can be a second later",
        ),
    ] = 10_000,
    lease_s: Annotated[
        float, Query(ge=10, le=3600, description="Seconds from now to `lease_expires_at`")
    ] = _LEASE_S,
) -> LeasesAnswer:
    """Lease URLs, each of another host. Waits for the first one until the time is over."""
    with polls_of(request).hold(caller_address(request)):
        leasing = service_of(request).lease(worker_id, batch_size, lease_s, timeout_ms / 1000)
        leased = await _while_connected(request, leasing)
    return LeasesAnswer(urls=[_lease(each) for each in leased])


@frontier_router.post("/results")
async def give_results(request: Request, body: ResultsRequest) -> ResultsAnswer:
    """Return what became of leases. A lease is settled once, so the call may be repeated."""
    given = [_result(each) for each in body.results]
    taken = await service_of(request).results(body.worker_id, given)
    return ResultsAnswer(
        results=[
            LeaseResult(lease_id=each.lease, verdict=each.verdict.value, reason=each.reason)
            for each in taken
        ]
    )


@frontier_router.get("/stats", responses=shown_as(FRONTIER_EXAMPLE, "FrontierStats"))
async def show_frontier_stats(request: Request) -> JsonRow:
    """URLs by state, and hosts."""
    return frontier_counts(await service_of(request).status())


@frontier_router.get("/recrawl-policy")
async def show_recrawl_policy(request: Request, response: Response) -> SettingsAnswer:
    """The live settings that decide when a URL is fetched again. The `ETag` is the version of all
    live settings."""
    values = await service_of(request).settings()
    return tagged_settings(response, values, _POLICY)


@frontier_router.put("/recrawl-policy")
async def set_recrawl_policy(
    request: Request, response: Response, body: SettingsRequest, if_match: IfMatch = ""
) -> SettingsAnswer:
    """Change that policy for URLs that are fetched from now on. Settings that are not given
    remain."""
    if wrong := [key for key in body.values if not key.startswith(_POLICY)]:
        raise Problem(422, f"{wrong[0]} is not a setting of the recrawl policy ({_POLICY}*)")
    await change_tagged(request, body, if_match)
    return await show_recrawl_policy(request, response)


def _verdicts(verdicts: list[GivenVerdict]) -> UrlsAnswer:
    def count(verdict: UrlVerdict) -> int:
        return sum(each.verdict is verdict for each in verdicts)

    return UrlsAnswer(
        accepted=count(UrlVerdict.ACCEPTED),
        duplicates=count(UrlVerdict.DUPLICATE),
        rejected=count(UrlVerdict.REJECTED),
        unknown=count(UrlVerdict.UNKNOWN),
        results=[
            UrlResult(url=each.url, verdict=each.verdict.value, reason=each.reason)
            for each in verdicts
        ],
    )


def _lease(leased: LeasedUrl) -> OutsideLease:
    return OutsideLease(
        lease_id=leased.lease,
        url=leased.url,
        host=leased.host,
        address=leased.address,
        robots=leased.robots,
        crawl_delay_s=leased.crawl_delay_s,
        lease_expires_at=leased.expires,
        etag=leased.etag,
        last_modified=leased.last_modified,
    )


def _result(given: FetchResult) -> OutsideResult:
    if sum(map(bool, (given.status, given.warc, given.error))) != 1:
        raise Problem(422, f"{given.lease_id}: give a status, or warc, or error")
    return OutsideResult(
        lease=given.lease_id,
        status=given.status,
        headers=[(name, value) for name, value in given.headers],
        body=_decoded(given.body, given.lease_id),
        warc=_decoded(given.warc, given.lease_id),
        error=given.error,
        retry_after_s=-1.0 if given.retry_after_s is None else given.retry_after_s,
        began=given.began,
        ended=given.ended,
    )


def _decoded(text: str, lease: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Problem(422, f"{lease}: the body is not in base64 ({error})") from error


async def _while_connected(request: Request, work: Any) -> Any:
    """The result of ``work``, which is broken off when the client is gone."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Problem(400, "the client is gone")
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)
