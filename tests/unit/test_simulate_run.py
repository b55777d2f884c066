"""Whole simulations of small webs, against what can be computed with a pencil."""

from __future__ import annotations

import math

import msgspec
import pytest

from lycosa.base.config.sections import (
    Config,
    FetchSection,
    FrontierSection,
    PolitenessSection,
    RefetchRule,
    RefetchSection,
)
from lycosa.simulate.resources import CPU, HOSTS, NETWORK, POLITENESS, SLOTS, WORKBENCH, Resources
from lycosa.simulate.sample import Host, HostRow, draw
from lycosa.simulate.simulation_report import SimulationReport, max_cores, report
from lycosa.simulate.simulation_run import Model, run_part, simulate
from lycosa.simulate.web_model import Sizes, Web

DAY_S = 86_400.0
CALM = Web(
    hosts=100,
    pages=2000,
    sizes=Sizes.FIXED,
    errors=0.0,
    dead=0.0,
    changes_per_day=0.0,
    robots_delay=0.0,
    latency_s=0.1,
)
QUICK = PolitenessSection(
    delay_s=0.0, jitter=0.0, adaptive_factor=0.0, address_delay_s=0.0, address_slots=1000
)
PLENTY = Resources(cores=1000.0, bandwidth_bytes_per_s=10**12)


def answers(model: Model) -> SimulationReport:
    return report(model, simulate(model))


def test_a_host_is_fetched_at_the_pace_of_its_delay() -> None:
    rows = (HostRow(pages=300, latency_s=0.2, address="192.0.2.1"),)
    web = msgspec.structs.replace(CALM, hosts=1, pages=300, page_bytes=0)
    config = Config(politeness=PolitenessSection(delay_s=4.0, adaptive_factor=0.0))
    found = answers(Model(web=web, rows=rows, config=config, days=0.1))
    each = 4.0 * 1.05 + 0.2  # jitter adds a twentieth on average; robots.txt is one more request
    assert found.first_round_day * DAY_S == pytest.approx(300 * each + 0.2, rel=0.01)
    assert found.binds == POLITENESS
    assert (found.stored, found.known, found.requests) == (300, 300, 301)


def test_a_slow_host_is_asked_less_and_a_crawl_delay_is_kept() -> None:
    rows = (HostRow(pages=50, latency_s=1.0), HostRow(pages=50, latency_s=0.1, crawl_delay_s=20.0))
    web = msgspec.structs.replace(CALM, hosts=2, pages=100, page_bytes=0, hosts_per_address=1)
    outcome = simulate(Model(web=web, rows=rows, days=0.1))
    # the slow one rests 10 s after each
    assert outcome.last_new_s == pytest.approx(50 * (20.0 * 1.05 + 0.1), rel=0.03)
    half = next(point for point in outcome.points if point.stored >= 75)
    assert half.at == pytest.approx(50 * (10.0 * 1.05 + 1.0), rel=0.15)


@pytest.mark.parametrize(
    ("limit", "means", "config", "rate"),
    [
        (CPU, Resources(cores=0.1, page_ms=4.0), Config(), 25.0),
        # one loop, half of each page
        (
            CPU,
            Resources(cores=8.0, page_ms=40.0, loop_share=0.5),
            Config(workers=1),
            50.0,
        ),
        # 20,000 and 1,000 beside
        (
            NETWORK,
            msgspec.structs.replace(PLENTY, bandwidth_bytes_per_s=1_050_000),
            Config(),
            50.0,
        ),
        # 0.1 s, and 20 kB at 2.5 MB/s
        (
            SLOTS,
            PLENTY,
            Config(fetch=FetchSection(slots=5)),
            5 / 0.108,
        ),
    ],
)
def test_what_is_short_decides_the_rate(
    limit: str, means: Resources, config: Config, rate: float
) -> None:
    web = msgspec.structs.replace(CALM, hosts=200, pages=4000)
    model = Model(
        web=web, means=means, config=msgspec.structs.replace(config, politeness=QUICK), days=0.005
    )
    found = answers(model)
    assert found.binds == limit
    assert found.busy_cores_most <= 1.03 * max_cores(model)
    # robots.txt of each host costs a little too
    assert 3600 / (found.most_day * DAY_S) == pytest.approx(rate, rel=0.08)


def test_a_small_workbench_is_enough_for_hosts_that_take_turns() -> None:
    rows = tuple(
        HostRow(pages=20, latency_s=0.1, crawl_delay_s=30.0 if number % 2 else -1.0)
        for number in range(100)
    )
    web = msgspec.structs.replace(CALM, hosts_per_address=1)
    seconds = {}
    for places in (5, 1000):
        config = Config(frontier=FrontierSection(workbench=places))
        found = answers(Model(web=web, rows=rows, means=PLENTY, config=config, days=0.02))
        seconds[places] = found.first_round_day * DAY_S
        assert found.binds == POLITENESS
        assert (found.limits.get(WORKBENCH, 0.0) > 0.01) is (places == 5)
    assert seconds[5] == pytest.approx(seconds[1000], rel=0.03)


def test_nothing_to_do_is_not_called_politeness() -> None:
    found = answers(
        Model(
            web=CALM,
            means=PLENTY,
            days=30.0,
            config=Config(refetch=RefetchSection(rule=RefetchRule.OFF)),
        )
    )
    assert found.limits[HOSTS] > 0.99


def test_freshness_is_what_the_theory_says() -> None:
    """Cho and Garcia-Molina 2000: fetched again every I, pages that change as often as exponential
    rates of mean m say are current for a share of ln(1 + m I) / (m I) of the time.
    """
    day = RefetchSection(
        rule=RefetchRule.ADAPTIVE, first_s=5 * DAY_S, min_s=5 * DAY_S, max_s=5 * DAY_S
    )
    web = msgspec.structs.replace(CALM, changes_per_day=0.3, hosts=50, pages=1500)
    found = answers(
        Model(web=web, means=PLENTY, days=40.0, config=Config(refetch=day, politeness=QUICK))
    )
    assert found.fresh_late == pytest.approx(math.log(1 + 1.5) / 1.5, abs=0.02)


def test_dead_hosts_and_errors_cost_what_they_do() -> None:
    web = msgspec.structs.replace(CALM, dead=0.25, errors=0.05, hosts=200, pages=4000)
    found = answers(Model(web=web, means=PLENTY, days=2.0))
    assert found.stored == pytest.approx(3000, rel=0.02)
    assert found.requests > 1.04 * found.stored


class _Pressed:
    """Sees the least pause of any host, and how many requests are open at any address."""

    def __init__(self) -> None:
        self.least_s, self.most = math.inf, 0
        self._ended: dict[str, float] = {}
        self._open: dict[str, int] = {}

    def begins(self, host: Host, now: float) -> None:
        self.least_s = min(self.least_s, now - self._ended.get(host.name, -math.inf))
        self._ended[host.name] = math.inf  # nobody may begin before it ends
        self._open[host.address] = self._open.get(host.address, 0) + 1
        self.most = max(self.most, self._open[host.address])

    def ends(self, host: Host, now: float) -> None:
        self._ended[host.name] = now
        self._open[host.address] -= 1


def test_nobody_is_pressed_in_a_simulation_either() -> None:
    web = msgspec.structs.replace(CALM, hosts_per_address=20, latency_s=0.5, errors=0.02)
    model, witness = Model(web=web, means=PLENTY, days=0.05), _Pressed()
    points, _ = run_part(model, draw(web, 100, 0), witness)
    assert points[-1].stored > 1000
    assert witness.least_s >= 1.0
    assert 1 < witness.most <= 4


def test_the_same_seed_gives_the_same_crawl_in_one_process_or_two() -> None:
    model = Model(web=Web(hosts=100_000, pages=100_000), days=0.001, sample=2000)
    told: list[float] = []
    one, two = simulate(model, 1), simulate(model, 2, told.append)
    assert (one.parts, two.parts) == (2, 2)
    assert one.points == two.points
    assert told == sorted(told) and told[-1] == 1.0


def test_there_are_as_many_workers_as_a_crawl_would_have() -> None:
    assert Model(means=Resources(cores=2.5), config=Config(workers=0)).workers == 3
    assert Model(config=Config(workers=40, frontier=FrontierSection(partitions=16))).workers == 16


def test_another_seed_gives_another_crawl() -> None:
    first, second = (
        simulate(Model(web=CALM, days=0.01, config=Config(seed=seed))) for seed in (0, 1)
    )
    assert first.points != second.points
    assert first.points[-1].stored == second.points[-1].stored == 2000


def test_a_sample_stands_for_its_web() -> None:
    """The scaling law, in short: a quarter, a half and all of the hosts give the same answers."""
    web = Web(hosts=1200, pages=9600, largest=150)
    found = [
        answers(Model(web=web, means=Resources(cores=0.05, page_ms=4.0), days=1.0, sample=size))
        for size in (300, 600, 1200)
    ]
    for name in (
        "pages_per_day",
        "stored",
        "most_day",
        "disk_bytes",
        "bits_per_s",
        "queued_most",
        "fresh_late",
    ):
        values = [getattr(each, name) for each in found]
        assert values[:2] == pytest.approx([values[2]] * 2, rel=0.1), name
    assert {each.binds for each in found} == {CPU}
