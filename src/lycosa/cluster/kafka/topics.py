"""The topics of a crawl: their names, and what each of them must be set to.

=============  ==============================================================================
``changelog``  commits, claims and snapshots of each shard; partition = shard
``inbox``      parcels; partition = the shard that they are for
``pages``      a JSON row for each capture; partition = shard
``dlq``        a JSON row for each URL that failed for good; partition = shard
``control``    what the coordinator must not forget; one partition, compacted
=============  ==============================================================================

``changelog`` and ``inbox`` are the state of the crawl: nothing in them may expire, and a replica
that is behind must not become the leader. They are trimmed by the program, when snapshots allow it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lycosa.base.config.cluster_file import ClusterFile

CHANGELOG, INBOX, PAGES, DLQ, CONTROL = "changelog", "inbox", "pages", "dlq", "control"

FRAME_BYTES = 900_000
"""Most bytes of a commit in one record; larger commits are several records of one transaction. A
topic takes 1,048,588 bytes unless it is set otherwise.
"""

INBOX_RECORD_BYTES = 4_000_000
"""Most bytes of a record of the inbox: a parcel is not split, and one with a single robots.txt may
be that large.
"""

TRANSACTION_TIMEOUT_MS = 30_000
"""After so long the broker rolls back the transaction of an owner that does not end it."""

_DAY_MS = 86_400_000
_FEEDS = (PAGES, DLQ)


class TopicPlan(msgspec.Struct, frozen=True):
    """What one topic must be. ``settings`` are checked; ``initial`` ones are the operator's choice
    after the topic was made. ``at_least`` may be larger.
    """

    name: str
    partitions: int
    settings: Mapping[str, str]
    at_least: Mapping[str, int] = {}
    initial: Mapping[str, str] = {}


class Topics(msgspec.Struct, frozen=True):
    """The topics of the crawl ``name`` with ``shards`` shards.

    Those of the crawl's state have the ``generation`` in their names (see ``Manifest``). The feeds
    keep their names, because programs outside read them.
    """

    name: str
    shards: int
    replication: int = 3
    min_insync: int = 2
    generation: str = ""

    def named(self, kind: str) -> str:
        """The full name of one of the topics."""
        return f"{self.name if kind in _FEEDS else self._owner}.{kind}"

    @property
    def _owner(self) -> str:
        return f"{self.name}.{self.generation}" if self.generation else self.name

    @property
    def changelog(self) -> str:
        return self.named(CHANGELOG)

    @property
    def inbox(self) -> str:
        return self.named(INBOX)

    def transactional_id(self, shard: int | str) -> str:
        """By this name Kafka shuts out all producers of a shard but the newest.

        Or all coordinators but the newest, if the name is that of ``control``.
        """
        return f"{self._owner}/{shard}"

    def plans(self) -> list[TopicPlan]:
        """What all topics must be, in the order in which they are made."""
        always = {"min.insync.replicas": str(self.min_insync)}
        kept = {
            **always,
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "unclean.leader.election.enable": "false",
        }
        frames = {"max.message.bytes": 1_000_000}
        feed = {**always, "cleanup.policy": "delete"}
        return [
            TopicPlan(self.changelog, self.shards, kept, frames),
            TopicPlan(
                self.inbox, self.shards, kept, {"max.message.bytes": INBOX_RECORD_BYTES + 100_000}
            ),
            TopicPlan(
                self.named(PAGES), self.shards, feed, frames, {"retention.ms": str(7 * _DAY_MS)}
            ),
            TopicPlan(
                self.named(DLQ), self.shards, feed, frames, {"retention.ms": str(30 * _DAY_MS)}
            ),
            TopicPlan(
                self.named(CONTROL),
                1,
                {**always, "cleanup.policy": "compact", "unclean.leader.election.enable": "false"},
                frames,
            ),
        ]


def crawl_topics(given: ClusterFile, generation: str = "", shards: int = 0) -> Topics:
    """The topics of a crawl; ``shards`` as in the file, unless another number is given."""
    kafka = given.kafka
    return Topics(
        given.name, shards or given.shards, kafka.replication, kafka.min_insync, generation
    )
