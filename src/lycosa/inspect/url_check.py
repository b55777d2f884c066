"""What a crawl would do with a URL, by the pure rules: canonical form, scope, traps, robots.txt.

There is no crawl and no network; a robots.txt is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.model.discovered import LinkKind
from lycosa.base.preferences.preference_words import statement_words
from lycosa.base.urls.identity import (
    Canonicalizer,
    InvalidUrl,
    Sites,
    hash8,
    host_of,
    partition_of,
    scheme_of,
    surt,
    target_of,
)
from lycosa.stages.admit.refusal import Refusal
from lycosa.stages.admit.scope import Scope
from lycosa.stages.admit.traps import Traps, year_of
from lycosa.stages.politeness.robots_cache import RobotsRecord, RobotsState, robots_state
from lycosa.stages.politeness.robots_rules import Matcher
from lycosa.stages.politeness.usage_rules import robots_statements


class Judgement(msgspec.Struct, frozen=True):
    """The result of one group of rules.

    ``verdict`` is ``in``, ``out`` or ``not judged``; the other fields are the reason.
    """

    verdict: str
    reason: str = ""
    meaning: str = ""
    rule: str = ""
    value: str = ""


class UrlCheck(msgspec.Struct, frozen=True):
    """One URL. When it is not a URL, ``error`` says why and all fields after it are empty.

    ``url_hash`` and ``host_hash`` are the keys of its record in hexadecimal.
    """

    given: str
    error: str = ""
    canonical: str = ""
    scheme: str = ""
    host: str = ""
    site: str = ""
    partition: int = -1
    surt: str = ""
    url_hash: str = ""
    host_hash: str = ""
    scope: Judgement = Judgement("not judged")
    traps: Judgement = Judgement("not judged")

    @property
    def would_be_crawled(self) -> bool:
        """Whether no rule checked here refuses it."""
        return not self.error and "out" not in (self.scope.verdict, self.traps.verdict)


class RobotsCheck(msgspec.Struct, frozen=True):
    """What a robots.txt says about one URL.

    ``verdict`` is ``allowed``, ``disallowed`` or ``waits`` (the file is unavailable, so nothing is
    fetched). ``line`` 0 means that no rule matched; ``group`` is empty when none applied;
    ``crawl_delay_s`` is -1 when there is none. ``stated`` is what the file states about the use of
    a page that it allows, each statement with its line.
    """

    url: str
    agent: str
    verdict: str
    line: int
    rule: str
    group: str
    crawl_delay_s: float
    sitemaps: list[str]
    source: str
    status: int = 0
    version: str = ""
    why: str = ""
    stated: list[str] = []


class Checker:
    """Checks URLs by settings and seeds. Raises ``InvalidUrl`` for a seed that is not a URL."""

    def __init__(self, config: Config, seeds: Sequence[str], wall: float) -> None:
        self._config = config
        self._sites = Sites()
        self._canonicalizer = Canonicalizer(config.canonical)
        self._scope = Scope(config.scope, self._sites.site_of)
        self._has_seeds = bool(seeds)
        self._traps = Traps(config.traps, year_of(wall))
        for seed in seeds:
            self._scope.add_seed(self._canonicalizer.canonical(seed))

    def rules(self) -> list[str]:
        """The scope in words."""
        return self._scope.rules()

    def canonical(self, raw: str) -> str:
        """The canonical form. Raises ``InvalidUrl``."""
        return self._canonicalizer.canonical(raw)

    def check(self, raw: str, depth: int = 1, base: str | None = None) -> UrlCheck:
        """Check one URL, as a link that was found ``depth`` links from a seed.

        A relative URL was found on the page ``base``.
        """
        try:
            url = self._canonicalizer.canonical(raw, base)
        except InvalidUrl as error:
            return UrlCheck(raw, f"{error.reason.label}: {error.detail}")
        host = host_of(url)
        site = self._sites.site_of(host)
        return UrlCheck(
            given=raw,
            canonical=url,
            scheme=scheme_of(url),
            host=host,
            site=site,
            partition=partition_of(site, self._config.frontier.partitions),
            surt=surt(url),
            url_hash=hash8(url).hex(),
            host_hash=hash8(host).hex(),
            scope=self._judge_scope(url, depth),
            traps=_judgement(self._traps.judge_url(url)),
        )

    def _judge_scope(self, url: str, depth: int) -> Judgement:
        if not self._has_seeds:
            # Without seeds there is no scope to check, but an exclude pattern refuses URLs
            # everywhere.
            refusal = self._scope.judge_url(url, LinkKind.SEED, 0)
            return (
                _judgement(refusal)
                if refusal
                else Judgement("not judged", meaning="no seed was given")
            )
        return _judgement(self._scope.judge_url(url, LinkKind.A, depth))


def check_robots(
    url: str, agent: str, record: RobotsRecord, source: str, now: float
) -> RobotsCheck:
    """What a robots.txt in remembered form says about a canonical URL."""
    rules = record.rules
    verdict = Matcher(rules).judge_target(target_of(url))
    word, why = (
        "allowed" if verdict.allowed else "disallowed",
        verdict.bound or _why(record, verdict.line, rules.group),
    )
    if robots_state(record, now) is RobotsState.WAIT:
        word, why = (
            "waits",
            f"{record.outage}; the host is not fetched until robots.txt is (RFC 9309 2.3.1.4)",
        )
    return RobotsCheck(
        url=url,
        agent=agent,
        verdict=word,
        line=verdict.line,
        rule=verdict.rule,
        group=rules.group,
        crawl_delay_s=rules.crawl_delay_s,
        sitemaps=rules.sitemaps,
        source=source,
        status=record.status,
        version=record.version,
        why=why,
        stated=[statement_words(each) for each in robots_statements(rules.usage, target_of(url))]
        if verdict.allowed
        else [],
    )


def check_values(value: Any) -> Any:
    """A check as plain values for JSON."""
    return msgspec.to_builtins(value)


def _judgement(refusal: Refusal | None) -> Judgement:
    if refusal is None:
        return Judgement("in")
    return Judgement(
        "out", refusal.reason.label, refusal.reason.meaning, refusal.rule, refusal.value
    )


def _why(record: RobotsRecord, line: int, group: str) -> str:
    if not record.has_file:
        return (
            f"there is no robots.txt (status {record.status}), so everything is allowed (RFC 9309"
            " 2.3.1.3)"
        )
    if line:
        return "the longest matching rule decides (RFC 9309 2.2.2)"
    return "no rule matches" if group else "no group applies to this agent"
