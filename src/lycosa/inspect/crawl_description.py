"""A crawl in words, for the section on methods of a paper or the notes of an archive.

It says what someone would have to know to judge or repeat the crawl: version, dates, seeds, scope,
politeness, settings that differ from the defaults, counts, and what was not stored and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from lycosa.base.config.fields import fields, value_of
from lycosa.base.config.profile_texts import PrivateUrls
from lycosa.base.config.sections import Config, ScopeRule
from lycosa.base.preferences.preference_words import counts_words
from lycosa.base.reasons import Reason
from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.crawl_status import CrawlStatus, ReasonLine
from lycosa.inspect.saved_settings import SavedSettings, ScopePlaces

_SHOWN_SEEDS = 10
_SHOWN_REASONS = 6
_OF_A_MACHINE = ("workers", "memory_bytes", "seed", "name")
_HIDDEN = (
    *("limits.", "upload.", "objects.", "kafka.", "coordinator.", "redis.", "webhooks."),
    *("requests.", "dns.", "earlier.", "agent.key_", "fetch.ca_file", "fetch.allow_addresses"),
)
"""Beginnings of settings with places of a machine or an inner network, which are not published."""
_SCOPES = {
    ScopeRule.HOST: "the hosts of the seeds",
    ScopeRule.SITE: "the sites (registrable domains) of the seeds",
    ScopeRule.PREFIX: "the folders of the seeds",
    ScopeRule.PAGE: "the seeds themselves",
    ScopeRule.SURT: "URLs with given SURT prefixes",
    ScopeRule.ANY: "any host that a link leads to",
}


class CrawlDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of the text. Dates are of the first start and the last commit, in UTC."""

    crawl: str
    software: str
    product: str
    begun: str
    ended: str
    runs: int
    seeds: int
    seed_places: list[str]
    scope: str
    delay_s: float
    uses_credentials: bool
    own_hosts: int
    settings: dict[str, str]
    hosts: int
    discovered: int
    captures: int
    pages: int
    requests: int
    body_bytes: int
    purpose: list[str]
    stated: dict[str, int]
    states: dict[str, int]
    not_fetched: list[ReasonLine]
    links_refused: list[ReasonLine]
    remarks: list[ReasonLine]


def describe_crawl(
    reader: CrawlReader, saved: SavedSettings, status: CrawlStatus
) -> CrawlDescription:
    """The facts of a crawl; ``status`` is its present one."""
    config, places = saved.config, list(ScopePlaces(reader))
    kinds = {each.reason: Reason[each.reason.upper()] for each in status.remarks}
    return CrawlDescription(
        crawl=status.crawl,
        software=reader.manifest.software.replace("/", " ").capitalize(),
        product=config.agent.product,
        begun=status.created[:10],
        ended=_day(status.last_commit) or status.started[:10],
        runs=status.runs,
        seeds=sum(each.seeds for each in status.seeds) or len(places),
        seed_places=places[:_SHOWN_SEEDS],
        scope=_SCOPES[config.scope.rule],
        delay_s=config.politeness.delay_s,
        uses_credentials=PrivateUrls(config.requests.rules).are_any,
        own_hosts=len(config.requests.own_hosts),
        settings=_differing(config),
        hosts=sum(status.hosts_by_state.values()),
        discovered=status.discovered,
        captures=status.captures,
        pages=status.pages,
        requests=status.requests,
        body_bytes=status.body_bytes,
        purpose=list(status.purpose),
        stated=dict(status.preferences),
        states=dict(status.states),
        not_fetched=[each for each in status.remarks if not kinds[each.reason].is_remark],
        remarks=[each for each in status.remarks if kinds[each.reason].is_remark],
        links_refused=list(status.refusals),
    )


def paragraphs(about: CrawlDescription) -> list[str]:
    """The description as sentences, to be copied."""
    return [
        " ".join(_method(about)),
        " ".join(_outcome(about)),
        " ".join(_settings_text(about)),
    ]


def _method(about: CrawlDescription) -> Iterator[str]:
    when = f"on {about.begun}"
    if about.ended != about.begun:
        when = f"between {about.begun} and {about.ended}"
    runs = f" in {about.runs:,} runs" if about.runs > 1 else ""
    yield (
        f"Pages were collected {when}{runs} with the web crawler {about.software}, which identified"
        f" itself as {about.product} (crawl {about.crawl})."
    )
    seeds = "one seed" if about.seeds == 1 else f"{about.seeds:,} seeds"
    places = ", ".join(about.seed_places)
    more = ", and others" if len(about.seed_places) < about.seeds else ""
    listed = f" ({places}{more})" if places else ""
    yield f"It began from {seeds}{listed} and followed links within {about.scope}."
    yield (
        "It obeyed robots.txt (RFC 9309), sent one request at a time to a host, and waited at least"
        f" {about.delay_s:g} s between two requests to a host."
    )
    if about.own_hosts:
        named = "one host" if about.own_hosts == 1 else f"{about.own_hosts:,} hosts"
        yield f"These limits were weaker at up to {named} of the operator, proved by a token."
    if about.uses_credentials:
        yield "Some requests carried credentials of the operator."


def _outcome(about: CrawlDescription) -> Iterator[str]:
    hosts = "one host" if about.hosts == 1 else f"{about.hosts:,} hosts"
    yield (
        f"It found {about.discovered:,} URLs on {hosts} and stored"
        f" {about.captures:,} captures of them ({about.pages:,} HTML pages with status 200,"
        f" {about.body_bytes:,} bytes of bodies) by {about.requests:,} requests."
    )
    waiting = about.states.get("queued", 0) + about.states.get("parked", 0)
    if waiting:
        yield f"{waiting:,} URLs were not requested when it ended."
    if about.not_fetched:
        yield f"URLs without a capture: {_counted(about.not_fetched)}."
    if about.remarks:
        yield f"Among the captures: {_counted(about.remarks)}."
    if about.stated:
        yield f"Sites stated about the use of captures: {counts_words(about.stated)}."
    if about.purpose:
        yield (
            f"The purpose of the crawl was {', '.join(about.purpose)}: text of pages whose sites"
            " refuse such a use is left out of its tables and exports."
        )
    if about.links_refused:
        yield f"Links that were not followed: {_counted(about.links_refused)}."


def _settings_text(about: CrawlDescription) -> Iterator[str]:
    if not about.settings:
        yield "All settings had their default values."
        return
    shown = "; ".join(f"{key} = {value}" for key, value in about.settings.items())
    yield f"Settings that differ from the defaults: {shown}."


def _counted(lines: Sequence[ReasonLine]) -> str:
    shown = [f"{each.meaning}: {each.count:,}" for each in lines[:_SHOWN_REASONS]]
    rest = sum(each.count for each in lines[_SHOWN_REASONS:])
    return "; ".join([*shown, f"other reasons: {rest:,}"] if rest else shown)


def _day(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%d") if wall else ""


def _differing(config: Config) -> dict[str, str]:
    """The settings that differ from the defaults and say something about the crawl itself."""
    plain, found = Config(), dict[str, str]()
    for key, field in fields().items():
        if key in _OF_A_MACHINE or key.startswith(_HIDDEN):
            continue
        if (value := value_of(config, key)) != value_of(plain, key):
            found[key] = field.show(value)
    return found
