"""The one partition of a part, over a table in memory, with commits in a worker's order.

Nothing is synced and there is no log, because a simulation is never resumed. There is one partition
and not sixteen, because the partition of a host decides only who owns it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from lycosa.base.config.sections import Config, RefetchSection
from lycosa.base.model.due_band import DueJudgement
from lycosa.stages.admit.budgets import over_discovery
from lycosa.stages.frontier.change_signals import ChangeSignals
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.partition_rules import FrontierRules
from lycosa.stages.schedule.due_judgement import judge_due
from lycosa.stages.schedule.price_in_force import PriceInForce
from lycosa.stages.schedule.priority import prioritizer
from lycosa.stages.schedule.refetch import kept_interval
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import UrlRecord
from lycosa.state.seen.urls_sorted import SortedSeenUrls


class SimulatedTable:
    """``partition`` over an empty table.

    ``folder`` is for the file of URL-seen when there are many URLs.
    """

    def __init__(self, folder: Path, config: Config, share: float = 1.0) -> None:
        """``share`` is that of the sample in the crawl; it has the same share of the budget."""
        self._config = config
        self._store = MemoryKeyValue()
        self._seen = SortedSeenUrls(folder / "seen")
        self._seen.rebuild((), 0)
        self._commits = 0
        self.prices = prices = PriceInForce(config.refetch)
        if (budget := prices.budget) is not None:
            prices.budget = msgspec.structs.replace(budget, a_day=budget.a_day * share)
        self.partition = self._open()

    def _open(self) -> Partition:
        config, prices = self._config, self.prices

        def address_of(host8: bytes) -> str:
            known = partition.visits.peek_record(host8) if prices.addresses else None
            return known.address if known is not None else ""

        def judge(host8: bytes, url: str, record: UrlRecord, now_wall: float) -> DueJudgement:
            price = prices.of_host(host8, address_of(host8))
            return judge_due(prices.section, url, record, price, now_wall)

        partition = Partition(
            0,
            Overlay(self._store),
            self._seen,
            msgspec.structs.replace(config.frontier, partitions=1),
            FrontierRules(
                over_discovery=lambda usage: over_discovery(config.budgets, usage) is not None,
                prioritize=prioritizer(config.priority),
                forward=ChangeSignals(config.refetch),
                kept_interval=kept_interval,
                look_at=lambda host8: prices.look_at(host8, address_of(host8)),
                host_prices=prices.hosts,
                has_host_prices=lambda: prices.uses_value,
                judge=judge,
            ),
        )
        return partition

    def reopen(self) -> None:
        """Open the partition as a run after a crash does: with what was committed."""
        self.partition = self._open()

    @property
    def store(self) -> KeyValue:
        """The table at the last commit."""
        return self._store

    def follow_settings(self, section: RefetchSection) -> None:
        """Follow changed settings of refetching, as a worker does."""
        self._config = msgspec.structs.replace(self._config, refetch=section)
        self.prices.follow_section(section)
        self.partition.rules.forward.section = section

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
