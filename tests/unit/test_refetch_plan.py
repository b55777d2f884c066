"""What a capture means for the next fetch, from what the record keeps of those before."""

from __future__ import annotations

import msgspec
import pytest

from lycosa.base.config.sections import PrioritySection, RefetchRule, RefetchSection
from lycosa.base.model.factors import Factors
from lycosa.base.model.refetch_cell import rate_in, weight_in
from lycosa.base.model.url_state import History
from lycosa.stages.schedule.change_rate import changes_seen, estimate_rate
from lycosa.stages.schedule.fetch_outcome import Meaning
from lycosa.stages.schedule.priority import COPY_WEIGHT, weigher
from lycosa.stages.schedule.refetch_plan import FoundContent, RefetchPlan, plan_refetch
from lycosa.stages.schedule.refetch_value import interval_by_value

DAY = 86_400
START = 1_700_000_000
URL = "https://a.example/"
VALUE = RefetchSection(rule=RefetchRule.VALUE, budget="")
ADAPTIVE = RefetchSection(rule=RefetchRule.ADAPTIVE)
FETCHED, FAILED, UNMODIFIED = Meaning.FETCHED, Meaning.FAILED, Meaning.NOT_MODIFIED


class Page:
    """The record of a page that is fetched again and again."""

    def __init__(self, section: RefetchSection = VALUE, formats: int = 2) -> None:
        self.section, self.formats = section, formats
        self.history, self.now = History(), START

    def fetch(
        self, text: str, meaning: Meaning = FETCHED, days: float = 1.0, simhash: int = 0
    ) -> RefetchPlan:
        """Fetch it, ``days`` after the time before."""
        old, digest = self.history, text.encode().ljust(20)
        self.now += int(days * DAY)
        digests = (old.digest, old.text_digest) if meaning is UNMODIFIED else (digest, digest[:8])
        found = FoundContent(meaning, self.now, *digests, simhash)
        if self.formats < 2:
            found = msgspec.structs.replace(found, text_digest=b"")
        plan = plan_refetch(self.section, URL, old, found, 1.0, self.formats)
        made = History(
            old.fetches + 1,
            self.now,
            404 if meaning is FAILED else 200,
            digests[0],
            simhash=simhash,
        )
        self.history = plan.kept_in(made, old, found.text_digest)
        return plan


def test_the_first_fetch_has_the_interval_of_the_settings_and_the_rate_of_any_page() -> None:
    page = Page()
    plan = page.fetch("a")
    assert (plan.interval_s, plan.observations) == (VALUE.first_s, b"")
    assert rate_in(plan.cell) == estimate_rate(b"")
    assert page.history.changes == 0


def test_later_ones_have_the_interval_of_what_was_seen() -> None:
    page = Page()
    page.fetch("a")
    for text in ("a", "b", "b", "c"):
        plan = page.fetch(text, days=5)
    assert changes_seen(plan.observations) == (2, pytest.approx(20, rel=0.1))
    assert rate_in(plan.cell) == estimate_rate(plan.observations)
    assert plan.interval_s == interval_by_value(VALUE, plan.cell)
    assert page.history.cell == plan.cell and page.history.changes == 2


def test_not_modified_is_an_observation_and_a_failure_is_none() -> None:
    page = Page()
    page.fetch("a")
    assert len(page.fetch("", UNMODIFIED).observations) == 1
    plan = page.fetch("not found", FAILED)
    assert len(plan.observations) == 1, "kept for the time when it is back"
    assert (plan.cell, plan.interval_s) == (0, 0.0), "it is not fetched again"
    plan = page.fetch("a", days=9)
    assert len(plan.observations) == 1, "an error page is nothing to compare with"
    assert plan.cell and plan.interval_s
    assert len(page.fetch("a").observations) == 2


def test_formats_without_observations_have_the_adaptive_interval_in_every_rule() -> None:
    page = Page(formats=1)
    page.fetch("a")
    plan = page.fetch("a")
    assert (plan.observations, plan.cell) == (b"", 0)
    assert plan.interval_s == VALUE.first_s * 1.5
    assert page.fetch("b").interval_s == VALUE.first_s * 0.75


def test_a_record_of_an_older_program_continues_with_what_it_had_counted() -> None:
    page = Page()
    page.history = History(
        20, START, 200, b"a".ljust(20), changes=19, interval_s=2 * DAY, segment="s"
    )
    plan = page.fetch("b", days=2)
    assert changes_seen(plan.observations)[0] == 9, "eight for the past, and this one"
    assert rate_in(plan.cell) > 0.4
    assert page.fetch("b", days=1).observations[-1] % 3 == 0


def test_a_page_that_failed_before_it_was_compared_is_none_of_an_older_program() -> None:
    page = Page()
    for _ in range(3):
        page.fetch("not found", FAILED)
    assert page.fetch("a").observations == b""


@pytest.mark.parametrize("section", [VALUE, ADAPTIVE])
def test_a_page_with_a_counter_is_left_alone_in_every_rule(section: RefetchSection) -> None:
    counter, changing = Page(section), Page(section)
    for number in range(40):
        simhash = 1 << 40 | number % 2
        days = max(counter.history.interval_s / DAY, 1)
        counter_plan = counter.fetch(f"text {number}", simhash=simhash, days=days)
        other = (number * 0x9E3779B97F4A7C15) % (1 << 64) or 1
        days = max(changing.history.interval_s / DAY, 1)
        changing_plan = changing.fetch(f"text {number}", simhash=other, days=days)
        assert number == 0 or counter_plan.changed, "it is told as a change all the same"
    assert rate_in(counter_plan.cell) < 1 / 100
    assert counter_plan.interval_s > 20 * DAY
    assert rate_in(changing_plan.cell) > 0.5
    if section is ADAPTIVE:
        assert changing_plan.interval_s == section.min_s


def test_the_freshness_of_a_copy_is_worth_less() -> None:
    found = FoundContent(FETCHED, START, b"a" * 20, b"a" * 8)
    copy = msgspec.structs.replace(found, is_copy=True)
    own, other = (plan_refetch(VALUE, URL, History(), each, 1.0, 2) for each in (found, copy))
    assert 0.78 < weight_in(other.cell) / (COPY_WEIGHT * weight_in(own.cell)) < 1.28


def test_the_weight_is_what_a_page_is_worth_whenever_it_was_fetched() -> None:
    weigh = weigher(PrioritySection())
    worth = Factors(importance=1.0, authority=1.0, depth=0)
    assert weigh(worth) == pytest.approx(2.0)
    aged = msgspec.structs.replace(worth, age_s=1e6, change_interval_s=5.0, chance=0.9)
    assert weigh(aged) == weigh(worth)
    assert weigh(Factors(given=0.25)) == pytest.approx(0.5)
    nothing = PrioritySection(importance=0, authority=0, depth=0)
    assert weigher(nothing)(worth) == 1.0
    plan = plan_refetch(VALUE, URL, History(), FoundContent(FETCHED, 1.0, b"d", b"t"), 0.3, 2)
    assert 0.78 < weight_in(plan.cell) / 0.3 < 1.28
