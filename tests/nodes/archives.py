"""Records become cold some seconds after their fetch, while machines die and shards change hands.

Whoever owns a shard, each URL is in the table or in a cold file, and counts once. The store of cold
files fails now and then.
"""

from __future__ import annotations

import msgspec

from judging import counters_of
from lycosa.base.config.sections import ColdSection, RefetchSection
from nodes.history import NodesHistory
from nodes.plugin import Plugin


class Archives(Plugin):
    """Nothing is fetched again in the time of a history, so everything may become cold."""

    # A verdict about a near copy may come when the record is cold already, after these few seconds.
    FETCHES_ONCE = False

    def __init__(self, history: NodesHistory) -> None:
        super().__init__(history)
        cold = ColdSection(after_s=5.0, return_after_s=1e7, least_records=1)
        # By the default rule every page is due in days.
        history.config = msgspec.structs.replace(
            history.config, cold=cold, refetch=RefetchSection()
        )
        self.cold = 0

    def judge(self) -> None:
        tables = self.history.final_tables().values()
        self.cold = sum(sum(counters_of(table).cold.values()) for table in tables)
