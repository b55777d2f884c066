"""How fresh a web of hosts with turns stays under each rule: ``python -m bench.refetch_web
[--pages 200000] [--days 180] [--rules found,equal] [--parts rules,budget,estimates,hourly]``.

All rules have the same budget, one fetch of each page in five days on average. Freshness is the
weighted share of copies that are as their page, in the second half of the first 60 days and of all
days, as a share of the optimum for this budget and the turns of hosts and addresses (module
``optimum``). Age is the weighted mean time for which copies have been outdated, in days. With fewer
than 200,000 pages there are fewer hosts, and hosts have as much less turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import msgspec
import numpy as np
from bench.rate_errors import error_lines
from bench.refetch_web.grids import WebGrids
from bench.refetch_web.judged_rate import CELL_RATE, NOTHING
from bench.refetch_web.made_web import MadeWeb, make_web
from bench.refetch_web.optimum import Optimum, constrained_optimum
from bench.refetch_web.refetching import Window, run_rule
from bench.refetch_web.rules import Adaptive, ByValue, Fixed, Rule

from lycosa.base.config.sections import RefetchRule, RefetchSection

MEAN_INTERVAL = 5.0
SECTION = RefetchSection(rule=RefetchRule.VALUE, budget="", min_s=3600.0)


def rules_of(web: MadeWeb, best: Optimum, budget: float) -> dict[str, Callable[[], Rule]]:
    """The rules by name."""
    at_optimum = msgspec.structs.replace(SECTION, price=best.budget_price)

    def found(**options: bool | float | int) -> Rule:
        return ByValue(web, SECTION, lambda now: budget, WebGrids(web, **options))  # type: ignore[arg-type]

    return {
        "known": lambda: Fixed(best.interval, False),
        "equal": lambda: Fixed(np.full(web.pages, web.pages / budget), True),
        "adaptive": lambda: Adaptive(web, SECTION),
        "constant": lambda: ByValue(web, at_optimum, None, WebGrids(web, has_host_prices=False)),
        "constant-hosts": lambda: ByValue(web, at_optimum),
        "found": lambda: found(has_host_prices=False),
        "found-hosts": found,
        "eight-shards": lambda: found(shards=8),
        "half-turns": lambda: found(turns_share=0.5),
        "addresses": lambda: found(has_address_prices=True),
        "addresses-eight": lambda: found(has_address_prices=True, shards=8),
    }


RULES = {
    "known": "the intervals of the optimum",
    "equal": "the same interval for all pages",
    "adaptive": "half the interval after a change, 1.5 times it without one",
    "constant": "value, at the price of the optimum, without prices of hosts",
    "constant-hosts": "value, at the price of the optimum",
    "found": "value, at a price that is found, without prices of hosts",
    "found-hosts": "value, at a price that is found",
    "eight-shards": "the same with eight shards, whose grids are up to a day old",
    "half-turns": "the same when the plan gives refetches half of the turns of a host",
    "addresses": "one shard, with prices of addresses that many hosts share",
    "addresses-eight": "the same with eight shards",
}


def told(name: str, window: Window, best: float, budget: float, rule: Rule) -> str:
    price = f", price {rule.prices.price:.3f}" if isinstance(rule, ByValue) else ""
    return (
        f"  {name:15} days {window.since:3.0f} to {window.until:3.0f}:"
        f" {window.freshness / best:.3f} of the optimum, age {window.age:.2f},"
        f" {window.fetches / budget:.3f} of the budget, {window.waiting:,} wait{price}"
    )


def compare(web: MadeWeb, names: list[str], days: float, seed: int) -> None:
    budget = web.pages / MEAN_INTERVAL
    best = constrained_optimum(web, budget)
    free = constrained_optimum(web, budget, is_bound=False)
    never = np.isinf(best.interval).mean()
    print(
        f"{web.pages:,} pages on {web.hosts:,} hosts, {budget:,.0f} fetches a day: optimum"
        f" {best.freshness:.4f} at the price {best.budget_price:.3f} ({free.freshness:.4f} without"
        f" hosts); {best.hosts_bound} hosts bind, address: {best.is_address_bound}; {never:.0%} of"
        " the pages are never fetched again",
        flush=True,
    )
    edges = sorted({30.0, min(60.0, days), days / 2, days})
    for name in names:
        rule = rules_of(web, best, budget)[name]()
        windows = run_rule(web, rule, budget, days, edges, seed)
        for window in windows:
            if window.since and (window.until == 60 or window.until == days):
                print(told(name, window, best.freshness, budget, rule), flush=True)
        if isinstance(rule, ByValue):
            print(f"  {'':15} {rule.looks / max(rule.plans, 1):.2f} looks a fetch", flush=True)


def change_budget(web: MadeWeb, seed: int) -> None:
    """The budget is doubled after 60 days, and is half of what it was after 120."""
    usual = web.pages / MEAN_INTERVAL

    def budget(now: float) -> float:
        return usual * (1.0 if now < 60 else 2.0 if now < 120 else 0.5)

    best = {part: constrained_optimum(web, usual * part).freshness for part in (0.5, 1.0, 2.0)}
    rule = ByValue(web, SECTION, budget)
    edges = [
        30.0,
        60.0,
        61.0,
        63.0,
        67.0,
        75.0,
        90.0,
        120.0,
        121.0,
        123.0,
        127.0,
        135.0,
        150.0,
        180.0,
    ]
    print("the budget is doubled after 60 days, and a quarter of that after 120:")
    for window in run_rule(web, rule, usual, 180.0, edges, seed):
        now = budget(window.until - 0.01)
        if window.since:
            print(told("", window, best[now / usual], now, rule))


def estimates(web: MadeWeb, days: float, seed: int) -> None:
    """The error of the estimate by rate at the end."""
    budget = web.pages / MEAN_INTERVAL
    rule = ByValue(web, SECTION, lambda now: budget)
    run_rule(web, rule, budget, days, [days], seed)
    number = (rule.observations != NOTHING).sum(1)
    print(f"error of the estimate after {days:.0f} days, pages with two observations or more:")
    for line in error_lines(web.rate, CELL_RATE[rule.cell], number):
        print(line)


def hourly(seed: int) -> None:
    """Pages that change hourly on a host whose other 1,000 pages change in years."""
    weights = (1.0, 10.0, 100.0)
    rate = np.concatenate([np.full(1000, 1 / 2000), np.full(3, 24.0)])
    number = len(rate)
    web = MadeWeb(
        rate,
        np.concatenate([np.ones(1000), weights]),
        np.zeros(number, np.int64),
        np.zeros(1, np.int64),
        np.array([82_000.0]),
        np.array([np.inf]),
    )
    section = msgspec.structs.replace(SECTION, price=0.25)
    print("hourly pages on a static host, at the price 0.25:")
    for days in (14.0, 30.0, 60.0):
        rule = ByValue(web, section)
        run_rule(web, rule, 1.0, days, [days], seed)
        for page, weight in enumerate(weights, 1000):
            told = CELL_RATE[rule.cell[page]]
            seen = int((rule.observations[page] != NOTHING).sum())
            print(
                f"  weight {weight:3.0f} after {days:.0f} days: {seen:2} observations, {told:.2f} a day"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.refetch_web",
        description=__doc__,
        epilog="\n".join(f"  {name:15}{what}" for name, what in RULES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pages", type=int, default=200_000)
    parser.add_argument("--days", type=float, default=180.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rules", default=",".join(RULES))
    parser.add_argument("--parts", default="rules,budget,estimates,hourly")
    parser.add_argument(
        "--address-delay", type=float, default=0.2, help="seconds, at the shared address"
    )
    asked = parser.parse_args()
    if unknown := set(asked.rules.split(",")) - RULES.keys():
        parser.error(f"there is no rule {', '.join(sorted(unknown))}")
    web = make_web(asked.pages, asked.seed, address_delay_s=asked.address_delay)
    parts = asked.parts.split(",")
    if "rules" in parts:
        compare(web, asked.rules.split(","), asked.days, asked.seed)
    if "budget" in parts:
        change_budget(web, asked.seed)
    if "estimates" in parts:
        estimates(web, asked.days, asked.seed)
    if "hourly" in parts:
        hourly(asked.seed)


if __name__ == "__main__":
    main()
