"""The part of a partition that decides when its pages are fetched again.

It holds what knows of due times: the schedule, the line of probes, the bands of due pages, the
grids of large hosts, the walk that applies changed policies, the marks of listed pages, and the
signals with the truth of their sources. The partition moves URLs; here it is told when.
"""

from __future__ import annotations

from collections.abc import Mapping

from lycosa.base.config.refetch_policies import policy_book
from lycosa.base.listing_kind import NOT_LISTED
from lycosa.base.model.discovered import Discovered
from lycosa.base.model.due_band import DUE_BANDS, DueBand
from lycosa.base.model.url_state import Completed, History
from lycosa.stages.frontier.change_signals import ChangeSignals, PageSignals
from lycosa.stages.frontier.due import DueQueue
from lycosa.stages.frontier.entry_bands import EntryBands
from lycosa.stages.frontier.host_grids import HostHistograms
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition_rules import FrontierRules
from lycosa.stages.frontier.policy_walk import PolicyWalk
from lycosa.stages.frontier.pooled_truths import PooledTruths
from lycosa.stages.frontier.probe_line import ProbeLine
from lycosa.stages.frontier.turn_shares import SharedTurns
from lycosa.stages.frontier.visit_state import VisitState, VisitStates
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import UrlRecord
from lycosa.state.shard.counters import Counters, count

_DUE_ROW = 64  # URLs that share a row of the schedule, 1 kB


class RefetchedPages:
    """One per partition, over its table."""

    def __init__(
        self,
        table: Overlay,
        visits: VisitStates,
        counters: Counters,
        leased: dict[bytes, Lease],
        rules: FrontierRules,
    ) -> None:
        """``leased`` are the open leases, by host8 and url8."""
        self._counters, self._forward = counters, rules.forward
        self.due = DueQueue(table, b"D", _DUE_ROW)
        self.probes = ProbeLine(table, self.due)
        self.share = SharedTurns()
        self.entries = EntryBands(rules.judge, rules.forward, self.due, self.probes)
        self.host_grids = HostHistograms(
            table, visits, counters, rules.host_prices, rules.has_host_prices
        )
        self.policy_walk = PolicyWalk(
            table,
            self.due,
            visits,
            self.host_grids.move_cell,
            rules.kept_interval,
            rules.look_at,
            rules.forward.ahead_s,
        )
        # Formats that have no bands of due pages keep no marks either.
        keeps_marks = rules.judge is not None
        self.listed = ListedPages(self.policy_walk, leased, rules.forward, keeps_marks)
        self.truths = PooledTruths(table, visits)
        self.signals = PageSignals(
            table, self.due, visits, counters, leased, rules.forward, self.truths
        )
        self._leased = leased

    def __repr__(self) -> str:
        return f"<RefetchedPages {self.probes!r} {self.policy_walk!r}>"

    def note_capture(self, lease: Lease, history: History) -> None:
        """Count a capture of a page that had one before."""
        band = lease.entry.band
        count(self._counters.refetched, band if band in DUE_BANDS else 0)
        if band != DueBand.PROBE:
            self.probes.note_refetch(history.fetched_at)

    def end_lease(self, lease: Lease, before: History | None, done: Completed) -> None:
        """Put a page whose lease ended into the schedule, at the time that it has by now.

        ``before`` is its history before the fetch; its record is that after it.
        """
        host, record, url = lease.host, lease.record, lease.host.host8 + lease.entry.url8
        if self.policy_walk.late:
            self.policy_walk.correct_late(host, url, record)
        if host.record.signals:
            self.signals.settle(host, url, record, before, done)
        if record.due_at:
            self.due.add_due(record.due_at, url)

    def follow_policies(self) -> bool:
        """Follow the refetch settings of the rules; return whether records are to be moved."""
        section = self._forward.section
        self.share.follow(section.share)
        self.probes.follow(section.probes)
        return self.policy_walk.follow(section, self._leased)

    def save(self) -> None:
        """Put what changed into the open batch, except the schedule."""
        self.host_grids.save()
        self.truths.save()


# Pages that are listed by a sitemap or feed which a refetch policy names.
#
# A policy may be for the pages of a sitemap (``sitemap:`` in ``config.refetch_policies``), and
# nothing in a URL says that a sitemap lists it. So the worker that reads such a sitemap gives each
# listed URL the *mark* of the rule, a hash of the address in it, and the owner of the URL keeps it
# in the record. The policy of a page is that of the first rule for its URL or for its mark.
#
# What a page costs that no such sitemap lists is a comparison. A marked one has five more bytes in
# its record, and is read and perhaps written each time when its sitemap is read.
#
# A mark does not refer to the list of rules, so it stays right when they change. Of several
# sitemaps that list a page the one counts whose rule is first. A mark stays when the sitemap does
# not list the page any more: what left a sitemap is known only where all of its entries are kept.
#
# A sitemap that a new rule names is read again, without conditions, because its pages have no mark
# yet. Its row (``frontier.listings``) says with which mark it was read.


class ListedPages:
    """The marks of one partition."""

    def __init__(
        self,
        walk: PolicyWalk,
        leased: Mapping[bytes, Lease],
        forward: ChangeSignals,
        keeps_marks: bool,
    ) -> None:
        """``forward`` has the settings in force; formats 1 keep no marks."""
        self._walk, self._leased, self._forward = walk, leased, forward
        self._keeps_marks = keeps_marks

    def mark_of(self, url: str) -> int:
        """The mark of what this sitemap or feed lists; ``NOT_LISTED`` when no rule names it."""
        book = policy_book(self._forward.section)
        return book.mark_of(url) if self._keeps_marks and book.names_sitemaps else NOT_LISTED

    def note_listed(
        self, host: VisitState, found: Discovered, record: UrlRecord, now: float
    ) -> bool:
        """Keep the mark of a known page that was listed; return whether its record changed.

        A page that was fetched gets the time of its rule. ``now`` is wall time.
        """
        before, place_of = record.listed, policy_book(self._forward.section).place_of
        # Both may be unknown here, when the reader of the sitemap was told of the rules first.
        if before == found.listed or place_of(before) < place_of(found.listed):
            return False
        key = host.host8 + found.url8
        record.listed = found.listed
        if (lease := self._leased.get(key)) is not None:
            # Otherwise the end of the lease would restore the mark before.
            lease.record.listed = found.listed
            self._walk.note_late(key)
        else:
            self._walk.move_one(host, key, record, now + self._forward.ahead_s())
        return True
