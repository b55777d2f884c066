"""The JSON of requests and answers, as OpenAPI describes it.

Rows of hosts, URLs and captures are described in docs/api.md; their fields can grow, so a client
ignores those that it does not know.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from lycosa.calls import MOST_WORDS

_MOST_URLS = 1000
"""The maximum number of URLs of one request."""
JsonRow = dict[str, Any]
UrlText = Annotated[str, Field(min_length=1, max_length=8192)]
ShortText = Annotated[str, Field(max_length=MOST_WORDS)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Asked(BaseModel):
    """A request: an unknown field is an error, because it may be a misspelt one."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ProblemAnswer(BaseModel):
    """An error, as RFC 9457 has it."""

    type: str = Field(description="urn:lycosa:problem:NAME; the names are in docs/api.md")
    title: str
    status: int
    detail: str
    instance: str
    errors: list[JsonRow] | None = Field(None, description="Values that are not allowed")


class SeedRequest(Asked):
    """Seeds. Their hosts join the scope of the crawl, as those of ``lycosa crawl`` do."""

    urls: list[UrlText] = Field(min_length=1, max_length=_MOST_URLS)
    priority: Fraction | None = Field(
        None, description="In the queue of its host; without it the seed is among the first"
    )


class NewUrl(Asked):
    """A URL that another program found."""

    url: UrlText
    priority: Fraction | None = Field(None, description="Without it that of an ordinary link")
    source_url: str = Field("", max_length=8192, description="The page that links to it")
    depth: int = Field(0, ge=0, le=1000, description="Links followed since a seed")
    discovered_at: float = Field(0, ge=0, le=1e11, description="Seconds since 1970; 0 is now")


class UrlsRequest(Asked):
    """URLs for the frontier."""

    urls: list[NewUrl] = Field(min_length=1, max_length=_MOST_URLS)


class UrlResult(BaseModel):
    """What became of a URL: ``unknown`` means that its owner did not answer; give it again."""

    url: str
    verdict: Literal["accepted", "duplicate", "rejected", "unknown"]
    reason: str


class UrlsAnswer(BaseModel):
    """The results, in the order of the URLs, after the commits that hold them."""

    accepted: int
    duplicates: int
    rejected: int
    unknown: int
    results: list[UrlResult]


class OutsideLease(BaseModel):
    """A URL that its holder may request once before ``lease_expires_at`` (seconds since 1970)."""

    lease_id: str
    url: str
    host: str
    address: str = Field(description="The IP address to connect to")
    robots: str = Field(description="The rule of robots.txt that allows the URL")
    crawl_delay_s: float
    lease_expires_at: float
    etag: str
    last_modified: str


class LeasesAnswer(BaseModel):
    """Leased URLs, none when nothing could be leased in time."""

    urls: list[OutsideLease]


class FetchResult(Asked):
    """What became of a lease: an answer by its parts, a WARC response record, or an error."""

    lease_id: str = Field(min_length=1, max_length=300)
    status: int = Field(0, ge=0, le=599, description="The status code; 0 with warc or error")
    headers: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(
        [], max_length=500, description="Names with values"
    )
    body: str = Field("", description="The body as received, in base64")
    warc: str = Field("", description="A response record of WARC 1.1, in base64")
    error: str = Field("", max_length=500)
    retry_after_s: float | None = Field(None, ge=0, le=1e9)
    began: float = Field(0, ge=0, le=1e11, description="Seconds since 1970")
    ended: float = Field(0, ge=0, le=1e11)


class ResultsRequest(Asked):
    """Results of one fetcher."""

    worker_id: str = Field("", max_length=100)
    results: list[FetchResult] = Field(min_length=1, max_length=_MOST_URLS)


class LeaseResult(BaseModel):
    """What became of a result: after ``late`` the URL is in its queue again."""

    lease_id: str
    verdict: Literal["taken", "late", "unknown", "refused"]
    reason: str


class ResultsAnswer(BaseModel):
    """The verdicts, in the order of the results."""

    results: list[LeaseResult]


class RowsPage(BaseModel):
    """A piece of a list. ``cursor`` continues it; it is empty at the end."""

    rows: list[JsonRow]
    cursor: str
    wall: float = Field(description="The time of the oldest commit that was read")
    is_partial: bool = Field(
        description="A time budget ended the search, so rows may be missing; cursor, if there is"
        " one, continues it"
    )
    silent: list[int] = Field(description="Partitions whose owner did not answer")


class WhyRequest(Asked):
    """A remark for the log of actions."""

    why: ShortText = ""


class ChangeAnswer(BaseModel):
    """How many hosts or URLs the decision changed, after its commit."""

    changed: int


class LettersAnswer(BaseModel):
    """How many URLs the decision changed so far, after the commits.

    Unless it `is_complete`, the same request with `call` continues it.
    """

    changed: int
    is_complete: bool
    call: str


class LettersRequest(Asked):
    """A decision about dead letters: those with these hashes, or of a reason, or of a host.

    `call` is that of an answer that was not complete.
    """

    action: Literal["retry", "drop"]
    hashes: list[Annotated[str, Field(pattern="^[0-9a-f]{16}$")]] = Field([], max_length=_MOST_URLS)
    reason: str = Field("", max_length=100)
    host: str = Field("", max_length=300)
    why: ShortText = ""
    call: str = Field("", pattern=r"^(api [0-9a-f]{32})?$")


class SettingsAnswer(BaseModel):
    """Live settings by name; values are texts as in a settings file."""

    values: dict[str, str]


class SettingsRequest(WhyRequest):
    """Live settings to change."""

    values: dict[Annotated[str, Field(max_length=100)], Annotated[str, Field(max_length=1000)]] = (
        Field(min_length=1, max_length=100)
    )


class StopRequest(WhyRequest):
    """How to stop: with ``at_once`` requests in flight are broken off."""

    at_once: bool = False


class StateAnswer(BaseModel):
    """The request was recorded and is followed."""

    state: str
