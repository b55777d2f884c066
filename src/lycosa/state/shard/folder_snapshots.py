"""The snapshots port over the files of a crawl folder.

Each partition's RocksDB is its own snapshot; ``flush`` brings it up to date.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from lycosa.base.config.sections import Config
from lycosa.state.commit import Mark
from lycosa.state.folder.names import stamp_of, table_folder
from lycosa.state.folder.url_seen import open_seen
from lycosa.state.kv.kv_port import Opener
from lycosa.state.shard.opened_shard import PartitionData

DEFAULT_DELTA = 1 << 18


class FolderSnapshots:
    """The tables and URL-seen files of some partitions; implements ``Snapshots``.

    ``delta`` is the number of hashes of URL-seen that may wait in memory. ``earlier`` are the local
    folders of earlier owners whose processes are dead.
    """

    def __init__(
        self,
        folder: Path,
        config: Config,
        open_table: Opener,
        partitions: Collection[int],
        delta: int = DEFAULT_DELTA,
        earlier: Sequence[Path] = (),
    ) -> None:
        self.folder, self.earlier = folder, earlier
        self._config, self._open_table = config, open_table
        self._partitions, self._delta = partitions, delta

    def saved_partitions(self) -> list[int]:
        return [number for number in self._partitions if table_folder(self.folder, number).exists()]

    def restore_partition(self, partition: int) -> PartitionData:
        table = self._open_table(table_folder(self.folder, partition))
        return PartitionData(
            table, open_seen(self.folder, partition, self._config.seen, table, self._delta)
        )

    def save_partition(self, partition: int, data: PartitionData, mark: Mark) -> None:
        data.table.flush()
        data.seen.save(stamp_of(mark))
