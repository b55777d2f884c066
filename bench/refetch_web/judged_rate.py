"""The program's own decisions about a page, for arrays of pages.

``tests/unit/test_refetch_web.py`` holds each of them against the function that decides for one.
"""

from __future__ import annotations

import math

import numpy as np
from bench.refetch_web.made_web import Floats, Ints
from bench.refetch_web.optimum import fetch_intervals
from numpy.typing import NDArray

from lycosa.base.config.sections import RefetchSection
from lycosa.base.model.refetch_cell import (
    CELL_RATES,
    LEAST_RATE,
    LEAST_WEIGHT,
    MOST_RATE,
    MOST_WEIGHT,
    RATES,
    WEIGHTS,
    rate_in,
    weight_in,
)
from lycosa.stages.schedule import change_rate
from lycosa.stages.schedule.refetch_value import floor_of

CELLS = RATES * WEIGHTS
CELL_RATE = np.array([rate_in(cell + 1) for cell in range(CELLS)])
CELL_WEIGHT = np.array([weight_in(cell + 1) for cell in range(CELLS)])
NOTHING = 255  # the byte of no observation
_DAY_S = 86_400.0
_RATE_STEP = math.log(MOST_RATE / LEAST_RATE) / RATES
_WEIGHT_STEP = math.log(MOST_WEIGHT / LEAST_WEIGHT) / WEIGHTS


def observation_bytes(elapsed_s: Floats, changed: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """``change_rate.observation``."""
    shortest, step = change_rate._SHORTEST_S, change_rate._TIME_STEP
    steps = np.rint(np.log(np.maximum(elapsed_s, shortest) / shortest) / step)
    steps = np.minimum(steps, change_rate._TIMES - 1).astype(np.uint8)
    return (3 * steps + 2 * changed).astype(np.uint8)


def rate_steps(observations: NDArray[np.uint8]) -> Ints:
    """The place in ``CELL_RATES`` of ``change_rate.estimate_rate``, by rows of observations."""
    scores = np.tile(change_rate._PRIOR, (len(observations), 1))
    for column in observations.T:
        scores += change_rate._TABLE[column]
    return scores.argmax(1)


def weight_steps(weight: Floats) -> Ints:
    """The weight's part of ``refetch_cell.cell_of``."""
    steps = np.floor(np.log(np.maximum(weight, LEAST_WEIGHT) / LEAST_WEIGHT) / _WEIGHT_STEP)
    return np.minimum(steps, WEIGHTS - 1).astype(np.int64)


def wanted_days(section: RefetchSection, rate: Floats, weight: Floats, price: Floats) -> Floats:
    """``refetch_value.interval_by_value`` before the bounds; infinite where never."""
    floor = floor_of(section, section.max_s)
    least = -math.log1p(-floor.chance) / rate
    if floor.price:
        sooner = np.minimum(fetch_intervals(rate, weight, floor.price), 1 / rate)
        least = np.minimum(np.maximum(least, sooner), floor.most)
    return np.maximum(fetch_intervals(rate, weight, price), least)


def fetch_values(rate: Floats, weight: Floats, days: Floats) -> Floats:
    """``refetch_value.fetch_value``."""
    x = rate * days
    return weight / rate * (-np.expm1(-x) - x * np.exp(-x))


assert len(CELL_RATES) == RATES
