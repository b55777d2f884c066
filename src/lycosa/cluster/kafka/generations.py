"""Topics of several generations of one crawl: closing logs, adding partitions, deleting topics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions

from lycosa.cluster.kafka.changelog import CLOSING
from lycosa.cluster.kafka.kafka_clients import KafkaClient, Tell, cause_of
from lycosa.cluster.kafka.kafka_log import KafkaLog
from lycosa.cluster.kafka.topics import CHANGELOG, CONTROL, DLQ, INBOX, PAGES, Topics
from lycosa.cluster.kafka.upkeep import KafkaAway
from lycosa.state.commit import NOTHING, Mark

_ANSWER_S = 30.0
_STATE = (CHANGELOG, INBOX, CONTROL)
_GENERATION = re.compile(r"g([0-9]+)-[0-9a-f]{6}")


class LogWentOn(Exception):
    """A log has commits that were made after it was read."""


def close_log(
    client: KafkaClient,
    topics: Topics,
    crawl: str,
    shard: int,
    last: Mark,
    tell: Tell = lambda text: None,
) -> None:
    """Let no owner of a shard commit any more; may be repeated. Blocks.

    ``last`` is the commit with which the log must end. Raises ``LogWentOn``, ``Fenced`` when
    another program closes the log at the same time, or ``ChangelogDamaged``.
    """
    with closing(KafkaLog(client, topics, crawl, shard, CLOSING, tell)) as log:
        latest = log.claim().latest
    found = latest.mark if latest is not None else NOTHING
    if found != last:
        raise LogWentOn(
            f"shard {shard} was at commit {last.sequence} when it was read, and is at"
            f" {found.sequence} now: the crawl continued; give the same command again"
        )


def extend_feeds(client: KafkaClient, topics: Topics) -> None:
    """Give the feeds a partition for each shard. Raises ``KafkaAway``.

    Rows that are in a feed stay where they are.
    """
    with _answers(client) as admin:
        there = admin.list_topics(timeout=_ANSWER_S).topics
        wanted = [
            NewPartitions(name, topics.shards)
            for name in (topics.named(PAGES), topics.named(DLQ))
            if name in there and len(there[name].partitions) < topics.shards
        ]
        made = admin.create_partitions(wanted, operation_timeout=_ANSWER_S) if wanted else {}
        for future in made.values():
            future.result(_ANSWER_S)


def delete_state_topics(client: KafkaClient, name: str, kept: str, number: int) -> None:
    """Delete the topics with the state of other generations of the crawl ``name``.

    Those of the generation ``kept`` stay, and those of a number greater than ``number``, which a
    later import is writing. Raises ``KafkaAway``.
    """
    with _answers(client) as admin:
        there = admin.list_topics(timeout=_ANSWER_S).topics
        old = sorted(each for each in there if _is_old(each, name, kept, number))
        deleted = admin.delete_topics(old, operation_timeout=_ANSWER_S) if old else {}
        for future in deleted.values():
            try:
                future.result(_ANSWER_S)
            except KafkaException as error:
                # another program deletes them too
                if cause_of(error).code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise


@contextmanager
def _answers(client: KafkaClient) -> Iterator[AdminClient]:
    """A client for the block, whose errors are those of a cluster that does not answer."""
    try:
        yield client.admin()
    except (KafkaException, TimeoutError) as error:
        raise KafkaAway(f"Kafka at {client.addresses}: {error}") from error


def generation_number(generation: str) -> int:
    """The number in the name of a generation, ``g2-0a1b2c``; 1 for the first, which has no name.

    -1 for any other text.
    """
    if not generation:
        return 1
    found = _GENERATION.fullmatch(generation)
    return int(found[1]) if found else -1


def _is_old(topic: str, name: str, kept: str, number: int) -> bool:
    owner, _, kind = topic.rpartition(".")
    if kind not in _STATE or not (owner == name or owner.startswith(f"{name}.")):
        return False
    generation = owner.removeprefix(name).removeprefix(".")
    return generation != kept and 0 < generation_number(generation) <= number
