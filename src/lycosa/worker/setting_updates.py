"""The settings that change while the crawl runs (``config.live_settings``), as one worker follows
them.

A worker that takes over a shard needs settings at least as new as the version that the shard's last
commit names. It starts no visit before it has received them. Each commit names the version that the
worker follows or waits for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lycosa.base.calls import MAX_WORDS
from lycosa.base.config.live_settings import with_live
from lycosa.base.config.sections import Config, RefetchSection
from lycosa.base.logs.log_records import without_secrets
from lycosa.base.messages.control_records import CrawlAction
from lycosa.base.messages.worker_messages import Seeds
from lycosa.base.model.code_version import CodeTable
from lycosa.stages.frontier.decision_log import ActionRow
from lycosa.stages.politeness.delay import longest_wait
from lycosa.stages.schedule.price_in_force import PriceInForce
from lycosa.stages.schedule.refetch import longest_interval
from lycosa.worker.code_in_use import CodeInUse
from lycosa.worker.intake.intake import Intake
from lycosa.worker.ranks_in_force import RanksInForce
from lycosa.worker.visit.pacing import Pacing
from lycosa.worker.worker import Worker

_FIRST = 0  # the partition that logs actions on the whole crawl


class AppliedSettings:
    """One per worker.

    ``config`` is the configuration of the start. The attribute ``config`` is the present
    configuration.
    """

    def __init__(
        self,
        config: Config,
        worker: Worker,
        pacing: Pacing,
        prices: PriceInForce,
        code: CodeInUse,
        ranks: RanksInForce,
        intake: Intake,
    ) -> None:
        # The version that the shard's last commit names.
        self._config, self._committed = config, worker.committer.settings
        self._worker, self._frontier, self._pacing = worker, worker.frontier, pacing
        self._prices, self.code, self._ranks = prices, code, ranks
        self._intake = intake
        self._is_paused = False
        self.config, self.version = config, 0

    def follow(
        self,
        version: int,
        values: Mapping[str, str],
        is_paused: bool = False,
        actions: Sequence[CrawlAction] = (),
        code: CodeTable | None = None,
    ) -> None:
        """Follow the coordinator's settings: all live settings that differ from those of the start.

        A version that is not newer than the current one is ignored. While the crawl ``is_paused``
        no visit is started. ``actions`` are the latest ones of operators on the whole crawl; the
        owner of the first partition keeps them in its log, each once. ``code`` is the user code of
        this version.
        """
        if version <= self.version:
            return
        config = with_live(self._config, values)
        self._pacing.section = config.politeness
        if config.scope != self.config.scope:
            self._intake.use_scope(config.scope)
        # Waits stored under earlier settings may be longer than these allow, and remain valid.
        self._frontier.longest_wait_s = max(
            self._frontier.longest_wait_s, longest_wait(config.politeness)
        )
        self._worker.use_slots(config.fetch.slots)
        self._worker.fetch_pages(config.fetch.own_pages)
        if config.fetch != self.config.fetch:
            self._worker.keep_pace(config.fetch)
        self._follow_refetch(config.refetch)
        for partition in self._frontier.partitions.values():
            partition.copies.section = config.copies
        self._worker.queue_renders(config.render)
        self._ranks.follow(config.priority.ranks)
        if is_paused != self._is_paused:
            self._is_paused = is_paused
            (self._worker.pause if is_paused else self._worker.resume)()
        self._keep_actions(actions)
        if code is not None:
            self.code.follow(code)
        self.config = config
        self.version = version
        self._worker.committer.settings = max(version, self._committed)
        self._worker.lacks_settings = version < self._committed

    def _follow_refetch(self, section: RefetchSection) -> None:
        self._prices.follow_section(section)
        # Times stored under earlier settings may be later than these allow, and remain valid.
        longest_s = longest_interval(section)
        self._frontier.longest_due_s = max(self._frontier.longest_due_s, longest_s)
        for partition in self._frontier.partitions.values():
            partition.rules.forward.section = section
        self._frontier.follow_policies()
        self._worker.wake()

    def log_seeds(self, seeds: Seeds, date_us: int) -> None:
        """Log that an operator gave seeds, in the commit that has them; a repetition does nothing.

        ``date_us`` is wall time in microseconds.
        """
        if seeds.by:
            more = len(seeds.raw) - 1
            text = without_secrets("".join(seeds.raw[:1]))[:MAX_WORDS]
            text += f" and {more:,} more" if more > 0 else ""
            first = self._frontier.partitions.get(_FIRST)
            if first is not None and first.decisions.find(seeds.call) is None:
                by = seeds.by[:MAX_WORDS]
                row = ActionRow(seeds.call, by, date_us, "seed", text, changed=len(seeds.raw))
                first.decisions.add(row)

    def _keep_actions(self, actions: Sequence[CrawlAction]) -> None:
        first = self._frontier.partitions.get(_FIRST)
        if first is not None:
            first.decisions.add_crawl_actions(
                [
                    ActionRow(each.call, each.by, each.date_us, each.action, each.subject, each.why)
                    for each in actions
                ]
            )
