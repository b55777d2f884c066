"""Enters captures that are stored but not in the state, from the rows of their journal.

A shard whose log was lost begins with an older snapshot. The captures behind it are in segments.
Each is entered as its first fetch was: its URL is leased, the lease ends with what the row says,
its content is filed, and its links are handed in. So the URL is not requested again, and what it
led to is found again. A page whose row has no links, because links are not stored or it is a
sitemap, is read from its record and parsed again. A robots.txt is read from its record, and counts
from the time at which it was fetched.

What is in no row stays unknown: requests without a capture, and what a host asked for in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from lycosa.base.config.sections import Config
from lycosa.base.listing_kind import ListingKind
from lycosa.base.model.capture import ELSEWHERE, TOLD_CHANGES, Original, StoredOriginal
from lycosa.base.model.dead_letter import DeadLetter
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.fetched import Fetched, FetchKind
from lycosa.base.model.parsed import Parsed
from lycosa.base.model.url_state import Completed, History, NotedChange, UrlState
from lycosa.base.ports import Offload
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import InvalidUrl, hash8, host_of, robots_url
from lycosa.moves.captured_rows import (
    NO_HISTORY,
    answer_in,
    content_in,
    digest_in,
    ended_at,
    found_in,
    history_of,
    is_soft_gone_row,
    parsed_in,
    state_of_row,
)
from lycosa.stages.frontier.back_queue import QueueEntry
from lycosa.stages.frontier.chosen_leases import lease_chosen, queue_as_new
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.ranking import factors_of_known
from lycosa.stages.frontier.unparsed_bodies import NOT_PARSED, UnparsedBody, is_seed_record
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.politeness.delay import longest_delay, ordinary_delay_s
from lycosa.stages.schedule.fetch_outcome import REDIRECTS, FetchOutcome, Meaning, judge_answer
from lycosa.stages.schedule.listing_schedule import with_own_schedule
from lycosa.stages.schedule.priority import weigher
from lycosa.stages.schedule.refetch_plan import FoundContent, plan_refetch
from lycosa.stages.schedule.soft_gone import GONE_REASONS
from lycosa.stages.schedule.validator_trust import (
    CHECK_AFTER_S,
    TO_CHECK,
    Conditions,
    check_every,
    conditions_of,
    is_sampled,
)
from lycosa.state.store import layout
from lycosa.state.store.journal_rows import UNCHANGED, JournalRow
from lycosa.worker.assemble import Assembled
from lycosa.worker.commit.reparser import Reparser
from lycosa.worker.visit.host_robots import Learned
from lycosa.worker.visit.refetch_checks import RefetchChecks
from lycosa.worker.visit.robots_reader import RobotsReader

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_WITH_HINTS = frozenset({LinkKind.SITEMAP, LinkKind.SITEMAP_FILE, LinkKind.FEED})


class EnteredCaptures(msgspec.Struct):
    """What was entered.

    ``captures`` of pages, ``links`` that were handed in, also of captures that were known;
    ``parsed`` pages whose links were read from their record, ``unparsed`` ones whose record could
    not be read or parsed; ``robots`` files.
    """

    captures: int = 0
    links: int = 0
    parsed: int = 0
    unparsed: int = 0
    robots: int = 0


class StoredCaptures:
    """Enters captures of one shard, which has one partition. ``entered`` counts them.

    ``stored`` reads their records. The loop of ``worker`` does not run.
    """

    def __init__(
        self,
        worker: Assembled,
        partition: Partition,
        config: Config,
        stored: Reparser,
        offload: Offload,
    ) -> None:
        self._worker, self._partition, self._config = worker, partition, config
        self._stored, self._weigh = stored, weigher(config.priority)
        self._robots = RobotsReader(config.robots, config.agent.product, offload)
        self._wait_s = longest_delay(config.politeness)
        self._checks = RefetchChecks({partition.number: partition}, worker.clock)
        self.entered = EnteredCaptures()
        self.newest = 0.0
        """The wall time at which the last capture ended."""

    def owns(self, row: JournalRow) -> bool:
        """Whether the shard owns the host. Before an import the crawl had other shards."""
        return self._worker.intake.partition_of_host(host_of(row.url)) == self._partition.number

    def is_known(self, row: JournalRow) -> bool:
        """Whether the state has the capture of a page, or a later one of its URL."""
        record = self._partition.find_record(hash8(host_of(row.url)), hash8(row.url))
        history = record.history if record is not None else None
        return history is not None and history.fetches >= row.fetch_number

    def forget_urls(self, urls: Iterable[tuple[bytes, bytes]]) -> None:
        """Queue URLs (``host8`` and ``url8``) again whose captures are lost."""
        for host8, url8 in urls:
            host = self._partition.visits.find_host(host8)
            if host is not None:
                queue_as_new(self._partition, host, url8)

    async def enter_rows(self, rows: Sequence[JournalRow]) -> None:
        """Enter captures that are not in the state, at most one of each page.

        They are in the order in which they were committed.
        """
        leases = self._leases([row for row in rows if not row.kind.is_of_origin])
        for row in rows:
            if row.kind is FetchKind.ROBOTS:
                await self._enter_robots(row)
            elif row.kind is FetchKind.TDM_FILE:
                await self._enter_tdm_file(row)
            elif (lease := leases.get(hash8(row.url))) is not None:
                await self._enter_page(row, lease)

    async def hand_in_again(self, row: JournalRow) -> None:
        """Hand in the links and the content of a page that is in the state.

        Other shards may have lost the parcels that were made of them.
        """
        partition, key = self._partition, hash8(host_of(row.url))
        record, host = partition.find_record(key, hash8(row.url)), partition.visits.find_host(key)
        if record is None or host is None:
            return
        lease = Lease(host, QueueEntry(0, 0, hash8(row.url), 0), record)
        counters, refused = partition.counters.rule_refusals, host.record.refused
        # Copies: the refused links of this page were counted when it was captured.
        partition.counters.rule_refusals = dict(counters)
        outcome, target = self._judged(row, lease)
        self._file_content(row)
        await self._hand_in(row, lease, outcome, target)
        partition.counters.rule_refusals, host.record.refused = counters, refused

    # -- pages

    def _leases(self, rows: Sequence[JournalRow]) -> dict[bytes, Lease]:
        """A lease for each page, by ``url8``; a URL that is not known becomes known."""
        partition, leases = self._partition, dict[bytes, Lease]()
        found = [found_in(row) for row in rows]
        unknown = [each for each in found if self._record(each) is None]
        for each in unknown:
            if each.kind is LinkKind.SEED:
                self._worker.intake.take_seed(each.url)
                self._worker.outgoing.post_place(each.url)
        self._worker.intake.receive_urls(partition, unknown)
        # over the limit of sitemaps; it was fetched all the same
        left_out = [each for each in unknown if self._record(each) is None]
        partition.discover_urls(left_out, self.newest)
        by_host: dict[bytes, list[bytes]] = {}
        for each in found:
            by_host.setdefault(each.host8, []).append(each.url8)
        for host8, chosen in by_host.items():
            host = partition.visits.find_host(host8)
            if host is not None:
                leases |= lease_chosen(partition, host, chosen)
        return leases

    def _record(self, found: Discovered) -> object:
        return self._partition.find_record(found.host8, found.url8)

    async def _enter_page(self, row: JournalRow, lease: Lease) -> None:
        partition, host, intake = self._partition, lease.host, self._worker.intake
        outcome, target = self._judged(row, lease)
        is_page = row.status == 200 and row.media_type_detected in _HTML
        partition.note_capture(
            host,
            body_bytes=row.body_bytes,
            duration_s=row.duration_s,
            is_page=is_page,
            is_capture=True,
            preferences=row.preferences,
            is_scripted=row.parse_reason is Reason.LOOKS_SCRIPTED,
        )
        intake.note_usage(partition, host.name, answer_in(row), is_capture=True)
        done = self._completed(row, lease, outcome, target)
        if done.state is UrlState.FAILED:
            tries, wall = lease.record.tries + 1, ended_at(row)
            letter = DeadLetter(lease.url, done.reason, done.detail, tries, wall)
            partition.dead_letters.add(done.host8 + done.url8, letter)
        partition.complete_lease(lease, done)
        self._file_content(row)
        await self._hand_in(row, lease, outcome, target)
        self._let_rest(host, row)
        partition.counters.wanted += lease.record.kind is LinkKind.WANTED
        self.entered.captures += 1

    def _judged(self, row: JournalRow, lease: Lease) -> tuple[FetchOutcome, str]:
        """What the answer meant, and the target of a redirect. An answer that was stored was the
        last one that its URL got, so it did not ask for a retry.
        """
        outcome = judge_answer(
            answer_in(row),
            tries=self._config.retry.tries,
            conditional=row.revisit == UNCHANGED,
            section=self._config.retry,
        )
        if outcome.meaning is not Meaning.REDIRECTED:
            return outcome, ""
        if lease.record.hops >= self._config.scope.max_hops:
            return FetchOutcome(Meaning.FAILED, Reason.TOO_MANY_REDIRECTS), ""
        try:
            return outcome, self._worker.intake.canonical(row.location, row.url)
        except InvalidUrl:
            # As the visit judged it: a redirect to no URL is a failure.
            return FetchOutcome(Meaning.FAILED, Reason.BAD_REDIRECT), ""

    def _completed(
        self, row: JournalRow, lease: Lease, outcome: FetchOutcome, target: str
    ) -> Completed:
        """The end of the lease as ``CaptureBuilder`` made it."""
        is_failed, formats = outcome.meaning is Meaning.FAILED, self._worker.store.formats
        old, authority = lease.record.history or NO_HISTORY, lease.host.authority
        was_gone, is_soft = (
            lease.record.reason in GONE_REASONS,
            is_soft_gone_row(row, lease.record.reason),
        )
        if is_soft:
            outcome = FetchOutcome(Meaning.FAILED, Reason.SOFT_GONE)
        found = content_in(row, old, outcome, target, formats, was_gone)
        if is_soft:
            found = msgspec.structs.replace(found, status=404)
        found, is_304 = self._checked(row, lease, old, found)
        weight = self._weigh(factors_of_known(lease.record, authority, found.at))
        is_once = lease.record.kind is LinkKind.LICENSE
        plan = plan_refetch(
            self._config.refetch,
            lease.url,
            old,
            found,
            weight,
            formats,
            is_once,
            listed=lease.record.listed,
        )
        if kind := _listing_kind(row):
            delay_s = ordinary_delay_s(lease.host.record.pace, self._config.politeness)
            turns = self._worker.intake.listings(lease.host), delay_s
            plan = with_own_schedule(plan, self._config.sitemaps, kind, old, found, turns, formats)
        history = history_of(row, lease.record.history, outcome, target, is_soft)
        state, reason = state_of_row(row, outcome)
        if plan.is_gone:
            state, reason = UrlState.GONE, Reason.SOFT_GONE if is_soft else Reason.GONE
        interval_s = plan.interval_s
        if is_304 and interval_s and self._is_sampled(lease, history):
            reason, interval_s = Reason.TO_BE_CHECKED, min(interval_s, CHECK_AFTER_S)
        return Completed(
            lease.host.host8,
            lease.entry.url8,
            row.fetch_number,
            state,
            reason,
            row.detail or (f"status {row.status}" if is_failed else ""),
            int(found.at + interval_s) if interval_s else 0,
            plan.kept_in(history, old, found.text_digest),
            _noted(row),
            items={name: len(rows) for name, rows in row.items.items()},
        )

    def _checked(
        self, row: JournalRow, lease: Lease, old: History, found: FoundContent
    ) -> tuple[FoundContent, bool]:
        """What was found as ``RefetchChecks`` has it, and whether it is a 304 that may be checked.

        What an answer showed about validators and dates is counted for the host again. A row has
        no name of the software; that of the snapshot counts.
        """
        reason, host = lease.record.reason, lease.host
        found = msgspec.structs.replace(found, is_check=reason in TO_CHECK)
        # Another body whose text is in no row may have the same text.
        is_known = bool(found.text_digest) or found.digest == old.digest
        if not old.fetches or not is_known or found.meaning is Meaning.FAILED:
            return found, False
        url8 = lease.entry.url8
        sent = conditions_of(lease.record.history, reason, host.record.validators, url8)
        given = Conditions(row.etag, row.last_modified)
        found = self._checks.dated(lease, old, found, row.last_modified)
        return found, self._checks.note_validators(lease, old, found, given, sent)

    def _is_sampled(self, lease: Lease, history: History) -> bool:
        every = check_every(lease.host.record.validators, self._config.refetch.check_every)
        return is_sampled(lease.entry.url8, history.fetches, every)

    def _file_content(self, row: JournalRow) -> None:
        """File the digest and the fingerprint at their owners. Repeating it changes nothing."""
        if row.status != 200 or row.privacy:
            return
        if row.body_segment.startswith(ELSEWHERE):
            page = Original(row.url, row.date_us, row.record_id)
            is_near = row.near_duplicate_of is not None
            self._worker.duplicates.remember_text(row.simhash, page, is_near=is_near)
        elif row.original is None:
            self._worker.duplicates.remember_capture(
                digest_in(row),
                row.simhash,
                StoredOriginal(
                    row.url,
                    row.date_us,
                    row.record_id,
                    layout.warc_name(row.segment),
                    row.offset,
                ),
                is_near=row.near_duplicate_of is not None,
            )

    async def _hand_in(
        self, row: JournalRow, lease: Lease, outcome: FetchOutcome, target: str
    ) -> None:
        self._worker.intake.take_license(lease, row.preferences)
        if target:
            self._worker.intake.take_redirect(lease, target)
            self.entered.links += 1
        elif outcome.meaning is Meaning.FETCHED:
            parsed = await self._parsed(row, lease)
            self._worker.intake.take_outlinks(lease, parsed)
            self.entered.links += len(parsed.links)

    async def _parsed(self, row: JournalRow, lease: Lease) -> Parsed:
        """The links of a page, from its row if that has all that counts."""
        kinds = row.links.kinds
        has_links = len(kinds) == row.outlinks and _WITH_HINTS.isdisjoint(kinds)
        is_sitemap = self._worker.intake.is_sitemap(lease)
        if (has_links and not is_sitemap) or row.parse_reason in NOT_PARSED or not row.body_bytes:
            return parsed_in(row)
        body = UnparsedBody(
            layout.warc_name(row.segment),
            row.offset,
            Reason.INTERNAL,
            is_seed=is_seed_record(lease.record),
        )
        parsed = await self._stored.parse_stored(lease, body)
        if parsed is None or parsed.reason in NOT_PARSED:
            # the next owner of the shard tries it again
            self._partition.unparsed.put(lease.host.host8 + lease.entry.url8, body)
            self.entered.unparsed += 1
            return Parsed()
        self.entered.parsed += 1
        return parsed

    # -- robots.txt

    async def _enter_robots(self, row: JournalRow) -> None:
        """Keep what a file of the shard's own host says, unless a later one is known."""
        host = self._partition.find_or_add_host(hash8(host_of(row.url)), row.url)
        secure = row.url.startswith("https:")
        self._let_rest(host, row)
        if row.status in REDIRECTS or row.url != robots_url(host.name, secure):
            return
        robots, partition, time = self._worker.robots, self._partition, ended_at(row)
        known = await robots.load_origin(partition, host, secure)
        if known is not None and known.record.fetched >= row.date_us / 1e6:
            return
        fetched = await self._origin_answer(row)
        if fetched is None:
            return
        ready, stored = await self._robots.read_answer(
            fetched, known.record if known else None, time
        )
        delay_s = max(ready.record.rules.crawl_delay_s, host.record.pace.crawl_delay_s)
        learned = Learned(ready, stored, delay_s, fetched.reason)
        robots.keep_learned(partition, host, secure, learned)
        for _ in self._worker.intake.sitemap_steps(host, learned.sitemaps, row.url):
            pass
        self.entered.robots += 1

    async def _enter_tdm_file(self, row: JournalRow) -> None:
        """Keep what a tdmrep.json says, unless a later one is known or the crawl needs none."""
        host = self._partition.find_or_add_host(hash8(host_of(row.url)), row.url)
        self._let_rest(host, row)
        files, secure = self._worker.tdm_files, row.url.startswith("https:")
        if files is None or files.is_known(self._partition, host, secure, row.date_us / 1e6):
            return
        fetched = await self._origin_answer(row)
        if fetched is not None:
            await files.take_in(self._partition, host, secure, fetched, at=ended_at(row))
            self.entered.robots += 1

    async def _origin_answer(self, row: JournalRow) -> Fetched | None:
        record = await self._stored.read_record(layout.warc_name(row.segment), row.offset)
        if record is None:
            return None
        return Fetched(
            row.url,
            row.reason,
            row.detail,
            row.status,
            header_block=record.header_block,
            body=record.body,
            body_bytes=row.body_bytes,
            truncated=row.truncated,
        )

    def _let_rest(self, host: VisitState, row: JournalRow) -> None:
        """Let the host wait from this request on as long as it can have asked for at most."""
        self.newest = max(self.newest, ended_at(row))
        self._hold(host, ended_at(row) + self._wait_s)

    def hold_hosts(self, waits: Mapping[str, float]) -> None:
        """Let hosts that are known wait until these times (seconds since 1970)."""
        for name, until in waits.items():
            host = self._partition.visits.find_host(hash8(name))
            if host is not None:
                self._hold(host, until)

    def _hold(self, host: VisitState, until: float) -> None:
        record = host.record
        record.next_at = max(record.next_at, until)
        if record.rest_at >= 0:
            record.rest_at = max(record.rest_at, until)
        self._partition.visits.mark_changed(host)


def _noted(row: JournalRow) -> NotedChange | None:
    """What is reported of the capture, as when it was made."""
    if row.kind is not FetchKind.PAGE or row.change not in TOLD_CHANGES or row.is_private:
        return None
    return NotedChange(row.change, int(ended_at(row)), row.date_us, row.status, row.change_distance)


def _listing_kind(row: JournalRow) -> ListingKind:
    """The kind of sitemap or feed, as far as a row tells; its next reading tells the rest."""
    kinds = row.links.kinds
    if LinkKind.SITEMAP_FILE in kinds:
        return ListingKind.INDEX
    if LinkKind.FEED in kinds:
        return ListingKind.FEED
    is_sitemap = row.kind is FetchKind.SITEMAP or LinkKind.SITEMAP in kinds
    return ListingKind.SITEMAP if is_sitemap else ListingKind.NONE
