"""Near-duplicates by events, as one worker takes part in them.

    page stored -> fingerprint, in the same commit -> owners of its buckets: judge and file
    -> verdict, if there is one, in the commit that files -> partition of the page: kept, and
    stated in the URL's record

Fingerprints and verdicts travel in parcels, each of which takes effect exactly once, so a crash
loses none. What this worker owns itself is judged at once, in the commit of the page.
"""

from __future__ import annotations

from collections.abc import Mapping

from lycosa.base.model.capture import Original
from lycosa.base.model.parcel_items import Fingerprint, Verdict
from lycosa.base.urls.identity import host_of
from lycosa.stages.frontier.partition import Partition
from lycosa.state.seen.near_judge import NearJudge
from lycosa.worker.intake.intake import Intake
from lycosa.worker.intake.outgoing_parcels import OutgoingParcels


class NearDuplicates:
    """One per worker; it implements ``NearVerdicts``."""

    def __init__(
        self,
        partitions: Mapping[int, Partition],
        judge: NearJudge,
        intake: Intake,
        outgoing: OutgoingParcels,
    ) -> None:
        self._partitions, self._judge = partitions, judge
        self._intake, self._outgoing = intake, outgoing
        self._posted = self._verdicts = 0

    def find_earlier(self, page: Fingerprint) -> Original | None:
        """See ``NearVerdicts``."""
        return self._judge.find_earlier(page)

    def post_fingerprint(self, page: Fingerprint) -> None:
        """See ``NearVerdicts``."""
        for partition in self._judge.owners_of(page.simhash):
            if partition in self._partitions:
                self.judge_fingerprint(partition, page, is_new=True)
            else:
                self._outgoing.post_near(partition, page)
                self._posted += 1

    def judge_fingerprint(self, partition: int, page: Fingerprint, is_new: bool = False) -> None:
        """Judge a page with the buckets of an owned partition, and send the verdicts.

        ``is_new`` for a page of this worker whose record the open commit has yet to get. It will
        state what ``find_earlier`` returned, so the verdict is only kept.
        """
        for verdict in self._judge.judge_fingerprint(partition, page):
            self._verdicts += 1
            destination = self._intake.partition_of_host(host_of(verdict.url))
            if is_new and verdict.url == page.original.url:
                self._partitions[destination].alike.keep_verdict(verdict)
            elif destination in self._partitions:
                self.deliver_verdict(destination, verdict)
            else:
                self._outgoing.post_near(destination, verdict)

    def deliver_verdict(self, partition: int, verdict: Verdict) -> None:
        """Take a verdict about a page of an owned partition."""
        self._partitions[partition].alike.note_verdict(verdict)

    def snapshot(self) -> dict[str, int]:
        """See ``NearVerdicts``."""
        return {**self._judge.snapshot(), "posted": self._posted, "told": self._verdicts}
