"""The commits of all shards of a crawl, for a reader that follows them while they are made.

One consumer reads all partitions of the changelog and stays connected. Nothing is claimed or
written, so the owners are not disturbed. If a partition was trimmed beyond what was read, reading
continues with the oldest commit that is kept; ``Commit.before`` shows the gap.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from lycosa.cluster.kafka.changelog import ChangelogDamaged, Fold
from lycosa.cluster.kafka.kafka_clients import (
    POLL_S,
    ErrorKind,
    KafkaClient,
    Tell,
    WaitReport,
    cause_of,
    kind_of,
)
from lycosa.cluster.kafka.topics import Topics
from lycosa.state.commit import Commit

_AT_ONCE = 500
_LIMITS_S = 5.0


class ChangelogReader:
    """The commits of every shard. Used by one thread at a time.

    ``tell`` is called with what a call waits for.
    """

    def __init__(self, client: KafkaClient, topics: Topics, crawl: str, tell: Tell) -> None:
        self._client, self._topics, self._crawl, self._tell = client, topics, crawl, tell
        self._consumer: Consumer | None = None
        self._folds: dict[int, Fold] = {}
        self._next: dict[int, int] = {}
        self._at_end: set[int] = set()

    def read_new(self) -> Iterator[Commit]:
        """The commits that were not read yet, to the present end of every shard's log.

        Commits of one shard come in order. One that was made a moment ago may come with the next
        call, because a broker tells a reader that had reached the end a little later. Waits while
        Kafka is away. Raises ``ChangelogDamaged`` and ``KafkaException``.
        """
        waiting = WaitReport(self._tell, self._client, f"reading {self._topics.changelog}")
        consumer = self._opened(waiting)
        while True:
            messages = consumer.consume(_AT_ONCE, POLL_S if self._waits() else 0)
            if not messages and not self._waits():
                return
            trimmed: set[int] = set()
            for message in messages:
                number, error = message.partition(), message.error()
                assert number is not None
                if error is None:
                    waiting.over()
                    self._at_end.discard(number)
                    yield from self._commits(number, message.offset() or 0, message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    waiting.over()
                    self._at_end.add(number)
                # The owner trimmed what was not read yet. The reader begins again at the front, and
                # its caller sees the missing commits by their sequence.
                elif kind_of(error) is ErrorKind.GONE:
                    trimmed.add(number)
                else:
                    _judge(error, waiting)
            if trimmed:
                for number in trimmed:
                    self._begin(consumer, number, waiting)
                self._assign(consumer)
            if not messages and self._client.complaint:
                waiting.because()

    def count_waiting(self) -> int:
        """The number of records that are known to be in the log and were not read.

        A commit is one record or several, and the broker adds one for each transaction.
        """
        if self._consumer is None:
            return 0
        return sum(
            max(self._end_of(self._consumer, number) - self._next.get(number, 0), 0)
            for number in self._folds.keys() - self._at_end
        )

    def close(self) -> None:
        """Disconnect; the next ``read_new`` begins with the oldest commit that is kept."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None
        self._folds.clear()
        self._next.clear()
        self._at_end.clear()

    def _waits(self) -> bool:
        return len(self._at_end) < self._topics.shards

    def _commits(self, number: int, offset: int, value: bytes | None) -> Iterator[Commit]:
        self._next[number] = offset + 1
        if (found := self._folds[number].add(offset, value)) is not None:
            yield self._folds[number].commit(found)

    def _opened(self, waiting: WaitReport) -> Consumer:
        if self._consumer is None:
            self._consumer = self._client.consumer(follows=True)
            for number in range(self._topics.shards):
                self._begin(self._consumer, number, waiting)
            self._assign(self._consumer)
        return self._consumer

    def _assign(self, consumer: Consumer) -> None:
        """Read every partition from its next record. A partition in error cannot be sought."""
        consumer.assign(
            [TopicPartition(self._topics.changelog, *each) for each in self._next.items()]
        )
        self._at_end.clear()

    def _begin(self, consumer: Consumer, number: int, waiting: WaitReport) -> None:
        """Place a partition at its front, with a new fold."""
        place = TopicPartition(self._topics.changelog, number)
        while True:
            try:
                first, _ = consumer.get_watermark_offsets(place, timeout=_LIMITS_S, cached=False)
                break
            except KafkaException as error:
                _judge(cause_of(error), waiting)
                time.sleep(POLL_S)  # an error that comes at once must not come in a loop
        self._folds[number] = Fold(self._topics.changelog, number, self._crawl, first)
        self._next[number] = first

    def _end_of(self, consumer: Consumer, number: int) -> int:
        place = TopicPartition(self._topics.changelog, number)
        try:
            return int(consumer.get_watermark_offsets(place, cached=True)[1])
        except KafkaException:
            # The number is only shown, as the lag of a feed; 0 when it is unknown.
            return 0


def _judge(error: KafkaError, waiting: WaitReport) -> None:
    """Report an error that passes; raise one that does not."""
    kind = kind_of(error)
    if kind is ErrorKind.BROKEN:
        raise ChangelogDamaged("changelog", -1, -1, error.str())
    if kind in (ErrorKind.FATAL, ErrorKind.FENCED):
        raise KafkaException(error)
    waiting.because(error.str())
