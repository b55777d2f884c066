"""What the default rule costs and gives, also where the budget is not used up: ``python -m
bench.refetch_web.default_rule [--days 60]``.

First the web of ``python -m bench.refetch_web`` with budgets that are used up or not. Then sites of 3,000 pages at the default delay of a second, with the default minimum of a day, so that
capacity is idle. For each rule: fetches of a page and day, weighted freshness, the share of all
changes whose page was fetched before the next one, and the mean interval of pages by how often they
change.
"""

from __future__ import annotations

import argparse

import msgspec
import numpy as np
from bench.refetch_web.grids import WebGrids
from bench.refetch_web.made_web import MadeWeb, make_web
from bench.refetch_web.optimum import constrained_optimum
from bench.refetch_web.refetching import run_rule
from bench.refetch_web.rules import Adaptive, ByValue, Rule

from lycosa.base.config.sections import RefetchRule, RefetchSection

PAGES, TURNS = 3000, 82_000.0
CAPACITY = 1e6
SITES = {"news": 2.0, "usual": 20.0, "archive": 200.0}
"""The median time between two changes in days."""
CLASSES = (
    ("hours", 4, 99),
    ("a day", 0.5, 4),
    ("a week", 1 / 14, 0.5),
    ("a month", 1 / 60, 1 / 14),
    ("slower", 0, 1 / 60),
)


def make_site(median_days: float, seed: int) -> MadeWeb:
    """A site whose change rates are lognormal, and whose weights are those of a crawl."""
    chance = np.random.default_rng(seed)
    rate = np.exp(-np.log(median_days) + chance.normal(0, 1.6, PAGES)).clip(1 / 2000, 48.0)
    weight = chance.uniform(0.5, 1.5, PAGES)
    return MadeWeb(
        rate,
        weight,
        np.zeros(PAGES, np.int64),
        np.zeros(1, np.int64),
        np.array([TURNS]),
        np.array([np.inf]),
    )


def rules_of(site: MadeWeb) -> dict[str, Rule]:
    section = RefetchSection(rule=RefetchRule.VALUE, budget="")
    found: dict[str, Rule] = {
        "adaptive": Adaptive(site, section),
        "value, price 1": ByValue(site, section),
    }
    for least in (1e-6, 0.25, 0.5, 1.0):
        shared = msgspec.structs.replace(section, budget="50%", price=least)
        found[f"value, 50%, price {least:g}"] = ByValue(
            site, shared, lambda now: CAPACITY, WebGrids(site)
        )
    return found


class Counted:
    """A rule that counts fetches of each page after a time."""

    def __init__(self, rule: Rule, site: MadeWeb, since: float) -> None:
        self._rule, self._since = rule, since
        self.has_budget = False
        self.fetches = np.zeros(site.pages)

    def plan(self, pages, at, elapsed, changed):  # type: ignore[no-untyped-def]
        self.fetches[pages[at > self._since]] += 1
        return self._rule.plan(pages, at, elapsed, changed)

    def judge(self, pages, now, age):  # type: ignore[no-untyped-def]
        return self._rule.judge(pages, now, age)

    def step(self, now: float) -> None:
        self._rule.step(now)


def many_hosts(pages: int, seed: int) -> None:
    """The default on many hosts, for capacities of which half is the budget."""
    web = make_web(pages, seed)
    section = RefetchSection(rule=RefetchRule.VALUE, budget="50%")
    for a_page in (1.0, 0.2, 0.1, 0.05):
        budget = a_page * web.pages
        best = constrained_optimum(web, budget).freshness
        rules: dict[str, Rule] = {
            "value, 50%": ByValue(web, section, lambda now, most=budget: most, WebGrids(web)),
            "adaptive": Adaptive(web, section),
        }
        for name, rule in rules.items():
            last = run_rule(web, rule, budget, 60.0, [30.0, 60.0], seed)[-1]
            same = constrained_optimum(web, min(last.fetches, budget)).freshness
            print(
                f"  {a_page:g} a page and day allowed: {name:10} {last.fetches / web.pages:.3f} used,"
                f" freshness {last.freshness:.3f}, {last.freshness / best:.3f} of the optimum,"
                f" {last.freshness / same:.3f} of that for as many fetches, age {last.age:.2f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.refetch_web.default_rule", description=__doc__
    )
    parser.add_argument("--days", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pages", type=int, default=20_000, help="on many hosts")
    asked = parser.parse_args()
    print(f"many hosts: {asked.pages:,} pages")
    many_hosts(asked.pages, asked.seed)
    half = asked.days / 2
    for name, median in SITES.items():
        site = make_site(median, asked.seed)
        print(f"{name}: half of the pages change more often than every {median:g} days")
        for told, rule in rules_of(site).items():
            counted = Counted(rule, site, half)
            windows = run_rule(site, counted, 1e9, asked.days, [7.0, half, asked.days], asked.seed)
            by_class = ""
            for kind, low, high in CLASSES:
                some = (site.rate >= low) & (site.rate < high)
                a_day = counted.fetches[some].sum() / max(some.sum(), 1) / half
                by_class += f"  {kind} {1 / a_day:.1f}" if a_day else f"  {kind} -"
            first, last = windows[0], windows[-1]
            print(
                f"  {told:28} {last.fetches / site.pages:.3f} fetches a page and day"
                f" ({first.fetches / site.pages:.3f} in the first week),"
                f" freshness {last.freshness:.3f}, age {last.age:.2f}; days between fetches:{by_class}",
                flush=True,
            )


if __name__ == "__main__":
    main()
