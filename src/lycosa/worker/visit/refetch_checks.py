"""What an answer shows beyond its content: about the validators of its host, and whether a page is
gone although its status does not say so.

The decisions are in ``schedule.validator_trust`` and ``schedule.soft_gone``; what they need is in
the host's record, which changes in the commit of the capture. A first fetch costs
only the look for copies among the pages of its host.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.model.capture import Original
from lycosa.base.model.fetched import Fetched
from lycosa.base.model.host_memory import ValidatorCounts, ValidatorFinding
from lycosa.base.model.source_truth import SignalSource
from lycosa.base.model.url_state import History
from lycosa.base.reasons import Reason
from lycosa.base.server_software import software_of
from lycosa.base.urls.identity import host_of
from lycosa.stages.frontier.crawl_clock import CrawlClock
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.schedule.dated_evidence import listed_since, unchanged_since, was_right
from lycosa.stages.schedule.fetch_outcome import FetchOutcome, Meaning
from lycosa.stages.schedule.page_change import had_content, is_changed
from lycosa.stages.schedule.refetch_plan import FoundContent
from lycosa.stages.schedule.soft_gone import (
    GONE_REASONS,
    PageAnswer,
    is_missing,
    is_soft_gone,
    may_be_gone,
    with_wish,
)
from lycosa.stages.schedule.validator_trust import (
    Conditions,
    RefetchAnswer,
    is_distrusted,
    judge_validators,
)


class Likeness(Enum):
    """How an answer compares with that for a path that does not exist."""

    UNLIKE = "not like it"
    GONE = "like it, and there was other content"
    LIKE = "like it"
    UNKNOWN = "there was other content, and how the host answers such a path is being asked"


class RefetchChecks:
    """One per worker."""

    def __init__(self, partitions: Mapping[int, Partition], clock: CrawlClock) -> None:
        self._partitions, self.clock = partitions, clock
        # Whether the dates of any host were compared with what was found.
        self.knows_dates = any(each.truths.pools for each in partitions.values())

    def likeness(
        self,
        section: RefetchSection,
        lease: Lease,
        old: History,
        found: FoundContent,
        target: str,
        alike: Original | None,
    ) -> Likeness:
        """Compare an answer with that for a path that does not exist, and have the host asked.

        ``found`` is as the status says, ``target`` that of a redirect, ``alike`` a page with the
        same or nearly the same content.
        """
        host, is_again = lease.host, had_content(old)
        if not section.soft_gone or section.rule is RefetchRule.OFF:
            return Likeness.UNLIKE
        missing, now = host.record.missing, self.clock.time()
        answer = PageAnswer(lease.url, found.status, found.digest, found.simhash, target)
        if is_soft_gone(missing, old, answer, lease.record.reason in GONE_REASONS, now):
            return Likeness.GONE
        if not target and is_missing(missing, answer, now):
            return Likeness.LIKE
        changed = is_changed(old, found.meaning, found.digest, found.text_digest)
        if lease.record.reason is Reason.PERHAPS_GONE or not is_again:
            return Likeness.UNLIKE
        if may_be_gone(old, answer, changed):
            host.record.missing = missing = with_wish(missing, now) or missing
            is_asked = missing is not None and missing.is_wanted
            return Likeness.UNKNOWN if is_asked else Likeness.UNLIKE
        if alike is not None and alike.url != lease.url and host_of(alike.url) == host.name:
            host.record.missing = with_wish(missing, now, is_copy=True) or missing
        return Likeness.UNLIKE

    def note_answer(
        self, lease: Lease, old: History, found: FoundContent, fetched: Fetched, sent: Conditions
    ) -> bool:
        """Note what an answer to a refetch shows about the validators of its host.

        Returns whether it is a 304 that is to be checked.
        """
        if not old.fetches:
            return False
        validators = Conditions(fetched.header("etag"), fetched.header("last-modified"))
        return self.note_validators(lease, old, found, validators, sent)

    def note_validators(
        self, lease: Lease, old: History, found: FoundContent, given: Conditions, sent: Conditions
    ) -> bool:
        """The same; ``given`` are the validators of the answer, ``sent`` those of the request."""
        same = not is_changed(old, found.meaning, found.digest, found.text_digest)
        gap_s, status = found.at - old.fetched_at, found.status
        answer = RefetchAnswer(sent, status, given.etag, given.last_modified, same, gap_s)
        finding = judge_validators(old, lease.record.reason, answer)
        self.note_finding(lease, finding, bool(sent.etag))
        return finding is ValidatorFinding.NOT_MODIFIED

    def with_date(
        self, lease: Lease, old: History, found: FoundContent, fetched: Fetched
    ) -> FoundContent:
        """What was found, with what a trusted date says of it; notes the software of the host."""
        header = fetched.header
        generator = header("x-generator") or header("x-powered-by")
        truths = self._partitions[lease.host.partition].truths
        truths.note_software(lease.host, software_of(header("server"), generator))
        return self.dated(lease, old, found, header("last-modified"))

    def dated(
        self, lease: Lease, old: History, found: FoundContent, last_modified: str
    ) -> FoundContent:
        """What was found, with what a trusted date says of it.

        ``Last-Modified`` is compared with what was found, and the result is counted for the host.
        Without it the ``lastmod`` counts by which a sitemap announced the change.
        """
        host, since = lease.host, 0.0
        if last_modified:
            truths = self._partitions[host.partition].truths
            changed = is_changed(old, found.meaning, found.digest, found.text_digest)
            truth = truths.truth_of(host, SignalSource.LAST_MODIFIED)
            since = unchanged_since(truth, last_modified, old, found.at)
            right = was_right(old, found.meaning, last_modified, changed, found.at)
            if right is not None:
                truths.count_signal(host, SignalSource.LAST_MODIFIED, float(right))
                self.knows_dates = True
        since = since or self._listed_since(lease, old, found.at)
        return msgspec.structs.replace(found, unchanged_since=since) if since else found

    def _listed_since(self, lease: Lease, old: History, now: float) -> float:
        host, source = lease.host, SignalSource.SITEMAP
        if not old.fetches or source not in host.record.signals:
            return 0.0
        partition = self._partitions[host.partition]
        at = partition.signals.row(host.host8 + lease.entry.url8).open.get(source, 0)
        return listed_since(partition.truths.truth_of(host, source), at, old, now) if at else 0.0

    def note_finding(self, lease: Lease, finding: ValidatorFinding, has_tag: bool) -> None:
        """Count a finding; if it shows that the host's validators lie, doubt what they said."""
        host, partition = lease.host, self._partitions[lease.host.partition]
        before = host.record.validators or ValidatorCounts()
        if finding is not ValidatorFinding.NOTHING:
            partition.note_validators(host, finding, has_tag)
        after = host.record.validators
        if after is not None and is_distrusted(after) and not is_distrusted(before):
            partition.doubted.begin(host)
        if after is not None and after.doubted:
            partition.doubted.step(host, self.clock.time())


def without_body(old: History) -> History:
    """The history to compare an answer with, after one that might have been an error page.

    It still describes the content before that one, except the body and the status.
    """
    return msgspec.structs.replace(old, digest=b"", status=200, redirect_to="")


def outcome_as(likeness: Likeness, outcome: FetchOutcome) -> FetchOutcome:
    """What an answer means for its URL: a page that is gone has no content."""
    if likeness is Likeness.GONE:
        return FetchOutcome(Meaning.FAILED, Reason.SOFT_GONE)
    return outcome


def found_as(likeness: Likeness, found: FoundContent, old: History) -> FoundContent:
    """What counts as found: of a page that is gone, or may be, the last content is kept."""
    if likeness is Likeness.GONE:
        gone = {"meaning": Meaning.FAILED, "text_digest": old.text_digest, "status": 404}
        return msgspec.structs.replace(found, **gone)
    if likeness is Likeness.UNKNOWN:
        return msgspec.structs.replace(found, text_digest=old.text_digest, is_check=True)
    return found
