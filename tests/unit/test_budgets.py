"""What a host or site may take, and how long it is parked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.admit.budgets import over_budget, over_discovery, park_s
from lycosa.config import BudgetSection
from lycosa.model.usage import Usage
from lycosa.reasons import Reason

USED = Usage(pages=100, bytes=5_000_000, time_s=60.0, discovered=0)


def test_no_limit_is_the_default() -> None:
    assert over_budget(BudgetSection(), USED, USED) is None


@pytest.mark.parametrize(
    ("section", "reason", "value"),
    [
        (BudgetSection(host_pages=100), Reason.HOST_PAGE_BUDGET, "100 of 100"),
        (BudgetSection(site_pages=99), Reason.SITE_PAGE_BUDGET, "100 of 99"),
        (BudgetSection(host_bytes=4_000_000), Reason.HOST_BYTE_BUDGET, "5000000 of 4000000"),
        (BudgetSection(site_bytes=5_000_000), Reason.SITE_BYTE_BUDGET, "5000000 of 5000000"),
        (BudgetSection(host_time_s=59.5), Reason.HOST_TIME_BUDGET, "60 of 59.5"),
    ],
)
def test_each_budget_has_its_reason(section: BudgetSection, reason: Reason, value: str) -> None:
    refusal = over_budget(section, USED, USED)
    assert refusal is not None
    assert (refusal.reason, refusal.rule, refusal.value) == (reason, f"budgets.{section_name(section)}", value)


def section_name(section: BudgetSection) -> str:
    default = BudgetSection()
    return next(name for name in section.__struct_fields__ if getattr(section, name) != getattr(default, name))


def test_below_the_limit_fetching_goes_on() -> None:
    section = BudgetSection(host_pages=101, site_pages=101, host_bytes=5_000_001, site_bytes=5_000_001, host_time_s=61)
    assert over_budget(section, USED, USED) is None


def test_host_and_site_are_counted_apart() -> None:
    section = BudgetSection(host_pages=50)
    assert over_budget(section, Usage(pages=49), Usage(pages=500)) is None


def test_new_urls_are_limited_by_the_pages_that_brought_them() -> None:
    section = BudgetSection(discovery_per_page=1000)
    assert over_discovery(section, Usage(pages=0, discovered=10_000)) is None
    assert over_discovery(section, Usage(pages=5, discovered=15_000)) is None
    refusal = over_discovery(section, Usage(pages=5, discovered=15_001))
    assert refusal is not None
    assert refusal.reason is Reason.DISCOVERY_RATE
    assert "15001 URLs from 5 pages" in refusal.value
    assert over_discovery(BudgetSection(discovery_per_page=0), Usage(discovered=10**9)) is None


def test_parking_doubles_up_to_a_day() -> None:
    section = BudgetSection(park_s=600)
    assert [park_s(section, times) for times in (0, 1, 2, 7, 8, 10**6)] == [600, 1200, 2400, 76_800, 86_400, 86_400]


@given(first=st.floats(1, 1e6), times=st.integers(0, 200))
def test_parking_never_shortens(first: float, times: int) -> None:
    section = BudgetSection(park_s=first)
    assert park_s(section, times) <= park_s(section, times + 1) <= 86_400
