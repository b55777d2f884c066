"""Parts in processes of their own: answers in order, errors told, a process that dies noticed."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from lycosa.simulate.sample_parts import PartLostError, run_all


def doubled(number: int, tell: Callable[[float], None]) -> int:
    tell(0.5)
    tell(1.0)
    return 2 * number


def refuses_two(number: int, tell: Callable[[float], None]) -> int:
    if number == 2:
        raise ValueError("two is too many")
    return number


def dies(number: int, tell: Callable[[float], None]) -> int:
    os._exit(9)


@pytest.mark.parametrize("jobs", [1, 2])
def test_answers_come_in_order_and_shares_rise_to_one(jobs: int) -> None:
    told: list[float] = []
    assert run_all(doubled, [1, 2, 3], jobs, told.append) == [2, 4, 6]
    assert told == sorted(told)
    assert told[-1] == 1.0


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_of_a_part_is_raised_here(jobs: int) -> None:
    with pytest.raises(ValueError, match="two is too many"):
        run_all(refuses_two, [1, 2], jobs, lambda _: None)


def test_a_process_that_dies_is_not_waited_for() -> None:
    with pytest.raises(PartLostError, match="ended with exit code 9"):
        run_all(dies, [1, 2], 2, lambda _: None)
