"""The simulation of refetches in arrays decides as the program does for one page."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[2]))  # benchmarks are not installed

from bench.refetch_web.copies import WebCopies
from bench.refetch_web.crawled import crawl
from bench.refetch_web.judged_rate import (
    CELL_RATE,
    CELL_WEIGHT,
    NOTHING,
    fetch_values,
    observation_bytes,
    rate_steps,
    wanted_days,
    weight_steps,
)
from bench.refetch_web.made_web import MadeWeb, make_web
from bench.refetch_web.optimum import constrained_optimum, fetch_intervals, freshness_of
from bench.refetch_web.turns import Turns

from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.model.refetch_cell import CELL_RATES, RATES, WEIGHTS, cell_of
from lycosa.stages.schedule import change_rate, refetch_value
from lycosa.stages.schedule.change_rate import ChangeFinding, estimate_rate

DAY_S = 86_400.0
SECTION = RefetchSection(rule=RefetchRule.VALUE, budget="", min_s=3600.0)
cells = st.integers(1, RATES * WEIGHTS)


@given(cells, st.floats(1e-4, 1e3), st.floats(0.01, 400))
def test_intervals_and_values_are_those_of_the_program(
    cell: int, price: float, days: float
) -> None:
    rate, weight = CELL_RATE[[cell - 1]], CELL_WEIGHT[[cell - 1]]
    for section in (SECTION, msgspec.structs.replace(SECTION, budget="50%")):
        wanted = wanted_days(section, rate, weight, np.array([price]))[0]
        floor = refetch_value.floor_of(section, section.max_s)
        assert wanted == pytest.approx(refetch_value.wanted_days(cell, price, floor))
    value = fetch_values(rate, weight, np.array([days]))[0]
    told = refetch_value.fetch_value(float(rate[0]), float(weight[0]), days)
    assert value == pytest.approx(told, rel=1e-9, abs=1e-9)


@given(st.lists(st.tuples(st.floats(1, 1e8), st.booleans()), max_size=16), st.floats(0.001, 2000))
@settings(deadline=None)
def test_the_estimate_is_that_of_the_program(seen: list[tuple[float, bool]], weight: float) -> None:
    findings = [ChangeFinding.CHANGED if changed else ChangeFinding.SAME for _, changed in seen]
    told = bytes(
        change_rate.observation(elapsed_s, finding)
        for (elapsed_s, _), finding in zip(seen, findings, strict=True)
    )
    elapsed, changed = (np.array([each[at] for each in seen]) for at in (0, 1))
    assert bytes(observation_bytes(elapsed.astype(float), changed.astype(bool))) == told
    row = np.full((1, 16), NOTHING, np.uint8)
    row[0, 16 - len(told) :] = np.frombuffer(told, np.uint8)
    step = int(rate_steps(row)[0])
    assert CELL_RATES[step] == estimate_rate(told)
    cell = step * WEIGHTS + int(weight_steps(np.array([weight]))[0]) + 1
    assert cell == cell_of(estimate_rate(told), weight)


def test_no_other_division_of_the_turns_is_better_than_the_optimum() -> None:
    web = make_web(2000, 1, address_delay_s=20.0)
    best = constrained_optimum(web, 400.0)
    fetches = 1 / best.interval
    of_host = np.bincount(web.host, fetches)
    assert fetches.sum() <= 400.0 * 1.001
    assert (of_host <= web.host_turns * 1.001).all()
    of_address = np.bincount(web.address, of_host)
    assert (of_address <= web.address_turns * 1.001).all() and best.is_address_bound
    chance = np.random.default_rng(1)
    fetched = np.flatnonzero(np.isfinite(best.interval))
    for _ in range(50):
        # Some fetches go from one page of a host to another one.
        host = web.host[chance.choice(fetched)]
        pages = fetched[web.host[fetched] == host]
        if len(pages) < 2:
            continue
        one, other = chance.choice(pages, 2, replace=False)
        moved = chance.uniform(0.05, 0.5) * fetches[one]
        changed = fetches.copy()
        changed[one] -= moved
        changed[other] += moved
        with np.errstate(divide="ignore"):
            fresh = freshness_of(web.rate, 1 / changed)
        mean = (web.weight * fresh).sum() / web.weight.sum()
        assert mean <= best.freshness + 1e-6


def test_hosts_and_addresses_have_their_turns_and_no_more() -> None:
    two = np.array([1.0, 1.0])
    web = MadeWeb(
        two.repeat(10),
        two.repeat(10),
        np.arange(2).repeat(10),
        np.array([0, 0]),
        4 * two,
        np.array([6.0]),
    )
    turns, pages = Turns(web, 0.5), np.arange(20)
    first = turns.choose(pages, np.zeros(20, np.int64), np.arange(20.0))
    assert sorted(first.tolist()) in ([0, 1, 10], [0, 10, 11]), "two each, three at the address"
    alone = turns.choose(pages[:10], np.arange(10)[::-1].copy(), np.zeros(10))
    assert sorted(alone.tolist()) == [8, 9], "the best band first"


def test_freshness_is_what_the_theory_says() -> None:
    web = make_web(2000, 1)
    copies, everything = WebCopies(web, 1), np.arange(web.pages)
    interval = fetch_intervals(np.full(web.pages, 0.2), np.ones(web.pages), 1.0)
    for number in range(400):
        copies.fetch(everything, number * interval)
    fresh, _ = copies.freshness_since(float(399 * interval[0]))
    wanted = (web.weight * freshness_of(web.rate, interval)).sum() / web.weight.sum()
    assert fresh == pytest.approx(wanted, rel=0.005)


def test_the_frontier_refetches_what_a_budget_allows() -> None:
    web = make_web(1500, 1)
    section = RefetchSection(rule=RefetchRule.VALUE, min_s=3600.0, budget="300/d")
    fresh, captures, price = crawl(web, section, 16.0, restarts=2, address_delay_s=0.2)
    assert 0.6 * 300 < captures < 1.05 * 300
    assert fresh > 0.88 * constrained_optimum(web, 300.0).freshness
    assert 0.1 < price < 3
