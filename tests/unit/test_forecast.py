"""Rates and the forecast, as functions of what was reported."""

from __future__ import annotations

import msgspec
import pytest

from lycosa.base.messages.progress import HostNote, Progress
from lycosa.cli.progress_rows import estimate_of, rough_duration
from lycosa.cluster.coordinator.forecast import forecast_of, hosts_needing, need_bucket
from lycosa.cluster.coordinator.shard_owners import CrawlRates
from lycosa.processes.status_file import waiting_for
from progress_making import progress_with


def _at(rates: CrawlRates, progress: Progress) -> Progress:
    return progress.with_numbers({}, rates.tables())


def _crawled(seconds: int, captures: float, found: float) -> tuple[CrawlRates, Progress]:
    """A crawl after so many seconds at a steady rate, with 10,000 URLs at the start."""
    rates, progress = CrawlRates(), Progress()
    for second in range(seconds + 1):
        done = int(captures * second)
        discovered = 10_000 + int(found * second)
        states = {"queued": discovered - done, "fetched": done}
        progress = progress_with(
            discovered=discovered, captures=done, body_bytes=1000 * done, states=states
        )
        rates.note(float(second), progress)
    return rates, progress


def test_rates_are_those_of_the_last_minute_of_the_run_and_of_the_best_minute() -> None:
    rates, progress = _crawled(120, captures=10, found=0)
    for second in range(121, 400):
        rates.note(float(second), progress)  # it stands still
    tables = rates.tables()
    assert tables["lycosa_captures_per_second"] == {
        "minute": 0.0,
        "run": pytest.approx(1200 / 399, abs=0.01),
        "peak": pytest.approx(10, abs=0.1),
    }
    assert tables["lycosa_received_bytes_per_second"]["peak"] == pytest.approx(10_000, abs=100)


def test_no_rate_is_given_before_two_reports_or_across_a_loss() -> None:
    rates = CrawlRates()
    rates.note(0.0, Progress())
    rates.note(1.0, progress_with(discovered=9, captures=5))
    assert rates.tables() == {}
    rates.note(2.0, progress_with(discovered=9, captures=3))  # a worker lost what was uncommitted
    assert rates.tables() == {}
    rates.note(3.0, progress_with(discovered=9, captures=4))
    assert rates.tables()["lycosa_captures_per_second"]["minute"] == 1.0


def test_a_shard_that_reports_later_than_others_is_no_growth() -> None:
    rates = CrawlRates()  # of a coordinator that has just started, in a crawl of two shards
    for second in range(20):
        shards = 1 if second < 7 else 2
        done = 1_000_000 * shards + 10 * second
        rates.note(float(second), progress_with(discovered=2 * done, captures=done), shards)
    found = rates.tables()["lycosa_captures_per_second"]
    assert found == {"minute": 10.0, "run": 10.0, "peak": 10.0}


def test_a_crawl_that_an_operator_paused_waits_for_an_operator_and_has_no_forecast() -> None:
    _, progress = _crawled(60, captures=20, found=0)
    paused = msgspec.structs.replace(progress, is_paused=True)
    assert forecast_of(paused) is None
    assert waiting_for(paused) == "an operator: the crawl is paused until it is resumed"


def test_the_queue_at_the_present_rate_is_the_forecast_when_no_host_needs_longer() -> None:
    rates, progress = _crawled(60, captures=20, found=0)
    found = forecast_of(_at(rates, progress))
    assert found is not None and not found.is_least and found.hosts == 0
    assert found.seconds == pytest.approx((10_000 - 1200) / 20, rel=0.01)
    assert estimate_of(_at(rates, progress)) == "about 7 minutes at 20 URLs a second"


def test_it_is_a_lower_bound_while_urls_are_found() -> None:
    rates, progress = _crawled(60, captures=20, found=30)
    said = estimate_of(_at(rates, progress))
    assert said.startswith("at least ") and "30 new URLs a second" in said


def test_the_hosts_that_need_longest_are_named_and_counted() -> None:
    rates, progress = _crawled(60, captures=20, found=0)
    slow = HostNote("slow.example", 1200, 2.0, 0.0)
    needs = {need_bucket(2400.0): 1, need_bucket(1500.0): 2, need_bucket(60.0): 90}
    crawl = _at(rates, progress_with(states=progress.states, slowest=[slow], needs=needs))
    found = forecast_of(crawl)
    assert found is not None and (found.seconds, found.hosts) == (2400.0, 3)
    assert estimate_of(crawl) == (
        "about 40 minutes, limited by the delay of 3 hosts (slow.example: 1,200 URLs at 2 s each)"
    )


def test_the_limit_on_captures_comes_first() -> None:
    rates, progress = _crawled(60, captures=20, found=100)
    crawl = _at(rates, progress).with_numbers({"lycosa_captures_limit": 1800})
    assert estimate_of(crawl) == "about 30 seconds until the limit on pages"


@pytest.mark.parametrize(
    "progress",
    [
        Progress(),
        progress_with(states={"queued": 5}),
        progress_with(states={"queued": 5}, is_idle=True, slowest=[HostNote("a", 5, 99.0, 0.0)]),
        progress_with(states={"fetched": 5}, slowest=[HostNote("a", 0, 1.0, 5.0)]),
    ],
)
def test_nothing_is_said_when_nothing_is_known_or_left(progress: Progress) -> None:
    assert estimate_of(progress) == ""


def test_hosts_are_counted_by_the_time_that_they_need() -> None:
    needs = {need_bucket(seconds): 1 for seconds in (0.1, 10.0, 100.0, 1000.0)}
    assert [hosts_needing(needs, s) for s in (0.0, 5.0, 50.0, 500.0, 5000.0)] == [4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (12, "10 seconds"),
        (99, "100 seconds"),
        (100, "2 minutes"),
        (2400, "40 minutes"),
        (7300, "2 hours"),
        (200_000, "2 days"),
        (4e7, "463 days"),
    ],
)
def test_a_forecast_has_no_more_digits_than_are_true(seconds: float, said: str) -> None:
    assert rough_duration(seconds) == said
