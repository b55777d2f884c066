"""Whether the topics of a crawl and its object storage belong together.

A log that ends before the newest snapshot of its shard has lost commits: its topics were deleted
and made again, or replaced by an older copy. Records of another crawl mean that ``cluster.toml``
names the topics of one crawl and the object storage of another. Nodes refuse both, shard by shard;
an operator should know before any node starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from lycosa.cluster.kafka.kafka_clients import KafkaClient
from lycosa.cluster.kafka.log_ends import LogEnd, log_end
from lycosa.cluster.kafka.topics import Topics
from lycosa.cluster.kafka.upkeep import Finding, count_partitions
from lycosa.state.commit import NOTHING, Mark
from lycosa.state.folder.manifest import Manifest
from lycosa.state.objects.generation import placed_objects
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.shard.object_snapshots import stored_marks

_AT_ONCE = 8
_TOLD = 3  # shards that a finding names


class StoredEnd(msgspec.Struct, frozen=True):
    """What object storage says of a shard: its newest snapshot, or whether an owner has stored
    records of more than one commit without a snapshot.
    """

    mark: Mark = NOTHING
    has_parts: bool = False


def compare_logs(
    client: KafkaClient, topics: Topics, store: ObjectStore, manifest: Manifest | None
) -> list[Finding]:
    """What contradicts between the topics and the object storage.

    ``manifest`` is that of the crawl in the object storage, ``None`` when there is none. Nothing is
    found without the topic. Raises ``KafkaAway`` or ``ObjectError``.
    """
    shards = range(min(topics.shards, count_partitions(client, topics.changelog)))
    placed = placed_objects(store, manifest.generation if manifest is not None else "")
    # Snapshots are looked up first: commits that a running crawl makes meanwhile only add to logs.
    stored = {shard: stored_end(placed, shard) for shard in shards} if manifest else {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        ends = pool.map(
            lambda shard: log_end(client, topics, shard, stored.get(shard, StoredEnd()).mark),
            shards,
        )
        found = dict(zip(shards, ends, strict=True))
    return log_contradictions(topics, found, stored, manifest.crawl if manifest is not None else "")


def log_contradictions(
    topics: Topics, logs: Mapping[int, LogEnd], stored: Mapping[int, StoredEnd], crawl: str
) -> list[Finding]:
    """The findings, by the end of the log and the stored end of each shard. Pure.

    ``crawl`` is the UUID of the crawl in the object storage, empty when there is none.
    """
    others = [each.crawl for each in logs.values() if each.crawl and each.crawl != crawl]
    if others:
        there = f"has the crawl {crawl}" if crawl else "has no crawl"
        return [
            Finding(
                f"topic {topics.changelog} has the log of the crawl {others[0]}, and the object"
                f" storage {there}",
                "correct name or objects.url of the file; another crawl needs another name",
            )
        ]
    behind = [
        f"shard {shard} ends at commit {log.mark.sequence}, and there is a snapshot of commit"
        f" {stored[shard].mark.sequence}"
        if stored[shard].mark > log.mark
        else f"shard {shard} has no commit, and there are records of several"
        for shard, log in logs.items()
        if shard in stored and _is_behind(log, stored[shard])
    ]
    if not behind:
        return []
    return [
        Finding(
            f"the log in topic {topics.changelog} has lost commits: {_listed(behind)}",
            "end all nodes and the coordinator, and continue from the object storage by `lycosa"
            " cluster rescue FILE`",
        )
    ]


def _is_behind(log: LogEnd, stored: StoredEnd) -> bool:
    return stored.mark > log.mark or (log.mark == NOTHING and stored.has_parts)


def stored_end(placed: ObjectStore, shard: int) -> StoredEnd:
    """The stored end of a shard. Raises ``ObjectError``."""
    marks = stored_marks(placed, shard)
    if marks:
        return StoredEnd(marks[-1])
    # The first commit of an owner may be in progress, or was never made: one part in its segment,
    # which the log does not have. A second one shows that the first was committed.
    segments = set[str]()
    for each in placed.list(f"parts/{shard:05d}/"):
        segment = each.key.rpartition("/")[0]
        if segment in segments:
            return StoredEnd(has_parts=True)
        segments.add(segment)
    return StoredEnd()


def _listed(behind: Sequence[str]) -> str:
    more = f"; and {len(behind) - _TOLD} more" if len(behind) > _TOLD else ""
    return "; ".join(behind[:_TOLD]) + more
