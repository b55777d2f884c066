"""Endpoints of the frontier: seeds, URLs, leases of outside fetchers, and their results."""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from lycosa.base import calls
from lycosa.base.config.fields import fields
from lycosa.base.config.policy_texts import PolicyRule, read_interval, show_interval
from lycosa.base.config.refetch_policies import read_policy
from lycosa.base.config.units import show_seconds
from lycosa.service.api import models, outside_models
from lycosa.service.api.examples import FRONTIER_EXAMPLE, shown_as
from lycosa.service.api.overview_answer import frontier_counts
from lycosa.service.api.problems import Problem
from lycosa.service.api.request_context import caller_address, caller_name, polls_of, service_of
from lycosa.service.api.service import CrawlService
from lycosa.service.api.settings_tag import IfMatch, change_tagged, tagged_settings

_POLICY = "refetch."  # live settings with this prefix are the recrawl policy
_INTERVALS, _POLICIES = "refetch.intervals", "refetch.policies"
_LONGEST_QUEUES = 100
_LEASE_S = 120.0
_LONGEST_POLL_S = 60.0


frontier_router = APIRouter(prefix="/frontier", tags=["frontier"])


@frontier_router.post("/seed")
async def give_seeds(request: Request, body: models.SeedRequest) -> models.UrlsAnswer:
    """Give seeds. The call may be repeated: a known seed changes nothing."""
    service, by = service_of(request), caller_name(request)
    return _verdicts(await service.seed(body.urls, by, body.priority))


@frontier_router.post("/urls")
async def give_urls(request: Request, body: models.UrlsRequest) -> models.UrlsAnswer:
    """Give URLs, or announce that known ones changed; answered after the commits of their owners.

    A known URL that has `changed` becomes due by how far the source is believed at its host, never
    earlier than its policy allows.
    """
    if not service_of(request).is_meant(body.crawl_id):
        names = ", ".join(service_of(request).addressing.names)
        raise Problem(409, f"crawl_id {body.crawl_id!r}: this is another crawl: {names}")
    given = [
        calls.GivenUrl(
            url=each.url,
            priority=-1.0 if each.priority is None else each.priority,
            source_url=each.source_url,
            depth=each.depth,
            discovered_at=models.seconds_of(each.discovered_at),
        )
        for each in body.urls
    ]
    changed = frozenset(number for number, each in enumerate(body.urls) if each.changed)
    by = caller_name(request)
    return _verdicts(await service_of(request).give_urls(given, by, changed, adds=body.add_unknown))


@frontier_router.post("/renders")
async def order_renders(request: Request, body: models.RendersRequest) -> models.UrlsAnswer:
    """Render captured pages, also those that were rendered before: `accepted`, or `waiting` if they
    waited already; they come before all others. 409 when the crawl renders no pages."""
    decisions = service_of(request).decisions
    return _verdicts(await decisions.order_renders(body.urls, caller_name(request), body.why))


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
) -> outside_models.LeasesAnswer:
    """Lease URLs, each of another host. Waits for the first one until the time is over."""
    with polls_of(request).hold(caller_address(request)):
        leasing = service_of(request).leases.lease(
            worker_id, batch_size, lease_s, timeout_ms / 1000
        )
        batch, leased = await _while_connected(request, leasing)
    first_end = min((each.expires for each in leased), default=0.0)
    return outside_models.LeasesAnswer(
        lease_id=batch,
        lease_expires_at=_iso(first_end) if leased else "",
        urls=[_lease(each) for each in leased],
    )


@frontier_router.post("/results")
async def give_results(
    request: Request, body: outside_models.ResultsRequest
) -> outside_models.ResultsAnswer:
    """Return what became of leases. A lease is settled once, so the call may be repeated."""
    service = service_of(request)
    given = [_result(each, body.lease_id, service) for each in body.results]
    taken = await service.leases.give_results(body.worker_id, given)
    return outside_models.ResultsAnswer(
        results=[
            outside_models.LeaseResult(
                lease_id=asked.lease_id or "",
                url=asked.url,
                verdict=each.verdict.value,
                reason=each.reason,
            )
            for asked, each in zip(body.results, taken, strict=True)
        ]
    )


@frontier_router.get("/stats", responses=shown_as(FRONTIER_EXAMPLE, "FrontierStats"))
async def show_frontier_stats(request: Request) -> models.JsonRow:
    """URLs by state, hosts, the rate of the crawl, and the hosts with most URLs in their queues."""
    service = service_of(request)
    counts = frontier_counts(await service.status())
    longest = await service.hosts(calls.HostsQuery(sort="queue", most=_LONGEST_QUEUES))
    depths = {row["host"]: row["waiting"] for row in longest.rows if row["waiting"]}
    rate = round(service.rates().current, 3)
    return counts | {"crawl_rate": rate, "domain_queue_depths": depths}


@frontier_router.get("/recrawl-policy")
async def show_recrawl_policy(request: Request, response: Response) -> models.RecrawlAnswer:
    """The live settings that decide when a URL is fetched again. The `ETag` is the version of all
    live settings."""
    shown = tagged_settings(response, await service_of(request).settings(), _POLICY)
    rules = [
        models.RecrawlRule(
            domain=each.matcher.domain,
            pattern=each.matcher.pattern,
            interval=show_seconds(each.policy.seconds),
        )
        for each in await _intervals(request)
    ]
    progress = (await service_of(request).status()).progress
    texts = fields()[_POLICIES].read(shown.values[_POLICIES])
    return models.RecrawlAnswer(
        values=shown.values,
        policies=[
            models.RefetchRuleRow(line=line, rule=text, policy=read_policy(text).policy.show())
            for line, text in enumerate(texts, 1)
        ],
        rules=rules,
        records_left=int(progress.policy_records_left),
        promises=[
            models.PromiseRow(
                host=each.host, promised_per_day=each.promised, turns_per_day=each.turns
            )
            for each in progress.promises
        ],
    )


@frontier_router.put("/recrawl-policy")
async def set_recrawl_policy(
    request: Request, response: Response, body: models.RecrawlRequest, if_match: IfMatch = ""
) -> models.RecrawlAnswer:
    """Change that policy. Rules and fixed intervals also move the URLs that are due already, in
    the next seconds or minutes; the other settings apply from the next fetch of a URL on. What is
    not given remains."""
    if wrong := [key for key in body.values if not key.startswith(_POLICY)]:
        raise Problem(422, f"{wrong[0]} is not a setting of the recrawl policy ({_POLICY}*)")
    values = dict(body.values)
    if body.policies is not None:
        if _POLICIES in values:
            raise Problem(422, f"give {_POLICIES} or policies, not both")
        values[_POLICIES] = fields()[_POLICIES].show(tuple(body.policies))
    if body.domain or body.pattern:
        values[_INTERVALS] = await _with_rule(request, body)
    elif body.interval:
        raise Problem(422, "body.interval: give a domain or a pattern with it")
    if not values:
        raise Problem(422, "body: give values, policies, or a domain or a pattern with an interval")
    await change_tagged(request, models.SettingsRequest(values=values, why=body.why), if_match)
    return await show_recrawl_policy(request, response)


async def _intervals(request: Request) -> list[PolicyRule]:
    """The fixed intervals in force."""
    text = (await service_of(request).settings())[_INTERVALS]
    return [read_interval(each) for each in fields()[_INTERVALS].read(text)]


async def _with_rule(request: Request, body: models.RecrawlRequest) -> str:
    """The setting with the rule of the request first, in place of one for the same URLs."""
    if _INTERVALS in body.values:
        raise Problem(422, f"give {_INTERVALS} or a rule, not both")
    domain, pattern = body.domain, body.pattern
    if "://" in pattern and not domain:  # a pattern of a whole URL
        host, slash, path = pattern.partition("://")[2].partition("/")
        domain, pattern = host, slash + path
    words = (domain or "*", *([pattern] if pattern else []), body.interval or "1d")
    try:
        rule = read_interval(" ".join(words))
    except ValueError as error:
        raise Problem(422, f"body: {error}") from error
    others = [
        show_interval(each) for each in await _intervals(request) if each.matcher != rule.matcher
    ]
    own = (show_interval(rule),) if body.interval else ()
    return str(fields()[_INTERVALS].show((*own, *others)))


def _verdicts(verdicts: list[calls.GivenVerdict]) -> models.UrlsAnswer:
    def count(verdict: calls.UrlVerdict) -> int:
        return sum(each.verdict is verdict for each in verdicts)

    return models.UrlsAnswer(
        accepted=count(calls.UrlVerdict.ACCEPTED),
        duplicates=count(calls.UrlVerdict.DUPLICATE),
        rejected=count(calls.UrlVerdict.REJECTED),
        unknown=count(calls.UrlVerdict.UNKNOWN),
        sooner=count(calls.UrlVerdict.SOONER),
        results=[
            models.UrlResult(url=each.url, verdict=each.verdict.value, reason=each.reason)
            for each in verdicts
        ],
    )


def _lease(leased: calls.LeasedUrl) -> outside_models.OutsideLease:
    return outside_models.OutsideLease(
        lease_id=leased.lease,
        url=leased.url,
        host=leased.host,
        priority=leased.priority,
        address=leased.address,
        ip=leased.address,
        robots=leased.robots,
        robots_rules=outside_models.LeasedRobots(allowed=True, crawl_delay=leased.crawl_delay_s),
        crawl_delay_s=leased.crawl_delay_s,
        lease_expires_at=leased.expires,
        etag=leased.etag,
        last_modified=leased.last_modified,
    )


def _iso(wall: float) -> str:
    """A wall time in ISO 8601 with milliseconds."""
    shown = datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds")
    return shown.replace("+00:00", "Z")


def _result(
    given: outside_models.FetchResult, batch: str, service: CrawlService
) -> calls.OutsideResult:
    name = given.lease_id or given.url
    # By the id of the lease, or by the URL among the leases of one request.
    if given.lease_id:
        lease = given.lease_id
    elif batch and given.url:
        lease = service.lease_in_batch(batch, given.url)
    else:
        raise Problem(422, "a result needs its lease_id, or a url and the lease_id of the request")
    status = given.status if isinstance(given.status, int) else given.http_status
    # an error that has a status is an answer; its text is then the server's phrase
    error = "" if status and not isinstance(given.status, int) else given.error
    if given.status == "error" and not status:
        error = error or "the fetcher reports an error without a reason"
    # Two accounts of one fetch could contradict each other, and none says nothing.
    if sum(map(bool, (status, given.warc, error))) != 1:
        raise Problem(422, f"{name}: give a status, or warc, or error")
    began, ended = models.seconds_of(given.began), models.seconds_of(given.ended)
    if (took_s := given.fetch_time_ms / 1000) and not ended:
        began = began or time.time() - took_s
        ended = began + took_s
    headers = [(field, value) for field, value in given.headers]
    if given.content_type and not headers:
        headers = [("content-type", given.content_type)]
    retry_after_s = given.retry_after if given.retry_after_s is None else given.retry_after_s
    return calls.OutsideResult(
        lease=lease,
        status=status,
        headers=headers,
        body=_decoded(given.body, name),
        warc=_decoded(given.warc, name),
        error=error,
        # 0 is a statement of the server, and not the same as none.
        retry_after_s=-1.0 if retry_after_s is None else retry_after_s,
        began=began,
        ended=ended,
        missing_bytes=0 if given.body else given.content_length,
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
