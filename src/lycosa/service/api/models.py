"""The JSON of requests and answers, as OpenAPI describes it.

Rows of hosts, URLs and captures are described in docs/api.md; their fields can grow, so a client
ignores those that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetPydanticSchema
from pydantic_core import core_schema

from lycosa.base.calls import MAX_WORDS, read_delay
from lycosa.base.reasons import Reason

MAX_GIVEN_URLS = 1000
"""The maximum number of URLs of one request."""
JsonRow = dict[str, Any]
OperatorRemark = Annotated[
    str,
    Field(
        max_length=MAX_WORDS,
        description="A remark, which the log of actions and `explain` show",
        examples=["mail of 3 May"],
    ),
]
SettingName = Annotated[str, Field(max_length=100)]
SettingText = Annotated[str, Field(max_length=100_000)]
PolicyText = Annotated[str, Field(max_length=2000)]
Fraction = Annotated[float, Field(ge=0, le=1)]


def _is_delay(text: str) -> str:
    """The text, if it is a pause of a host. Raises ``ValueError``."""
    read_delay(text)
    return text


def _is_time(text: str) -> str:
    """The text, if it is a time in ISO 8601. Raises ``ValueError``."""
    datetime.fromisoformat(text)
    return text


_IsoTime = Annotated[
    str,
    Field(max_length=40, json_schema_extra={"format": "date-time"}),
    AfterValidator(_is_time),
]
Moment = Annotated[float, Field(ge=0, le=1e11)] | _IsoTime
"""A time as seconds since 1970 or in ISO 8601; without a zone it is UTC."""


def seconds_of(moment: float | str) -> float:
    """Seconds since 1970."""
    if not isinstance(moment, str):
        return moment
    time = datetime.fromisoformat(moment)
    return time.replace(tzinfo=time.tzinfo or UTC).timestamp()


def one_of(labels: Iterable[str]) -> GetPydanticSchema:
    """The marker of a text that is one of these labels, or empty."""
    schema = core_schema.literal_schema(["", *labels])
    return GetPydanticSchema(lambda source, handler: schema)


ReasonLabel = Annotated[str, one_of(reason.label for reason in Reason if reason)]
EXAMPLE_URL = "https://example.org/a?b=c"
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


class WhyRequest(Asked):
    """A remark for the log of actions."""

    why: OperatorRemark = ""


class SeedRequest(Asked):
    """Seeds. Their hosts join the scope of the crawl, as those of ``lycosa crawl`` do."""

    urls: list[str] = Field(
        min_length=1,
        max_length=MAX_GIVEN_URLS,
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

    url: str = Field(description="Any spelling of it", examples=[EXAMPLE_URL])
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
    discovered_at: Moment = Field(
        0, description="Seconds since 1970, or ISO 8601; 0 is now", examples=[1795368318]
    )
    changed: bool = Field(
        False,
        description="The crawl knows it, and it has changed, at `discovered_at`",
        examples=[False],
    )


class UrlsRequest(Asked):
    """URLs for the frontier."""

    crawl_id: str = Field(
        "",
        max_length=300,
        description="The crawl that is meant: its id or its name; another one is refused",
        examples=[""],
    )
    urls: list[NewUrl] = Field(
        min_length=1,
        max_length=MAX_GIVEN_URLS,
        description="1 to 1,000 URLs; each has its own verdict",
    )
    add_unknown: bool = Field(
        False,
        description="Give those that have `changed` and are not known to the crawl, as the others",
        examples=[False],
    )


class RendersRequest(WhyRequest):
    """Pages to render again, from their last capture."""

    urls: list[str] = Field(
        min_length=1,
        max_length=MAX_GIVEN_URLS,
        description="1 to 1,000 URLs; each has its own verdict",
        examples=[[EXAMPLE_URL]],
    )


class UrlResult(BaseModel):
    """What became of a URL: ``unknown`` means that its owner did not answer; give it again."""

    url: str = Field(description="As it was given", examples=[EXAMPLE_URL])
    verdict: Literal[
        "accepted",
        "duplicate",
        "rejected",
        "unknown",
        "sooner",
        "waiting",
        "kept",
        "ended",
        "not_known",
    ] = Field(
        description="`duplicate`: the crawl knew it, and it is not fetched earlier for this. Of"
        " those that have changed: `sooner` it is due earlier, `waiting` it is in its queue, or"
        " fetched now, `kept` its time stays, `ended` it is not fetched again, `not_known`"
    )
    reason: str = Field(description="Why it was not accepted", examples=[""])


class UrlsAnswer(BaseModel):
    """The results, in the order of the URLs, after the commits that hold them."""

    accepted: int = Field(description="Results with the verdict `accepted`", examples=[1])
    duplicates: int = Field(description="URLs that the crawl knew", examples=[0])
    rejected: int = Field(description="URLs that the crawl refuses", examples=[0])
    unknown: int = Field(description="URLs to give again", examples=[0])
    sooner: int = Field(0, description="URLs that are due earlier now", examples=[0])
    results: list[UrlResult] = Field(description="One for each URL, in their order")


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


class ChangesAnswer(BaseModel):
    """What changed, in the order of commits. ``cursor`` is for the next request, at any time."""

    rows: list[JsonRow] = Field(description="Objects, which docs/api.md describes")
    cursor: str = Field(description="For the next request, also when there are no rows")
    has_more: bool = Field(description="There were more changes behind the rows")
    silent: list[int] = Field(
        description="Partitions whose owner did not answer; their changes come later"
    )


class HostRequest(WhyRequest):
    """A remark, and which hosts the decision may be about."""

    whole_site: bool = Field(
        False, description="Decide about all hosts of its site that the crawl knows now"
    )
    new: bool = Field(False, description="Also about a host that the crawl has not met")


class DelayRequest(HostRequest):
    """The minimum pause of a host."""

    delay: Annotated[str, AfterValidator(_is_delay)] = Field(
        max_length=50,
        description="Time between two requests, as `10s`, a day at most; or `default`: that of all"
        " hosts (`politeness.delay_s`)",
        examples=["10s"],
    )

    def seconds(self) -> float:
        """The pause in seconds; negative for that of all hosts."""
        return read_delay(self.delay)


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
        max_length=MAX_GIVEN_URLS,
        description="`url_hash` of rows",
        examples=[["31227730f2d02a16"]],
    )
    reason: ReasonLabel = Field("", description="Those of this reason", examples=[""])
    host: str = Field("", max_length=300, description="Those of this host", examples=[""])
    why: OperatorRemark = ""
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

    values: dict[SettingName, SettingText] = Field(
        min_length=1,
        max_length=100,
        description="Names and values, as texts of a settings file",
        examples=[{_EXAMPLE_SETTING: "7d"}],
    )


class ScopeTrialAnswer(BaseModel):
    """What a change of the scope would drop."""

    waiting: int = Field(description="Waiting URLs that were judged")
    dropped: int = Field(description="Those of them that would be dropped")
    reasons: dict[str, int] = Field(description="Their number by reason")
    examples: list[str] = Field(description="Some of them")
    share: float = Field(
        description="The share of the hosts whose URLs were judged; below 1 the numbers are those"
        " of a random sample of hosts"
    )


class RecrawlRule(BaseModel):
    """A fixed interval."""

    domain: str = Field(description="A host with all below it, or `*`", examples=["news.example"])
    pattern: str = Field(
        description="Of path and query, `*` for any characters; empty for all", examples=["/live/*"]
    )
    interval: str = Field(description="Time between two fetches", examples=["10m"])


class RefetchRuleRow(BaseModel):
    """A rule of `refetch.policies`."""

    line: int = Field(description="Its number, from 1")
    rule: str = Field(description="Its text", examples=["news.example /live/* hourly"])
    policy: str = Field(description="The policy in full", examples=["every 1h min=30m max=2h"])


class PromiseRow(BaseModel):
    """A host whose pages were promised more fetches (`every`) than it has turns at its delay."""

    host: str = Field(description="The host")
    promised_per_day: float = Field(description="Fetches a day that its pages were promised")
    turns_per_day: float = Field(description="Fetches a day that its delay allows")


class RecrawlAnswer(SettingsAnswer):
    """The recrawl policy: its settings, its rules, and its fixed intervals by their parts."""

    policies: list[RefetchRuleRow] = Field(
        description="The first that is for a URL counts; `rules` come after them"
    )
    rules: list[RecrawlRule] = Field(description="The first that is for a URL counts")
    records_left: int = Field(description="URLs to which a change is not applied yet")
    promises: list[PromiseRow] = Field(
        description="The worst hosts, as of the last change of the rules"
    )


class RecrawlRequest(WhyRequest):
    """A change of the recrawl policy: settings, rules, or the interval of a domain or a pattern."""

    policies: list[PolicyText] | None = Field(
        None,
        max_length=1000,
        description="All rules in their order, in place of those before; an empty list removes"
        " them, and without the field they stay",
        examples=[["news.example /live/* hourly", "* adaptive"]],
    )

    values: dict[SettingName, SettingText] = Field(
        {},
        max_length=100,
        description="Names and values, as texts of a settings file",
        examples=[{_EXAMPLE_SETTING: "7d"}],
    )
    domain: str = Field(
        "",
        max_length=300,
        description="A host with all below it; with a pattern it may be left out",
        examples=[""],
    )
    pattern: str = Field(
        "",
        max_length=1000,
        description="Of path and query, `*` for any characters; or of a whole URL",
        examples=[""],
    )
    interval: str = Field(
        "",
        max_length=50,
        description="Time between two fetches, as `1h`; empty removes the rule of this domain and"
        " pattern. A new rule comes before the others",
        examples=[""],
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
