"""The lower bound of a share: exact where it can be told otherwise, and as cautious as before."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.lower_bound import JEFFREYS, UNIFORM, lower_bound

COUNTS = st.integers(0, 2000).map(lambda eighths: eighths / 8)
PRIORS = st.sampled_from([UNIFORM, JEFFREYS])


@pytest.mark.parametrize(
    ("yes", "no", "bound"),
    # Beta(n, 1): 0.1 ** (1 / n); Beta(2, 2): 3 x^2 - 2 x^3 = 0.1
    [
        (0, 0, 0.0),
        (0, 9, 0.0),
        (9, 0, 0.1 ** (1 / 10)),
        (1, 1, 0.195800),
        (8.5, 0, 0.1 ** (2 / 19)),
    ],
)
def test_it_is_the_lower_tenth_of_the_beta_distribution(
    yes: float, no: float, bound: float
) -> None:
    assert lower_bound(yes, no) == pytest.approx(bound, abs=1e-6)


@given(st.integers(1, 150), st.integers(0, 150))
def test_for_whole_counts_it_agrees_with_the_binomial_sum(yes: int, no: int) -> None:
    """Beta(a, b) is below x as often as a + b - 1 tries have a successes or more."""
    x, tries = lower_bound(yes, no), yes + no + 1
    log_x, log_y = math.log(x), math.log1p(-x)
    above = math.fsum(
        math.exp(
            math.lgamma(tries + 1)
            - math.lgamma(k + 1)
            - math.lgamma(tries - k + 1)
            + k * log_x
            + (tries - k) * log_y
        )
        for k in range(yes + 1, tries + 1)
    )
    assert above == pytest.approx(0.1, abs=1e-8)


@given(COUNTS, COUNTS, PRIORS)
def test_it_is_below_the_share_and_moves_with_each_case(
    yes: float, no: float, prior: float
) -> None:
    bound = lower_bound(yes, no, prior)
    assert 0 <= bound < 1
    assert bound <= (yes + prior) / (yes + no + 2 * prior)
    assert lower_bound(yes + 1, no, prior) >= bound - 1e-9
    assert lower_bound(yes, no + 1, prior) <= bound + 1e-9


def test_for_rare_cases_it_decides_as_wilson_s_interval() -> None:
    """The most cases among which so many are more than one in a hundred; Wilson has 30, 83, 145."""

    def most(hits: int) -> int:
        return max(n for n in range(hits, 200) if lower_bound(hits, n - hits, JEFFREYS) > 0.01)

    assert [most(hits) for hits in (1, 2, 3)] == [29, 80, 142]


@pytest.mark.parametrize("counts", [(1e6, 0.0), (1.0, 1e6), (1e6, 1e6)])
def test_it_has_a_value_for_any_counts(counts: tuple[float, float]) -> None:
    assert 0 < lower_bound(*counts) < 1
