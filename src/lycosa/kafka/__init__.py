"""Kafka as the log of a shard's commits and as the post between shards; what its topics must be.

Needs the extra ``cluster``. One machine needs none of this, so the names are imported when
they are used.
"""

from typing import TYPE_CHECKING

from lycosa.system.late_names import late_names

if TYPE_CHECKING:
    from lycosa.kafka.changelog import ChangelogDamaged
    from lycosa.kafka.client import BadClientSettings, KafkaClient, KafkaSettings
    from lycosa.kafka.control import ControlDamaged, ControlState, KafkaControl
    from lycosa.kafka.inbound import KafkaInbound
    from lycosa.kafka.log import KafkaLog
    from lycosa.kafka.log_ends import LogEnd, log_end
    from lycosa.kafka.log_reader import KafkaInboxReader, KafkaLogReader
    from lycosa.kafka.new_log import FirstCommit, NewLogTaken, begin_log
    from lycosa.kafka.post import KafkaPost
    from lycosa.kafka.remains import what_remains
    from lycosa.kafka.topics import Topics, crawl_topics
    from lycosa.kafka.upkeep import (
        Finding,
        KafkaAway,
        check_topics,
        count_partitions,
        make_topics,
        missing_topics,
    )
else:
    __getattr__ = late_names(
        __name__,
        {
            "changelog": "ChangelogDamaged",
            "client": "BadClientSettings KafkaClient KafkaSettings",
            "control": "ControlDamaged ControlState KafkaControl",
            "inbound": "KafkaInbound",
            "log": "KafkaLog",
            "log_ends": "LogEnd log_end",
            "log_reader": "KafkaInboxReader KafkaLogReader",
            "new_log": "FirstCommit NewLogTaken begin_log",
            "post": "KafkaPost",
            "remains": "what_remains",
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
