"""A partition: all URLs of a set of sites, what is known of them and what is fetched next.

It decides once what an input means and writes the decision. Recovery decides nothing again.
Everything is synchronous, and in memory or in the table; ``now`` is a parameter; one owner calls
it. So it needs no lock.

Invariant: ``discovered`` = queued + parked + fetched + redirected + failed + refused + retired +
gone, at every commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lycosa.base.config.policy_classes import LISTINGS
from lycosa.base.config.sections import FrontierSection
from lycosa.base.model.discovered import NO_SCORE, Discovered, LinkKind
from lycosa.base.model.due_band import DUE_BANDS
from lycosa.base.model.factors import NO_RANK
from lycosa.base.model.host_memory import ValidatorCounts, ValidatorFinding
from lycosa.base.model.parsed import Link
from lycosa.base.model.source_truth import SignalSource
from lycosa.base.model.url_state import Completed, UrlState
from lycosa.base.preferences.preference_model import NOTHING_STATED, Preferences
from lycosa.base.preferences.preference_words import preference_labels
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import host_of, target_of
from lycosa.stages.frontier.address_grids import AddressHistograms
from lycosa.stages.frontier.alike_pages import AlikePages
from lycosa.stages.frontier.back_queue import QueueDamaged
from lycosa.stages.frontier.change_log import ChangeLog
from lycosa.stages.frontier.change_signals import SignalOutcome
from lycosa.stages.frontier.cold_urls import RESUMING, ColdUrls
from lycosa.stages.frontier.copy_judgement import CopyJudgement
from lycosa.stages.frontier.dead_letters import DeadLetters
from lycosa.stages.frontier.decision_log import DecisionLog
from lycosa.stages.frontier.demands import Demands
from lycosa.stages.frontier.discovery import Bounds, Discovery, LinkSource, record_of
from lycosa.stages.frontier.doubted_pages import DoubtedPages
from lycosa.stages.frontier.due import DueQueue, is_probe_place
from lycosa.stages.frontier.host_grids import LARGE
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.outside_leases import OutsideLeases, is_outside
from lycosa.stages.frontier.partition_rules import FrontierRules
from lycosa.stages.frontier.ranking import Ranks, factors_of_found, factors_of_known
from lycosa.stages.frontier.refetched_pages import RefetchedPages
from lycosa.stages.frontier.render_rows import RenderRows
from lycosa.stages.frontier.set_aside_hosts import SetAsideHosts
from lycosa.stages.frontier.speculation import SpeculativeTurns
from lycosa.stages.frontier.turn_shares import FIRST_DUE
from lycosa.stages.frontier.unparsed_bodies import UnparsedBodies
from lycosa.stages.frontier.visit_state import HostState, VisitState, VisitStates, counted_as
from lycosa.stages.frontier.waiting_places import WaitingPlaces
from lycosa.state.cold.cold_rows import ReturnCause, ReturnRow
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import (
    PARKED_BAND,
    SET_BACK_BAND,
    UrlRecord,
    decode_url,
    encode_record,
    encode_url,
    known_key,
    url_key,
)
from lycosa.state.seen.seen_port import SeenUrls
from lycosa.state.shard.counters import COUNTERS_KEY, count, counters_of

_DUE_BATCH = 128  # URLs, or hosts, put back in one step of the loop: 10 ms
_PROMOTED = 200  # in one step of the loop: 10 ms
# minimum of cached visit states, 2 kB each; by default twice the workbench for the whole crawl
_MIN_STATES = 100
_BOUNDS = 200_000  # maximum number of cached bounds of hosts in the whole crawl, 250 bytes each
_ALWAYS_PROMOTED = 50
_SEEDS_REOPEN = frozenset({UrlState.FAILED, UrlState.REFUSED, UrlState.RETIRED, UrlState.GONE})
_PUT_OFF = 200  # URLs that one lease may put off: 5 ms
_MOST_MOVED = 5000  # waiting URLs of a host of which one still gets a better place
# a seed or another URL that was given, what says which use a site allows, what a page waits for
_NEVER_SET_BACK = frozenset({LinkKind.SEED, LinkKind.GIVEN, LinkKind.LICENSE, LinkKind.WANTED})
_CHECKS = frozenset({Reason.TO_BE_CHECKED, Reason.PERHAPS_GONE})
RAISING = frozenset(
    {
        LinkKind.SEED,
        LinkKind.GIVEN,
        LinkKind.REDIRECT,
        LinkKind.SITEMAP,
        LinkKind.SITEMAP_FILE,
        LinkKind.LICENSE,
    }
)
"""What is no link of a page: its importance is that of the host, if it is higher."""
_REFETCHED = frozenset({UrlState.FETCHED, UrlState.REDIRECTED, UrlState.FAILED, UrlState.GONE})


class Partition:
    """The frontier of one partition over its table."""

    def __init__(
        self,
        number: int,
        table: Overlay,
        seen: SeenUrls,
        section: FrontierSection,
        rules: FrontierRules = FrontierRules(),  # noqa: B008  values without state
        lists_known: bool = False,
        most_bounds: int = _BOUNDS,
    ) -> None:
        """The bounds of at most ``most_bounds`` hosts are cached."""
        self.rules, self._lists_known = rules, lists_known
        self.number, self.table, self.seen = number, table, seen
        self._bands = section.bands
        states = max(2 * section.workbench // section.partitions, _MIN_STATES)
        self.visits = visits = VisitStates(table, number, section.head, states)
        self.leased: dict[bytes, Lease] = {}  # the open ones, by host8 url8
        self.ranks: Ranks | None = None
        self.counters = counters = counters_of(table)
        self.refetched = refetched = RefetchedPages(table, visits, counters, self.leased, rules)
        self.alarms = self._due, self._parked = refetched.due, DueQueue(table, b"P")
        self.probes, self.host_grids = refetched.probes, refetched.host_grids
        self.address_survey = AddressHistograms(table)
        self.policy_walk, self.signals = refetched.policy_walk, refetched.signals
        self._share, self._entries = refetched.share, refetched.entries
        self.listed, self.truths = refetched.listed, refetched.truths
        bands, share = section.bands, self._share
        self.places = WaitingPlaces(
            table, bands, visits, self._parked, counters, share, self._raised_bands
        )
        self.front, self.lines = self.places.front, self.places.lines
        self.demands, self.renders = Demands(table), RenderRows(table, counters, rules.render)
        self.set_aside_hosts = SetAsideHosts(
            visits, self.places, self._parked, counters, self.demands
        )
        self.unparsed = UnparsedBodies(table, counters, self._due)
        self.dead_letters, self.decisions = DeadLetters(table), DecisionLog(table)
        self.changes = ChangeLog(table, section.changes_days * 86_400)
        self.outside = OutsideLeases(table, self._due, counters, self.leased)
        self.copies = CopyJudgement(table, visits, rules.copies, self._band, counters)
        guesses = rules.speculative_share
        self.speculation = SpeculativeTurns(
            table, visits, counters, guesses, self._enqueue, self.queue_again
        )
        self.alike = AlikePages(table, counters, self.leased, self.copies.note_late_copy)
        self.doubted = DoubtedPages(table, self._due, counters)
        self.bounds = Bounds(min(max(_BOUNDS // section.partitions, 1000), most_bounds))
        self.cold = ColdUrls(table, visits, counters, self.leased, self.host_grids, rules.cold)
        self._discovery = Discovery(
            seen, visits, self.bounds, self._admit, self._found_again, self.cold
        )
        self.recall_host: Callable[[VisitState], None] = lambda _: None  # set by the frontier
        # The frontier asks all partitions at every turn of the loop.
        self.take_gathered = self._discovery.take_gathered

    def __repr__(self) -> str:
        return f"<Partition {self.number} {self.counters.states} {self.front!r}>"

    # -- discovered URLs

    def discover_urls(self, batch: Sequence[Discovered], now: float) -> list[bool]:
        """Take discovered URLs; return which were new.

        If a host contributes URLs faster than the discovery budget allows, they are parked, and
        promoted when its other URLs are done.
        """
        return self._discovery.take_urls(batch, now)

    def gather_links(self, origin: LinkSource, links: list[Link], now: float) -> None:
        """Gather the links of a page.

        They are looked up together with those of other pages, by the next commit at the latest.
        """
        self._discovery.gather_links(origin, links, now)

    def _admit(self, found: Discovered, now: float) -> None:
        host = self.find_or_add_host(found.host8, found.url)
        if found.kind is LinkKind.SEED:
            self.set_aside_hosts.reopen_retired(host, now)
        if found.depth > host.record.deepest:
            host.record.deepest = found.depth
            # The cached bound of the host is lower, and must not be used again.
            self.bounds.forget(found.host8, None)
        # A link counts only for a host of which nothing is known: how many link to it is counted by
        # ``note_linking``.
        if found.importance > host.record.importance and (
            not host.record.importance or found.kind in RAISING
        ):
            host.raise_importance(found.importance)
        is_guess = found.kind is LinkKind.SPECULATIVE
        is_parked = is_guess or (
            self.rules.over_discovery(host.record.usage) and found.kind is not LinkKind.WANTED
        )
        rank = NO_RANK if self.ranks is None else self.ranks.page_rank(found.url8)
        authority = host.authority
        if host.record.waiting and host.has_risen:
            # As those that wait: its order is not that of its authority's history. The host's
            # place follows its authority (``_raised_bands``).
            authority = host.record.ranked_as / 255
        priority = self.rules.prioritize(factors_of_found(found, authority, now, rank))
        if host.is_judged:
            priority = self.copies.weigh(host, target_of(found.url), priority)
        record = record_of(found, priority, now, is_parked)
        # A Bloom filter may answer wrongly that a URL is known; these rows confirm it.
        if self._lists_known:
            self.table.put(known_key(found.url8), found.host8)
        if is_guess:
            self.bounds.forget(found.host8, None)  # another find of any URL may confirm it now
            self.speculation.admit(host, found.url8, record)
            return
        self._put(found.host8, found.url8, record)
        self.counters.move_urls(None, record.state)
        if is_parked:
            host.queue.push(PARKED_BAND, found.url8)
            host.record.parked += 1
            self.visits.mark_changed(host)
        else:
            ranked_as = int(255 * host.authority)
            if ranked_as < host.record.ranked_as or not host.record.waiting:
                host.record.ranked_as = ranked_as
            host.count_discovered()
            self._enqueue(host, found.url8, record)

    def use_ranks(self, ranks: Ranks | None) -> None:
        """Rank hosts and pages by these ranks from now on, or by none.

        What waits keeps its place until it is queued again; a host whose rank is higher than its
        URLs were ranked with gets a better place when it lines up next.
        """
        self.ranks = ranks
        self.visits.use_ranks(ranks)

    def note_linking(self, host: VisitState, linking: bytes, importance: float) -> None:
        """Note which sites link to a host, in the form of its record, and what that is worth."""
        host.record.linking = linking
        if importance > host.record.importance:
            host.raise_importance(importance)
            self.places.raise_host(host)
        self.visits.mark_changed(host)

    def _raised_bands(self, host: VisitState) -> list[int]:
        """The best bands of a host; that of new pages is the one its first URL would get now.

        Its other URLs wait behind that one, so it alone decides the place, and one record is read.
        """
        bands = host.best_bands
        url8 = host.queue.first_in(self.table, bands[0]) if bands[0] < self._bands else None
        record = self.find_record(host.host8, url8) if url8 is not None else None
        if record is None or record.history is not None:
            return bands
        self._rank(host, url8 or b"", record, 0.0)
        return [min(bands[0], self._band(record.priority)), *bands[1:]]

    def _found_again(self, found: Discovered, now: float) -> None:
        """Handle a known URL that was found again.

        A seed raises the importance of its host. A queued URL takes the smaller depth. A seed is
        queued again. A page that has changed according to a sitemap is fetched earlier. One that is
        listed by a sitemap of a policy keeps its mark.
        """
        host = self.visits.find_host(found.host8)
        if host is None:
            return
        if found.importance > host.record.importance and found.kind in RAISING:
            host.raise_importance(found.importance)
            self.visits.mark_changed(host)
        is_guess = found.kind is LinkKind.SPECULATIVE
        has_guesses = host.record.speculation is not None
        if has_guesses and not is_guess and not self.speculation.confirm(host, found):
            self.cold.note_confirmed(found, now)
        is_seed = found.kind is LinkKind.SEED
        source = self.rules.forward.source_of(found, host.name, now) if found.lastmod else None
        # Most finds of a known URL end here, before its record is read.
        is_closed = found.depth >= host.record.deepest and not is_seed and source is None
        is_scored = found.score != NO_SCORE
        if is_closed and not found.listed and not is_scored:
            return
        record = self.find_record(found.host8, found.url8)
        if record is None:
            if source is not None:
                self.cold.note_signal(found.host8 + found.url8, source, found.lastmod, now)
            return
        if found.listed and self.listed.note_listed(host, found, record, now):
            self._put(found.host8, found.url8, record)
        if is_seed:
            self.set_aside_hosts.reopen_retired(host, now)
        if is_scored and found.score > record.score:
            self._score(host, found, record, now)
        if record.state in (UrlState.QUEUED, UrlState.PARKED) and found.depth < record.depth:
            record.depth = found.depth
            self._put(found.host8, found.url8, record)
            lease = self.leased.get(found.host8 + found.url8)
            if lease is not None:
                # Otherwise the end of the lease would restore the old depth.
                lease.record.depth = found.depth
        elif is_seed and record.state in _SEEDS_REOPEN:
            record.depth = 0
            self.queue_again(host, found.url8, record)
        elif source is not None:
            key = found.host8 + found.url8
            self.signals.announce(host, key, record, source, found.lastmod, now)

    def _score(self, host: VisitState, found: Discovered, record: UrlRecord, now: float) -> None:
        """Let a waiting URL have a higher score, and with it a better place."""
        if record.state not in (UrlState.QUEUED, UrlState.PARKED) or record.history is not None:
            return
        record.score, before = found.score, record.priority
        self._rank(host, found.url8, record, now)
        self._put(found.host8, found.url8, record)
        lease = self.leased.get(found.host8 + found.url8)
        if lease is not None:
            # or the end of the lease would restore the old ones
            lease.record.score, lease.record.priority = record.score, record.priority
            return
        band, rows = self._band(record.priority), host.record.waiting + host.record.parked
        # Its entry is looked for in all rows of the host, so not in a host with very many.
        if band < self._band(before) and record.state is UrlState.QUEUED and rows <= _MOST_MOVED:
            for entry in host.queue.pop_chosen(self.table, (found.url8,)):
                if entry.band >= self._bands:  # it is set back
                    host.queue.restore_entry(entry)
                    continue
                host.queue.finish_entry(entry)
                host.queue.push(band, found.url8)
                self.places.note_waiting(host, band)
            self.visits.mark_changed(host)

    def announce_change(
        self, url: bytes, source: SignalSource | None, at: int, now: float
    ) -> SignalOutcome:
        """Take in that a URL, given by its host8 and url8, changed at ``at`` (wall time).

        No URL becomes known by it, and none is due earlier than its policy allows, unless a caller
        waits for it (no ``source``).
        """
        host, record = self.visits.find_host(url[:8]), self.find_record(url[:8], url[8:])
        if host is None or record is None:
            note = self.cold.find(url)
            if note is None or not note.is_due:
                return SignalOutcome.UNKNOWN if note is None else SignalOutcome.ENDED
            is_new = self.cold.note_signal(url, source or SignalSource.PUSH, at, now)
            return SignalOutcome.SOONER if is_new else SignalOutcome.KEPT
        return self.signals.announce(host, url, record, source, at, now)

    def queue_again(self, host: VisitState, url8: bytes, record: UrlRecord) -> None:
        """Queue a URL that has ended, with a fresh retry count."""
        self._reopen(record)
        record.reason, record.detail, record.tries, record.due_at = Reason.NONE, "", 0, 0
        self._put(host.host8, url8, record)
        self._enqueue(host, url8, record)

    def come_back(self, url: bytes, value: bytes | None, now: float) -> bool:
        """Let a cold URL, given by its host8 and url8, come back: queue it, or let it be due.

        ``value`` is its record in the file. Returns false if it was not cold any more.
        """
        taken, host = self.cold.take_back(url, value), self.visits.find_host(url[:8])
        if taken is None or host is None:
            if url in self.demands.rows:
                self.demands.end_ended(url, self.find_record(url[:8], url[8:]))
            return False
        record, row = taken
        if row.why in RESUMING:
            self._resume(host, url, record, row, now)
            return True
        if row.why is not ReturnCause.LINK:
            self.set_aside_hosts.reopen_retired(host, now)
        record.depth = min(record.depth, row.depth)
        if record.kind is LinkKind.SPECULATIVE and row.why is not ReturnCause.OPERATOR:
            record.kind = LinkKind.A  # it was found by more than a guess, or given
        self._rank(host, url[8:], record, now)
        if url in self.demands.rows:
            record.priority = 255
        self.queue_again(host, url[8:], record)
        return True

    def _resume(
        self, host: VisitState, url: bytes, record: UrlRecord, row: ReturnRow, now: float
    ) -> None:
        """Store the record of a page that is due now, announced by a signal, or under new rules."""
        self._put(url[:8], url[8:], record)
        if is_probe_place(record.due_at) and row.why is ReturnCause.DUE:
            self._requeue(url, now, is_probe=True)
            return
        if row.why is ReturnCause.DUE and record.due_at:
            # Its entry was taken from the schedule, unless that was one of an earlier time.
            self._due.remove_due(record.due_at, url)
            self._due.add_due(record.due_at, url)
        if row.why is ReturnCause.POLICY:
            self.policy_walk.move_one(host, url, record, now)
            self._put(url[:8], url[8:], record)
        if row.why is ReturnCause.SIGNAL:
            source = SignalSource(row.source)
            self.signals.announce(host, url, record, source, row.changed_at, now)

    def _enqueue(self, host: VisitState, url8: bytes, record: UrlRecord, band: int = -1) -> None:
        """Queue a QUEUED URL at its host, and the host: in a band of due pages or, with -1, in that
        of its priority.
        """
        state = host.record.state
        if state in (HostState.PARKED, HostState.RETIRED):
            self.counters.move_urls(UrlState.QUEUED, counted_as(state))
        if band >= 0:
            count(self.counters.due, band)
            host.queue.push(band, url8)
        elif host.is_judged and (reason := self._set_back(host, url8, record)):
            band = SET_BACK_BAND
            self.copies.set_back(host, url8, record, reason)
        else:
            band = self._band(record.priority)
            host.queue.push(band, url8)
        host.record.waiting += 1
        if state is HostState.EXHAUSTED:
            host.record.state = HostState.READY
        self.places.note_waiting(host, band)
        self.visits.mark_changed(host)
        if -1 < host.rest_band <= band < SET_BACK_BAND and (
            host.rest_band == 0 or _waits_for_no_rest(record)
        ):
            host.end_rest()
            self.recall_host(host)

    def _set_back(self, host: VisitState, url8: bytes, record: UrlRecord) -> Reason:
        """Why a URL is set back; a seed and a page that was fetched before never are."""
        is_new = record.history is None and record.kind not in _NEVER_SET_BACK
        return self.copies.judge(host, url8, record) if is_new else Reason.NONE

    def _band(self, priority: int) -> int:
        return min((255 - priority) * self._bands // 256, self._bands - 1)

    # -- leases

    def lease_next(self, host: VisitState, now: float = 0.0) -> Lease | None:
        """Lease the host's next URL; ``None`` when none waits. Raises ``QueueDamaged``.

        With the crawl time ``now``, pages whose signals are not believed any more are put off.
        """
        looks = _PUT_OFF if now else 0
        while True:
            # The call is written out, because every lease makes it.
            if host.is_judged:
                entry = self.copies.next_entry(host, self._bands, self._share)
                # A page that is fetched again says nothing about what else there is.
                host.is_leased = entry is not None and entry.band not in DUE_BANDS
            else:
                entry = host.queue.pop(self.table, self._bands, self._share)
            if entry is None:
                break
            record = self.find_record(host.host8, entry.url8)
            if record is not None and record.state is UrlState.QUEUED:
                speculation = host.record.speculation
                if speculation is not None and self.speculation.refuse(host, entry, record):
                    continue
                history, looks = record.history, looks - 1
                is_forward = history is not None and history.forwards and looks > 0
                if is_forward and self.signals.put_off(host, entry, record, now):
                    continue
                lease = self.leased[host.host8 + entry.url8] = Lease(host, entry, record)
                return lease
            # The queue disagrees with the record, which is authoritative.
            host.queue.finish_entry(entry)
            host.record.waiting -= 1
            self.counters.take_due(entry.band)
            self.visits.mark_changed(host)
        # Without this check the host would be ready again at once, in an endless loop, because the
        # visit changed neither its time nor its count.
        if host.record.waiting > host.queue.open_leases:
            raise QueueDamaged(host.name, host.record.waiting - host.queue.open_leases)
        return None

    def restore_lease(self, lease: Lease) -> None:
        """Return a lease that was not used; its URL is first again."""
        host = lease.host
        del self.leased[host.host8 + lease.entry.url8]
        if is_outside(lease):
            return
        host.queue.restore_entry(lease.entry)
        host.is_leased = False
        if not host.in_process:  # released before the lease, perhaps with no other URL
            self.places.note_waiting(host, lease.entry.band)

    def complete_lease(self, lease: Lease, done: Completed) -> bool:
        """End a lease; ``False`` when ``done`` is of an earlier fetch: the lease is still open."""
        # A result that comes after the lease was given again, for example of an outside fetcher:
        # the later fetch counts.
        if done.number < lease.number:
            return False
        host, record, last = lease.host, lease.record, lease.record.history
        del self.leased[host.host8 + lease.entry.url8]
        if is_outside(lease):
            self.outside.end(lease)
        else:
            host.queue.finish_entry(lease.entry)
            host.record.waiting -= 1
            if lease.entry.band >= FIRST_DUE:
                self.counters.take_due(lease.entry.band)
        self.visits.mark_changed(host)
        # The visit released the host before parsing, so its last URL may end after the host left.
        if not host.on_workbench and host.record.waiting == 0:
            self.settle_host(host)
        # While its host is parked or retired, a queued URL counts under the state of the host.
        before = counted_as(host.record.state)
        record.reason, record.detail, record.due_at = done.reason, done.detail, done.due_at
        # Only a capture ends a series of failures: the tries count from zero at the next refetch.
        is_over = done.history is not None and done.state is not UrlState.QUEUED
        record.tries = 0 if is_over else record.tries + 1
        if done.history is not None:
            if record.history is not None:
                self.refetched.note_capture(lease, done.history)
            host.record.cells += self.counters.move_cell(record.history, done.history)
            if host.record.cells > LARGE or host.host8 in self.host_grids.known:
                self.host_grids.move_page(host, lease.entry.url8, record.history, done.history)
            record.history = done.history
            self._rank(host, lease.entry.url8, record, done.history.fetched_at)
            if done.history.copy_of or host.record.copies is not None:
                self.copies.note_capture(lease, done)
            elif done.title:
                self.copies.keep_title(host.host8 + lease.entry.url8, done.title)
        host.record.errors += done.state in (UrlState.QUEUED, UrlState.FAILED)
        record.state = done.state
        if done.state is UrlState.QUEUED:
            host.record.retrying += 1
        else:
            self.counters.move_urls(before, done.state)
            self.counters.move_reason(None, done.reason)
        self.refetched.end_lease(lease, last, done)
        if done.noted is not None or done.items:
            self._note_outputs(host.host8 + lease.entry.url8, done)
        self._put(host.host8, lease.entry.url8, record)
        self.unparsed.note_ended_lease(host.host8 + lease.entry.url8, record, done)
        if host.record.speculation is not None:
            self.speculation.note_end(host, record, done)
        if self.demands.rows and done.state is not UrlState.QUEUED:
            self.demands.end_url(host.host8 + lease.entry.url8, record)
        return True

    def _note_outputs(self, key: bytes, done: Completed) -> None:
        """Note what readers of the crawl get of a capture."""
        if done.noted is not None:
            self.changes.add(key, done.noted)
        self.counters.count_items(done.items)

    def note_capture(
        self,
        host: VisitState,
        *,
        body_bytes: int,
        duration_s: float,
        is_page: bool,
        is_capture: bool,
        preferences: Preferences = NOTHING_STATED,
        is_scripted: bool = False,
    ) -> None:
        """Count a request and its answer."""
        host.count_answer(body_bytes, duration_s, is_capture)
        self.counters.requests += 1
        self.counters.captures += is_capture
        self.counters.pages += is_page
        self.counters.body_bytes += body_bytes
        host.record.scripted += is_scripted
        if preferences is not NOTHING_STATED:
            for label in preference_labels(preferences):
                count(self.counters.stated, label)
                count(host.record.stated, label)
        self.visits.mark_changed(host)

    def note_validators(self, host: VisitState, finding: ValidatorFinding, has_tag: bool) -> None:
        """Count what an answer showed about the validators of its host.

        ``has_tag``: the request had an ETag.
        """
        count(self.counters.validators, finding.value)
        counts = host.record.validators or ValidatorCounts()
        host.record.validators = counts.with_finding(finding, has_tag)
        self.visits.mark_changed(host)

    # -- hosts

    def find_or_add_host(self, host8: bytes, url: str) -> VisitState:
        """The state of a URL's host; a new one for a new host."""
        known = self.visits.find_host(host8)
        self.counters.hosts += known is None
        return known or self.visits.find_or_add_host(host8, host_of(url))

    def settle_host(self, host: VisitState) -> bool:
        """Update a host after a visit; return whether it has more to fetch, and keeps its place."""
        record = host.record
        if record.parked and host.may_wait and (record.waiting == 0 or host.is_set_back):
            self._promote(host)
        has_turn = record.errands or (record.waiting > host.queue.open_leases and host.may_wait)
        if has_turn and host.may_be_visited:
            return True
        host.on_workbench = False
        if record.waiting == 0 and record.state in (HostState.READY, HostState.SNOOZED):
            record.state = HostState.EXHAUSTED
        if record.waiting == 0 or not host.may_wait:
            self.places.leave_place(host)
        self.visits.mark_changed(host)
        return False

    def _promote(self, host: VisitState) -> None:
        """Move parked URLs into the queue, as far as the discovery budget now allows."""
        for number in range(_PROMOTED):
            # Some are always promoted. The queue is empty, so without them the host's usage, and
            # with it what the budget allows, would never change.
            if number >= _ALWAYS_PROMOTED and self.rules.over_discovery(host.record.usage):
                return
            entry = host.queue.pop_band(self.table, PARKED_BAND)
            if entry is None:
                return
            host.queue.finish_entry(entry)
            host.record.parked -= 1
            self.visits.mark_changed(host)
            record = self.find_record(host.host8, entry.url8)
            if record is not None and record.state is UrlState.PARKED:
                self._reopen(record)
                record.reason = Reason.NONE
                self._put(host.host8, entry.url8, record)
                host.count_discovered()
                self._enqueue(host, entry.url8, record)

    # -- time

    def wake_due(self, now: float) -> int:
        """Put back what is due: retries, refetches, parked and sleeping hosts; return how many."""
        suffixes = self._due.take_due(now, _DUE_BATCH)
        for suffix in suffixes:
            self._requeue(suffix, now)
        probes = self.probes.take(now)
        for suffix in probes:
            self._requeue(suffix, now, is_probe=True)
        hosts = self._parked.take_due(now, _DUE_BATCH)
        for host8 in hosts:
            host = self.visits.find_host(host8)
            if host is None:
                continue
            # One schedule has sleeping and parked hosts, and an entry may be outdated: the record
            # says which of both is due.
            if 0 < host.record.asleep_until <= now:
                self.places.wake_host(host)
            if host.record.state is HostState.PARKED and host.record.parked_until <= now:
                self.set_aside_hosts.reopen(host, now)
        return len(suffixes) + len(probes) + len(hosts)

    def _requeue(self, url: bytes, now: float, is_probe: bool = False) -> None:
        """Put a URL (host8 and url8) whose time has come, or a probe, into its host's queue."""
        host8, url8 = url[:8], url[8:]
        record, host = self.find_record(host8, url8), self.visits.find_host(host8)
        # The schedule is not cleaned when a due time changes, so an entry may be of an earlier one.
        # The record decides.
        if record is None:
            self.cold.note_due(url, now)
            return
        if host is None or not record.due_at:
            return
        if not is_probe_place(record.due_at) if is_probe else record.due_at > now:
            return
        # Its lease expired while its result is being stored: it is not handed out again.
        if self.outside.is_kept(url, record, now):
            return
        is_retry = record.state is UrlState.QUEUED
        if not is_retry and record.state not in _REFETCHED:
            return
        band = self._entries.find_band(host.name, url, record, now, is_probe)
        if band is None:
            self._put(host8, url8, record)
            return
        if is_retry:
            host.record.retrying -= 1
            if host.record.state in (HostState.PARKED, HostState.RETIRED):
                self.counters.move_urls(counted_as(host.record.state), UrlState.QUEUED)
        else:
            self._reopen(record)
        record.due_at = 0
        forwards = record.history is not None and record.history.forwards
        doubt = self.signals.doubt(host, host8 + url8) if forwards else 1.0
        self._rank(host, url8, record, now, doubt)
        if self.demands.rows and url in self.demands.rows:
            record.priority, band = 255, -1
        self._put(host8, url8, record)
        self._enqueue(host, url8, record, band)

    def _rank(
        self, host: VisitState, url8: bytes, record: UrlRecord, now: float, doubt: float = 1.0
    ) -> None:
        """Update the priority by what is known now.

        ``doubt`` is the chance that all signals of a change are wrong. What lists pages is first:
        its schedule bounds its share of the turns.
        """
        if record.history is not None and record.history.policy in LISTINGS:
            record.priority = 255
            return
        rank = NO_RANK if self.ranks is None else self.ranks.page_rank(url8)
        factors = factors_of_known(record, host.authority, now, doubt, rank)
        priority = self.rules.prioritize(factors)
        if host.is_judged:
            priority = self.copies.weigh(host, record.target, priority)
        record.priority = round(255 * priority)

    def follow_policies(self) -> bool:
        """Follow the refetch settings of its rules; return whether records are to be moved."""
        return self.refetched.follow_policies()

    def next_due(self) -> int:
        """Crawl time, in whole seconds, of the next retry, refetch or end of a host's wait."""
        return min(self._due.earliest, self._parked.earliest, self.probes.earliest)

    # -- records and commits

    def find_record(self, host8: bytes, url8: bytes) -> UrlRecord | None:
        value = self.table.get(url_key(host8, url8))
        return decode_url(value) if value is not None else None

    def freeze(self) -> dict[bytes, bytes | None]:
        """All writes since the last commit, including counters; empty when nothing happened."""
        self.take_gathered()
        self.visits.write_back()
        self.refetched.save()
        self.places.save()
        for queue in (*self.alarms, self.probes):
            queue.save()
        # Nothing changed, so the counters did not either, and the partition needs no batch in the
        # commit.
        if self.table.open_writes == 0:
            return {}
        self.table.put(COUNTERS_KEY, encode_record(self.counters))
        return self.table.freeze()

    def _put(self, host8: bytes, url8: bytes, record: UrlRecord) -> None:
        self.table.put(url_key(host8, url8), encode_url(record))

    def _reopen(self, record: UrlRecord) -> None:
        """Queue a URL again; if its fetch had ended, it no longer counts under its reason."""
        if record.state not in (UrlState.QUEUED, UrlState.PARKED):
            self.counters.move_reason(record.reason, None)
        self.counters.move_urls(record.state, UrlState.QUEUED)
        record.state = UrlState.QUEUED


def _waits_for_no_rest(record: UrlRecord) -> bool:
    """Whether a URL is not what its host rests for: it lists pages, or is a check."""
    lists = record.history is not None and record.history.policy in LISTINGS
    return lists or record.reason in _CHECKS
