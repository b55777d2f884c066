"""Topics of a crawl on a real broker: made as they must be, and checked with the command that
corrects what is not.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)

from kafka_broker import PATIENCE_S, Broker
from lycosa.cli import main
from lycosa.cluster.kafka.kafka_clients import BadClientSettings, KafkaClient, KafkaSettings
from lycosa.cluster.kafka.kafka_log import KafkaLog
from lycosa.cluster.kafka.log_ends import LogEnd, log_end
from lycosa.cluster.kafka.topics import Topics
from lycosa.cluster.kafka.upkeep import KafkaAway, check_topics, make_topics
from lycosa.state.commit import NOTHING, Commit, Mark
from lycosa.state.folder.manifest import MANIFEST_NAME, decoded_manifest

pytestmark = pytest.mark.service


def errors(broker: Broker, topics: Topics) -> list[tuple[str, str]]:
    return [
        (each.what, each.fix) for each in check_topics(broker.client, topics) if not each.is_warning
    ]


def change(broker: Broker, topic: str, key: str, value: str) -> None:
    """Returns when the broker has applied it, which is later than its answer."""
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = broker.client.admin()
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(PATIENCE_S)
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
    for _ in range(1000):
        if admin.describe_configs([asked])[asked].result(PATIENCE_S)[key].value == value:
            return
    raise AssertionError(f"{key} was not applied")


def test_topics_that_were_made_are_as_they_must_be(kafka: Broker) -> None:
    topics = kafka.topics(shards=3)
    assert errors(kafka, topics) == []
    assert make_topics(kafka.client, topics) == []


def test_topics_that_are_missing_are_named_and_made(kafka: Broker) -> None:
    topics = Topics(f"{kafka.topics().name}-x", 2, 1, 1)
    assert [what for what, _ in errors(kafka, topics)] == [
        f"topic {plan.name} is missing" for plan in topics.plans()
    ]
    assert make_topics(kafka.client, topics) == [plan.name for plan in topics.plans()]


@pytest.mark.parametrize(
    ("kind", "key", "value", "wanted"),
    [
        ("changelog", "retention.ms", "604800000", "-1"),
        ("changelog", "retention.bytes", "1000000", "-1"),
        ("inbox", "retention.ms", "604800000", "-1"),
        ("changelog", "cleanup.policy", "compact", "delete"),
        ("control", "cleanup.policy", "delete", "compact"),
        ("changelog", "unclean.leader.election.enable", "true", "false"),
        ("inbox", "max.message.bytes", "1048588", "4100000"),
        ("changelog", "max.message.bytes", "500000", "1000000"),
    ],
)
def test_a_wrong_setting_is_named_with_the_command_that_corrects_it(
    kafka: Broker, kind: str, key: str, value: str, wanted: str
) -> None:
    topics = kafka.topics()
    change(kafka, topics.named(kind), key, value)
    ((what, fix),) = errors(kafka, topics)
    assert what.startswith(f"topic {topics.named(kind)}: {key} is {value}, ")
    assert fix == (
        f"kafka-configs.sh --bootstrap-server {kafka.addresses[0]} --entity-type topics"
        f" --entity-name {topics.named(kind)} --alter --add-config {key}={wanted}"
    )
    change(kafka, topics.named(kind), key, wanted)
    assert errors(kafka, topics) == []


def test_partitions_and_replicas_that_are_too_few_or_too_many_are_named(kafka: Broker) -> None:
    topics = kafka.topics(shards=2)
    more = Topics(topics.name, 4, 1, 1)
    found = errors(kafka, more)
    assert found[0][0] == f"topic {topics.changelog} has 2 partitions, 4 are needed"
    assert "--alter --topic" in found[0][1] and found[0][1].endswith("--partitions 4")
    for topic in (plan.name for plan in topics.plans() if plan.partitions == 2):
        admin = kafka.client.admin()
        made = admin.create_partitions([NewPartitions(topic, 4)])
        made[topic].result(PATIENCE_S)
    assert errors(kafka, more) == []
    assert errors(kafka, topics)[0][1] == "set shards = 4, or choose another name for this crawl"
    wanted = Topics(topics.name, 4, 3, 1)
    whats = [what for what, _ in errors(kafka, wanted)]
    assert whats[0].startswith("1 brokers are there, and 3 replicas are asked for")
    assert f"topic {topics.changelog}: 4 partitions (0 first) have fewer than 3 replicas" in whats
    insync = [what for what, _ in errors(kafka, Topics(topics.name, 4, 1, 2))]
    assert f"topic {topics.changelog}: min.insync.replicas is 1, 2 is needed" in insync


def test_a_topic_that_cannot_be_made_says_why(kafka: Broker) -> None:
    topics = Topics(f"{kafka.topics().name}-y", 2, 3, 2)
    with pytest.raises(KafkaAway, match=r"changelog cannot be made: .*[Rr]eplication factor"):
        make_topics(kafka.client, topics)


def test_settings_that_the_client_refuses_are_named_without_their_values() -> None:
    settings = KafkaSettings(("127.0.0.1:9",), {"security.protocol": "hush"})
    with pytest.raises(BadClientSettings, match=r"security\.protocol") as error:
        KafkaClient(settings).admin()
    assert "hush" not in str(error.value)


def cluster_toml(folder: Path, broker: Broker, name: str) -> Path:
    path = folder / "cluster.toml"
    path.write_text(
        f'name = "{name}"\nshards = 2\n[kafka]\nreplication = 1\n'
        f'addresses = ["{broker.addresses[0]}"]\n[objects]\nurl = "file://{folder}"\n'
    )
    return path


def test_the_commands_make_and_check(
    kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{kafka.topics().name}-z"
    file = cluster_toml(tmp_path, kafka, name)
    assert main(["cluster", "check", str(file)]) == 2
    found = capsys.readouterr().out
    assert f"topic {name}.changelog is missing\n  lycosa cluster init {file}" in found
    assert f"wrong: the crawl {name} was not created at file://{tmp_path}" in found
    assert main(["cluster", "init", str(file)]) == 0
    found = capsys.readouterr().out
    assert f"made topic {name}.inbox" in found and "\nmade crawl " in found
    assert "2 shards need about 540 MB of memory" in found
    assert main(["cluster", "init", str(file)]) == 0
    assert "with these settings" in capsys.readouterr().out
    assert main(["cluster", "init", str(file), "--set", "politeness.delay_s=9s"]) == 0
    assert "  politeness.delay_s: 1s -> 9s\n" in capsys.readouterr().out
    assert main(["cluster", "check", "--json", str(file)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["memory_bytes"] == 2 * 270_000_000
    assert [each["is_warning"] for each in told["findings"]] == [True]


def began(kafka: Broker, topics: Topics, folder: Path, commits: int) -> KafkaLog:
    """A crawl that the command makes, with commits of shard 1 and no snapshot."""
    file = cluster_toml(folder, kafka, topics.name)
    assert main(["cluster", "init", str(file)]) == 0
    crawl = decoded_manifest(MANIFEST_NAME, (folder / MANIFEST_NAME).read_bytes()).crawl
    log = KafkaLog(kafka.new_client(), topics, crawl, 1, 1, lambda text: None)
    claim = log.claim()
    for sequence in range(1, commits + 1):
        log.append(Commit(term=claim.term, sequence=sequence, wall=1e9, crawl=crawl, shard=1))
    return log


def remake(kafka: Broker, topics: Topics) -> None:
    """The changelog is deleted and made again, as an operator of topics does."""
    admin = kafka.client.admin()
    for deleted in admin.delete_topics([topics.changelog]).values():
        deleted.result(PATIENCE_S)
    while topics.changelog not in make_topics(kafka.client, topics):
        pass


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (
            ["snapshots/00001/0000000001-00000000000000000070"],
            "shard 1 ends at commit 0, and there is a snapshot of commit 70",
        ),
        (["parts/00001/s/0-1-0", "parts/00001/s/1-1-0"], "shard 1 has no commit, and there are"),
    ],
)
def test_topics_that_were_made_again_are_found_by_check_and_init(
    kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], keys: list[str], told: str
) -> None:
    topics, file = kafka.topics(), tmp_path / "cluster.toml"
    began(kafka, topics, tmp_path, 80).close()
    for key in keys:
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(b"content")
    for command in ("check", "init"):
        assert main(["cluster", command, str(file)]) == 0, capsys.readouterr()
    remake(kafka, topics)
    capsys.readouterr()
    for command in ("check", "init"):
        assert main(["cluster", command, str(file)]) == 2
        found = "".join(capsys.readouterr())
        assert f"the log in topic {topics.changelog} has lost commits: {told}" in found
        assert f"`lycosa cluster rescue {file}`" in found


def test_topics_of_another_crawl_are_found_before_anything_is_made(
    kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics, other = kafka.topics(), tmp_path / "other"
    log = began(kafka, topics, tmp_path, 1)
    log.close()
    other.mkdir()
    file = cluster_toml(other, kafka, topics.name)
    before = sorted(other.rglob("*"))
    for command in ("check", "init"):
        assert main(["cluster", command, str(file)]) == 2
        found = "".join(capsys.readouterr())
        assert "has the log of the crawl" in found and "the object storage has no crawl" in found
        assert "correct name or objects.url" in found
        assert sorted(other.rglob("*")) == before


def test_the_end_of_a_log_is_found_behind_any_number_of_records(
    kafka: Broker, tmp_path: Path
) -> None:
    topics = kafka.topics()
    log = began(kafka, topics, tmp_path, 3)
    for _ in range(70):
        log.trim(0)  # names a snapshot
    log.close()
    crawl = decoded_manifest(MANIFEST_NAME, (tmp_path / MANIFEST_NAME).read_bytes()).crawl
    assert log_end(kafka.client, topics, 0, NOTHING) == LogEnd()
    for at_least in (NOTHING, Mark(1, 3), Mark(9, 9)):
        assert log_end(kafka.client, topics, 1, at_least) == LogEnd(Mark(1, 3), crawl)
