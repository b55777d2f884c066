"""Explains a URL that has a record: one answer for each of its possible states."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from lycosa.base.config.refetch_policies import policies_version
from lycosa.base.config.sections import RefetchSection
from lycosa.base.model.capture import ELSEWHERE
from lycosa.base.model.dead_letter import DeadLetterAction
from lycosa.base.model.due_band import DUE_BANDS, DueBand
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.preferences.preference_model import Preferences
from lycosa.base.preferences.preference_words import read_answers
from lycosa.base.preferences.use_policy import agent_policy
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import host_of, join_url, scheme_of
from lycosa.inspect.committed_state import CrawlReader, TableView, UrlEntry
from lycosa.inspect.explain.budget_facts import judged_now, site_facts
from lycosa.inspect.explain.copy_facts import SET_BACK, copy_facts
from lycosa.inspect.explain.facts import (
    Explanation,
    host_facts,
    in_brackets,
    minimum_span,
    own_facts,
    reason_facts,
    robots_facts,
    robots_now,
    steady_delay,
    tdm_facts,
    when,
    why_host,
)
from lycosa.inspect.explain.lookup import (
    Stored,
    Tried,
    code_facts,
    place_in_queue,
    stored_capture,
    tries_of,
)
from lycosa.inspect.explain.rank_facts import rank_facts
from lycosa.inspect.explain.refetch_facts import PROBE_TEXT, refetch_facts
from lycosa.inspect.explain.row_facts import (
    cold_facts,
    demand_facts,
    round_facts,
    signal_facts,
    steering_facts,
)
from lycosa.inspect.explain.validator_facts import validator_facts
from lycosa.inspect.policy_state import rule_facts, shown_rule
from lycosa.inspect.saved_settings import SavedSettings
from lycosa.inspect.site_budget import site_budget
from lycosa.inspect.wall_time import record_in_wall_time, visit_in_wall_time
from lycosa.stages.admit.budgets import over_discovery
from lycosa.stages.frontier.address_grids import address_prices_of
from lycosa.stages.frontier.dead_letters import decisions_of
from lycosa.stages.frontier.due import is_probe_place
from lycosa.stages.frontier.host_grids import host_grid_of
from lycosa.stages.frontier.policy_walk import walk_row
from lycosa.stages.frontier.visit_state import HostState, VisitRecord
from lycosa.stages.schedule.price_in_force import price_of_host
from lycosa.stages.schedule.refetch_value import (
    at_mean_weight,
    first_price,
    mean_weight,
    weighed_pages,
)
from lycosa.state.kv.table_records import SET_BACK_BAND

_CHAIN = 10
_PREFERENCES = ("usePreferences", "useStatement", "license", "paymentPrice")
_DECIDED = {
    DeadLetterAction.RETRY: "queued again",
    DeadLetterAction.DROP: "dropped from the dead letters",
}


class KnownUrl:
    """Explains a URL that has a record."""

    def __init__(
        self,
        reader: CrawlReader,
        saved: SavedSettings,
        view: TableView,
        entry: UrlEntry,
        answer: Explanation,
        now: float,
    ) -> None:
        self._reader, self._config, self._view = reader, saved.config, view
        ahead_s = reader.ahead_s(now)
        self._entry, self._record, self._answer, self._now = (
            entry,
            record_in_wall_time(entry.record, ahead_s),
            answer,
            now,
        )
        self._visit = visit_in_wall_time(
            view.host_record(entry.host8) or VisitRecord(host_of(entry.url)), ahead_s
        )

    def run(self) -> Explanation:
        by_state: dict[UrlState, Callable[[], None]] = {
            UrlState.QUEUED: self._queued,
            UrlState.PARKED: self._parked,
            UrlState.FETCHED: self._fetched,
            UrlState.REDIRECTED: self._redirected,
            UrlState.FAILED: self._failed,
            UrlState.REFUSED: self._refused,
            UrlState.RETIRED: self._retired,
            UrlState.GONE: self._gone,
        }
        section = self._config.refetch
        mean = mean_weight(*weighed_pages(section, self._view.counters().cells))
        section = at_mean_weight(section, mean)
        self._answer.add_fact("state", self._entry.state.label)
        by_state[self._entry.state]()
        cold_facts(self._answer, self._view, self._entry, self._reader.ahead_s(self._now))
        price = self._price(section)
        refetch_facts(self._answer, section, price, mean, self._record, self._now)
        if is_probe_place(self._entry.record.due_at):
            self._answer.add_fact("probe", True, PROBE_TEXT)
        demand_facts(self._answer, self._view, self._entry)
        round_facts(self._answer, self._view, self._entry, self._reader.ahead_s(self._now))
        signal_facts(self._answer, self._view, self._entry, self._visit)
        self._policy()
        validator_facts(self._answer, self._record, self._visit, self._entry.url8)
        self._decisions()
        steering_facts(self._answer, self._view, self._entry, self._visit)
        tdm_facts(self._answer, self._view, self._entry.host8, self._entry.url)
        own_facts(self._answer, self._visit, self._config, self._now)
        self._origin()
        return self._answer

    def _price(self, section: RefetchSection) -> float:
        """The price of a refetch at the host of the URL."""
        found = self._reader.price if section.budget else 0.0
        common = found or first_price(section)
        at_address = address_prices_of(self._view.get).get(self._visit.address, 0.0)
        common = max(common, at_address)
        row = host_grid_of(self._view.get, self._entry.host8)
        delay_s = steady_delay(self._visit, self._config, self._now)
        if row is None or not row.is_whole or delay_s <= 0:
            return common
        turns = 86_400.0 / delay_s * section.share
        return price_of_host(section, row.cells, turns, common) or common

    # -- waiting

    def _queued(self) -> None:
        record, answer = self._record, self._answer
        if record.due_at:
            answer.set_verdict(
                "retrying",
                f"It waits for a retry at {when(record.due_at)}: {record.reason.meaning} "
                f"(request {record.tries} of {self._config.retry.tries}).",
            )
            answer.add_fact("due_at", record.due_at, when(record.due_at))
            answer.add_fact("tries", record.tries)
            reason_facts(answer, record.reason, record.detail)
            self._tries()
        else:
            self._waiting()
        if record.reason in SET_BACK and not record.due_at:
            reason_facts(answer, record.reason, record.detail)
        copy_facts(answer, self._config.copies, record, self._visit)
        self._capture()
        host_facts(answer, self._visit, self._config, self._now)

    def _waiting(self) -> None:
        place = place_in_queue(self._view, self._entry.host8, self._entry.url8)
        again = " to be refetched" if self._record.history else ""
        state = self._visit.state
        if place is None:
            self._answer.set_verdict(
                "queued",
                f"It waits{again}, but its host's queue does not contain it; run lycosa audit.",
            )
            return
        # The minimum: all URLs before it succeed at once, and none is disallowed or retried.
        steady = steady_delay(self._visit, self._config, self._now)
        turns = self._config.copies.probe_turns if place.band == SET_BACK_BAND else 1
        wait_s = max(self._visit.next_at - self._now, 0.0) + place.before * steady * turns
        self._answer.add_fact(
            "queue_before",
            place.before,
            f"{place.before:,} of {place.waiting:,} waiting URLs of the host are before it",
        )
        self._answer.add_fact("queue_waiting", place.waiting)
        self._answer.add_fact("queue_band", place.band, self._band_text(place.band))
        self._answer.add_fact(
            "estimate_s",
            round(wait_s, 1),
            f"{minimum_span(wait_s)}, at {steady:g} s a request",
        )
        self._answer.add_fact("host_delay_s", steady, f"{steady:g} s")
        if state is HostState.SNOOZED:
            headline = (
                f"It waits{again}: its host pauses until {when(self._visit.next_at)};"
                f" {why_host(self._visit)}."
            )
        elif self._record.reason in SET_BACK:
            headline = f"It waits{again}, {self._record.reason.meaning}."
        elif not place.before:
            headline = f"It waits{again}: it is the next URL of its host."
        else:
            before = f"{place.before:,} URLs of its host are" if place.before > 1 else "one URL is"
            headline = f"It waits{again}: {before} before it, which takes {minimum_span(wait_s)}."
        self._answer.set_verdict("queued", headline)

    def _band_text(self, band: int) -> str:
        if band == SET_BACK_BAND:
            return "set back"
        if band not in DUE_BANDS:
            return f"{band} (0 is the highest)"
        share = self._config.refetch.share
        return (
            f"{DueBand(band).label}: {DueBand(band).meaning}; due pages have {share:.0%} of the"
            " turns of a host while new pages wait"
        )

    def _parked(self) -> None:
        record, host = self._record, self._visit
        if record.reason is Reason.SPECULATIVE:
            self._speculative()
            return
        if record.state is UrlState.PARKED:
            refusal = over_discovery(self._config.budgets, host.usage)
            value = refusal.value if refusal else "now within the budget"
            self._answer.set_verdict("parked", f"It is parked: {record.reason.meaning} ({value}).")
            reason_facts(self._answer, record.reason, record.detail)
            self._answer.add_fact("rule", "budgets.discovery_per_page")
            self._answer.add_fact("value", value)
            self._answer.add_fact(
                "looked_at_again",
                "when the host's other URLs are done, as far as the budget then allows",
            )
        else:
            self._answer.set_verdict(
                "parked",
                f"Its host is parked until {when(host.parked_until)}: {host.reason.meaning}"
                f" ({host.detail}).",
            )
            reason_facts(self._answer, host.reason, host.detail)
            rule, _, value = host.detail.partition(" = ")
            self._answer.add_fact("rule", rule)
            self._answer.add_fact("value", value)
            found = site_budget(self._view, self._reader.sites.site_of(host.host))
            site_facts(self._answer, found, self._config.budgets)
            judged_now(self._answer, found, self._config.budgets, host)
            self._answer.add_fact("looked_at_again", host.parked_until, when(host.parked_until))
        host_facts(self._answer, host, self._config, self._now)

    def _speculative(self) -> None:
        known, share = self._visit.speculation, self._config.budgets.speculative_share
        requests, captures = known.requests if known else 0, self._visit.usage.captures
        told = f"{requests:,} requests for such URLs, of {captures:,} captures; at most {share:.0%}"
        self._answer.set_verdict("parked", f"It is parked: {self._record.reason.meaning}.")
        reason_facts(self._answer, self._record.reason, self._record.detail)
        self._answer.add_fact("rule", "budgets.speculative_share")
        self._answer.add_fact("value", told)
        again = "after each answer of its host, or when it is found as a link"
        self._answer.add_fact("looked_at_again", again)
        host_facts(self._answer, self._visit, self._config, self._now)

    def _retired(self) -> None:
        host = self._visit
        self._answer.set_verdict(
            "retired", f"Its host was retired: {why_host(host)}; give the URL as a seed to retry."
        )
        reason_facts(self._answer, host.reason, host.detail)
        host_facts(self._answer, host, self._config, self._now)

    # -- ended

    def _fetched(self) -> None:
        record, history = self._record, self._history()
        stamp = when(history.fetched_at)
        if record.reason is Reason.DUPLICATE:
            self._answer.set_verdict(
                "duplicate",
                f"It was fetched on {stamp}; its body is the same as that of"
                f" {history.duplicate_of}.",
            )
            self._answer.add_fact("duplicate_of", history.duplicate_of)
            self._answer.add_fact(
                "duplicate_of_time", history.date_us / 1e6, when(history.date_us / 1e6)
            )
        elif record.reason is Reason.NEAR_DUPLICATE:
            self._near_duplicate(history, stamp)
        elif record.reason is Reason.NONE:
            self._answer.set_verdict(
                "fetched", f"It was fetched on {stamp} with status {history.status}."
            )
        else:
            self._answer.set_verdict(
                "fetched",
                f"It was fetched on {stamp} with status {history.status}; {record.reason.meaning}.",
            )
        if record.reason is Reason.EXTENSION_FAILED and history.duplicate_of:
            like = "duplicate_of" if history.is_same else "near_duplicate_of"
            self._answer.add_fact(like, history.duplicate_of)
        if record.reason is not Reason.NONE:
            reason_facts(self._answer, record.reason, record.detail)
        self._capture()
        if record.due_at:
            self._answer.add_fact("refetch_at", record.due_at, when(record.due_at))
        else:
            self._answer.add_fact("refetch_at", 0, "not again")

    def _near_duplicate(self, history: History, stamp: str) -> None:
        other = self._reader.find_url(history.duplicate_of)
        theirs = other.record.history.simhash if other and other.record.history else 0
        distance = (theirs ^ history.simhash).bit_count() if theirs else None
        told = f"{distance} of 64 bits differ" if distance is not None else "within three bits"
        self._answer.set_verdict(
            "near_duplicate",
            f"It was fetched on {stamp}; its text is almost the same as that of"
            f" {history.duplicate_of} ({told}).",
        )
        self._answer.add_fact("near_duplicate_of", history.duplicate_of)
        self._answer.add_fact("distance_bits", distance)

    def _redirected(self) -> None:
        history = self._history()
        chain, states, is_loop = self._chain(history.redirect_to)
        if history.redirect_to == self._entry.url:
            to, end = "itself", ": a loop"
        elif is_loop:
            to, end = history.redirect_to, ", and from there in a loop that ends at no document"
        else:
            to, end = history.redirect_to, f", which ends as {states[-1]}" if states else ""
        self._answer.set_verdict(
            "redirected",
            f"It redirects to {to} (status {history.status}, on {when(history.fetched_at)}){end}.",
        )
        self._answer.add_fact("redirect_loop", is_loop or None, "the redirects are a loop")
        self._answer.add_fact("redirect_to", history.redirect_to)
        self._answer.add_fact(
            "chain",
            chain,
            " -> ".join(f"{url} ({state})" for url, state in zip(chain, states, strict=True)),
        )
        self._capture()
        if self._record.due_at:
            self._answer.add_fact("refetch_at", self._record.due_at, when(self._record.due_at))

    def _chain(self, url: str) -> tuple[list[str], list[str], bool]:
        """The redirects from ``url`` on, the states of their URLs, and whether they form a loop."""
        urls: list[str] = []
        states: list[str] = []
        seen = {self._entry.url}
        while url and len(urls) < _CHAIN:
            entry = self._reader.find_url(url)
            urls.append(url)
            states.append(entry.state.label if entry else "not admitted")
            history = entry.record.history if entry else None
            if url in seen:
                return urls, states, True
            seen.add(url)
            url = (
                history.redirect_to
                if history and entry and entry.state is UrlState.REDIRECTED
                else ""
            )
        return urls, states, False

    def _failed(self) -> None:
        record = self._record
        self._answer.set_verdict(
            "failed",
            f"It failed for good, and is a dead letter: {record.reason.meaning}"
            f"{in_brackets(record.detail)}.",
        )
        reason_facts(self._answer, record.reason, record.detail)
        # A stored error page is a capture, after which the record counts from 0: of such a URL
        # only the attempts tell the number.
        self._answer.add_fact("tries", record.tries or None)
        self._tries()
        self._capture()

    def _gone(self) -> None:
        record, history = self._record, self._history()
        again = (
            f"it is looked at again at {when(record.due_at)}"
            if record.due_at
            else "it is not looked at again; give the URL as a seed to retry"
        )
        is_soft = record.reason is Reason.SOFT_GONE
        how = ", as its host answers paths that do not exist," if is_soft else ""
        self._answer.set_verdict(
            "gone",
            f"It was fetched before, and is gone: status {history.status}{how} at"
            f" {when(history.fetched_at)}; {again}.",
        )
        reason_facts(self._answer, record.reason, record.detail)
        self._answer.add_fact(
            "refetch_at", record.due_at, when(record.due_at) if record.due_at else "not again"
        )
        self._capture()

    def _refused(self) -> None:
        record = self._record
        if record.reason is Reason.SPECULATIVE_MISSES:
            self._answer.set_verdict("refused", f"It is refused: {record.reason.meaning}.")
            reason_facts(self._answer, record.reason, record.detail)
            self._answer.add_fact(
                "looked_at_again", "when it is found as a link, or given as a seed"
            )
            host_facts(self._answer, self._visit, self._config, self._now)
            return
        if record.reason is not Reason.ROBOTS_DISALLOWED:
            self._answer.set_verdict(
                "refused_by_scope",
                "It waited when the scope was changed, and was dropped when its turn came:"
                f" {record.detail}; give the URL as a seed to retry.",
            )
            reason_facts(self._answer, record.reason, record.detail)
            return
        self._answer.set_verdict("refused_by_robots", f"robots.txt disallows it: {record.detail}.")
        reason_facts(self._answer, record.reason, record.detail)
        now = robots_now(self._view, self._entry.host8, self._entry.url)
        if now is not None:
            robots_facts(self._answer, now)
            if now.allowed:
                self._answer.add_fact(
                    "robots_now",
                    "allowed",
                    "the robots.txt stored since then allows it; give the URL as a seed to retry",
                )

    # -- facts

    def _history(self) -> History:
        return self._record.history or History()

    def _policy(self) -> None:
        """The rule that says when a fetched URL is fetched again.

        Live settings of a cluster are not among those that were read, so a rule is named only when
        the partition's records are under the same ones.
        """
        if self._record.history is None:
            return
        section = self._config.refetch
        if walk_row(self._view.get).version != policies_version(section):
            self._answer.add_fact(
                "policy", {}, "the rules were changed; lycosa policy test names the one for it"
            )
            return
        facts = rule_facts(section, self._entry.url, self._record.listed)
        self._answer.add_fact("policy", facts, shown_rule(facts))

    def _decisions(self) -> None:
        """What operators decided when the URL was a dead letter."""
        found = decisions_of(self._view.get, self._entry.host8 + self._entry.url8)
        if found:
            self._answer.add_fact(
                "decisions",
                [
                    {"action": each.action.value, "by": each.by, "at": each.date_us / 1e6}
                    for each in found
                ],
                "; ".join(
                    f"{_DECIDED[each.action]} by {each.by} at {when(each.date_us / 1e6)}"
                    for each in found
                ),
            )

    def _capture(self) -> None:
        history = self._record.history
        if history is None or not history.segment:
            return
        answer = self._answer
        stored = stored_capture(self._reader.source, history.segment, history.offset)
        answer.add_fact("fetched_at", history.fetched_at, when(history.fetched_at))
        answer.add_fact("status", history.status)
        answer.add_fact("fetch_number", history.fetches)
        if history.digest:
            answer.add_fact("digest", "sha1:" + base64.b32encode(history.digest).decode())
        path = stored.path if stored else f"warc/{history.segment}"
        answer.add_fact("warc", path)
        answer.add_fact("offset", history.offset)
        if history.body_offset:
            segment, offset = history.body_place
            if history.is_elsewhere:
                answer.add_fact("body_archive", segment.removeprefix(ELSEWHERE))
                answer.add_fact("earlier_capture", history.duplicate_of or self._entry.url)
            else:
                answer.add_fact("body_warc", f"warc/{segment}")
            answer.add_fact("body_offset", offset)
        if stored is None:
            answer.add_fact("warc_problem", "the record cannot be read there; run lycosa audit")
        else:
            self._stored(stored)
        code_facts(answer, self._reader, history.segment)
        answer.add_fact("changes", history.changes or None, f"changed {history.changes} times")

    def _stored(self, stored: Stored) -> None:
        fields, metadata, answer = stored.record.fields, stored.metadata, self._answer
        answer.add_fact("length", stored.length)
        answer.add_fact("record_type", fields.get("WARC-Type", ""))
        answer.add_fact("record_id", fields.get("WARC-Record-ID", "").strip("<>"))
        answer.add_fact("date", fields.get("WARC-Date", ""))
        answer.add_fact(
            "truncated",
            fields.get("WARC-Truncated", "") if fields.get("WARC-Type") == "response" else "",
        )
        if "robotsDecision" in metadata:
            line = int(metadata.get("robotsLine", "0"))
            by = f"line {line} ({metadata.get('robotsRule', '')})" if line else "no rule matched"
            version = metadata.get("robotsVersion", "")
            file = (
                f"robots.txt {version}"
                if version
                else f"no robots.txt (status {metadata.get('robotsStatus', '')})"
            )
            answer.add_fact(
                "robots", metadata["robotsDecision"], f"{metadata['robotsDecision']}: {by}, {file}"
            )
            answer.add_fact("robots_version", version)
            answer.add_fact("robots_group", metadata.get("robotsGroup", ""))
            answer.add_fact("robots_line", line or None)
            answer.add_fact("robots_rule", metadata.get("robotsRule", ""))
            answer.add_fact("robots_fetched", metadata.get("robotsFetched", ""))

        if self._config.agent.purpose or not metadata.keys().isdisjoint(_PREFERENCES):
            self._preferences(metadata)

    def _preferences(self, metadata: Mapping[str, str]) -> None:
        """What the site stated about the use of the page at this fetch, and what follows."""
        answer, words = self._answer, metadata.get("usePreferences", "")
        answers, policy = read_answers(words), agent_policy(self._config.agent)
        answer.add_fact("preferences", answers or None, words)
        statements = metadata.get("useStatement", "").splitlines()
        answer.add_fact("statements", statements or None, "; ".join(statements))
        answer.add_fact("license", metadata.get("license", ""))
        answer.add_fact("payment_price", metadata.get("paymentPrice", ""))
        if policy.purpose:
            may_use = policy.allows(Preferences(answers))
            verb = "may" if may_use else "may not"
            answer.add_fact(
                "may_use", may_use, f"the purpose {', '.join(policy.purpose)} {verb} use it"
            )

    def _tries(self) -> None:
        files = self._reader.origin.find_attempts(self._entry.partition)
        if files is None:
            self._answer.add_fact(
                "attempts_read",
                False,
                "no: `lycosa explain` reads the logs on the machine that sent the requests",
            )
            return
        tries = tries_of(files, self._entry.url)
        rows: list[dict[str, Any]] = [
            {
                "at": each.began,
                "address": each.address,
                "outcome": each.outcome.label if each.outcome is not None else "unfinished",
                "status": each.status,
                "duration_s": round(each.duration_s, 6),
            }
            for each in tries
        ]
        words = [f"{when(each.began)}: {_result(each)} from {each.address}" for each in tries]
        self._answer.add_fact("attempts", rows or None, "; ".join(words))

    def _origin(self) -> None:
        record, answer = self._record, self._answer
        via = record.via
        if via.startswith("/"):
            via = join_url(scheme_of(self._entry.url), host_of(self._entry.url), via)
        answer.add_fact("found_at", record.found_at, when(record.found_at))
        answer.add_fact("found_on", via)
        answer.add_fact("found_as", record.kind.name.lower())
        answer.add_fact("depth", record.depth)
        answer.add_fact("hops", record.hops or None)
        answer.add_fact("priority", round(record.priority / 255, 3))
        rank_facts(answer, self._reader, self._entry, self._visit)
        answer.add_fact("score", round(record.score / 255, 3) if record.score >= 0 else None)
        answer.add_fact("partition", self._entry.partition)


def _result(tried: Tried) -> str:
    """How a request ended: ``status 404``, ``connect_timeout``, ``unfinished``."""
    if tried.outcome is None:
        return "unfinished"
    parts = [
        tried.outcome.label if tried.outcome else "",
        f"status {tried.status}" if tried.status else "",
    ]
    return ", ".join(filter(None, parts)) or "answered"
