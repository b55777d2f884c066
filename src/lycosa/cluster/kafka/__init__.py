"""Kafka as the log of a shard's commits and as the transport of parcels; how its topics must be
set.

Needs the extra ``cluster``. One machine needs none of this, so the names are imported when
they are used.
"""

from typing import TYPE_CHECKING

from lycosa.base.system.lazy_imports import lazy_names

if TYPE_CHECKING:
    from lycosa.cluster.kafka.changelog import ChangelogDamaged
    from lycosa.cluster.kafka.control_topic import ControlDamaged, ControlState, KafkaControl
    from lycosa.cluster.kafka.inbound import KafkaInbound
    from lycosa.cluster.kafka.kafka_clients import BadClientSettings, KafkaClient, KafkaSettings
    from lycosa.cluster.kafka.kafka_log import KafkaLog
    from lycosa.cluster.kafka.kafka_post import KafkaPost
    from lycosa.cluster.kafka.log_ends import LogEnd, log_end, what_remains
    from lycosa.cluster.kafka.log_reader import KafkaInboxReader, KafkaLogReader
    from lycosa.cluster.kafka.new_log import FirstCommit, NewLogTaken, begin_log
    from lycosa.cluster.kafka.topics import Topics, crawl_topics
    from lycosa.cluster.kafka.upkeep import (
        Finding,
        KafkaAway,
        check_topics,
        count_partitions,
        make_topics,
        missing_topics,
    )
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "changelog": "ChangelogDamaged",
            "kafka_clients": "BadClientSettings KafkaClient KafkaSettings",
            "control_topic": "ControlDamaged ControlState KafkaControl",
            "inbound": "KafkaInbound",
            "kafka_log": "KafkaLog",
            "log_ends": "LogEnd log_end what_remains",
            "log_reader": "KafkaInboxReader KafkaLogReader",
            "new_log": "FirstCommit NewLogTaken begin_log",
            "kafka_post": "KafkaPost",
            "topics": "Topics crawl_topics",
            "upkeep": "Finding KafkaAway check_topics count_partitions make_topics missing_topics",
        },
    )

__all__ = [
    "BadClientSettings",
    "ChangelogDamaged",
    "ControlDamaged",
    "ControlState",
    "Finding",
    "FirstCommit",
    "KafkaAway",
    "KafkaClient",
    "KafkaControl",
    "KafkaInbound",
    "KafkaInboxReader",
    "KafkaLog",
    "KafkaLogReader",
    "KafkaPost",
    "KafkaSettings",
    "LogEnd",
    "NewLogTaken",
    "Topics",
    "begin_log",
    "check_topics",
    "count_partitions",
    "crawl_topics",
    "log_end",
    "make_topics",
    "missing_topics",
    "what_remains",
]
