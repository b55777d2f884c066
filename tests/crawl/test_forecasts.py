"""What a crawl reports while it runs: its forecast against what then happened, and its counters
against its commits. Whole crawls on the synthetic web in virtual time.
"""

from __future__ import annotations

import asyncio
import statistics
from pathlib import Path
from typing import NamedTuple

import pytest

from judging import quick_config
from lycosa.base.config.sections import FetchSection, PolitenessSection, StoreSection
from lycosa.cluster.coordinator.forecast import Forecast, forecast_of
from lycosa.cluster.coordinator.shard_owners import CrawlRates
from lycosa.synthetic import SyntheticWeb, WebPlan
from lycosa.worker.assemble import Assembled
from lycosa.worker.worker_progress import ProgressReport
from virtual_crawl import VirtualCrawl

_EVERY_S = 1.0
_LOOK_S = 10.0
_SHORT_S = 60.0  # what remains at the end is not judged


class Look(NamedTuple):
    """A forecast, and the time after which the crawl really ended."""

    forecast: Forecast
    remained_s: float

    @property
    def ratio(self) -> float:
        return self.forecast.seconds / self.remained_s


def looks_at(folder: Path, plan: WebPlan, slots: int, delay_s: float) -> list[Look]:
    """Crawls a web to its end; returns the forecasts that were made meanwhile."""
    config = quick_config(
        politeness=PolitenessSection(delay_s=delay_s, adaptive_factor=0.0, address_delay_s=0.0),
        fetch=FetchSection(slots=slots),
    )
    crawl = VirtualCrawl(folder, SyntheticWeb(plan), config)
    found: list[tuple[float, Forecast]] = []
    watching: list[asyncio.Task[None]] = []

    def watch(assembled: Assembled) -> None:
        report, rates = ProgressReport(assembled, config), CrawlRates()

        async def look() -> None:
            loop, due = asyncio.get_running_loop(), 0.0
            while True:
                await assembled.clock.sleep(_EVERY_S)
                progress = report.make_report()
                rates.note(loop.time(), progress)
                forecast = forecast_of(progress.with_numbers({}, rates.tables()))
                if loop.time() >= due and forecast is not None:
                    found.append((loop.time(), forecast))
                    due = loop.time() + _LOOK_S

        watching.append(asyncio.get_running_loop().create_task(look()))

    crawl.run([crawl.web.seed_url()], meanwhile=watch)
    looks = [Look(forecast, crawl.now - at) for at, forecast in found]
    print(*(f"{'>' * each.forecast.is_least}{each.ratio:.2f}" for each in looks))
    return [each for each in looks if each.remained_s >= _SHORT_S]


def parted(looks: list[Look]) -> tuple[list[Look], list[Look]]:
    """Lower bounds, and forecasts of the time itself."""
    bounds = [look for look in looks if look.forecast.is_least]
    return bounds, [look for look in looks if not look.forecast.is_least]


def test_hosts_of_uneven_size_limit_the_crawl_by_their_delay(tmp_path: Path) -> None:
    plan = WebPlan(hosts=6, page_counts=(120, 20, 20, 20, 10, 10), seed=5, latency_s=0.05)
    bounds, known = parted(looks_at(tmp_path / "c", plan, slots=100, delay_s=3.0))
    assert bounds and max(look.ratio for look in bounds) <= 1.1
    assert len(known) >= 5 and all(0.7 <= look.ratio <= 1.3 for look in known)
    assert statistics.median(look.ratio for look in known) == pytest.approx(1.0, abs=0.15)
    last = known[-1].forecast
    assert (last.hosts, last.host is not None and last.host.host.startswith("h000000.")) == (
        1,
        True,
    )


@pytest.mark.long
def test_the_rate_limits_a_crawl_with_few_slots(tmp_path: Path) -> None:
    plan = WebPlan(hosts=40, pages=40, seed=6, latency_s=1.0)
    bounds, known = parted(looks_at(tmp_path / "c", plan, slots=2, delay_s=1.0))
    assert bounds and max(look.ratio for look in bounds) <= 1.2
    assert len(known) >= 3 and all(0.6 <= look.ratio <= 1.6 for look in known)
    assert all(look.forecast.hosts == 0 for look in known)


def test_the_counters_of_a_report_are_those_of_the_last_commit(tmp_path: Path) -> None:
    plan = WebPlan(hosts=8, page_counts=(20,), seed=5, latency_s=0.05)
    config = quick_config(
        politeness=PolitenessSection(delay_s=0.3, adaptive_factor=0.0, address_delay_s=0.0),
        store=StoreSection(commit_s=3.0),
    )
    crawl = VirtualCrawl(tmp_path / "c", SyntheticWeb(plan), config)
    found: list[tuple[int, int, int, int]] = []
    watching: list[asyncio.Task[None]] = []

    def watch(assembled: Assembled) -> None:
        report = ProgressReport(assembled, config)

        async def look() -> None:
            while True:
                await assembled.clock.sleep(0.7)
                seen = report.make_report()
                committed = sum(each.captures for each in assembled.worker.committer.counted)
                in_states = sum(seen.states.values())
                found.append((seen.captures, committed, seen.discovered, in_states))

        watching.append(asyncio.get_running_loop().create_task(look()))

    crawl.run([crawl.web.seed_url()], meanwhile=watch)
    assert len(found) > 5 and found[-1][0] > 0
    for captures, committed, discovered, in_states in found:
        assert captures == committed, "a crash undoes the others"
        assert discovered == in_states
