"""A shard's topics for readers that own nothing: its commits, and parcels that it has not taken.

Nothing is claimed or written, so the owner is not disturbed. Reading ends at what is committed
now.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lycosa.cluster.kafka.changelog import ChangelogDamaged, Fold, folded_commits
from lycosa.cluster.kafka.kafka_clients import KafkaClient, Tell
from lycosa.cluster.kafka.parcel_records import parcels_of
from lycosa.cluster.kafka.partition_reader import PartitionReader, PositionGone, RecordBroken
from lycosa.cluster.kafka.topics import Topics
from lycosa.state.commit import Commit, LogTrimmed
from lycosa.state.exchange.exchange_errors import InboxDamaged, PositionLost
from lycosa.state.exchange.exchange_port import Parcel


class KafkaLogReader:
    """The commits of one shard.

    ``tell`` is called with what a call waits for.
    """

    def __init__(
        self, client: KafkaClient, topics: Topics, crawl: str, shard: int, tell: Tell
    ) -> None:
        self._topic, self._crawl, self._shard = topics.changelog, crawl, shard
        self._reader = PartitionReader(client, topics.changelog, shard, tell)
        self.newest_term = 0
        """The term of the newest claim, as the last complete ``read`` found it."""
        self.owner_term = 0
        """The term of the newest owner: a claim that only closes the log is not of an owner."""
        self.assignment = 0
        """The greatest number of an assignment by which a node claimed the log; 0 if none did."""

    def read(self) -> Iterator[Commit]:
        """All commits that are kept, in order.

        Raises ``LogTrimmed``, ``ChangelogDamaged`` and ``ReadingEnded``.
        """
        first, _ = self._reader.limits()
        fold, latest = Fold(self._topic, self._shard, self._crawl, first), None
        try:
            for latest in folded_commits(fold, self._reader.read(first, None)):
                yield fold.commit(latest)
        except PositionGone as error:
            raise LogTrimmed(Path(f"{self._topic}-{self._shard}"), first) from error
        except RecordBroken as error:
            raise ChangelogDamaged(self._topic, self._shard, -1, str(error)) from error
        if first and latest is None:  # a trim leaves the last commit
            raise ChangelogDamaged(self._topic, self._shard, first, "all commits were deleted")
        self.newest_term, self.owner_term = fold.term, fold.owner_term
        self.assignment = fold.assignment

    def end(self) -> None:
        """End a wait in another thread, with ``ReadingEnded``."""
        self._reader.end()

    def close(self) -> None:
        """Give the connections back, when no thread reads."""
        self._reader.close()


class KafkaInboxReader:
    """The parcels for one shard that are in its topic."""

    def __init__(
        self, client: KafkaClient, topics: Topics, crawl: str, shard: int, tell: Tell
    ) -> None:
        self._topic, self._crawl, self._shard = topics.inbox, crawl, shard
        self._reader = PartitionReader(client, topics.inbox, shard, tell)

    def read_after(self, position: int) -> Iterator[Parcel]:
        """The parcels behind a position of a commit, in order; some may occur several times.
        Foreign records are left out.

        Raises ``PositionLost``, ``InboxDamaged`` and ``ReadingEnded``.
        """
        first, behind = self._reader.limits()
        if position < first:
            raise PositionLost(self._shard, position, first + 1, behind)
        if position >= behind:
            return
        try:
            for offset, value in self._reader.read(position, None):
                for _, found in parcels_of(self._topic, self._crawl, self._shard, offset, value):
                    if isinstance(found, Parcel):
                        yield found
        except PositionGone as error:
            raise PositionLost(self._shard, position, first + 1, behind) from error
        except RecordBroken as error:
            raise InboxDamaged(f"the inbox of shard {self._shard}: {error}") from error

    def close(self) -> None:
        self._reader.close()
