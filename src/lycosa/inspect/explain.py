"""Why a URL stands where it stands: one answer in one sentence, and the facts behind it.

The answer is taken from what the owner of the URL decided and wrote down. What was refused by a pure rule left no trace but a count, so
such a URL, and one that was never found, is judged again, by the settings, seeds and robots.txt that the crawl has now.
"""

from __future__ import annotations

import base64
import random
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from lycosa.admit.budgets import over_budget, over_discovery
from lycosa.config import Config
from lycosa.frontier.visit_state import HostState, VisitRecord
from lycosa.inspect.explain_lookup import FoundOn, Stored, found_on, place_in_queue, stored_capture, tries_of
from lycosa.inspect.reader import CrawlReader, TableView, UrlEntry
from lycosa.inspect.saved import PureRules, Saved
from lycosa.kv.records import UrlRecord, prefix_end, robots_key, site_key
from lycosa.model.capture import RobotsDecision
from lycosa.model.completed import History, UrlState
from lycosa.model.discovered import LinkKind
from lycosa.model.usage import Usage
from lycosa.politeness.delay import Delay, delay_s
from lycosa.politeness.robots_cache import RobotsRecord, decision
from lycosa.politeness.robots_rules import Matcher
from lycosa.reasons import Reason
from lycosa.url import InvalidUrl, hash8, host_of, join_url, scheme_of, target_of

_HASH = re.compile(r"[0-9a-fA-F]{16}")
_NO_SCHEME = re.compile(r"(?!https?:)[A-Za-z0-9.-]+\.[A-Za-z0-9-]+(?::[0-9]+)?(?:[/?#].*)?", re.DOTALL)
_CHAIN = 10
_USAGE = msgspec.msgpack.Decoder(Usage)
_ROBOTS = msgspec.msgpack.Decoder(RobotsRecord)


class Fact(msgspec.Struct, frozen=True):
    """One fact: a stable key, its value for programs, and its words for people."""

    key: str
    value: Any
    text: str


class Explanation(msgspec.Struct, kw_only=True):
    """The answer. ``verdict`` is one of a fixed set of words, ``headline`` one sentence."""

    asked: str
    url: str = ""
    url_hash: str = ""
    verdict: str = ""
    headline: str = ""
    facts: list[Fact] = []

    def say(self, verdict: str, headline: str) -> Explanation:
        """Sets the answer."""
        self.verdict, self.headline = verdict, headline
        return self

    def add(self, key: str, value: Any, text: str = "") -> None:
        """Adds a fact; one that is empty is left out."""
        if value not in ("", None):
            self.facts.append(Fact(key, value, text or str(value)))

    def to_json(self) -> dict[str, Any]:
        """Stable keys; ``facts`` by their key."""
        return {
            "asked": self.asked,
            "url": self.url,
            "urlHash": self.url_hash,
            "verdict": self.verdict,
            "headline": self.headline,
            "facts": {fact.key: fact.value for fact in self.facts},
        }


def explain(reader: CrawlReader, saved: Saved, asked: str, now: float) -> Explanation:
    """Answers for a URL in any spelling, or for a ``urlHash``; ``now`` is wall time in seconds."""
    answer = Explanation(asked=asked)
    if _HASH.fullmatch(asked):
        entry = _by_hash(reader, bytes.fromhex(asked))
        answer.url_hash = asked.lower()
        if entry is None:
            return answer.say("unknown_hash", "No known URL has this hash.")
    else:
        try:
            url = saved.canonicalizer.canonical(f"http://{asked}" if _NO_SCHEME.fullmatch(asked) else asked)
        except InvalidUrl as error:
            return answer.say("not_a_url", f"This is not a URL that can be crawled: {error.detail}.")
        entry = reader.find(url)
        if entry is None:
            answer.url, answer.url_hash = url, hash8(url).hex()
            with reader.view(reader.partition_of(url)) as view:
                return _Unknown(reader, saved, view, answer, now).run()
    answer.url, answer.url_hash = entry.url, entry.url8.hex()
    with reader.view(entry.partition) as view:
        return _Known(reader, saved, view, entry, answer, now).run()


class _Known:
    """Explains a URL that has a record."""

    def __init__(self, reader: CrawlReader, saved: Saved, view: TableView, entry: UrlEntry, answer: Explanation, now: float) -> None:
        self._reader, self._config, self._view = reader, saved.config, view
        self._entry, self._record, self._answer, self._now = entry, entry.record, answer, now
        self._visit = view.visit(entry.host8) or VisitRecord(host_of(entry.url))

    def run(self) -> Explanation:
        by_state: dict[UrlState, Callable[[], None]] = {
            UrlState.QUEUED: self._queued,
            UrlState.PARKED: self._parked,
            UrlState.FETCHED: self._fetched,
            UrlState.REDIRECTED: self._redirected,
            UrlState.FAILED: self._failed,
            UrlState.REFUSED: self._refused,
            UrlState.RETIRED: self._retired,
        }
        self._answer.add("state", self._entry.state.label)
        by_state[self._entry.state]()
        self._origin()
        return self._answer

    # -- waiting ------------------------------------------------------------------------------------------------

    def _queued(self) -> None:
        record, answer = self._record, self._answer
        if record.due_at:
            answer.say(
                "retrying",
                f"It waits for a retry at {when(record.due_at)}: {record.reason.meaning} "
                f"(request {record.tries} of {self._config.retry.tries}).",
            )
            answer.add("due_at", record.due_at, when(record.due_at))
            answer.add("tries", record.tries)
            _reason(answer, record.reason, record.detail)
            self._tries()
        else:
            self._waiting()
        self._capture()
        host_facts(answer, self._visit, self._config, self._now)

    def _waiting(self) -> None:
        place = place_in_queue(self._view, self._entry.host8, self._entry.url8)
        again = " to be fetched again" if self._record.history else ""
        state = self._visit.state
        if place is None:
            self._answer.say("queued", f"It waits{again}, but its host's queue does not hold it; run the audit.")
            return
        steady = steady_delay(self._visit, self._config)
        wait_s = max(self._visit.next_at - self._now, 0.0) + place.before * steady
        self._answer.add("queue_before", place.before, f"{place.before:,} of {place.waiting:,} waiting URLs of the host stand before it")
        self._answer.add("queue_waiting", place.waiting)
        self._answer.add("queue_band", place.band, f"{place.band} (0 is the best)")
        self._answer.add("estimate_s", round(wait_s, 1), f"{span(wait_s)} at the soonest, at {steady:g} s a request")
        self._answer.add("host_delay_s", steady)
        if state is HostState.SNOOZED:
            headline = f"It waits{again}: its host rests until {when(self._visit.next_at)}, {self._visit.reason.meaning}."
        else:
            headline = f"It waits{again}: {place.before:,} URLs of its host come first, which takes {span(wait_s)} at the soonest."
        self._answer.say("queued", headline)

    def _parked(self) -> None:
        record, visit = self._record, self._visit
        if record.state is UrlState.PARKED:
            refusal = over_discovery(self._config.budgets, visit.usage)
            value = refusal.value if refusal else "within it by now"
            self._answer.say("parked", f"It is parked: {record.reason.meaning} ({value}).")
            _reason(self._answer, record.reason, record.detail)
            self._answer.add("rule", "budgets.discovery_per_page")
            self._answer.add("value", value)
            self._answer.add("looked_at_again", "when the host's other URLs are done, as far as the budget then allows")
        else:
            self._answer.say("parked", f"Its host is parked until {when(visit.parked_until)}: {visit.reason.meaning} ({visit.detail}).")
            _reason(self._answer, visit.reason, visit.detail)
            self._answer.add("looked_at_again", visit.parked_until, when(visit.parked_until))
        host_facts(self._answer, visit, self._config, self._now)

    def _retired(self) -> None:
        visit = self._visit
        self._answer.say(
            "retired", f"Its host was given up: {visit.reason.meaning}{_in_brackets(visit.detail)}; give it as a seed to try again."
        )
        _reason(self._answer, visit.reason, visit.detail)
        host_facts(self._answer, visit, self._config, self._now)

    # -- ended --------------------------------------------------------------------------------------------------

    def _fetched(self) -> None:
        record, history = self._record, self._history()
        stamp = when(history.fetched_at)
        if record.reason is Reason.DUPLICATE:
            self._answer.say("duplicate", f"It was fetched on {stamp}; its body is the same as that of {history.duplicate_of}.")
            self._answer.add("duplicate_of", history.duplicate_of)
            self._answer.add("duplicate_of_time", history.date_us / 1e6, when(history.date_us / 1e6))
        elif record.reason is Reason.NEAR_DUPLICATE:
            self._near_duplicate(history, stamp)
        elif record.reason is Reason.NONE:
            self._answer.say("fetched", f"It was fetched on {stamp} with status {history.status}.")
        else:
            self._answer.say("fetched", f"It was fetched on {stamp} with status {history.status}; {record.reason.meaning}.")
        if record.reason is not Reason.NONE:
            _reason(self._answer, record.reason, record.detail)
        self._capture()
        if record.due_at:
            self._answer.add("refetch_at", record.due_at, when(record.due_at))
        else:
            self._answer.add("refetch_at", 0, "not again")

    def _near_duplicate(self, history: History, stamp: str) -> None:
        other = self._reader.find(history.duplicate_of)
        theirs = other.record.history.simhash if other and other.record.history else 0
        distance = (theirs ^ history.simhash).bit_count() if theirs else None
        told = f"{distance} bits of 64 differ" if distance is not None else "within three bits"
        self._answer.say("near_duplicate", f"It was fetched on {stamp}; its text is nearly that of {history.duplicate_of} ({told}).")
        self._answer.add("near_duplicate_of", history.duplicate_of)
        self._answer.add("distance_bits", distance)

    def _redirected(self) -> None:
        history = self._history()
        chain, states = self._chain(history.redirect_to)
        end = f", which ends as {states[-1]}" if states else ""
        self._answer.say(
            "redirected", f"It redirects to {history.redirect_to} (status {history.status}, on {when(history.fetched_at)}){end}."
        )
        self._answer.add("redirect_to", history.redirect_to)
        self._answer.add("chain", chain, " -> ".join(f"{url} ({state})" for url, state in zip(chain, states, strict=True)))
        self._capture()
        if self._record.due_at:
            self._answer.add("refetch_at", self._record.due_at, when(self._record.due_at))

    def _chain(self, url: str) -> tuple[list[str], list[str]]:
        urls: list[str] = []
        states: list[str] = []
        while url and url not in urls and len(urls) < _CHAIN:
            entry = self._reader.find(url)
            urls.append(url)
            states.append(entry.state.label if entry else "not admitted")
            history = entry.record.history if entry else None
            url = history.redirect_to if history and entry and entry.state is UrlState.REDIRECTED else ""
        return urls, states

    def _failed(self) -> None:
        record = self._record
        self._answer.say("failed", f"It is a dead letter: {record.reason.meaning}{_in_brackets(record.detail)}.")
        _reason(self._answer, record.reason, record.detail)
        self._answer.add("tries", max(record.tries, 1))
        self._tries()
        self._capture()

    def _refused(self) -> None:
        record = self._record
        self._answer.say("refused_by_robots", f"robots.txt disallows it: {record.detail}.")
        _reason(self._answer, record.reason, record.detail)
        now = robots_now(self._view, self._entry.host8, self._entry.url)
        if now is not None:
            _robots_facts(self._answer, now)
            if now.allowed:
                self._answer.add("robots_now", "allowed", "the file that is stored by now allows it; give it as a seed to try again")

    # -- facts --------------------------------------------------------------------------------------------------

    def _history(self) -> History:
        return self._record.history or History()

    def _capture(self) -> None:
        history = self._record.history
        if history is None or not history.segment:
            return
        answer = self._answer
        stored = stored_capture(self._reader.folder, history.segment, history.offset)
        answer.add("fetched_at", history.fetched_at, when(history.fetched_at))
        answer.add("status", history.status)
        answer.add("fetch_number", history.fetches)
        if history.digest:
            answer.add("digest", "sha1:" + base64.b32encode(history.digest).decode())
        path = stored.path if stored else f"warc/{history.segment}"
        answer.add("warc", path)
        answer.add("offset", history.offset)
        if stored is None:
            answer.add("warc_problem", "the record cannot be read there; run the audit")
        else:
            self._stored(stored)
        answer.add("changes", history.changes or None, f"changed {history.changes} times")

    def _stored(self, stored: Stored) -> None:
        fields, metadata, answer = stored.record.fields, stored.metadata, self._answer
        answer.add("length", stored.length)
        answer.add("record_type", fields.get("WARC-Type", ""))
        answer.add("record_id", fields.get("WARC-Record-ID", "").strip("<>"))
        answer.add("date", fields.get("WARC-Date", ""))
        answer.add("truncated", fields.get("WARC-Truncated", "") if fields.get("WARC-Type") == "response" else "")
        if "robotsDecision" in metadata:
            line = int(metadata.get("robotsLine", "0"))
            by = f"line {line} ({metadata.get('robotsRule', '')})" if line else "no rule matched"
            version = metadata.get("robotsVersion", "")
            file = f"robots.txt {version}" if version else f"no robots.txt (status {metadata.get('robotsStatus', '')})"
            answer.add("robots", metadata["robotsDecision"], f"{metadata['robotsDecision']}: {by}, {file}")
            answer.add("robots_version", version)
            answer.add("robots_group", metadata.get("robotsGroup", ""))
            answer.add("robots_line", line)
            answer.add("robots_rule", metadata.get("robotsRule", ""))
            answer.add("robots_fetched", metadata.get("robotsFetched", ""))

    def _tries(self) -> None:
        tries = tries_of(self._reader.folder, self._entry.url)
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
        words = [f"{when(row['at'])} {row['outcome']} {row['status'] or ''} from {row['address']}".replace("  ", " ") for row in rows]
        self._answer.add("attempts", rows or None, "; ".join(words))

    def _origin(self) -> None:
        record, answer = self._record, self._answer
        via = record.via
        if via.startswith("/"):
            via = join_url(scheme_of(self._entry.url), host_of(self._entry.url), via)
        answer.add("found_at", record.found_at, when(record.found_at))
        answer.add("found_on", via)
        answer.add("found_as", record.kind.name.lower())
        answer.add("depth", record.depth)
        answer.add("hops", record.hops or None)
        answer.add("priority", round(record.priority / 255, 3))
        answer.add("partition", self._entry.partition)


class _Unknown:
    """Explains a URL that has no record: what would become of it."""

    def __init__(self, reader: CrawlReader, saved: Saved, view: TableView, answer: Explanation, now: float) -> None:
        self._reader, self._saved, self._view, self._answer, self._now = reader, saved, view, answer, now
        self._url = answer.url
        self._host8 = hash8(host_of(answer.url))

    def run(self) -> Explanation:
        link = found_on(self._reader.folder, self._url)
        depth, kind = self._as_found(link)
        rules = PureRules(self._reader, self._saved)
        refusal = rules.judge(self._url, kind, depth, self._now, bool(link and link.nofollow))
        if link is not None:
            self._answer.add("found_on", link.page)
            self._answer.add("found_as", link.kind)
        met = "Its links were" if link else "It was never found; if it were, it would be"
        if refusal is not None:
            self._answer.say(
                f"refused_by_{_stage(refusal.reason)}", f"{met} refused: {refusal.reason.meaning} ({refusal.rule}: {refusal.value})."
            )
            _reason(self._answer, refusal.reason, "")
            self._answer.add("rule", refusal.rule)
            self._answer.add("value", refusal.value)
            return self._answer
        return self._state_rules(link)

    def _as_found(self, link: FoundOn | None) -> tuple[int, LinkKind]:
        """The depth and kind that the URL had when it was found; one link from a seed when it never was."""
        if link is None:
            return 1, LinkKind.A
        source = self._reader.find(link.page)
        return (source.record.depth if source else 0) + 1, LinkKind[link.kind.upper()]

    def _state_rules(self, link: FoundOn | None) -> Explanation:
        answer, visit = self._answer, self._view.visit(self._host8)
        verdict = robots_now(self._view, self._host8, self._url)
        if verdict is not None:
            _robots_facts(answer, verdict)
            if not verdict.allowed:
                return answer.say(
                    "refused_by_robots",
                    f"It was never found; if it were, robots.txt would disallow it (line {verdict.line}, {verdict.rule}).",
                )
        if visit is None:
            answer.add("host_known", False, "no URL of this host is known")
            return answer.say("never_seen", "It was never found; if it were, it would be crawled as far as its host's robots.txt allows.")
        host_facts(answer, visit, self._saved.config, self._now)
        if visit.state is HostState.RETIRED:
            return answer.say("never_seen", f"It was never found, and its host was given up: {visit.reason.meaning}.")
        usage = self._view.get(site_key(self._reader.sites.site_of(visit.host)))
        budget = over_budget(self._saved.config.budgets, visit.usage, _USAGE.decode(usage) if usage else Usage())
        if budget is not None:
            answer.add("rule", budget.rule)
            answer.add("value", budget.value)
            return answer.say(
                "never_seen", f"It was never found; if it were, it would be parked: {budget.reason.meaning} ({budget.value})."
            )
        self._variant()
        if link is not None:
            return answer.say("never_seen", f"{link.page} links to it and it has no record, although no rule is against it; run the audit.")
        known = "" if verdict is not None else ", as far as its host's robots.txt allows"
        return answer.say("never_seen", f"It was never found; if it were, it would be crawled{known}.")

    def _variant(self) -> None:
        """The same address by the other scheme."""
        other = join_url("http" if scheme_of(self._url) == "https" else "https", host_of(self._url), target_of(self._url))
        entry = self._reader.find(other)
        if entry is not None:
            self._answer.add("other_scheme", other, f"{other} is known: {entry.state.label}")


def robots_now(view: TableView, host8: bytes, url: str) -> RobotsDecision | None:
    """What the robots.txt that is stored for the URL's origin says; ``None`` when none was read."""
    value = view.get(robots_key(host8, scheme_of(url) == "https"))
    if value is None:
        return None
    record = _ROBOTS.decode(value)
    return decision(record, Matcher(record.rules).judge(target_of(url))) if record.status else None


def host_facts(answer: Explanation, visit: VisitRecord, config: Config, now: float) -> None:
    """How the URL's host stands."""
    answer.add("host", visit.host)
    answer.add("host_state", visit.state.label)
    if visit.state is HostState.SNOOZED or visit.next_at > now:
        delay = owed(visit, config, now)
        why = f"{visit.reason.meaning}{_in_brackets(visit.detail)}" if visit.reason else f"delay by {delay.source}"
        answer.add("host_next_at", visit.next_at, f"{when(visit.next_at)}: {why}")
        answer.add("host_delay_source", delay.source)
    if visit.reason:
        answer.add("host_reason", visit.reason.label, visit.reason.meaning)
        answer.add("host_detail", visit.detail)
    answer.add("host_waiting", visit.waiting)
    answer.add("host_pages", visit.usage.pages)


def owed(visit: VisitRecord, config: Config, now: float) -> Delay:
    """The delay that the host is owed now, without jitter, and who asks for it."""
    return delay_s(visit.pace, msgspec.structs.replace(config.politeness, jitter=0.0), now, random.Random(0))


def steady_delay(visit: VisitRecord, config: Config) -> float:
    """Seconds between two requests to a host when nothing unusual happens, jitter at its mean."""
    pace = msgspec.structs.replace(visit.pace, backoffs=0, retry_at=0.0)
    section = config.politeness
    plain = delay_s(pace, msgspec.structs.replace(section, jitter=0.0), 0.0, random.Random(0)).seconds
    return round(plain * (1 + section.jitter / 2), 3)


def when(wall: float) -> str:
    """A wall time for people."""
    return f"{datetime.fromtimestamp(wall, UTC):%Y-%m-%d %H:%M:%S} UTC"


def span(seconds: float) -> str:
    """A duration for people: its two largest units."""
    if seconds < 1:
        return "less than a second"
    parts = []
    for name, size in (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1)):
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{int(number)} {name}{'s' if number != 1 else ''}")
    return " ".join(parts[:2])


def _by_hash(reader: CrawlReader, url8: bytes) -> UrlEntry | None:
    """Looks through all keys: a record's key begins with its host."""
    for view in reader.views():
        for key, _ in view.scan(b"U", prefix_end(b"U")):
            if key[9:] == url8:
                visit = view.visit(key[1:9])
                record: UrlRecord | None = view.record(key[1:9], url8)
                if visit is not None and record is not None:
                    return reader.find(join_url("https" if record.secure else "http", visit.host, record.target))
    return None


def _stage(reason: Reason) -> str:
    return "trap" if Reason.URL_TOO_LONG <= reason <= Reason.TOO_MANY_PARAMETERS else "scope"


def _reason(answer: Explanation, reason: Reason, detail: str) -> None:
    answer.add("reason", reason.label, reason.meaning)
    answer.add("detail", detail)


def _robots_facts(answer: Explanation, found: RobotsDecision) -> None:
    answer.add("robots_version", found.version, f"{found.version}, read on {when(found.fetched)}")
    answer.add("robots_fetched", found.fetched, when(found.fetched))
    answer.add("robots_group", found.group)
    answer.add("robots_line", found.line)
    answer.add("robots_rule", found.rule)


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""
