"""Plans the next fetch of a URL by the settings and the price that the worker goes by."""

from __future__ import annotations

from collections.abc import Mapping

from lycosa.base.config.policy_classes import listing_of
from lycosa.base.config.sections import Config, RefetchSection
from lycosa.base.listing_kind import ListingKind
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.factors import NO_RANK
from lycosa.base.model.parsed import Parsed
from lycosa.base.model.url_state import History
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.ranking import factors_of_known
from lycosa.stages.politeness.delay import ordinary_delay_s
from lycosa.stages.schedule.listing_schedule import with_own_schedule
from lycosa.stages.schedule.price_in_force import PriceInForce
from lycosa.stages.schedule.priority import weigher
from lycosa.stages.schedule.refetch_plan import (
    FoundContent,
    RefetchPlan,
    plan_missing,
    plan_refetch,
)
from lycosa.worker.intake.intake import Intake


class RefetchPlanner:
    """One per worker."""

    def __init__(
        self,
        prices: PriceInForce,
        config: Config,
        intake: Intake,
        partitions: Mapping[int, Partition],
    ) -> None:
        self._prices, self._config, self._intake = prices, config, intake
        self._partitions = partitions
        self._weigh = weigher(config.priority)

    @property
    def section(self) -> RefetchSection:
        """The settings in force, which may change while the crawl runs."""
        return self._prices.section

    def plan(
        self,
        lease: Lease,
        parsed: Parsed | None,
        old: History,
        found: FoundContent,
        formats: int,
        is_missing: bool,
    ) -> RefetchPlan:
        """The plan after a fetch; a sitemap or feed has its own schedule.

        ``old`` is the history before it. ``is_missing``: it answers as paths that do not exist.
        """
        host, record, section = lease.host, lease.record, self._prices.section
        ranks = self._partitions[host.partition].ranks
        rank = NO_RANK if ranks is None else ranks.page_rank(lease.entry.url8)
        weight = self._weigh(factors_of_known(record, host.authority, found.at, rank=rank))
        is_once = record.kind is LinkKind.LICENSE
        look = self._prices.look_at(host.host8, host.record.address)
        url, listed = lease.url, record.listed
        plan = plan_refetch(section, url, old, found, weight, formats, is_once, look, listed)
        if is_missing:
            return plan_missing(section, url, old, plan, record.reason, listed)
        kind = parsed.listing if parsed is not None else listing_of(old.policy)
        if parsed is None and not kind and self._intake.is_sitemap(lease):
            kind = ListingKind.SITEMAP
        if not kind:
            return plan
        config = self._config
        turns = self._intake.listings(host), ordinary_delay_s(host.record.pace, config.politeness)
        return with_own_schedule(plan, config.sitemaps, kind, old, found, turns, formats)
