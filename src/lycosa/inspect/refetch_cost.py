"""What the price of a refetch costs: the expected refetches a day, from the counters alone."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lycosa.base.config.sections import RefetchSection
from lycosa.stages.schedule.refetch_demand import demand_at
from lycosa.stages.schedule.refetch_value import (
    at_mean_weight,
    first_price,
    mean_weight,
    weighed_pages,
)


class RefetchCost(msgspec.Struct, frozen=True):
    """Expected refetches a day of ``pages`` at the ``price``, in days.

    It is ``refetch.price``, or the one that was found for the ``budget`` (``refetch.budget``, empty
    without one) as of the last commit. ``at_half`` and ``at_double`` are those at half and at
    double the price. Pages that are not refetched by their value are not among them, nor those that
    were last fetched by an older program. ``promised`` are refetches a day by ``every``, ``probes``
    the pages that no fetch is worth within four times their maximum interval.
    """

    pages: int
    price: float
    a_day: float
    at_half: float
    at_double: float
    budget: str = ""
    promised: float = 0.0
    probes: int = 0


def refetch_cost(
    section: RefetchSection, cells: Mapping[int, int], found: float = 0.0
) -> RefetchCost | None:
    """The cost, or ``None`` when no page is refetched by its value or promised.

    ``cells`` is that of ``Counters``, ``found`` the price that was found.
    """
    pages, weights = weighed_pages(section, cells)
    mean = mean_weight(pages, weights)
    section = at_mean_weight(section, mean)
    price = found if found and section.budget else first_price(section)
    here, half, double = (demand_at(section, cells, price * factor) for factor in (1.0, 0.5, 2.0))
    if not pages and not here.promised:
        return None
    at_price, at_half, at_double = (
        round(each.due + each.wished, 1) for each in (here, half, double)
    )
    promised = round(here.promised, 1)
    return RefetchCost(
        pages,
        round(price / mean, 9),
        at_price,
        at_half,
        at_double,
        section.budget,
        promised,
        here.probes,
    )
