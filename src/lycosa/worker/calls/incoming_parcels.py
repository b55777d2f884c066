"""Receives what other workers send: parcels, and questions about keys.

Parcels come in two ways. Either another worker delivers one over a connection and waits until the
commit that took it is on disk (``receive_parcel``). Or they are in the inbox topic of the worker's
partition (``inbox_topic``). A parcel in a topic that is not the next one is skipped, because its
sender posts it again after the missing one. So is a record that is no parcel of the crawl: if it
stands where a parcel was, the next parcel of its source says that one is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from lycosa.stages.frontier.partition import Partition
from lycosa.state.exchange.exchange_errors import InboxDamaged, ParcelGap, ParcelsLost, PositionLost
from lycosa.state.exchange.exchange_port import LookUp, Parcel
from lycosa.state.exchange.outbox import Inbox, Outbox
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.seen.duplicates import Duplicates
from lycosa.worker.intake.inbox_topic import InboxTopic
from lycosa.worker.intake.intake import Intake
from lycosa.worker.intake.near_duplicates import NearDuplicates
from lycosa.worker.intake.wants import Wants
from lycosa.worker.visit.errands import Errands
from lycosa.worker.worker import Worker

_PARCELS = 100
_MAX_UNCOMMITTED = 128  # records of the topic that are taken and not committed; bounds their memory


class ParcelReceivers(msgspec.Struct, frozen=True):
    """The stages that receive the contents of a parcel."""

    intake: Intake
    duplicates: Duplicates
    errands: Errands
    near: NearDuplicates
    wants: Wants


class IncomingParcels:
    """One per worker."""

    def __init__(
        self,
        partitions: Mapping[int, Partition],
        tables: Mapping[int, KeyValue],
        receivers: ParcelReceivers,
        worker: Worker,
        topic: InboxTopic,
    ) -> None:
        assert not topic.exists or len(partitions) == 1, "a topic is of one partition"
        self._partitions, self._tables = partitions, tables
        self._receivers, self._worker, self._topic = receivers, worker, topic
        self._inboxes = {
            number: Inbox(partitions[number].table, table, number)
            for number, table in tables.items()
        }
        self._reading: asyncio.Task[None] | None = None
        self.activity = 0
        self.stepped_over = 0
        """Number of skipped parcels of the topic, which were not the next one."""

    def __repr__(self) -> str:
        return (
            f"<IncomingParcels {self._topic!r} activity={self.activity}"
            f" stepped_over={self.stepped_over}>"
        )

    def start(self) -> None:
        """Start reading the topic, if there is one. The exchange must be open."""
        if self._topic.exists:
            self._reading = asyncio.get_running_loop().create_task(self._read())
            self._reading.add_done_callback(self._ended)

    def look_up(self, partition: int) -> LookUp:
        """The lookup for other workers' questions about a partition's keys.

        It sees only committed rows, because a crash may undo all others.
        """
        return self._tables[partition].get

    async def receive_parcel(self, parcel: Parcel) -> None:
        """Take a parcel; return when the commit that took it is on disk."""
        try:
            self._take(parcel)
        except ParcelsLost as error:
            self._worker.fail(error)  # the missing parcels cannot arrive any more
            raise
        inbox = self._inboxes[parcel.destination]
        # A loop: a commit that was cut before the parcel was taken does not contain it.
        while not inbox.is_committed(parcel.source, parcel.sequence):
            await self._worker.next_commit()

    def take_own_parcels(self, outboxes: Mapping[int, Outbox]) -> None:
        """Take parcels between two partitions of this worker, in its first commit.

        An earlier run with more workers left them.
        """
        for outbox in outboxes.values():
            for destination in self._inboxes.keys() & set(outbox.destinations()):
                after = 0
                while parcels := outbox.pending_parcels(destination, _PARCELS, after):
                    for parcel in parcels:
                        self._take(parcel)
                        outbox.acknowledge(destination, parcel.sequence)
                    after = parcels[-1].sequence

    def _take(self, parcel: Parcel) -> None:
        inbox, receivers = self._inboxes[parcel.destination], self._receivers
        # A sender repeats a parcel whose acknowledgement was lost.
        if not inbox.is_new(parcel.source, parcel.sequence, parcel.acknowledged):
            return
        if parcel.places:
            receivers.intake.receive_places(self._partitions[parcel.destination], parcel.places)
        if parcel.discovered:
            receivers.intake.receive_urls(self._partitions[parcel.destination], parcel.discovered)
        for key, value in parcel.contents:
            receivers.duplicates.file_row(parcel.destination, key, value)
        for fingerprint in parcel.fingerprints:
            receivers.near.judge_fingerprint(parcel.destination, fingerprint)
        for verdict in parcel.verdicts:
            receivers.near.deliver_verdict(parcel.destination, verdict)
        for errand in parcel.errands:
            receivers.errands.deliver_item(parcel.destination, errand)
        for answer in parcel.answers:
            receivers.errands.deliver_item(parcel.destination, answer)
        for want in parcel.wants:
            receivers.wants.deliver_item(parcel.destination, want)
        for settled in parcel.settled:
            receivers.wants.deliver_item(parcel.destination, settled)
        # Last, with no await since the first line: a commit has the contents and the number, or
        # neither.
        inbox.accept_parcel(parcel.source, parcel.sequence)
        self.activity += 1

    async def _read(self) -> None:
        topic = self._topic
        while True:
            for position, parcel in await self._next_parcels():
                await asyncio.sleep(
                    0
                )  # a parcel may have 500 URLs: one parcel in a step of the loop
                try:
                    if parcel is not None:
                        self._take(parcel)
                except ParcelGap:
                    # Its sender posts it again behind the missing one, so nothing is lost.
                    self.stepped_over += 1
                except ParcelsLost as error:
                    # No later record can contain these parcels, so reading on would lose them
                    # silently.
                    raise _lost_in_topic(error) from error
                # No await since the parcel was taken, so that both are in the same commit.
                topic.position = position
                self._worker.wake()
            # No more is read until a commit; what was taken would fill memory in an outage of the
            # log.
            while topic.uncommitted >= _MAX_UNCOMMITTED:
                await self._worker.next_commit()

    async def _next_parcels(self) -> Sequence[tuple[int, Parcel | None]]:
        """Raises ``Fenced`` when a later owner has trimmed the topic, and the errors of the
        topic.
        """
        try:
            return await self._topic.read_parcels()
        except PositionLost:
            # An owner that does not know yet that it lost the shard must not report damage.
            await self._worker.committer.commit(is_forced=True)
            raise

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._worker.fail(error)

    async def close(self) -> None:
        """Stop reading. What was taken and not committed is read again."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._topic.close()


def _lost_in_topic(error: ParcelsLost) -> InboxDamaged:
    return InboxDamaged(
        f"the parcels of shard {error.source} from number {error.taken + 1} on are missing in the"
        f" inbox topic, although {error.acknowledged} of them were written to it: the topic was"
        " cut, or a record that cannot be read stands in their place. End all nodes and the"
        " coordinator, delete what is left of the topics, and continue by `lycosa cluster rescue`"
    )
