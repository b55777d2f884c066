"""Answers questions about the committed state of one partition, within a time budget.

The same functions answer for the tables of a running worker, for a crawl folder and for the
snapshots of a cluster. Nothing here waits, and nothing is read that could be large: of a list only
one piece is read, and where the budget ends, the answer says so and how to continue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from lycosa.base.calls import (
    ActionsQuery,
    CallRefusal,
    CallReply,
    CapturesQuery,
    ChangesQuery,
    ContentFound,
    ContentQuery,
    CountsQuery,
    DeadLettersQuery,
    Found,
    HostQuery,
    HostsQuery,
    HostUrlsQuery,
    ListingsQuery,
    ScopeQuery,
    StateQuestion,
    UrlQuery,
    UrlStatesQuery,
)
from lycosa.base.config.live_settings import with_live
from lycosa.base.model.url_state import UrlState
from lycosa.base.preferences.preference_model import Preferences
from lycosa.base.preferences.use_policy import agent_policy
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import InvalidUrl, hash8, host_of
from lycosa.inspect.committed_state import CrawlReader, HostEntry, TableView
from lycosa.inspect.queries.capture_queries import capture_at, captures_of, content_of
from lycosa.inspect.queries.changed_list import changes_in, generation_of
from lycosa.inspect.queries.dead_letter_queries import DeadLetterLister
from lycosa.inspect.queries.decision_queries import decisions_about, decisions_behind
from lycosa.inspect.queries.host_orders import HOST_ORDERS, HostOrders
from lycosa.inspect.queries.host_queries import HostLister
from lycosa.inspect.queries.host_rows import last_fetches, state_named, whole_host
from lycosa.inspect.queries.listing_queries import listings
from lycosa.inspect.queries.scope_trial import ScopeJudges, trial_values
from lycosa.inspect.queries.time_budget import DEFAULT_BUDGET_S, BudgetedView, OutOfTime, TimeBudget
from lycosa.inspect.queries.url_queries import UrlFinder, explained_url, url_row, urls_of_host
from lycosa.inspect.saved_settings import SavedSettings, load_saved_settings
from lycosa.stages.frontier.visit_state import HostState
from lycosa.state.shard.counters import Counters
from lycosa.state.shard.view import CrawlView

MAX_ROWS = 1000
"""Most rows of one piece of a list."""

_NOT_FOUND_IN_TIME = "finding this URL by its hash takes too long; give the URL or its id"
_WANTED_S = 60.0  # after the last question for an order, its hosts are not read again
_LEAST_AGE_S, _WORK_AGE = 30.0, 200.0  # of an order: at least, and by the work that it costs
_FIRST_READING_S = 0.01  # within a question, when the hosts are read between questions


class StateAnswers:
    """Answers questions, and keeps the orders of hosts between them.

    ``now`` is wall time. With ``is_kept_ready`` the owner of this object calls ``read_orders``
    between questions, so a question does not wait for it.
    """

    def __init__(self, now: Callable[[], float] = time.time, is_kept_ready: bool = False) -> None:
        self._now, self._is_kept_ready = now, is_kept_ready
        self._orders: dict[int, HostOrders] = {}
        self._wanted: dict[int, float] = {}  # when an order was asked for last
        self.saved: SavedSettings | None = None
        """The settings of the crawl at the last answer."""

    def answer(
        self, source: CrawlView, partition: int, question: StateQuestion, budget: TimeBudget
    ) -> CallReply:
        """The answer to one question. Raises what the view raises for damaged files."""
        # Every row that is read is counted, so a question about a large partition ends in time.
        reader = CrawlReader(BudgetedView(source, budget))
        saved = self.saved = load_saved_settings(reader)
        with reader.partition_view(partition) as view:
            asked = _Asked(reader, view, saved, budget, self._now())
            try:
                return self._answer(asked, question)
            except (InvalidUrl, ValueError, KeyError) as error:
                return CallRefusal(_refusal(question, error))

    def _answer(self, asked: _Asked, question: StateQuestion) -> CallReply:
        match question:
            case CountsQuery():
                return asked.found([_counts(asked.view.counters())])
            case HostsQuery():
                return self._hosts(asked, question)
            case HostQuery():
                return asked.host(question)
            case HostUrlsQuery():
                return asked.host_urls(question)
            case UrlQuery():
                return asked.url(question)
            case UrlStatesQuery():
                return asked.url_states(question)
            case CapturesQuery():
                return asked.captures(question)
            case ContentQuery():
                return asked.content(question)
            case DeadLettersQuery():
                return asked.letters(question)
            case ActionsQuery():
                return asked.actions(question)
            case ListingsQuery():
                return asked.listings(question)
            case ScopeQuery():
                present = with_live(asked.saved.config, question.present)
                judges = ScopeJudges(present, question.values)
                trial = judges.count(asked.view, question.after)
                row = trial_values(trial) | {"share": trial.share}
                return asked.found([row], trial.after, is_partial=bool(trial.after))
            case ChangesQuery():
                most = max(min(question.most, MAX_ROWS), 1)
                meant = msgspec.structs.replace(question, most=most)
                return changes_in(asked.view, generation_of(asked.reader), meant)

    def _hosts(self, asked: _Asked, query: HostsQuery) -> CallReply:
        if query.sort not in ("name", *HOST_ORDERS):
            return CallRefusal(
                f"hosts are sorted by name, {', '.join(HOST_ORDERS)}, not by {query.sort!r}"
            )
        partition = asked.view.number
        orders = self._orders.setdefault(partition, HostOrders())
        if query.sort != "name" and not query.search:
            self._wanted[partition] = asked.now
            if not orders.is_complete or (not self._is_kept_ready and self._is_stale(orders)):
                budget = TimeBudget(_FIRST_READING_S) if self._is_kept_ready else asked.budget
                orders.read_on(asked.view, budget, asked.now)
        lister = HostLister(asked.reader, asked.view, asked.saved, asked.budget, asked.now)
        page = lister.list_hosts(query, orders)
        return msgspec.structs.replace(
            asked.found(page.rows, page.cursor, page.is_partial),
            ordered_at=page.ordered_at,
            is_cut=page.is_cut,
        )

    def unread(self) -> list[int]:
        """Partitions whose hosts should be read again, because an order was asked for lately."""
        now = self._now()
        return [
            number
            for number, asked_at in self._wanted.items()
            if now - asked_at < _WANTED_S and self._is_stale(self._orders[number])
        ]

    def _is_stale(self, orders: HostOrders) -> bool:
        """Whether to read its hosts again; all partitions together for at most 0.5 % of a core."""
        work_s = sum(each.work_s for each in self._orders.values())
        return orders.is_older(self._now(), max(_LEAST_AGE_S, _WORK_AGE * work_s))

    def is_new(self, partitions: Sequence[int]) -> bool:
        """Whether the hosts of one of these were never read to the end, so a caller waits."""
        return any(not self._orders[number].is_complete for number in partitions)

    def read_orders(self, source: CrawlView, partition: int, budget: TimeBudget) -> None:
        """Continue reading the hosts of a partition for its orders."""
        with CrawlReader(source).partition_view(partition) as view:
            self._orders[partition].read_on(view, budget, self._now())


def answer_question(
    source: CrawlView,
    partition: int,
    question: StateQuestion,
    budget_s: float = DEFAULT_BUDGET_S,
) -> CallReply:
    """The answer to a single question; orders of hosts are read for it alone."""
    return StateAnswers().answer(source, partition, question, TimeBudget(budget_s))


class _Asked(msgspec.Struct, frozen=True):
    """One question's view of its partition."""

    reader: CrawlReader
    view: TableView
    saved: SavedSettings
    budget: TimeBudget
    now: float

    def found(
        self, rows: list[dict[str, Any]], cursor: str = "", is_partial: bool = False
    ) -> Found:
        return Found(msgspec.json.encode(rows), cursor, self.reader.last_commit, is_partial)

    def host(self, query: HostQuery) -> Found:
        name = query.host.strip().lower()
        host8 = hash8(name)
        record = self.view.host_record(host8)
        if record is None:
            return self.found([])
        entry = HostEntry(self.view.number, host8, record)
        row = whole_host(self.reader, self.view, entry, self.saved, self.now)
        row["decisions"], row["fetches"], is_partial = [], [], False
        try:
            row["decisions"] = decisions_about(self.view, name)
            row["fetches"] = last_fetches(self.reader, self.view, entry)
        except OutOfTime:
            # The row itself is there; decisions and fetches only add to it.
            is_partial = True
        return self.found([row], is_partial=is_partial)

    def host_urls(self, query: HostUrlsQuery) -> Found:
        state = state_named(query.state)
        if query.state and state is None:
            raise ValueError(f"{query.state!r} is no state of a URL")
        rows: list[dict[str, Any]] = []
        cursor = ""
        name = query.host.strip().lower()
        try:
            for mark, entry in urls_of_host(self.view, name, state, query.after):
                cursor = mark
                if entry is None:
                    continue
                rows.append(url_row(self.reader, entry, self.now) | {"order": mark, "cursor": mark})
                if len(rows) >= min(query.most, MAX_ROWS):
                    return self.found(rows, cursor)
        except OutOfTime:
            # The cursor is behind the last row that was looked at, so the next call makes progress.
            return self.found(rows, cursor, is_partial=True)
        return self.found(rows)

    def url_states(self, query: UrlStatesQuery) -> Found:
        canonicalizer = self.saved.canonicalizer
        rows: list[dict[str, Any]] = []
        for given in query.urls:
            try:
                url = canonicalizer.canonical(given)
            except InvalidUrl:
                # What is no URL has no state, and the caller sees that the row is missing.
                continue
            host8 = hash8(host_of(url))
            record = self.view.url_record(host8, hash8(url))
            if record is not None:
                host = self.view.host_record(host8)
                is_retired = host is not None and host.state is HostState.RETIRED
                state = UrlState.RETIRED if is_retired else record.state
                rows.append({"url": given, "state": state.label})
        return self.found(rows)

    def url(self, query: UrlQuery) -> Found:
        finder = UrlFinder(self.reader, self.view, self.saved)
        try:
            entry = finder.find(query.url, query.after)
        except OutOfTime:
            # With the position of the search, at which the caller's next question continues it.
            return self.found([], finder.position, is_partial=True)
        except InvalidUrl:
            entry = None  # the explanation says what is wrong with it
        row: dict[str, Any] = {"record": url_row(self.reader, entry, self.now)} if entry else {}
        if entry is None and finder.is_hash(query.url):
            return self.found([])
        try:
            asked = entry.url if entry else query.url
            row |= explained_url(self.reader, self.saved, asked, self.now)
        except OutOfTime:
            row |= {
                "asked": query.url,
                # The record was found in time, so it is answered although the explanation was not.
                "url": entry.url if entry else query.url,
                "verdict": entry.state.label if entry else "unknown",
                "headline": "Explaining it takes longer than a running crawl may be kept busy:"
                " run `lycosa explain`.",
                "facts": {},
                "texts": {},
            }
            return self.found([row], is_partial=True)
        return self.found([row])

    def captures(self, query: CapturesQuery) -> CallReply:
        finder = UrlFinder(self.reader, self.view, self.saved)
        try:
            entry = finder.find(query.url)
        except OutOfTime:
            # No part of an answer is useful here: captures belong to a URL that is not found yet.
            return CallRefusal(_NOT_FOUND_IN_TIME)
        if entry is None:
            return self.found([])
        captures, is_complete = captures_of(self.reader, entry, self.budget)
        rows = [each.to_row(entry) for each in captures if each.mark > query.after]
        most = max(min(query.most, MAX_ROWS), 1)
        cursor = rows[most - 1]["cursor"] if len(rows) > most else ""
        return self.found(rows[:most], cursor, is_partial=not is_complete)

    def content(self, query: ContentQuery) -> CallReply:
        finder = UrlFinder(self.reader, self.view, self.saved)
        try:
            entry = finder.find(query.url)
        except OutOfTime:
            # Without the URL there is no place from which a repeated call could continue.
            return CallRefusal(_NOT_FOUND_IN_TIME)
        captures, is_complete = (
            captures_of(self.reader, entry, self.budget) if entry else ([], True)
        )
        # The capture that was asked for may be one of those that were not read.
        if query.at and not is_complete:
            return CallRefusal("the captures of this URL take too long to read; ask for the newest")
        capture = capture_at(captures, query.at)
        # One record is read from here on, whose size is bounded.
        self.budget.release()
        content = content_of(self.reader, self.view, capture) if capture else None
        if entry is None or capture is None or content is None:
            return ContentFound(b"{}")
        about = capture.to_row(entry) | {
            "record_id": content.record_id,
            "headers": content.headers.decode("latin-1"),
            "reason": content.reason,
            "preferences": content.answers,
        }
        if content.privacy:
            about["privacy"] = content.privacy
        policy = agent_policy(self.saved.config.agent)
        if policy.purpose:
            about["may_use"] = policy.allows(Preferences(content.answers))
        if content.refers_to is not None:
            about["refers_to"] = content.refers_to._asdict()
        piece = content.body[query.offset : query.offset + query.most_bytes]
        return ContentFound(
            msgspec.json.encode(about), piece, len(content.body), content.media_type
        )

    def listings(self, query: ListingsQuery) -> Found:
        rows: list[dict[str, Any]] = []
        cursor = ""
        try:
            for mark, row in listings(self.reader, self.view, query, self.now):
                cursor = mark
                rows.append(row)
                if len(rows) >= min(query.most, MAX_ROWS):
                    return self.found(rows, cursor)
        except OutOfTime:
            # The cursor is behind the last row, so the next call makes progress.
            return self.found(rows, cursor, is_partial=True)
        return self.found(rows)

    def letters(self, query: DeadLettersQuery) -> Found:
        rows: list[dict[str, Any]] = []
        lister = DeadLetterLister(self.view, query)
        try:
            for row in lister.letters():
                rows.append(row)
                if len(rows) >= min(query.most, MAX_ROWS):
                    return self.found(rows, lister.position)
        except OutOfTime:
            # The position counts the dead letters that did not match too, so the next call
            # continues behind them.
            return self.found(rows, lister.position, is_partial=True)
        return self.found(rows)

    def actions(self, query: ActionsQuery) -> Found:
        rows: list[dict[str, Any]] = []
        cursor = query.after
        try:
            for row in decisions_behind(self.view, query.after):
                rows.append(row)
                cursor = row["cursor"]
                if len(rows) >= min(query.most, MAX_ROWS):
                    return self.found(rows, cursor)
        except OutOfTime:
            # Empty pages are possible; the cursor tells the caller where to continue.
            return self.found(rows, cursor, is_partial=True)
        return self.found(rows)


def _counts(counters: Counters) -> dict[str, Any]:
    """The counters of a partition with the names of ``lycosa status --json``."""
    return {
        "discovered": counters.discovered,
        "states": {state.label: counters.count_in(state) for state in UrlState},
        "captures": counters.captures,
        "pages": counters.pages,
        "requests": counters.requests,
        "body_bytes": counters.body_bytes,
        "reasons": {Reason(number).label: n for number, n in counters.reasons.items() if number},
        "refusals": {Reason(number).label: n for number, n in counters.rule_refusals.items()},
        "hosts": counters.hosts,
        "hosts_by_state": {
            HostState.PARKED.label: counters.hosts_parked,
            HostState.RETIRED.label: counters.hosts_retired,
            HostState.PAUSED.label: counters.hosts_paused,
        },
        "hosts_asleep": counters.hosts_asleep,
    }


def _refusal(question: StateQuestion, error: Exception) -> str:
    if isinstance(error, InvalidUrl):
        return f"this is not a URL that can be crawled: {error.detail}"
    if isinstance(error, KeyError) and isinstance(question, HostsQuery):
        states = ", ".join(state.label for state in HostState)
        return f"{question.state!r} is no state of a host; these are: {states}"
    return f"the question cannot be answered: {error}"
