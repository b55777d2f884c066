"""Priority is a number in [0, 1], monotone in each factor."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.config import PrioritySection
from lycosa.schedule.priority import Factors, link_importance, priority

shares = st.floats(0, 1)
weights = st.builds(PrioritySection, **dict.fromkeys(PrioritySection.__struct_fields__, st.floats(0, 10)))
factors = st.builds(
    Factors,
    importance=shares,
    authority=shares,
    depth=st.integers(0, 100),
    change_interval_s=st.floats(0, 1e8),
    age_s=st.one_of(st.just(-1.0), st.floats(0, 1e8)),
    hint=st.one_of(st.just(-1.0), shares),
)


@given(factors, weights)
@settings(deadline=None)
def test_it_is_a_number_between_zero_and_one(of: Factors, by: PrioritySection) -> None:
    assert -1e-9 <= priority(of, by) <= 1 + 1e-9


@pytest.mark.parametrize("name", ["importance", "authority", "hint"])
@given(of=factors, by=weights, less=shares, more=shares)
@settings(deadline=None)
def test_it_rises_with_each_share(name: str, of: Factors, by: PrioritySection, less: float, more: float) -> None:
    low, high = sorted((less, more))
    assert priority(msgspec.structs.replace(of, **{name: low}), by) <= priority(msgspec.structs.replace(of, **{name: high}), by) + 1e-12


@given(factors, weights, st.integers(0, 100), st.integers(0, 100))
@settings(deadline=None)
def test_it_falls_with_depth(of: Factors, by: PrioritySection, one: int, other: int) -> None:
    near, far = sorted((one, other))
    assert priority(msgspec.structs.replace(of, depth=near), by) >= priority(msgspec.structs.replace(of, depth=far), by) - 1e-12


@given(factors, weights, st.floats(1, 1e8), st.floats(1, 1e8))
@settings(deadline=None)
def test_it_falls_with_the_interval_between_changes_and_rises_with_age(of: Factors, by: PrioritySection, one: float, other: float) -> None:
    low, high = sorted((one, other))
    often, seldom = (priority(msgspec.structs.replace(of, change_interval_s=each), by) for each in (low, high))
    fresh, stale = (priority(msgspec.structs.replace(of, age_s=each), by) for each in (low, high))
    never = priority(msgspec.structs.replace(of, age_s=-1.0), by)
    assert often >= seldom - 1e-12
    assert fresh <= stale + 1e-12 <= never + 2e-12


def test_without_weights_all_urls_are_alike() -> None:
    none = PrioritySection(**dict.fromkeys(PrioritySection.__struct_fields__, 0.0))
    assert priority(Factors(importance=1.0), none) == priority(Factors(depth=9), none) == 0.5


@given(shares, st.integers(0, 10_000), st.integers(0, 10_000))
@settings(deadline=None)
def test_a_link_passes_on_less_than_its_page_has_and_less_the_more_links_there_are(share: float, one: int, other: int) -> None:
    few, many = sorted((one, other))
    assert link_importance(share, many) <= link_importance(share, few) <= max(share, 0.05)
