"""Makes the topics of a crawl, and finds settings of theirs that the crawl cannot work with.

Each finding has the command that corrects it, for an operator to read and to run: settings of a
cluster that others use as well are not changed behind their back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    NewTopic,
    TopicMetadata,
)

from lycosa.cluster.kafka.kafka_clients import POLL_S, KafkaClient, cause_of
from lycosa.cluster.kafka.topics import TRANSACTION_TIMEOUT_MS, TopicPlan, Topics

_ANSWER_S = 15.0


class KafkaAway(Exception):
    """The cluster did not answer a question, or refused it."""


class Finding(msgspec.Struct, frozen=True):
    """What is not as it must be, and how it is corrected. A ``warning`` does not stop a crawl."""

    what: str
    fix: str
    is_warning: bool = False


def make_topics(client: KafkaClient, topics: Topics) -> list[str]:
    """Make the topics that are missing; return their names. Raises ``KafkaAway``."""
    admin = client.admin()
    there = _metadata(client, admin).topics
    missing = [plan for plan in topics.plans() if plan.name not in there]
    wanted = [
        NewTopic(
            plan.name,
            plan.partitions,
            topics.replication,
            config={
                **plan.settings,
                **{key: str(value) for key, value in plan.at_least.items()},
                **plan.initial,
            },
        )
        for plan in missing
    ]
    made = admin.create_topics(wanted, operation_timeout=_ANSWER_S) if wanted else {}
    for name, future in made.items():
        try:
            future.result(_ANSWER_S)
        except KafkaException as error:
            # Two machines may make the topics at the same time; either's are the same.
            if cause_of(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise KafkaAway(f"topic {name} cannot be made: {cause_of(error).str()}") from error
    # A broker learns of a topic some time after the controller has made it.
    _settings(client, admin, "topic", [plan.name for plan in missing])
    return [plan.name for plan in missing]


def missing_topics(client: KafkaClient, topics: Topics) -> list[str]:
    """The names of topics that are not there. Raises ``KafkaAway``."""
    there = _metadata(client, client.admin()).topics
    return [plan.name for plan in topics.plans() if plan.name not in there]


def count_partitions(client: KafkaClient, topic: str) -> int:
    """How many partitions a topic has; 0 when it is missing. Raises ``KafkaAway``."""
    found = _metadata(client, client.admin()).topics.get(topic)
    return len(found.partitions) if found is not None else 0


def check_topics(client: KafkaClient, topics: Topics) -> list[Finding]:
    """What is not as the crawl needs it, in topics and brokers. Raises ``KafkaAway``."""
    admin = client.admin()
    metadata = _metadata(client, admin)
    findings = list(_brokers(client, admin, metadata, topics))
    there = [plan for plan in topics.plans() if plan.name in metadata.topics]
    settings = _settings(client, admin, "topic", [plan.name for plan in there])
    for plan in topics.plans():
        if plan.name not in settings:
            findings.append(
                Finding(f"topic {plan.name} is missing", "lycosa cluster init FILE makes it")
            )
            continue
        findings += _partitions(client, plan, metadata.topics[plan.name], topics)
        findings += _topic_settings(client, plan, settings[plan.name])
    if topics.replication < 3 or topics.min_insync < 2:
        findings.append(
            Finding(
                f"{topics.replication} replicas with {topics.min_insync} in sync are asked for:"
                " the loss of one disk may lose commits",
                "set replication = 3 and min_insync = 2 in the section kafka of the file",
                is_warning=True,
            )
        )
    return findings


def _brokers(
    client: KafkaClient, admin: AdminClient, metadata: ClusterMetadata, topics: Topics
) -> Iterator[Finding]:
    if len(metadata.brokers) < topics.replication:
        yield Finding(
            f"{len(metadata.brokers)} brokers are there, and {topics.replication} replicas are"
            " asked for",
            "start more brokers, or lower replication in the section kafka of the file",
        )
    numbers = [str(number) for number in sorted(metadata.brokers)]
    for number, settings in _settings(client, admin, "broker", numbers).items():
        longest = settings.get("transaction.max.timeout.ms", "")
        # The broker would refuse the producer, at the claim of the first shard: say so before.
        if longest and int(longest) < TRANSACTION_TIMEOUT_MS:
            yield Finding(
                f"broker {number}: transaction.max.timeout.ms is {longest}, at least"
                f" {TRANSACTION_TIMEOUT_MS} is needed",
                "set transaction.max.timeout.ms=900000 in its server.properties and start it again",
            )
        # This setting came with 3.7. A broker does not tell its version to a client.
        if "log.dir.failure.timeout.ms" not in settings:
            yield Finding(
                f"broker {number} is older than 3.7: a transaction may stay open permanently, and"
                " readers behind it wait",
                "use Kafka 3.7 or newer",
                is_warning=True,
            )
        elif settings.get("transaction.partition.verification.enable") == "false":
            yield Finding(
                f"broker {number}: transaction.partition.verification.enable is false: a"
                " transaction may stay open permanently, and readers behind it wait",
                _fix(
                    client, "brokers", number, "transaction.partition.verification.enable", "true"
                ),
                is_warning=True,
            )


def _partitions(
    client: KafkaClient, plan: TopicPlan, found: TopicMetadata, topics: Topics
) -> Iterator[Finding]:
    count = len(found.partitions)
    if count != plan.partitions:
        yield Finding(
            f"topic {plan.name} has {count} partitions, {plan.partitions} are needed",
            f"kafka-topics.sh --bootstrap-server {client.addresses} --alter --topic {plan.name}"
            f" --partitions {plan.partitions}"
            if count < plan.partitions
            else f"set shards = {count}, or choose another name for this crawl",
        )
    few = sorted(
        number
        for number, each in found.partitions.items()
        if len(each.replicas) < topics.replication
    )
    if few:
        yield Finding(
            f"topic {plan.name}: {len(few)} partitions ({few[0]} first) have fewer than"
            f" {topics.replication} replicas",
            f"kafka-reassign-partitions.sh --bootstrap-server {client.addresses} --execute"
            " --reassignment-json-file FILE, where FILE lists the replicas of each partition",
        )


def _topic_settings(
    client: KafkaClient, plan: TopicPlan, settings: dict[str, str]
) -> Iterator[Finding]:
    for key, wanted in plan.settings.items():
        found = settings.get(key, "")
        if found != wanted and not _is_enough(key, found, wanted):
            yield Finding(
                f"topic {plan.name}: {key} is {found or 'not set'}, {wanted} is needed",
                _fix(client, "topics", plan.name, key, wanted),
            )
    for key, least in plan.at_least.items():
        found = settings.get(key, "0")
        if int(found) < least:
            yield Finding(
                f"topic {plan.name}: {key} is {found}, at least {least} is needed",
                _fix(client, "topics", plan.name, key, str(least)),
            )


def _is_enough(key: str, found: str, wanted: str) -> bool:
    return key == "min.insync.replicas" and found.isdigit() and int(found) >= int(wanted)


def _fix(client: KafkaClient, kind: str, name: str, key: str, value: str) -> str:
    return (
        f"kafka-configs.sh --bootstrap-server {client.addresses} --entity-type {kind}"
        f" --entity-name {name} --alter --add-config {key}={value}"
    )


def _metadata(client: KafkaClient, admin: AdminClient) -> ClusterMetadata:
    try:
        return admin.list_topics(timeout=_ANSWER_S)
    except KafkaException as error:
        admin.poll(0)  # hands over what the client complains of
        raise _away(client, error) from error


def _settings(
    client: KafkaClient, admin: AdminClient, kind: str, names: list[str]
) -> dict[str, dict[str, str]]:
    """The settings of topics or brokers, by name."""
    kinds = {"topic": ConfigResource.Type.TOPIC, "broker": ConfigResource.Type.BROKER}
    resources = [ConfigResource(kinds[kind], name) for name in names]
    # A call can be about any number of topics, but about one broker only.
    calls = [[each] for each in resources] if kind == "broker" else [resources] if names else []
    found: dict[str, dict[str, str]] = {}
    deadline = time.monotonic() + _ANSWER_S
    while calls:
        asked = admin.describe_configs(calls[0], request_timeout=_ANSWER_S)
        try:
            answers = {each.name: future.result(_ANSWER_S) for each, future in asked.items()}
        except (KafkaException, TimeoutError) as error:
            # The broker that answers has not heard of a topic that the controller has just made.
            if _is_new(error) and time.monotonic() < deadline:
                time.sleep(POLL_S)
                continue
            raise _away(client, error) from error
        for name, entries in answers.items():
            found[name] = {key: each.value or "" for key, each in entries.items()}
        del calls[0]
    return found


def _is_new(error: Exception) -> bool:
    """Whether a broker does not know a topic that others know."""
    return cause_of(error).code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def _away(client: KafkaClient, error: Exception) -> KafkaAway:
    why = cause_of(error).str() if isinstance(error, KafkaException) else "no answer"
    complaint = f" ({client.complaint})" if client.complaint else ""
    return KafkaAway(f"Kafka at {client.addresses}: {why}{complaint}")
