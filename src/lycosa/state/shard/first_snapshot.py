"""The first snapshot of a shard whose state was not made by the commits of its log.

A shard may begin with rows that were prepared elsewhere: its crawl comes from another place, or its
log was lost. The rows are saved as the snapshot of a commit that no log has. The log then begins
behind that commit (``kafka.new_log``), so its next owner accepts this snapshot and no older one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from lycosa.base.config.sections import Config
from lycosa.state.commit import Mark, PartitionBatch, marked
from lycosa.state.commit.memory_log import MemoryChangelog, MemoryLog
from lycosa.state.folder.names import stamp_of
from lycosa.state.folder.url_seen import known_hashes
from lycosa.state.kv.kv_port import Opener
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.shard.folder_snapshots import FolderSnapshots
from lycosa.state.shard.object_snapshots import ObjectSnapshots
from lycosa.state.shard.opened_shard import PartitionData


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
        return self._local(shard).restore_partition(shard)

    def _local(self, shard: int) -> FolderSnapshots:
        return FolderSnapshots(self.folder, self.config, self.open_table, [shard])


def save_first_snapshot(
    place: SnapshotPlace,
    shard: int,
    data: PartitionData,
    mark: Mark,
    told: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Save a shard's rows as the snapshot of the commit ``mark``; may be repeated. Blocks.

    URL-seen is made from the rows. ``told`` is called with the bytes sent and all bytes. Raises
    ``NotStored`` or ``OSError``.
    """
    data.table.write(marked(PartitionBatch(shard, {}), mark, shard))
    data.seen.rebuild(known_hashes(data.table), stamp_of(mark))
    unread = MemoryLog(MemoryChangelog("", shard))  # saving asks nothing of the log
    snapshots = ObjectSnapshots(
        place.store, shard, unread, place.folder, place._local(shard), told=told
    )
    snapshots.save_partition(shard, data, mark)
