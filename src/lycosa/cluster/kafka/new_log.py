"""Begins the log of a shard whose first state is a snapshot, not the commits of the log.

The snapshot is of a commit ``mark`` that no log has (``moves.new_shards``). The log gets claims
until its term is that of the mark, and then one commit without writes. It says that the commit
before it was ``mark``. So the next owner needs this snapshot or a later one, and terms and
sequences continue those from which the state came.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import closing
from functools import partial

import msgspec

from lycosa.cluster.kafka.changelog import ClaimRecord, encoded
from lycosa.cluster.kafka.kafka_clients import KafkaClient, Tell
from lycosa.cluster.kafka.kafka_log import KafkaLog
from lycosa.cluster.kafka.log_reader import KafkaLogReader
from lycosa.cluster.kafka.topics import Topics
from lycosa.cluster.kafka.transactions import OutgoingRecord, Transactions
from lycosa.state.commit import Commit, Mark, PartitionBatch, RolledBack

_AT_ONCE = 1000  # claims in one transaction


class NewLogTaken(Exception):
    """The log has commits that do not follow from the snapshot with which it was to begin."""


class FirstCommit(msgspec.Struct, frozen=True):
    """The first commit of a shard's log.

    ``mark`` is the commit of the snapshot before it, of a term of at least 1. ``wall`` and ``time``
    are wall time and crawl time of the state, ``settings`` the version of its live settings. With
    ``is_final`` nothing was in flight when the state was read, so its next owner holds no host.
    """

    shard: int
    mark: Mark
    wall: float
    time: float
    settings: int = 0
    is_final: bool = False


def begin_log(
    client: KafkaClient,
    topics: Topics,
    crawl: str,
    first: FirstCommit,
    tell: Tell = lambda text: None,
) -> None:
    """Write the claims and the commit; may be repeated. Blocks, while Kafka is away too.

    A log that begins with exactly this commit is left as it is. Raises ``NewLogTaken`` for a log
    with other commits, ``ChangelogDamaged`` for one of another crawl, ``Fenced`` when another
    program claims the log at the same time.
    """
    with closing(KafkaLogReader(client, topics, crawl, first.shard, tell)) as reader:
        commits = [(each.mark, each.before) for each in reader.read()]
        claims = reader.newest_term
    if commits:
        if commits[0][1] != {first.shard: first.mark}:
            raise NewLogTaken(
                f"{topics.changelog}, partition {first.shard}, has commits of another state; delete"
                " the topic, or give the crawl another name"
            )
        return
    _write_claims(client, topics, crawl, first, claims, tell)
    with closing(KafkaLog(client, topics, crawl, first.shard, tell=tell)) as log:
        commit = _commit(crawl, first, log.claim().term)
        _repeat(lambda: log.append(commit), tell)


def _repeat(write: Callable[[], object], tell: Tell) -> None:
    """Write until it is not rolled back: nothing is in the log after such an answer."""
    while True:
        try:
            write()
            return
        except RolledBack as error:
            tell(str(error))


def _commit(crawl: str, first: FirstCommit, term: int) -> Commit:
    return Commit(
        term=term,
        sequence=first.mark.sequence + 1,
        wall=first.wall,
        time=first.time,
        batches=[PartitionBatch(first.shard, {})],
        before={first.shard: first.mark},
        crawl=crawl,
        shard=first.shard,
        settings=first.settings,
        is_final=first.is_final,
    )


def _write_claims(
    client: KafkaClient, topics: Topics, crawl: str, first: FirstCommit, there: int, tell: Tell
) -> None:
    """Write all claims but the last; ``there`` of them are in the log already."""
    missing = first.mark.term - 1 - there
    if missing <= 0:
        return
    with closing(
        Transactions(client, topics.transactional_id(first.shard), topics.changelog, tell)
    ) as writing:
        writing.begin()
        for start in range(0, missing, _AT_ONCE):
            records = [
                OutgoingRecord(
                    topics.changelog, first.shard, encoded(ClaimRecord(crawl, uuid.uuid4().bytes))
                )
                for _ in range(min(missing - start, _AT_ONCE))
            ]
            _repeat(partial(writing.run, records), tell)
