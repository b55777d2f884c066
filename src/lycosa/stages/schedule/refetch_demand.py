"""How many fetches a day a price leads to, from counts of pages by class of policy and cell.

What is asked of a crawl or of a host is the sum of four parts: pages that are due by their value,
*probes* (pages that no fetch is worth within four times their maximum interval), promises
(``every``), and pages that halve and grow. Only the first two depend on the price. Probes have at
most a stated share of the refetches (``refetch.probes``, ``frontier.probe_line``).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lycosa.base.config.policy_classes import ADAPTIVE_CLASS, BY_RULE_CLASS, promised_s
from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.model.refetch_cell import class_and_cell, rate_in
from lycosa.stages.schedule.refetch_value import (
    PROBED_FROM,
    bounds_of_class,
    floor_of,
    has_price,
    wanted_days,
)

_DAY_S = 86_400.0
# Where halving after a change and lengthening by half without one balance, a change is found at
# 0.37 of the fetches, so the interval is 0.46 of the time between changes.
_ADAPTIVE_SHARE = 0.46


class RefetchDemand(msgspec.Struct, frozen=True):
    """Fetches a day at a price.

    ``due`` by value; ``promised`` by ``every``, about ``adaptive`` by halving and growing, whatever
    the price. ``probes`` is the number of pages that are probes, ``wished`` their fetches a day if
    each of them had its maximum interval.
    """

    due: float = 0.0
    promised: float = 0.0
    adaptive: float = 0.0
    probes: int = 0
    wished: float = 0.0

    @property
    def planned(self) -> float:
        """Fetches a day without probes."""
        return self.due + self.promised + self.adaptive

    def total(self, probe_share: float) -> float:
        """All fetches a day; probes have at most their share of them."""
        return self.planned + min(self.wished, self.planned * probe_share / (1 - probe_share))


def demand_at(section: RefetchSection, pages: Mapping[int, int], price: float) -> RefetchDemand:
    """The demand of ``pages``, which are counted by class of policy and cell (``counted_cell``)."""
    if section.rule is RefetchRule.OFF:
        return RefetchDemand()
    due = promised = adaptive = wished = 0.0
    probes = 0
    for key, number in pages.items():
        policy, cell = class_and_cell(key)
        if every_s := promised_s(policy):
            promised += number * _DAY_S / every_s
        elif has_price(section, policy):
            low, high = bounds_of_class(section, policy)
            days = wanted_days(cell, price, floor_of(section, high))
            wanted_s = days * _DAY_S if low < high else high
            if wanted_s <= PROBED_FROM * high:
                due += number * _DAY_S / max(wanted_s, low)
            else:
                probes += number
                wished += number * _DAY_S / max(high, low)
        elif policy in (BY_RULE_CLASS, ADAPTIVE_CLASS):
            between_s = _ADAPTIVE_SHARE * _DAY_S / rate_in(cell)
            adaptive += number * _DAY_S / min(max(between_s, section.min_s), section.max_s)
    return RefetchDemand(due, promised, adaptive, probes, wished)
