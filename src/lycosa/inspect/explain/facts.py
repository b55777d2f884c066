"""The form of an answer, and the facts and texts that all answers share."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.model.capture import RobotsDecision
from lycosa.base.reasons import Reason
from lycosa.base.system.durations import long_duration
from lycosa.base.urls.identity import scheme_of, target_of
from lycosa.inspect.committed_state import TableView
from lycosa.inspect.explain.own_facts import own_row, politeness_of
from lycosa.stages.frontier.visit_state import HostState, VisitRecord
from lycosa.stages.politeness.delay import Delay, delay_s, ordinary_delay_s
from lycosa.stages.politeness.robots_cache import RobotsRecord, decision
from lycosa.stages.politeness.robots_rules import Matcher
from lycosa.stages.politeness.tdm_cache import decode_tdm_record
from lycosa.state.kv.table_records import robots_key, tdm_key
from lycosa.state.shard.view import ShardPosition

_NO_CHANCE = random.Random(0)  # multiplied by a jitter of 0; making one costs as much as the rest
_ROBOTS = msgspec.msgpack.Decoder(RobotsRecord)


class Fact(msgspec.Struct, frozen=True):
    """One fact: a stable key, its value for programs, and its text for users."""

    key: str
    value: Any
    text: str

    @property
    def label(self) -> str:
        """What users read in place of the key; the unit is in the text."""
        return self.key.removesuffix("_s").replace("_", " ")


class Explanation(msgspec.Struct, kw_only=True):
    """The answer. ``verdict`` is one of a fixed set of words, ``headline`` one sentence."""

    asked: str
    url: str = ""
    url_hash: str = ""
    verdict: str = ""
    headline: str = ""
    facts: list[Fact] = []

    def set_verdict(self, verdict: str, headline: str) -> Explanation:
        """Set verdict and headline."""
        self.verdict, self.headline = verdict, headline
        return self

    def add_fact(self, key: str, value: Any, text: str = "") -> None:
        """Add a fact, unless it is empty."""
        if value not in ("", None):
            self.facts.append(Fact(key, value, text or str(value)))

    def to_json(self) -> dict[str, Any]:
        """The answer with stable keys; ``facts`` by their key."""
        return {
            "asked": self.asked,
            "url": self.url,
            "url_hash": self.url_hash,
            "urlHash": self.url_hash,  # as in the version before
            "verdict": self.verdict,
            "headline": self.headline,
            "facts": {fact.key: fact.value for fact in self.facts},
        }


def robots_now(view: TableView, host8: bytes, url: str) -> RobotsDecision | None:
    """The verdict of the robots.txt stored for the URL's origin; ``None`` when none was read."""
    value = view.get(robots_key(host8, scheme_of(url) == "https"))
    if value is None:
        return None
    record = _ROBOTS.decode(value)
    return (
        decision(record, Matcher(record.rules).judge_target(target_of(url)))
        if record.status
        else None
    )


def tdm_facts(answer: Explanation, view: TableView, host8: bytes, url: str) -> None:
    """Add what is stored of the tdmrep.json of the URL's origin, and what it says about the URL."""
    value = view.get(tdm_key(host8, scheme_of(url) == "https"))
    if value is None:
        return
    record = decode_tdm_record(value)
    said = record.rules.statement(target_of(url))
    read = f", read on {when(record.fetched)}" if record.fetched else ""
    text = f"{said.text}{read}" if said is not None else f"nothing about this URL{read}"
    answer.add_fact("tdm_file", said.text if said is not None else "nothing", text)
    answer.add_fact("tdm_file_status", record.status)
    answer.add_fact("tdm_file_version", record.version)
    answer.add_fact("tdm_file_problem", record.rules.problem)
    answer.add_fact("tdm_file_failures", record.failures or None)


def host_facts(answer: Explanation, host: VisitRecord, config: Config, now: float) -> None:
    """Add the state of the URL's host."""
    answer.add_fact("host", host.host)
    answer.add_fact("host_state", host.shown_state.label)
    if host.state is HostState.SNOOZED or host.next_at > now:
        delay = owed(host, config, now)
        why = why_host(host) or f"delay by {delay.source}"
        answer.add_fact("host_next_at", host.next_at, f"{when(host.next_at)}: {why}")
        answer.add_fact("host_delay_source", delay.source)
    if host.reason:
        answer.add_fact("host_reason", host.reason.label, host.reason.meaning)
        answer.add_fact("host_detail", host.detail)
    if host.pause is not None:
        since, why = when(host.pause.date_us / 1e6), host.pause.why
        text = f"{host.pause.by} at {since}{in_brackets(why)}"
        answer.add_fact("host_paused_by", host.pause.by, text)
    answer.add_fact("host_waiting", host.waiting)
    answer.add_fact("host_pages", host.usage.captures)


def own_facts(answer: Explanation, host: VisitRecord, config: Config, now: float) -> None:
    """Add whether a host of the operator is proved."""
    if (own := own_row(host, config, now)) is not None:
        answer.add_fact("own_host", own, f"{own['state'].replace('_', ' ')}: {own['meaning']}")


def why_host(host: VisitRecord) -> str:
    """Why a host waits or was retired; empty when there is no reason.

    A fault of its robots.txt is a complete reason by itself.
    """
    if host.reason in (Reason.ROBOTS_UNREACHABLE, Reason.ROBOTS_ELSEWHERE) and host.detail:
        return host.detail
    return f"{host.reason.meaning}{in_brackets(host.detail)}" if host.reason else ""


def owed(host: VisitRecord, config: Config, now: float) -> Delay:
    """The delay that the host requires now, without jitter, and its source."""
    section = msgspec.structs.replace(politeness_of(host, config, now), jitter=0.0)
    return delay_s(host.pace, section, now, _NO_CHANCE)


def steady_delay(host: VisitRecord, config: Config, now: float) -> float:
    """Seconds between two requests to a host without faults or back-off, jitter at its mean."""
    section = politeness_of(host, config, now)
    return round(ordinary_delay_s(host.pace, section) * (1 + section.jitter / 2), 3)


def when(wall: float) -> str:
    """A wall time as text."""
    return f"{datetime.fromtimestamp(wall, UTC):%Y-%m-%d %H:%M:%S} UTC"


def minimum_span(seconds: float) -> str:
    """The minimum of a duration as text."""
    return f"at least {long_duration(seconds)}"


def reason_facts(answer: Explanation, reason: Reason, detail: str) -> None:
    answer.add_fact("reason", reason.label, reason.meaning)
    answer.add_fact("detail", detail)


def robots_facts(answer: Explanation, found: RobotsDecision) -> None:
    answer.add_fact(
        "robots_version", found.version, f"{found.version}, read on {when(found.fetched)}"
    )
    answer.add_fact("robots_fetched", found.fetched, when(found.fetched))
    answer.add_fact("robots_group", found.group)
    answer.add_fact("robots_line", found.line or None)
    answer.add_fact("robots_rule", found.rule)
    answer.add_fact(
        "robots_bound",
        found.bound,
        f"{found.bound}; a URL that cannot be checked counts as disallowed",
    )


def in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def add_shard(answer: Explanation, state: ShardPosition, now: float) -> None:
    """Add the shard, the terms of its owners, and the position and age of the state read.

    ``now`` is wall time in seconds.
    """
    last = state.last
    answer.add_fact("shard", state.shard)
    answer.add_fact("owner_term", state.owner_term)
    answer.add_fact(
        "commit",
        {"term": last.term, "sequence": last.sequence, "at": state.wall},
        f"{last.sequence} of term {last.term}, at {when(state.wall)},"
        f" {long_duration(max(now - state.wall, 0.0))} ago"
        if state.wall
        else "none yet",
    )
    answer.add_fact("inbox_position", state.inbox)
    answer.add_fact("settings_version", state.settings)
