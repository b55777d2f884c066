"""What the price of a refetch costs: the expected refetches a day, from the counters alone."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lycosa.base.config.sections import RefetchSection
from lycosa.stages.schedule.refetch_value import fetches_a_day, priced_pages


class RefetchCost(msgspec.Struct, frozen=True):
    """Expected refetches a day of ``pages`` at the ``price`` (``refetch.price``, in days).

    ``at_half`` and ``at_double`` are those at half and at double the price. Pages whose policy is
    not their value are not among them, nor those that were last fetched by an older program.
    """

    pages: int
    price: float
    a_day: float
    at_half: float
    at_double: float


def refetch_cost(section: RefetchSection, cells: Mapping[int, int]) -> RefetchCost | None:
    """The cost, or ``None`` when no page is refetched by its value.

    ``cells`` is that of ``Counters``.
    """
    pages = priced_pages(section, cells)
    if not pages:
        return None
    here, half, double = (
        round(
            fetches_a_day(msgspec.structs.replace(section, price=section.price * factor), cells), 1
        )
        for factor in (1.0, 0.5, 2.0)
    )
    return RefetchCost(pages, section.price, here, half, double)
