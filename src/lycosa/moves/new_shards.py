"""Begins shards whose first state is a snapshot, not the commits of their logs.

A shard may begin with rows that were prepared elsewhere: its crawl comes from another place, or its
log was lost. The rows are saved as the snapshot of a commit that no log has. The log then begins
behind that commit (``kafka.new_log``), so its next owner accepts this snapshot and no older one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from lycosa.base.config.sections import Config
from lycosa.cluster.kafka.kafka_clients import KafkaClient
from lycosa.cluster.kafka.new_log import FirstCommit, begin_log
from lycosa.cluster.kafka.topics import Topics
from lycosa.cluster.kafka.upkeep import Finding, check_topics, make_topics
from lycosa.state.commit import Mark, PartitionBatch, marked
from lycosa.state.commit.memory_log import MemoryChangelog, MemoryLog
from lycosa.state.folder.names import stamp_of
from lycosa.state.folder.url_seen import known_hashes
from lycosa.state.kv.kv_port import Opener
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.shard.folder_snapshots import FolderSnapshots
from lycosa.state.shard.object_snapshots import ObjectSnapshots
from lycosa.state.shard.opened_shard import PartitionData

_LOGS_AT_ONCE = 8


class TopicsUnfit(Exception):
    """Topics or brokers are not set as the crawl needs it; ``findings`` say what to do."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("; ".join(f"{each.what} ({each.fix})" for each in findings))
        self.findings = findings


class SnapshotPlace(msgspec.Struct, frozen=True):
    """Where first snapshots are made and saved.

    ``folder`` is a local folder for tables; the settings in ``config`` choose URL-seen.
    """

    store: ObjectStore
    folder: Path
    config: Config
    open_table: Opener

    def open_partition(self, shard: int) -> PartitionData:
        """The local table and URL-seen of a shard, empty if they are new."""
        return self.local_snapshots(shard).restore_partition(shard)

    def local_snapshots(self, shard: int) -> FolderSnapshots:
        """The local folder as snapshots of a shard."""
        return FolderSnapshots(self.folder, self.config, self.open_table, [shard])


def save_first_snapshot(place: SnapshotPlace, shard: int, data: PartitionData, mark: Mark) -> None:
    """Save a shard's rows as the snapshot of the commit ``mark``; may be repeated. Blocks.

    URL-seen is made from the rows. Raises ``NotStored`` or ``OSError``.
    """
    data.table.write(marked(PartitionBatch(shard, {}), mark, shard))
    data.seen.rebuild(known_hashes(data.table), stamp_of(mark))
    unread = MemoryLog(MemoryChangelog("", shard))  # saving asks nothing of the log
    local = place.local_snapshots(shard)
    snapshots = ObjectSnapshots(place.store, shard, unread, local)
    snapshots.save_partition(shard, data, mark)


def make_fit_topics(client: KafkaClient, topics: Topics) -> tuple[list[str], list[Finding]]:
    """Make the topics that are missing, and check all.

    Returns the names of those that were made, and warnings. Raises ``TopicsUnfit`` or
    ``KafkaAway``.
    """
    made, findings = make_topics(client, topics), check_topics(client, topics)
    if wrong := [each for each in findings if not each.is_warning]:
        raise TopicsUnfit(wrong)
    return made, findings


def begin_new_logs(
    client: KafkaClient,
    topics: Topics,
    crawl: str,
    firsts: Sequence[FirstCommit],
    on_begun: Callable[[int], None],
    tell: Callable[[str], None],
) -> None:
    """Begin the logs of some shards behind their first snapshots; may be repeated. Blocks.

    ``on_begun`` is called with the number of logs that are begun. Raises the errors of
    ``begin_log``.
    """
    on_begun(0)
    with ThreadPoolExecutor(_LOGS_AT_ONCE) as pool:
        begun = pool.map(lambda first: begin_log(client, topics, crawl, first, tell), firsts)
        for done, _ in enumerate(begun, 1):
            on_begun(done)
