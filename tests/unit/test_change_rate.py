"""The change rate of a page is learned from a byte for each of its last fetches."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.model.refetch_cell import (
    CELL_RATES,
    CELL_WEIGHTS,
    RATES,
    WEIGHTS,
    cell_of,
    rate_in,
    weight_in,
)
from lycosa.stages.schedule.change_rate import (
    MOST_OBSERVATIONS,
    ChangeFinding,
    add_observation,
    changes_seen,
    elapsed_in,
    estimate_rate,
    finding_in,
    observation,
    seed_observations,
)

DAY = 86_400.0
SAME, IMMATERIAL, CHANGED = ChangeFinding.SAME, ChangeFinding.IMMATERIAL, ChangeFinding.CHANGED
STEP = math.log(CELL_RATES[1] / CELL_RATES[0])
"""Between two cells."""


def seen(*findings: ChangeFinding, days: float = 1.0) -> bytes:
    return bytes(observation(days * DAY, each) for each in findings)


@given(st.floats(60, 1e8), st.sampled_from(ChangeFinding))
def test_a_byte_has_the_time_within_a_tenth_and_what_was_found(
    elapsed_s: float, finding: ChangeFinding
) -> None:
    byte = observation(elapsed_s, finding)
    assert 0 <= byte < 255
    assert finding_in(byte) is finding
    assert abs(math.log(elapsed_in(byte) / elapsed_s)) < 0.1


@given(st.floats(0, 1e12), st.sampled_from(ChangeFinding))
def test_any_time_has_a_byte(elapsed_s: float, finding: ChangeFinding) -> None:
    assert finding_in(observation(elapsed_s, finding)) is finding


@given(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9))
def test_any_rate_and_weight_have_a_cell_and_those_of_the_grid_their_own(
    rate: float, weight: float
) -> None:
    cell = cell_of(rate, weight)
    assert 1 <= cell <= RATES * WEIGHTS
    assert cell_of(rate_in(cell), weight_in(cell)) == cell
    if CELL_RATES[0] < rate < CELL_RATES[-1]:
        assert abs(math.log(rate_in(cell) / rate)) <= STEP / 2 + 1e-9
    if CELL_WEIGHTS[0] < weight < CELL_WEIGHTS[-1]:
        assert 0.78 < weight_in(cell) / weight < 1.28


@given(st.binary(max_size=MOST_OBSERVATIONS))
def test_whatever_is_stored_gives_a_rate_of_the_grid(observations: bytes) -> None:
    assert estimate_rate(observations) in CELL_RATES
    changes, days = changes_seen(observations)
    assert 0 <= changes <= len(observations) and days >= 0


@given(
    st.lists(st.tuples(st.floats(0.01, 1000), st.booleans()), max_size=MOST_OBSERVATIONS - 1),
    st.floats(0.01, 1000),
)
@settings(deadline=None)
def test_one_more_change_never_lowers_the_rate_and_one_more_fetch_without_never_raises_it(
    before: list[tuple[float, bool]], days: float
) -> None:
    known = b"".join(seen(CHANGED if changed else SAME, days=each) for each, changed in before)
    rate = estimate_rate(known)
    assert estimate_rate(known + seen(SAME, days=days)) <= rate
    assert estimate_rate(known + seen(CHANGED, days=days)) >= rate


@given(st.permutations(list(seen(SAME, SAME, CHANGED, days=3.0) + seen(CHANGED, SAME, days=9.0))))
def test_the_order_of_observations_does_not_matter(observations: list[int]) -> None:
    ordered = bytes(sorted(observations))
    assert estimate_rate(bytes(observations)) == estimate_rate(ordered)


@pytest.mark.parametrize("rate", [12.0, 1.0, 1 / 7, 1 / 30, 1 / 200])
def test_sixteen_fetches_at_the_time_between_changes_tell_the_rate_of_most_within_40_percent(
    rate: float,
) -> None:
    chance, errors = random.Random(1), []
    for _ in range(400):
        known = b""
        for _ in range(16):
            changed = chance.random() > math.exp(-1)
            known = add_observation(known, DAY / rate, changed, None)
        errors.append(abs(math.log(estimate_rate(known) / rate)))
    assert sorted(errors)[200] < math.log(1.4)
    assert sorted(errors)[380] < math.log(2.5)


def test_an_hourly_page_is_found_out_soon_among_pages_that_hardly_change() -> None:
    known = b""
    for _ in range(3):
        known = add_observation(known, 7 * DAY, True, None)
    assert estimate_rate(known) > 0.2, "three changes in three looks of a week each"
    for _ in range(3):
        known = add_observation(known, DAY / 24, True, None)
    assert estimate_rate(known) > 5


def test_only_the_last_sixteen_fetches_count() -> None:
    known = b""
    for _ in range(40):
        known = add_observation(known, DAY, True, None)
    for _ in range(16):
        known = add_observation(known, DAY, False, None)
    assert known == seen(*[SAME] * 16)


def test_a_clock_that_was_set_back_tells_nothing() -> None:
    known = seen(SAME, CHANGED)
    assert add_observation(known, 0.0, True, None) == known
    assert add_observation(known, -DAY, False, None) == known


def test_small_differences_of_a_page_that_differs_at_each_fetch_are_no_changes() -> None:
    known = b""
    for _ in range(8):
        known = add_observation(known, DAY, True, 1)
    assert known == seen(*[CHANGED] * 8), "so far they could be changes"
    known = add_observation(known, DAY, True, 1)
    assert known == seen(*[IMMATERIAL] * 9)
    known = add_observation(known, DAY, True, 12)
    assert known == seen(*[IMMATERIAL] * 9, CHANGED), "another text is a change all the same"
    known = add_observation(known, DAY, True, 3)
    assert known == seen(*[IMMATERIAL] * 9, CHANGED, IMMATERIAL), "what was judged stays"
    assert changes_seen(known)[0] == 1
    known = add_observation(known, DAY, False, None)
    known = add_observation(known, DAY, True, 1)
    assert finding_in(known[-1]) is CHANGED, "once it was the same, so it is not restless any more"


@pytest.mark.parametrize("distance", [None, 4, 30])
def test_a_page_that_is_another_text_at_each_fetch_changes_each_time(distance: int | None) -> None:
    known = b""
    for _ in range(20):
        known = add_observation(known, DAY, True, distance)
    assert known == seen(*[CHANGED] * 16)


def test_a_record_of_an_older_program_begins_with_what_it_counted() -> None:
    assert seed_observations(1, 0, 7 * DAY) == b""
    assert seed_observations(3, 1, 7 * DAY) == seen(SAME, CHANGED, days=7)
    assert seed_observations(101, 25, 5 * DAY) == seen(*[SAME] * 6, *[CHANGED] * 2, days=5)
    assert seed_observations(9, 99, DAY) == seen(*[CHANGED] * 8), "a count that cannot be"
    assert seed_observations(9, 3, 0.0) == b"", "it was not refetched"
    often, seldom = (estimate_rate(seed_observations(20, each, 30 * DAY)) for each in (19, 0))
    assert often > 1 / 30 > seldom
