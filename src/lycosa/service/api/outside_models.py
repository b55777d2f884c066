"""The JSON of outside fetchers: leases, and what became of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from lycosa.service.api.models import EXAMPLE_URL, MAX_GIVEN_URLS, Asked, Moment

LeaseId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=300,
        description="As `GET /frontier/next` gave it",
        examples=["3-22e1b0f0a0de6a06a1e4f3c7d2b15a09-1795368318000-5c0ffee5"],
    ),
]


_OWN = "Not used: the crawl finds it in the body"


class LeasedRobots(BaseModel):
    """What robots.txt says about a leased URL."""

    allowed: bool = Field(description="Always true: other URLs are not leased")
    crawl_delay: float = Field(description="As `crawl_delay_s` of the lease", examples=[1.05])


class OutsideLease(BaseModel):
    """A URL that its holder may request once before ``lease_expires_at`` (seconds since 1970)."""

    lease_id: LeaseId
    url: str = Field(examples=[EXAMPLE_URL], description="To be requested once, without redirects")
    host: str = Field(examples=["example.org"], description="With its port, if it is not the usual")
    priority: float = Field(description="Its importance in the queue, 0 to 1", examples=[0.85])
    address: str = Field(description="The IP address to connect to", examples=["192.0.2.7"])
    ip: str = Field(description="The same as `address`", examples=["192.0.2.7"])
    robots: str = Field(
        description="The rule of robots.txt that allows the URL, and the version of the file",
        examples=["line 3 (Allow: /a) (robots.txt YR6M6GSJYJGMLBBEGCVHLRZO6SISSJAS)"],
    )
    robots_rules: LeasedRobots = Field(description="The decision of robots.txt by its parts")
    crawl_delay_s: float = Field(
        description="What the crawl waits after the result before it lends the host again",
        examples=[1.05],
    )
    lease_expires_at: float = Field(description="Seconds since 1970", examples=[1795368318.5])
    etag: str = Field(description="For `If-None-Match`; empty without an earlier fetch")
    last_modified: str = Field(description="For `If-Modified-Since`; empty without one")


class LeasesAnswer(BaseModel):
    """Leased URLs, none when nothing could be leased in time."""

    lease_id: str = Field(
        description="Of all of them together: a result may give it with its URL",
        examples=["5f0c61a2b0d94b3fa1f0f6e2b3c4d5e6"],
    )
    lease_expires_at: str = Field(
        description="The first end of a lease among them, in ISO 8601; empty without URLs",
        examples=["2026-11-23T00:22:51.250Z"],
    )
    urls: list[OutsideLease] = Field(description="At most `batch_size`, each of another host")


class FetchResult(Asked):
    """What became of a lease: an answer by its parts, a WARC response record, or an error.

    A result has a `lease_id`, or the request has that of the whole answer of `GET /frontier/next`
    and the result a `url`. A result without the body of an answer that has one (`content_length`)
    is stored as a truncated capture.
    """

    lease_id: LeaseId | None = None
    url: str = Field("", max_length=8192, description="As it was leased", examples=[""])
    status: Annotated[int, Field(ge=0, le=999)] | Literal["success", "error"] = Field(
        0,
        description="The status code; 0 with warc or error. Or `success` or `error`, with the code"
        " in `http_status`",
        examples=[200],
    )
    http_status: int = Field(0, ge=0, le=999, description="The status code", examples=[0])
    content_type: str = Field(
        "",
        max_length=500,
        description="Of an answer whose headers are not given",
        examples=[""],
    )
    content_length: int = Field(
        0, ge=0, le=1 << 50, description="Bytes of a body that is not given", examples=[0]
    )
    fetch_time_ms: float = Field(
        0, ge=0, le=1e9, description="Duration of the request, without `ended`", examples=[0]
    )
    content_hash: str = Field("", max_length=200, description=_OWN, examples=[""])
    simhash: str = Field("", max_length=200, description=_OWN, examples=[""])
    links_found: int = Field(0, ge=0, description=_OWN, examples=[0])
    is_duplicate: bool = Field(default=False, description=_OWN, examples=[False])
    headers: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(
        [],
        max_length=500,
        description="Names with values, as received",
        examples=[[["content-type", "text/html"]]],
    )
    body: str = Field(
        "", description="The body as received, in base64", examples=["PHA+SGVsbG88L3A+"]
    )
    warc: str = Field(
        "",
        description="A response record of WARC, plain or as a gzip member, in base64",
        examples=[""],
    )
    error: str = Field(
        "",
        max_length=500,
        description="Why there is no answer: a reason of `explain` such as `connect_timeout`, or"
        " any text",
        examples=[""],
    )
    retry_after_s: float | None = Field(
        None,
        ge=0,
        le=1e9,
        description="How long the server asks to wait; without it, `Retry-After` of the headers",
        examples=[None],
    )
    retry_after: float | None = Field(
        None, ge=0, le=1e9, description="The same as `retry_after_s`", examples=[None]
    )
    began: Moment = Field(
        0, description="Seconds since 1970, or ISO 8601; 0 is now", examples=[1795368300.1]
    )
    ended: Moment = Field(
        0, description="Seconds since 1970, or ISO 8601; 0 is not known", examples=[1795368300.4]
    )


class ResultsRequest(Asked):
    """Results of one fetcher."""

    worker_id: str = Field(
        "", max_length=100, description="As it was given for the leases", examples=["fetcher-1"]
    )
    lease_id: str = Field(
        "",
        max_length=100,
        description="Of the answer of `GET /frontier/next`, for results that have only a URL",
        examples=[""],
    )
    results: list[FetchResult] = Field(
        min_length=1, max_length=MAX_GIVEN_URLS, description="1 to 1,000; each has its own verdict"
    )


class LeaseResult(BaseModel):
    """What became of a result: after ``late`` the URL is in its queue again."""

    lease_id: str = Field(description="As the result gave it, or empty", examples=[""])
    url: str = Field("", description="As the result gave it, or empty", examples=[""])
    verdict: Literal["taken", "late", "unknown", "refused"] = Field(
        description="`unknown`: no such lease of this worker, or its owner did not answer;"
        " `refused`: the result cannot be read, and the lease remains"
    )
    reason: str = Field(description="Why it was not taken", examples=[""])


class ResultsAnswer(BaseModel):
    """The verdicts, in the order of the results."""

    results: list[LeaseResult] = Field(description="One for each result, in their order")
