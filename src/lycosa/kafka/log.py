"""The log port over Kafka: one shard's partition of the changelog, held by one owner.

A claim raises the producer's epoch, which shuts out every earlier owner and decides what they had
open, then appends a record of its own, and reads the log until that record is met: it is the end of
all that earlier owners wrote, by construction, and no end is asked for that could be stale. An
append is one transaction over ``changelog``, and over ``pages`` and ``dlq`` when there are rows for
them. A log that was not claimed can be read, to what is committed just now.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec
from confluent_kafka import KafkaException, TopicPartition

from lycosa.commit import NOTHING, Claim, Commit, Fenced, RolledBack
from lycosa.kafka.changelog import (
    ChangelogDamaged,
    Claimed,
    Fold,
    Found,
    Saved,
    encoded,
    folded,
    frames,
)
from lycosa.kafka.client import KafkaClient, Tell
from lycosa.kafka.reading import PartitionReader, PositionGone, RecordBroken
from lycosa.kafka.topics import Topics
from lycosa.kafka.transactions import Outgoing, Transactions

_TRIM_S = 30.0


class FeedRow(msgspec.Struct, frozen=True):
    """A row for readers outside, in the commit's transaction. ``kind`` is ``pages`` or ``dlq``."""

    kind: str
    key: bytes
    value: bytes


class KafkaLog:
    """One owner's hold on a shard's log. ``assignment`` is the number by which the coordinator
    chose this owner; ``tell`` hears what a call waits for.
    """

    def __init__(
        self,
        client: KafkaClient,
        topics: Topics,
        crawl: str,
        shard: int,
        assignment: int = 0,
        tell: Tell = lambda text: None,
    ) -> None:
        self._client, self._topics, self._crawl, self.shard = client, topics, crawl, shard
        self._assignment, self._tell = assignment, tell
        self._transactions = Transactions(client, topics.transactional_id(shard), tell)
        self._reader = PartitionReader(client, topics.changelog, shard, tell)
        self._kept: deque[tuple[int, int]] = deque()  # sequence, offset of the first frame
        self._end = -1  # offset of the last record that this owner knows
        self._saved = 0
        self.term = 0

    def claim(self) -> Claim:
        """See ``Log``. Raises ``Fenced`` as well: a later owner claims the shard, or the log has
        one with a greater assignment.
        """
        claim = uuid.uuid4().bytes
        record = encoded(Claimed(self._crawl, claim, self._assignment))
        self._transactions.begin()
        while True:
            try:
                (self._end,) = self._transactions.run([self._changelog(record)])
            except RolledBack as error:
                self._tell(str(error))
            else:
                break
        first = last = None
        fold = self._fold()
        for found in self._found(fold, self._end):
            first, last = first or found, found
            self._kept.append((found.mark.sequence, found.offset))
        self.term, self._saved = fold.term, fold.saved
        if fold.assignment > self._assignment:
            raise Fenced(
                f"shard {self.shard} was given to another node: assignment {fold.assignment} is"
                f" newer than {self._assignment}"
            )
        return Claim(
            self.term, [fold.commit(last)] if last else [], first.mark if first else NOTHING
        )

    def read(self) -> Iterator[Commit]:
        """See ``Log``."""
        fold = self._fold()
        for found in self._found(fold, self._end if self.term else None):
            yield fold.commit(found)

    def append(self, commit: Commit, feed: Sequence[FeedRow] = ()) -> None:
        """See ``Log``; ``feed`` becomes visible with the commit."""
        self._check_claimed()
        records = [self._changelog(each) for each in frames(commit)]
        parts = len(records)
        records += [
            Outgoing(self._topics.named(each.kind), self.shard, each.value, each.key)
            for each in feed
        ]
        offsets = self._transactions.run(records)[:parts]
        self._kept.append((commit.sequence, offsets[0]))
        self._end = offsets[-1]

    def trim(self, sequence: int) -> None:
        """See ``Log``. What goes are the commits that the snapshot before this one has, so that the
        older of two snapshots can still be used. A trim that fails is made up for by the next.
        """
        self._check_claimed()
        newest = min(sequence, self._kept[-1][0]) if self._kept else 0
        if newest <= self._saved:
            return
        saved = encoded(Saved(self._crawl, self.term, newest))
        (self._end,) = self._transactions.run([self._changelog(saved)])
        before, self._saved = self._saved, newest
        dropped = False
        while len(self._kept) > 1 and self._kept[0][0] <= before:
            self._kept.popleft()
            dropped = True
        if dropped:
            self._delete_before(self._kept[0][1])

    def close(self) -> None:
        self._transactions.close()
        self._reader.close()

    def _delete_before(self, offset: int) -> None:
        admin = self._client.admin()
        place = TopicPartition(self._topics.changelog, self.shard, offset)
        try:
            admin.delete_records([place], request_timeout=_TRIM_S)[place].result(_TRIM_S)
        except (KafkaException, TimeoutError) as error:
            self._tell(f"trimming {self._topics.changelog}/{self.shard}: {error}")

    def _check_claimed(self) -> None:
        if not self.term:
            raise Fenced(f"shard {self.shard} was not claimed by this owner")

    def _changelog(self, value: bytes) -> Outgoing:
        return Outgoing(self._topics.changelog, self.shard, value)

    def _fold(self) -> Fold:
        first, _ = self._reader.limits()
        return Fold(self._topics.changelog, self.shard, self._crawl, first)

    def _found(self, fold: Fold, until: int | None) -> Iterator[Found]:
        try:
            yield from folded(fold, self._reader.read(None, until))
        except (PositionGone, RecordBroken) as error:
            raise ChangelogDamaged(self._topics.changelog, self.shard, -1, str(error)) from error

    def __repr__(self) -> str:
        return (
            f"KafkaLog(shard={self.shard}, term={self.term}, commits={len(self._kept)},"
            f" saved={self._saved})"
        )
