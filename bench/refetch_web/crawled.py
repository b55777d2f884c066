"""The same web, crawled by the crawler's own frontier in virtual time: ``python -m
bench.refetch_web.crawled [--pages 20000] [--days 60] [--restarts 0] [--rule value]``.

Partition, schedule, queues of hosts, delays, robots.txt, the judgement of due pages, the grids of
hosts and the search for the price are the crawler's (package ``simulate``). The pages, their
changes and weights, the budget and the optimum are those of ``python -m bench.refetch_web`` for as
many pages. With ``--restarts`` the crawl is killed that often in the second half, with what was not
committed, and every second time its machine is lost and the shard has no owner for two hours.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
from bench.refetch_web.made_web import MadeWeb, make_web
from bench.refetch_web.optimum import constrained_optimum

from lycosa.base.config.sections import (
    Config,
    PolitenessSection,
    RefetchRule,
    RefetchSection,
    RobotsSection,
)
from lycosa.simulate.drive import Drive, Point
from lycosa.simulate.page_copies import Copies
from lycosa.simulate.resources import Meters, Resources
from lycosa.simulate.sample import Host, Sample
from lycosa.simulate.simulated_table import SimulatedTable
from lycosa.simulate.visits import Visits
from lycosa.simulate.web_model import Web

DAY_S = 86_400.0
LOOK_S = 21_600.0
_KILLED_S, _LOST_S = 60.0, 7200.0
_PLENTY = Resources(cores=1000.0, bandwidth_bytes_per_s=10**12)


class _Killed(Exception):
    """The crawl ends without a commit."""


class CrawledWeb:
    """One crawl of a made web. ``shares`` has the weighted freshness at each look."""

    def __init__(
        self, web: MadeWeb, section: RefetchSection, folder: Path, address_delay_s: float = 0.2
    ) -> None:
        scale = web.pages / 200_000
        self.web, self.shares, self.captures = web, list[tuple[float, float]](), 0
        counts = np.bincount(web.host)
        self._sample = Sample(
            1.0,
            [
                Host(
                    f"h{number}.example",
                    int(pages),
                    0.05,
                    30.0 / scale if number < 5 else -1.0,
                    1000.0,
                    f"2001:2::{int(web.address[number]):x}",
                    False,
                    False,
                )
                for number, pages in enumerate(counts)
            ],
        )
        self._config = Config(
            refetch=section,
            robots=RobotsSection(max_age_s=DAY_S),
            politeness=PolitenessSection(
                address_delay_s=address_delay_s, max_crawl_delay_s=max(60.0, 40.0 / scale)
            ),
        )
        self._model = Web(hosts=web.hosts, pages=web.pages, errors=0.0, dead=0.0, robots_delay=0.0)
        self._meters = Meters(_PLENTY, 1, 1000, 1.0, self._sample.typical)
        self._table = SimulatedTable(folder, self._config)
        self._copies = Copies(web.pages, 1.0, 1)
        self._copies.follow_rates(web.rate / DAY_S)
        self._visits = self._begin(0.0)
        self._visits.seed()
        self._drive = Drive(self._sample, self._visits, self._table)

    @property
    def price(self) -> float:
        return self._table.prices.price

    def _begin(self, now: float) -> Visits:
        visits = Visits(
            self._sample,
            self._model,
            self._config,
            self._table,
            self._meters,
            copies=self._copies,
        )
        visits.captures.weigh = lambda page, _: float(self.web.weight[page])
        visits.clock.now = now
        return visits

    def run(self, days: float, is_killed: bool = False) -> None:
        """Run until a day. When it is killed then, what was not committed is lost."""
        now = self._visits.clock.now
        looks = np.arange((now // LOOK_S + 1) * LOOK_S, days * DAY_S + 1, LOOK_S)
        before = self._visits.tally.captures
        end_s = days * DAY_S

        def look(point: Point) -> None:
            if point.at == end_s and is_killed:
                raise _Killed
            self._look(point)

        with suppress(_Killed):
            times = sorted({*looks.tolist(), *([end_s] if is_killed else [])})
            self._drive.run(end_s + is_killed, times, look)
        self.captures += self._visits.tally.captures - before

    def restart(self, away_s: float) -> None:
        """The worker is killed, and another one begins with what was committed."""
        now = self._visits.clock.now
        self._visits.close()
        self._table.reopen()
        self._visits = self._begin(now + away_s)
        self._drive = Drive(self._sample, self._visits, self._table)

    def _look(self, point: Point) -> None:
        fresh = self._copies.changes_at > point.at  # False for NaN
        weight = self.web.weight
        self.shares.append((point.at / DAY_S, float((weight * fresh).sum() / weight.sum())))

    def freshness(self, since: float, until: float) -> float:
        return float(np.mean([share for at, share in self.shares if since < at <= until]))

    def close(self) -> None:
        self._visits.close()
        self._table.close()


def crawl(
    web: MadeWeb, section: RefetchSection, days: float, restarts: int, address_delay_s: float
) -> tuple[float, float, float]:
    """Freshness and captures a day in the second half, and the price at the end."""
    with tempfile.TemporaryDirectory(prefix="lycosa-refetch-") as folder:
        made = CrawledWeb(web, section, Path(folder), address_delay_s)
        made.run(days / 2)
        made.captures = 0
        for number in range(restarts):
            made.run(days / 2 + days / 2 * (number + 0.5) / restarts, is_killed=True)
            made.restart(_LOST_S if number % 2 else _KILLED_S)
        made.run(days)
        made.close()
        return made.freshness(days / 2, days), made.captures / (days / 2), made.price


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.refetch_web.crawled", description=__doc__
    )
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--days", type=float, default=60.0)
    parser.add_argument("--restarts", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rule", default="value", choices=["value", "adaptive"])
    parser.add_argument("--address-delay", type=float, default=0.2)
    asked = parser.parse_args()
    scale = asked.pages / 200_000
    web = make_web(asked.pages, asked.seed, address_delay_s=asked.address_delay)
    budget = web.pages / 5
    best = constrained_optimum(web, budget)
    section = RefetchSection(rule=RefetchRule(asked.rule), min_s=3600.0)
    if asked.rule == "value":
        section = msgspec.structs.replace(section, budget=f"{budget:.0f}/d")
    began = time.process_time()
    fresh, captures, price = crawl(
        web, section, asked.days, asked.restarts, asked.address_delay / scale
    )
    print(
        f"{web.pages:,} pages on {web.hosts:,} hosts, {asked.rule}, {asked.restarts} restarts:"
        f" {fresh / best.freshness:.3f} of the optimum {best.freshness:.4f},"
        f" {captures / budget:.3f} of the budget, price {price:.3f};"
        f" {time.process_time() - began:.0f} s of processor time"
    )


if __name__ == "__main__":
    main()
