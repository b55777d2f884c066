"""The measures of what code costs find what they are for."""

from __future__ import annotations

import re

import pytest

from costs import cost_in_units, count_calls, run_below


def test_calls_are_counted_exactly() -> None:
    def one() -> int:
        return len(str(abs(-1)))

    assert count_calls(one) == count_calls(one)
    assert count_calls(lambda: [one() for _ in range(10)]) - count_calls(list) > 30


def test_a_unit_is_what_the_program_takes_on_this_machine() -> None:
    found = cost_in_units(lambda: [number * number for number in range(20_000)])
    assert 0.1 < found < 20


def test_what_costs_too_much_is_found_inside_a_library_too() -> None:
    def backtrack() -> str:
        return "found" if re.match(r"(a+)+b", "a" * 22) else "nothing"

    with pytest.raises(AssertionError, match="units, 5 are allowed"):
        run_below(5, backtrack)
    assert run_below(1e6, lambda: "result") == "result"
