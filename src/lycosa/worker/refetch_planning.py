"""Plans the next fetch of a page by the settings and the price that the worker goes by."""

from __future__ import annotations

from collections.abc import Callable

from lycosa.base.config.sections import PrioritySection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.url_state import History
from lycosa.stages.frontier.lease import Lease
from lycosa.stages.frontier.ranking import factors_of_known
from lycosa.stages.schedule.price_in_force import PriceInForce
from lycosa.stages.schedule.priority import weigher
from lycosa.stages.schedule.refetch_plan import FoundContent, RefetchPlan, plan_refetch

PlanRefetch = Callable[[Lease, History, FoundContent, int], RefetchPlan]
"""The plan after a fetch, of its lease, the history before it, what it found, and the formats."""


def refetch_planner(prices: PriceInForce, weights: PrioritySection) -> PlanRefetch:
    """The function that plans; ``weights`` are those of the priority, from which a page has its."""
    weigh = weigher(weights)

    def plan(lease: Lease, old: History, found: FoundContent, formats: int) -> RefetchPlan:
        host = lease.host
        weight = weigh(factors_of_known(lease.record, host.record.importance, found.at))
        is_once = lease.record.kind is LinkKind.LICENSE
        look = prices.look_at(host.host8)
        return plan_refetch(prices.section, lease.url, old, found, weight, formats, is_once, look)

    return plan
