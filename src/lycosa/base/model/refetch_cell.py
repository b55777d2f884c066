"""The cell of a page: its change rate and its weight in logarithmic steps, as one stored number.

The counts of pages by cell (``state.shard.counters``) tell what a price of a fetch costs, without a
look at the records. A step of the rate is 40 %, one of the weight 62 %.
"""

from __future__ import annotations

import math

RATES, WEIGHTS = 40, 24
LEAST_RATE, MOST_RATE = 1e-4, 60.0
"""Changes a day: once in 27 years, and every 24 minutes. Others count as these."""
LEAST_WEIGHT, MOST_WEIGHT = 0.01, 1000.0

_CELL_BITS = 16
_RATE_STEP = math.log(MOST_RATE / LEAST_RATE) / RATES
_WEIGHT_STEP = math.log(MOST_WEIGHT / LEAST_WEIGHT) / WEIGHTS

CELL_RATES = tuple(LEAST_RATE * math.exp(_RATE_STEP * (at + 0.5)) for at in range(RATES))
"""The rate in the middle of each step, in changes a day."""
CELL_WEIGHTS = tuple(LEAST_WEIGHT * math.exp(_WEIGHT_STEP * (at + 0.5)) for at in range(WEIGHTS))


def cell_of(rate: float, weight: float) -> int:
    """The cell of a page, from 1 to ``RATES * WEIGHTS``; 0 in a record means none.

    ``rate`` is in changes a day.
    """
    return _step(rate, LEAST_RATE, _RATE_STEP, RATES) * WEIGHTS + (
        _step(weight, LEAST_WEIGHT, _WEIGHT_STEP, WEIGHTS) + 1
    )


def rate_in(cell: int) -> float:
    """The change rate of the pages in a cell, in changes a day; the cell is not 0."""
    return CELL_RATES[_place(cell) // WEIGHTS]


def weight_in(cell: int) -> float:
    """The weight of the pages in a cell, which is not 0."""
    return CELL_WEIGHTS[_place(cell) % WEIGHTS]


def counted_cell(cell: int, policy: int) -> int:
    """The key under which counters count a page: its cell, and its class of policy.

    0 for a page without a cell, which is not counted. Pages with other bounds have other intervals.
    """
    return policy << _CELL_BITS | cell if cell else 0


def class_and_cell(key: int) -> tuple[int, int]:
    """The class of policy and the cell of a ``counted_cell``."""
    return key >> _CELL_BITS, key & ((1 << _CELL_BITS) - 1)


def _place(cell: int) -> int:
    # A cell of a later program with a finer grid must not stop this one.
    return min(max(cell, 1), RATES * WEIGHTS) - 1


def _step(value: float, least: float, step: float, steps: int) -> int:
    at = math.floor(math.log(value / least) / step) if value > least else 0
    return min(at, steps - 1)
