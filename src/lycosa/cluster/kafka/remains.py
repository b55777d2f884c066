"""What is left in the topics of a crawl whose log is believed to be lost.

A crawl may begin a new log only if nothing of the old one is left: two logs of one shard would
contradict each other, and parcels of the old one would count as those of the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from lycosa.cluster.kafka.kafka_clients import KafkaClient, Tell
from lycosa.cluster.kafka.log_reader import KafkaLogReader
from lycosa.cluster.kafka.partition_reader import PartitionReader
from lycosa.cluster.kafka.topics import Topics
from lycosa.cluster.kafka.upkeep import missing_topics
from lycosa.state.commit import LogDamaged, Mark


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
