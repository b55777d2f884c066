"""The one partition of a part, over a table in memory, with commits in a worker's order.

Nothing is synced and there is no log, because a simulation is never resumed. There is one partition
and not sixteen, because the partition of a host decides only who owns it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from lycosa.base.config.sections import Config
from lycosa.stages.admit.budgets import over_discovery
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.partition_rules import FrontierRules
from lycosa.stages.schedule.priority import prioritizer
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.seen.urls_sorted import SortedSeenUrls


class SimulatedTable:
    """``partition`` over an empty table.

    ``folder`` is for the file of URL-seen when there are many URLs.
    """

    def __init__(self, folder: Path, config: Config) -> None:
        self._store = MemoryKeyValue()
        self._seen = SortedSeenUrls(folder / "seen")
        self._seen.rebuild((), 0)
        self._commits = 0
        section = msgspec.structs.replace(config.frontier, partitions=1)
        self.partition = Partition(
            0,
            Overlay(self._store),
            self._seen,
            section,
            FrontierRules(
                over_discovery=lambda usage: over_discovery(config.budgets, usage) is not None,
                prioritize=prioritizer(config.priority),
            ),
        )

    def commit(self) -> None:
        """Write all changes until now to the table."""
        writes = self.partition.freeze()
        if not writes:
            return
        self._commits += 1
        self._seen.seal(self._commits)
        self._store.write(writes)
        self._store.flush()
        self.partition.table.settle()
        if self._seen.should_save:
            self._seen.save(self._commits)

    def close(self) -> None:
        self._seen.close()
        self._store.close()
