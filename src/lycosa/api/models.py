"""The JSON of requests and answers, as OpenAPI describes it.

Rows of hosts, URLs and captures are described in docs/api.md; their fields can grow, so a client
ignores those that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetPydanticSchema
from pydantic_core import core_schema

from lycosa.calls import MOST_WORDS
from lycosa.reasons import Reason

_MOST_URLS = 1000
"""The maximum number of URLs of one request."""
JsonRow = dict[str, Any]
Remark = Annotated[
    str,
    Field(
        max_length=MOST_WORDS,
        description="A remark, which the log of actions and `explain` show",
        examples=["mail of 3 May"],
    ),
]
Fraction = Annotated[float, Field(ge=0, le=1)]


def one_of(labels: Iterable[str]) -> GetPydanticSchema:
    """The marker of a text that is one of these labels, or empty."""
    schema = core_schema.literal_schema(["", *labels])
    return GetPydanticSchema(lambda source, handler: schema)


ReasonLabel = Annotated[str, one_of(reason.label for reason in Reason if reason)]
LeaseId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=300,
        description="As `GET /frontier/next` gave it",
        examples=["3-22e1b0f0a0de6a06a1e4f3c7d2b15a09-1795368318000-5c0ffee5"],
    ),
]
_EXAMPLE = "https://example.org/a?b=c"
_EXAMPLE_SETTING = "refetch.first_s"  # may be given to both addresses that take settings


class Asked(BaseModel):
    """A request: an unknown field is an error, because it may be a misspelt one."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ProblemAnswer(BaseModel):
    """An error, as RFC 9457 has it."""

    type: str = Field(description="urn:lycosa:problem:NAME; the names are in docs/api.md")
    title: str = Field(description="The same text for every problem of this type")
    status: int = Field(description="The HTTP status")
    detail: str = Field(description="What is wrong with this request, and what to do")
    instance: str = Field(description="The path of the request")
    errors: list[JsonRow] | None = Field(
        None, description="Values that are not allowed: `where` each is, and `why` it is refused"
    )

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "type": "urn:lycosa:problem:invalid",
                "title": "A value is not allowed",
                "status": 422,
                "detail": "query.most: Input should be less than or equal to 1000",
                "instance": "/api/v1/hosts",
                "errors": [
                    {"where": "query.most", "why": "Input should be less than or equal to 1000"}
                ],
            }
        }
    )


class SeedRequest(Asked):
    """Seeds. Their hosts join the scope of the crawl, as those of ``lycosa crawl`` do."""

    urls: list[str] = Field(
        min_length=1,
        max_length=_MOST_URLS,
        description="1 to 1,000 URLs; each has its own verdict",
        examples=[["https://example.org/", "https://www.example.net/news/"]],
    )
    priority: Fraction | None = Field(
        None,
        description="In the queue of its host, 1 first; without it the seed is among the first",
        examples=[0.8],
    )


class NewUrl(Asked):
    """A URL that another program found."""

    url: str = Field(description="Any spelling of it", examples=[_EXAMPLE])
    priority: Fraction | None = Field(
        None,
        description="In the queue of its host, 1 first; without it that of an ordinary link",
        examples=[0.8],
    )
    source_url: str = Field(
        "",
        max_length=8192,
        description="The page that links to it",
        examples=["https://example.org/"],
    )
    depth: int = Field(0, ge=0, le=1000, description="Links followed since a seed", examples=[1])
    discovered_at: float = Field(
        0, ge=0, le=1e11, description="Seconds since 1970; 0 is now", examples=[1795368318]
    )


class UrlsRequest(Asked):
    """URLs for the frontier."""

    urls: list[NewUrl] = Field(
        min_length=1,
        max_length=_MOST_URLS,
        description="1 to 1,000 URLs; each has its own verdict",
    )


class UrlResult(BaseModel):
    """What became of a URL: ``unknown`` means that its owner did not answer; give it again."""

    url: str = Field(description="As it was given", examples=[_EXAMPLE])
    verdict: Literal["accepted", "duplicate", "rejected", "unknown"] = Field(
        description="For a seed, `accepted` also when it was known"
    )
    reason: str = Field(description="Why it was not accepted", examples=[""])


class UrlsAnswer(BaseModel):
    """The results, in the order of the URLs, after the commits that hold them."""

    accepted: int = Field(description="Results with the verdict `accepted`", examples=[1])
    duplicates: int = Field(description="URLs that the crawl knew", examples=[0])
    rejected: int = Field(description="URLs that the crawl refuses", examples=[0])
    unknown: int = Field(description="URLs to give again", examples=[0])
    results: list[UrlResult] = Field(description="One for each URL, in their order")


class OutsideLease(BaseModel):
    """A URL that its holder may request once before ``lease_expires_at`` (seconds since 1970)."""

    lease_id: LeaseId
    url: str = Field(examples=[_EXAMPLE], description="To be requested once, without redirects")
    host: str = Field(examples=["example.org"], description="With its port, if it is not the usual")
    address: str = Field(description="The IP address to connect to", examples=["192.0.2.7"])
    robots: str = Field(
        description="The rule of robots.txt that allows the URL, and the version of the file",
        examples=["line 3 (Allow: /a) (robots.txt YR6M6GSJYJGMLBBEGCVHLRZO6SISSJAS)"],
    )
    crawl_delay_s: float = Field(
        description="What the crawl waits after the result before it lends the host again",
        examples=[1.05],
    )
    lease_expires_at: float = Field(description="Seconds since 1970", examples=[1795368318.5])
    etag: str = Field(description="For `If-None-Match`; empty without an earlier fetch")
    last_modified: str = Field(description="For `If-Modified-Since`; empty without one")


class LeasesAnswer(BaseModel):
    """Leased URLs, none when nothing could be leased in time."""

    urls: list[OutsideLease] = Field(description="At most `batch_size`, each of another host")


class FetchResult(Asked):
    """What became of a lease: an answer by its parts, a WARC response record, or an error."""

    lease_id: LeaseId
    status: int = Field(
        0, ge=0, le=999, description="The status code; 0 with warc or error", examples=[200]
    )
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
    began: float = Field(
        0, ge=0, le=1e11, description="Seconds since 1970; 0 is now", examples=[1795368300.1]
    )
    ended: float = Field(
        0, ge=0, le=1e11, description="Seconds since 1970; 0 is not known", examples=[1795368300.4]
    )


class ResultsRequest(Asked):
    """Results of one fetcher."""

    worker_id: str = Field(
        "", max_length=100, description="As it was given for the leases", examples=["fetcher-1"]
    )
    results: list[FetchResult] = Field(
        min_length=1, max_length=_MOST_URLS, description="1 to 1,000; each has its own verdict"
    )


class LeaseResult(BaseModel):
    """What became of a result: after ``late`` the URL is in its queue again."""

    lease_id: LeaseId
    verdict: Literal["taken", "late", "unknown", "refused"] = Field(
        description="`unknown`: no such lease of this worker, or its owner did not answer;"
        " `refused`: the result cannot be read, and the lease remains"
    )
    reason: str = Field(description="Why it was not taken", examples=[""])


class ResultsAnswer(BaseModel):
    """The verdicts, in the order of the results."""

    results: list[LeaseResult] = Field(description="One for each result, in their order")


class RowsPage(BaseModel):
    """A piece of a list. ``cursor`` continues it; it is empty at the end."""

    rows: list[JsonRow] = Field(description="Objects, which docs/api.md describes")
    cursor: str = Field(description="For the next request; empty at the end of the list")
    wall: float = Field(description="The time of the oldest commit that was read")
    is_partial: bool = Field(
        description="A time budget ended the search, so rows may be missing; cursor, if there is"
        " one, continues it"
    )
    silent: list[int] = Field(description="Partitions whose owner did not answer")


class WhyRequest(Asked):
    """A remark for the log of actions."""

    why: Remark = ""


class HostRequest(WhyRequest):
    """A remark, and which hosts the decision may be about."""

    whole_site: bool = Field(
        False, description="Decide about all hosts of its site that the crawl knows now"
    )
    new: bool = Field(False, description="Also about a host that the crawl has not met")


class ChangeAnswer(BaseModel):
    """How many hosts the decision changed, after its commit."""

    changed: int = Field(description="0 when all of them were in that state", examples=[1])
    hosts: list[str] = Field(
        description="The hosts that it is about, 100 at most", examples=[["www.example.org"]]
    )


class LettersAnswer(BaseModel):
    """How many URLs the decision changed so far, after the commits.

    Unless it `is_complete`, the same request with `call` continues it.
    """

    changed: int = Field(description="URLs so far", examples=[1])
    is_complete: bool = Field(description="Whether no more are left to decide", examples=[True])
    call: str = Field(description="For the request that continues it", examples=[""])


class LettersRequest(Asked):
    """A decision about dead letters: those with these hashes, or of a reason, or of a host.

    `call` is that of an answer that was not complete.
    """

    action: Literal["retry", "drop"] = Field(
        description="`retry` queues the URLs again, with their tries counted from zero;"
        " `drop` takes them off the list"
    )
    hashes: list[Annotated[str, Field(pattern="^[0-9a-f]{16}$")]] = Field(
        [],
        max_length=_MOST_URLS,
        description="`url_hash` of rows",
        examples=[["31227730f2d02a16"]],
    )
    reason: ReasonLabel = Field("", description="Those of this reason", examples=[""])
    host: str = Field("", max_length=300, description="Those of this host", examples=[""])
    why: Remark = ""
    call: str = Field(
        "",
        pattern=r"^(api [0-9a-f]{32})?$",
        description="Of an answer that was not complete, to continue it",
        examples=[""],
    )


class SettingsAnswer(BaseModel):
    """Live settings by name; values are texts as in a settings file."""

    values: dict[str, str] = Field(
        description="Those in force", examples=[{"politeness.delay_s": "1s"}]
    )


class SettingsRequest(WhyRequest):
    """Live settings to change."""

    values: dict[Annotated[str, Field(max_length=100)], Annotated[str, Field(max_length=1000)]] = (
        Field(
            min_length=1,
            max_length=100,
            description="Names and values, as texts of a settings file",
            examples=[{_EXAMPLE_SETTING: "7d"}],
        )
    )


class StopRequest(WhyRequest):
    """How to stop: with ``at_once`` requests in flight are broken off."""

    at_once: bool = Field(
        default=False, description="Break off requests in flight", examples=[False]
    )


class StateAnswer(BaseModel):
    """The request was recorded and is followed."""

    state: Literal["running", "paused", "stopping", "stopped"] = Field(
        description="The state of the crawl"
    )
