"""Pages that are listed by a sitemap or feed which a refetch policy names.

A policy may be for the pages of a sitemap (``sitemap:`` in ``config.refetch_policies``), and
nothing in a URL says that a sitemap lists it. So the worker that reads such a sitemap gives each
listed URL the *mark* of the rule, a hash of the address in it, and the owner of the URL keeps it in
the record. The policy of a page is that of the first rule for its URL or for its mark.

What a page costs that no such sitemap lists is a comparison. A marked one has five more bytes in
its record, and is read and perhaps written each time when its sitemap is read.

A mark does not refer to the list of rules, so it stays right when they change. Of several sitemaps
that list a page the one counts whose rule is first. A mark stays when the sitemap does not list the
page any more: what left a sitemap is known only where all of its entries are kept.

A sitemap that a new rule names is read again, without conditions, because its pages have no mark
yet. Its row (``frontier.listings``) says with which mark it was read.
"""

from __future__ import annotations

from collections.abc import Mapping

from lycosa.base.config.refetch_policies import policy_book
from lycosa.base.listing_kind import NOT_LISTED
from lycosa.base.model.discovered import Discovered
from lycosa.stages.frontier.change_signals import ChangeSignals
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.policy_walk import PolicyWalk
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.state.kv.table_records import UrlRecord


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
