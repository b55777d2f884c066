"""Pages that change are fetched again sooner, those that do not later, within bounds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.stages.schedule.refetch import next_interval

SECTION = RefetchSection(rule=RefetchRule.ADAPTIVE)
URL = "https://www.news.example/live/1?page=2"


def test_the_first_interval_is_the_one_of_the_settings() -> None:
    assert next_interval(SECTION, URL, 0.0, changed=True, is_first=True) == SECTION.first_s


def test_nothing_is_fetched_again_when_refetching_is_off() -> None:
    assert (
        next_interval(
            RefetchSection(rule=RefetchRule.OFF), URL, 1000.0, changed=True, is_first=False
        )
        == 0.0
    )


@given(st.floats(SECTION.min_s, SECTION.max_s))
@settings(deadline=None)
def test_a_change_shortens_and_none_lengthens_within_the_bounds(interval: float) -> None:
    sooner = next_interval(SECTION, URL, interval, changed=True, is_first=False)
    later = next_interval(SECTION, URL, interval, changed=False, is_first=False)
    assert SECTION.min_s <= sooner <= interval <= later <= SECTION.max_s
    assert sooner == max(interval / 2, SECTION.min_s)
    assert later == min(interval * 1.5, SECTION.max_s)


def test_a_page_that_never_changes_comes_to_the_longest_interval_and_one_that_always_does_to_the_shortest() -> (
    None
):
    still = busy = SECTION.first_s
    for _ in range(30):
        still = next_interval(SECTION, URL, still, changed=False, is_first=False)
        busy = next_interval(SECTION, URL, busy, changed=True, is_first=False)
    assert (still, busy) == (SECTION.max_s, SECTION.min_s)
