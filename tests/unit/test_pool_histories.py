"""A few histories of the address pool, and the planted bugs that they must find."""

from __future__ import annotations

import pytest

from planting import planted
from pool_histories import PLANTS, PoolHistory


@pytest.mark.parametrize("seed", range(2))
def test_no_history_of_the_pool_overloads_an_address(seed: int) -> None:
    lived = PoolHistory(seed).live()
    assert lived.requests > 300
    assert lived.faults > 5
    assert 0.3 < lived.shared < 0.95


@pytest.mark.long
def test_many_histories_of_the_pool_overload_no_address() -> None:
    for seed in range(200):
        PoolHistory(seed).live()


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(plant, marks=() if plant == "late use" else pytest.mark.long)
        for plant in PLANTS
    ],
)
def test_a_planted_bug_of_the_pool_is_found(plant: str) -> None:
    for seed in range(8):
        with planted(PLANTS[plant]):
            try:
                PoolHistory(seed).live()
            except AssertionError as breach:
                print(breach)
                return
    pytest.fail("no history found it")
