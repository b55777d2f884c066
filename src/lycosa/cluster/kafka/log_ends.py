"""What is in the topics of a crawl, for comparisons with what is stored elsewhere.

Topics may be deleted and made again, or a file may name the topics of another crawl. ``log_end``
finds the newest commit in a shard's log, and the crawl that it is of, without reading the whole
log. ``what_remains`` finds what is left of logs that are believed to be lost. A crawl may begin a
new log only if nothing is left of the old one: two logs of one shard would contradict each other,
and parcels of the old one would count as those of the new one.

Nothing is claimed or written.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

import msgspec

from lycosa.cluster.kafka.changelog import ChangelogDamaged, CommitRecord, decode_log_record
from lycosa.cluster.kafka.kafka_clients import KafkaClient, Tell
from lycosa.cluster.kafka.log_reader import KafkaLogReader
from lycosa.cluster.kafka.partition_reader import (
    PartitionReader,
    PositionGone,
    ReadingStalled,
    RecordBroken,
)
from lycosa.cluster.kafka.topics import Topics
from lycosa.cluster.kafka.upkeep import KafkaAway, missing_topics
from lycosa.state.commit import NOTHING, LogDamaged, Mark

_PATIENCE_S = 30.0
_FIRST = 64  # records that are read from the end; then eight times as many


class LogEnd(msgspec.Struct, frozen=True):
    """The newest commit of a log, ``NOTHING`` when it has none.

    ``crawl`` is the UUID of the crawl that its records name, empty when there is no record.
    """

    mark: Mark = NOTHING
    crawl: str = ""


def log_end(client: KafkaClient, topics: Topics, shard: int, at_least: Mark) -> LogEnd:
    """The end of a shard's log, which must exist.

    Raises ``KafkaAway`` when the partition gives no answer for half a minute: it may have no
    leader, or access control may keep this program from reading it. Raises ``ChangelogDamaged``
    when a record cannot be read.

    The log is read backwards until a commit is found that is not before ``at_least``: a lower mark
    in the answer means that the whole log was read. Records that this program cannot read are
    passed over, because owners report these.
    """
    waits = [""]  # the last reason for which a call waits
    with closing(PartitionReader(client, topics.changelog, shard, waits.append)) as reader:
        try:
            return _log_end(reader, at_least)
        except ReadingStalled as error:
            # A command of an operator must end; owners and readers of feeds wait instead.
            why = waits[-1] or f"reading {topics.changelog}/{shard}: no answer"
            raise KafkaAway(f"Kafka at {client.addresses}: {why}") from error
        except RecordBroken as error:
            raise ChangelogDamaged(topics.changelog, shard, -1, str(error)) from error


def _log_end(reader: PartitionReader, at_least: Mark) -> LogEnd:
    number, found = _FIRST, LogEnd()
    while True:
        first, behind = reader.limits(_PATIENCE_S)
        if behind <= first:
            return LogEnd()
        start = max(behind - number, first)
        try:
            found = _end_of(reader, start)
        except PositionGone:
            continue  # the owner trimmed the log between the two questions
        if start == first or (found.mark != NOTHING and found.mark >= at_least):
            return found
        number *= 8


def _end_of(reader: PartitionReader, start: int) -> LogEnd:
    mark, crawl = NOTHING, ""
    for _, value in reader.read(start, None, _PATIENCE_S):
        record = decode_log_record(value)
        if record is not None:
            crawl = record.crawl
        if isinstance(record, CommitRecord):
            mark = max(mark, Mark(record.term, record.sequence))
    return LogEnd(mark, crawl)


def what_remains(
    client: KafkaClient, topics: Topics, crawl: str, begun: Mapping[int, Mark], tell: Tell
) -> list[str]:
    """What the changelog and the inbox still have, a line for each shard and topic.

    ``begun`` are the commits, by shard, behind which a new log may have begun already: such a log
    is no remainder. Waits while Kafka is away. Raises ``KafkaAway``.
    """
    missing, found = missing_topics(client, topics), []
    for shard in range(topics.shards) if topics.changelog not in missing else ():
        found += _commits(client, topics, crawl, shard, begun.get(shard), tell)
    for shard in range(topics.shards) if topics.inbox not in missing else ():
        with closing(PartitionReader(client, topics.inbox, shard, tell)) as reader:
            _, behind = reader.limits()
        if behind:
            found.append(f"{topics.inbox}, shard {shard}: it has, or had, parcels")
    return found


def _commits(
    client: KafkaClient, topics: Topics, crawl: str, shard: int, begun: Mark | None, tell: Tell
) -> list[str]:
    with closing(PartitionReader(client, topics.changelog, shard, tell)) as reader:
        first, behind = reader.limits()
    if not behind:
        return []
    where = f"{topics.changelog}, shard {shard}"
    with closing(KafkaLogReader(client, topics, crawl, shard, tell)) as log:
        try:
            found = next(log.read(), None)
        except LogDamaged as error:
            return [f"{where}: it cannot be read ({error})"]
    if found is None and log.assignment:
        return [f"{where}: a node has claimed it"]
    if found is None:  # or only the claims of a rescue that was killed
        return [f"{where}: its commits were deleted"] if first else []
    if begun is not None and found.before == {shard: begun}:
        return []
    return [f"{where}: commits from {found.sequence} of term {found.term} on"]
