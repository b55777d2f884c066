"""What a host or site may take, and how long it is parked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.config.sections import BudgetSection
from lycosa.base.model.host_memory import Usage
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import hash8
from lycosa.stages.admit.budgets import over_budget, over_discovery, site_pages_of
from lycosa.stages.admit.linking_sites import EXACT, is_exact, linking_sites, with_site
from lycosa.stages.schedule.visit_decisions import park_s

USED = Usage(captures=100, bytes=5_000_000, time_s=60.0, discovered=0)


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
    assert (refusal.reason, refusal.rule, refusal.value) == (
        reason,
        f"budgets.{section_name(section)}",
        value,
    )


def section_name(section: BudgetSection) -> str:
    default = BudgetSection()
    return next(
        name
        for name in section.__struct_fields__
        if getattr(section, name) != getattr(default, name)
    )


def test_below_the_limit_fetching_goes_on() -> None:
    section = BudgetSection(
        host_pages=101, site_pages=101, host_bytes=5_000_001, site_bytes=5_000_001, host_time_s=61
    )
    assert over_budget(section, USED, USED) is None


def test_host_and_site_are_counted_apart() -> None:
    section = BudgetSection(host_pages=50)
    assert over_budget(section, Usage(captures=49), Usage(captures=500)) is None


def test_new_urls_are_limited_by_the_pages_that_brought_them() -> None:
    section = BudgetSection(discovery_per_page=1000)
    assert over_discovery(section, Usage(captures=0, discovered=10_000)) is None
    assert over_discovery(section, Usage(captures=5, discovered=15_000)) is None
    refusal = over_discovery(section, Usage(captures=5, discovered=15_001))
    assert refusal is not None
    assert refusal.reason is Reason.DISCOVERY_RATE
    assert "15001 URLs from 5 captures" in refusal.value
    assert over_discovery(BudgetSection(discovery_per_page=0), Usage(discovered=10**9)) is None


def test_parking_doubles_up_to_a_day() -> None:
    section = BudgetSection(park_s=600)
    assert [park_s(section, times) for times in (0, 1, 2, 7, 8, 10**6)] == [
        600,
        1200,
        2400,
        76_800,
        86_400,
        86_400,
    ]


@given(first=st.floats(1, 1e6), times=st.integers(0, 200))
def test_parking_never_shortens(first: float, times: int) -> None:
    section = BudgetSection(park_s=first)
    assert park_s(section, times) <= park_s(section, times + 1) <= 86_400


def linked_by(number: int) -> bytes:
    """The record of a site that so many others link to."""
    record = b""
    for each in range(number):
        record = with_site(record, hash8(f"site{each}.example"))
    return record


@given(names=st.lists(st.integers(0, EXACT - 1)))
def test_few_linking_sites_are_counted_exactly_however_often_they_link(names: list[int]) -> None:
    record = b""
    for name in names:
        before, record = record, with_site(record, hash8(f"site{name}"))
        assert (record is before) == (linking_sites(record) == linking_sites(before))
    assert is_exact(record) and linking_sites(record) == len(set(names))


def test_many_linking_sites_are_estimated_within_five_percent_by_a_record_that_does_not_grow() -> (
    None
):
    """The standard error is 4.6 %; the root of the mean square over sixty records of four sizes
    is held to 5.5 %, any one to 15 %.
    """
    errors, record = [], b""
    for trial in range(15):
        record, number = b"", 0
        for target in (100, 400, 2000, 10_000):
            while number < target:
                record = with_site(record, hash8(f"{trial}/{number}"))
                number += 1
            assert not is_exact(record) and len(record) == 513
            errors.append(linking_sites(record) / target - 1)
    assert (sum(error * error for error in errors) / len(errors)) ** 0.5 < 0.055
    assert max(map(abs, errors)) < 0.15


@given(trial=st.integers(0, 10**6))
def test_the_count_never_falls_when_one_more_site_links(trial: int) -> None:
    record, last = b"", 0
    for number in range(200):
        record = with_site(record, hash8(f"{trial}/{number}"))
        assert linking_sites(record) >= last
        last = linking_sites(record)
    again = record
    for number in range(200):
        again = with_site(again, hash8(f"{trial}/{number}"))
    assert again is record


def test_a_site_may_have_more_pages_for_each_other_site_that_links_to_it() -> None:
    section = BudgetSection(site_pages=10, pages_per_linking_site=5)
    assert [site_pages_of(section, linked_by(number)) for number in (0, 1, 3)] == [10, 15, 25]
    refusal = over_budget(section, Usage(captures=3), Usage(captures=25), linked_by(3))
    assert refusal is not None and refusal.reason is Reason.SITE_PAGE_BUDGET
    assert (refusal.rule, refusal.value) == (
        "budgets.site_pages",
        "25 of 25 (10 and 5 for each of 3 linking sites)",
    )
    assert over_budget(section, Usage(captures=3), Usage(captures=25), linked_by(4)) is None


def test_what_linking_sites_add_has_a_bound_that_never_takes_anything_away() -> None:
    section = BudgetSection(site_pages=10, pages_per_linking_site=5, site_pages_max=30)
    assert [site_pages_of(section, linked_by(number)) for number in (0, 3, 4, 50, 500)] == [
        10,
        25,
        30,
        30,
        30,
    ]
    refusal = over_budget(section, Usage(), Usage(captures=30), linked_by(80))
    assert (
        refusal is not None
        and "each of about " in refusal.value
        and refusal.value.endswith("linking sites, at most 30)")
    )
    assert (
        site_pages_of(
            BudgetSection(site_pages=10, pages_per_linking_site=5, site_pages_max=7), linked_by(2)
        )
        == 10
    )


def test_a_site_without_a_limit_stays_without_one() -> None:
    assert (
        site_pages_of(BudgetSection(pages_per_linking_site=5, site_pages_max=7), linked_by(3)) == 0
    )
    assert (
        over_budget(
            BudgetSection(pages_per_linking_site=5), Usage(), Usage(captures=10**9), linked_by(3)
        )
        is None
    )


def test_one_more_host_of_a_site_at_its_bound_waits_and_those_that_have_a_place_go_on() -> None:
    section = BudgetSection(site_hosts=2)
    site = Usage(captures=7, hosts=2)
    refusal = over_budget(section, Usage(), site, has_place=False)
    assert refusal is not None
    assert (refusal.reason, refusal.rule, refusal.value) == (
        Reason.SITE_HOST_BUDGET,
        "budgets.site_hosts",
        "2 of 2",
    )
    assert over_budget(section, Usage(), site, has_place=True) is None
    assert over_budget(section, Usage(), Usage(hosts=1), has_place=False) is None
    # it was crawled before the bound was set
    assert over_budget(section, Usage(captures=1), site, has_place=False) is None
    assert over_budget(BudgetSection(), Usage(), site, has_place=False) is None
