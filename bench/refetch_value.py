"""The freshness of a web of pages under rules of refetching, as a share of the possible one.

    python bench/refetch_value.py [--days 60] [--seed 1] [--pages 20000]

Pages change by Poisson processes, with rates from hours to years; their weights have a heavy tail.
The budget is one fetch of each page in 15 days on average, and all rules have it: with equal
intervals and with the adaptive rule the pages wait in one queue for it, and for the rule of value
the price is sought at which it is used up (without a queue). All that decides is the crawler's own
code. There are no hosts and no delays.

Freshness is the weighted share of pages whose copy is as the page is, over the second half of the
time. The optimum is that of a program that knows all rates.
"""

from __future__ import annotations

import argparse
import math
import timeit
from collections.abc import Callable

import numpy as np
from bench.rate_errors import error_lines

from lycosa.base.config.sections import RefetchRule, RefetchSection
from lycosa.base.model.compatibility import PROTOCOL
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.refetch_cell import cell_of, rate_in
from lycosa.base.model.url_state import History, UrlState
from lycosa.stages.schedule.change_rate import add_observation, estimate_rate
from lycosa.stages.schedule.fetch_outcome import Meaning
from lycosa.stages.schedule.refetch import next_interval
from lycosa.stages.schedule.refetch_plan import FoundContent, plan_refetch
from lycosa.stages.schedule.refetch_value import days_until_due
from lycosa.state.kv.table_records import UrlRecord, encode_url

STEP = 1 / 24  # days
MEAN_INTERVAL = 15.0
DAY_S = 86_400.0
SECTION = RefetchSection(rule=RefetchRule.VALUE, budget="", min_s=3600.0)
URL = "https://www.example.org/"


class Pages:
    """The pages, what changes on them and what is known of each."""

    def __init__(self, number: int, seed: int) -> None:
        self.chance = np.random.default_rng(seed)
        rate = np.exp(self.chance.normal(math.log(1 / 20), 2.0, number))
        self.rate = rate.clip(1 / 2000, 48)
        weight = self.chance.pareto(1.5, number) + 0.1
        self.weight = weight / weight.mean()
        self.number, self.budget = number, number / MEAN_INTERVAL

    def optimum(self) -> tuple[float, float]:
        """The freshness with the best intervals for the budget, and the price."""
        pages = list(zip(self.rate.tolist(), self.weight.tolist(), strict=True))

        def intervals(price: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
            return np.array([days_until_due(rate, weight, price) for rate, weight in pages])

        low, high = 1e-4, 1e3
        for _ in range(40):
            price = math.sqrt(low * high)
            is_dear = (1 / intervals(price)).sum() < self.budget
            low, high = (low, price) if is_dear else (price, high)
        x = self.rate * intervals(price)
        fresh = np.where(np.isinf(x), 0.0, -np.expm1(-x) / x)
        return float((self.weight * fresh).sum() / self.weight.sum()), price


class Run:
    """One rule on all pages."""

    def __init__(self, pages: Pages, rule: str, price: float, days: float) -> None:
        self.pages, self.rule, self.days = pages, rule, days
        self.section = RefetchSection(
            rule=RefetchRule.VALUE if rule == "value" else RefetchRule.ADAPTIVE,
            budget="",
            price=price,
            min_s=SECTION.min_s,
        )
        number = pages.number
        self.seen = [b""] * number
        self.interval = np.full(number, SECTION.first_s)
        self.fetched = np.full(number, -np.inf)
        self.fresh = np.zeros(number, bool)
        self.fetches = 0
        self.freshness = 0.0

    def run(self) -> None:
        """Run until the end; ``freshness`` and ``fetches`` a day are those of the second half."""
        pages = self.pages
        chance, rate, weight = np.random.default_rng(7), pages.rate, pages.weight
        change = chance.exponential(1 / rate)
        due = chance.uniform(0, MEAN_INTERVAL, pages.number)
        sums, used, steps = [], 0, int(self.days / STEP)
        for step in range(1, steps):
            now = step * STEP
            while (late := change <= now).any():
                self.fresh[late] = False
                change[late] += chance.exponential(1 / rate[late])
            chosen = np.flatnonzero(due <= now)
            if self.rule != "value":
                most = int(pages.budget * STEP + chance.random())
                chosen = chosen[np.argsort(due[chosen])[:most]]
            for page in chosen.tolist():
                due[page] = now + self._interval(page, now) / DAY_S
            self.fresh[chosen], self.fetched[chosen] = True, now
            if step > steps / 2:
                used += len(chosen)
                sums.append((weight * self.fresh).sum() / weight.sum())
        self.freshness, self.fetches = float(np.mean(sums)), used / (self.days / 2)

    def _interval(self, page: int, now: float) -> float:
        """Seconds until the page is due again, by what this fetch found."""
        if self.rule == "equal":
            return MEAN_INTERVAL * DAY_S
        is_first, changed = bool(np.isinf(self.fetched[page])), not self.fresh[page]
        cell = 0
        if self.rule == "value" and not is_first:
            elapsed = (now - self.fetched[page]) * DAY_S
            self.seen[page] = add_observation(self.seen[page], elapsed, changed, None)
            cell = cell_of(estimate_rate(self.seen[page]), self.pages.weight[page])
        self.interval[page] = next_interval(
            self.section, URL, self.interval[page], changed=changed, is_first=is_first, cell=cell
        )
        return float(self.interval[page])


def value_run(pages: Pages, days: float, guess: float) -> Run:
    """The rule of value at the price that uses up the budget, within 1 %."""
    low, high, price = guess / 4, guess * 4, guess
    while True:
        run = Run(pages, "value", price, days)
        run.run()
        off = run.fetches / pages.budget
        if abs(off - 1) < 0.01 or high / low < 1.01:
            return run
        low, high = (price, high) if off > 1 else (low, price)
        price = math.sqrt(low * high)


def errors(run: Run) -> list[str]:
    """The estimator's error at the end, by true rate, of pages with two observations or more."""
    told = np.array([len(seen) for seen in run.seen])
    known = np.array([estimate_rate(seen) for seen in run.seen])
    return error_lines(run.pages.rate, known, told)


def same_everywhere(seed: int) -> list[str]:
    """The error by rate after 4 and 16 fetches at the interval at which each tells most."""
    chance, lines = np.random.default_rng(seed), []
    for days in (1 / 12, 1.0, 7.0, 30.0, 180.0, 720.0):
        told = []
        for number in (4, 16):
            found = []
            for _ in range(1000):
                seen = b""
                for _ in range(number):
                    seen = add_observation(
                        seen, days * DAY_S, bool(chance.random() > math.exp(-1.0)), None
                    )
                found.append(abs(math.log(estimate_rate(seen) * days)))
            told.append(f"{math.exp(float(np.median(found))):.2f}")
        lines.append(f"  every {days:7.2f} d: median factor {told[0]} after 4, {told[1]} after 16")
    return lines


def at_each_request() -> list[str]:
    """A page whose text differs at each request a little, and one with a new text each time."""
    lines = []
    for name, is_near in (("hardly differs", True), ("is another text", False)):
        for rule in (RefetchRule.ADAPTIVE, RefetchRule.VALUE):
            section = RefetchSection(rule=rule, min_s=3600.0)
            old, now, start = History(), 1e9, 1e9
            while now < start + 180 * DAY_S:
                number = old.fetches + 1
                simhash = 1 << 40 | number % 2 if is_near else number * 0x9E3779B97F4A7C15 >> 8
                digest = number.to_bytes(8, "big")
                found = FoundContent(Meaning.FETCHED, now, digest, digest, simhash)
                plan = plan_refetch(section, URL, old, found, 1.0, PROTOCOL)
                made = History(number, int(now), 200, digest, simhash)
                old = plan.kept_in(made, old, digest)
                now += plan.interval_s
            lines.append(
                f"  {name}, {rule.value}: {old.fetches} fetches in 180 days, the last interval"
                f" {old.interval_s / DAY_S:.2f} days, rate {rate_in(old.cell):.3f} a day"
            )
    return lines


def costs() -> list[str]:
    """Processor time a page, and bytes a record."""
    seen = b"".join(bytes((3 * 40 + 2 * (at % 2),)) for at in range(16))

    def judge() -> float:
        found = add_observation(seen, 86_400.0 * 5, True, None)
        cell = cell_of(estimate_rate(found), 1.1)
        return next_interval(SECTION, URL, 1.0, changed=True, is_first=False, cell=cell)

    known = History(
        fetches=17,
        fetched_at=1_700_000_000,
        status=200,
        digest=bytes(20),
        simhash=1 << 63,
        etag='"5f8b-5a"',
        interval_s=604800,
        date_us=1_700_000_000_000_000,
        record_id="urn:uuid:12345678-1234-4234-8234-123456789012",
        segment="lycosa-20231114221320-00000.warc.gz",
        offset=4711 << 16,
    )
    more = History(**{**_fields(known), "text_digest": bytes(8)})
    most = History(**{**_fields(more), "observations": seen, "cell": 500})
    bytes_of = [len(encode_url(_record(each))) for each in (known, more, most)]
    count = 20_000
    return [
        f"  {timeit.timeit(judge, number=count) / count * 1e6:.1f} us a fetch: observation,"
        " estimate, cell and interval",
        f"  {bytes_of[0]} bytes a record before; {bytes_of[1] - bytes_of[0]} more with the text"
        f" digest, {bytes_of[2] - bytes_of[1]} more with 16 observations and the cell",
    ]


def _fields(history: History) -> dict[str, object]:
    return {name: getattr(history, name) for name in History.__struct_fields__}


def _record(history: History) -> UrlRecord:
    return UrlRecord(
        UrlState.FETCHED, True, "/a/b", 1, 200, LinkKind.A, 1_700_000_000, "/", history=history
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pages", type=int, default=20_000)
    args = parser.parse_args()
    pages = Pages(args.pages, args.seed)
    best, price = pages.optimum()
    print(f"optimum {best:.3f} at the price {price:.2f}, {args.days:g} days")
    runs: list[tuple[str, Callable[[], Run]]] = [
        ("equal", lambda: Run(pages, "equal", 1.0, args.days)),
        ("adaptive", lambda: Run(pages, "adaptive", 1.0, args.days)),
    ]
    for name, make in runs:
        run = make()
        run.run()
        share = run.fetches / pages.budget
        print(f"{name}: {run.freshness / best:.3f} of the optimum, {share:.2f} of the budget")
    run = value_run(pages, args.days, price)
    share = run.fetches / pages.budget
    print(
        f"value at the price {run.section.price:.2f}: {run.freshness / best:.3f} of the optimum,"
        f" {share:.2f} of the budget"
    )
    parts = (
        ("error of the estimate at the end", errors(run)),
        ("error at the interval that tells most", same_everywhere(args.seed)),
        ("a page that differs at each request", at_each_request()),
        ("cost", costs()),
    )
    for title, lines in parts:
        print(f"{title}:", *lines, sep="\n")


if __name__ == "__main__":
    main()
