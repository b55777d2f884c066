"""Plans the next fetch of a URL by the settings and the price that the worker goes by."""

from __future__ import annotations

from collections.abc import Callable

from lycosa.base.config.policy_classes import listing_of
from lycosa.base.config.sections import Config
from lycosa.base.listing_kind import ListingKind
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.parsed import Parsed
from lycosa.base.model.url_state import History
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.ranking import factors_of_known
from lycosa.stages.politeness.delay import ordinary_delay_s
from lycosa.stages.schedule.listing_schedule import with_own_schedule
from lycosa.stages.schedule.price_in_force import PriceInForce
from lycosa.stages.schedule.priority import weigher
from lycosa.stages.schedule.refetch_plan import FoundContent, RefetchPlan, plan_refetch
from lycosa.worker.intake.intake import Intake

PlanRefetch = Callable[[Lease, Parsed | None, History, FoundContent, int], RefetchPlan]
"""The plan after a fetch: of its lease, what the parser found, the history before it, what it
found, and the formats.
"""


def refetch_planner(prices: PriceInForce, config: Config, intake: Intake) -> PlanRefetch:
    """The function that plans; a sitemap or feed has its own schedule."""
    weigh = weigher(config.priority)

    def plan(
        lease: Lease, parsed: Parsed | None, old: History, found: FoundContent, formats: int
    ) -> RefetchPlan:
        host = lease.host
        weight = weigh(factors_of_known(lease.record, host.record.importance, found.at))
        is_once = lease.record.kind is LinkKind.LICENSE
        look = prices.look_at(host.host8)
        made = plan_refetch(prices.section, lease.url, old, found, weight, formats, is_once, look)
        kind = parsed.listing if parsed is not None else listing_of(old.policy)
        if parsed is None and not kind and intake.is_sitemap(lease):
            kind = ListingKind.SITEMAP
        if not kind:
            return made
        turns = intake.listings(host), ordinary_delay_s(host.record.pace, config.politeness)
        return with_own_schedule(made, config.sitemaps, kind, old, found, turns, formats)

    return plan
