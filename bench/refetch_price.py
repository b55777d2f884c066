"""The price of a refetch found from a budget, and the price of a host that has too few turns.

    python -m bench.refetch_price [--days 60] [--seed 1] [--pages 20000] [--hosts-only|--budgets-only]

The pages are those of ``bench/refetch_value.py``, and all that decides is the crawler's own code:
the plan after a fetch, the judgement of a due page, the search for the price, the price of a host.

*Budget*: one fetch of each page in 15 days on average. Compared are the constant price that uses it
up, known from the start, and the price that is found; then the budget is doubled or halved in the
middle of the time. *One host*: its pages ask for 2, 4 and 16 times its turns at the common price.
Compared are the price at which they ask for as many as there are turns (``price_of_host``), the
common price times the ratio, and the common price alone with a queue in the order of due times. The
rates are known, so that the estimates do not count.
"""

from __future__ import annotations

import argparse
import heapq
import math
import time
from collections.abc import Callable

import msgspec
import numpy as np
from bench.refetch_value import DAY_S, STEP, URL, Pages, Run, value_run

from lycosa.base.config.sections import FrontierSection, RefetchRule, RefetchSection
from lycosa.base.messages.worker_messages import PriceTerms, RefetchGrid, encode_worker_message
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.refetch_cell import cell_of
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.urls.identity import hash8
from lycosa.cluster.coordinator.price_search import next_price
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.partition_rules import FrontierRules
from lycosa.stages.schedule.change_rate import add_observation, estimate_rate
from lycosa.stages.schedule.due_judgement import judge_due
from lycosa.stages.schedule.price_in_force import PriceInForce, price_of_host
from lycosa.stages.schedule.refetch import next_interval
from lycosa.stages.schedule.refetch_demand import demand_at
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import UrlRecord, due_key, encode_url, url_key
from lycosa.state.seen.seen_port import Hashes, Mask

HOST = b"h" * 8
_SEARCHED = 0.25  # days between two searches, of as many steps as there are minutes


class PriceRun:
    """Pages whose price is found. ``turns`` bounds the fetches of a day, ``budget`` plans them."""

    def __init__(
        self,
        pages: Pages,
        days: float,
        budget: Callable[[float], float],
        turns: float = math.inf,
        host_price: Callable[[dict[int, int], float], float] | None = None,
        is_known: bool = False,
    ) -> None:
        """With ``is_known`` the rates are known, and each page was fetched once before."""
        self.pages, self.days, self.budget, self.turns = pages, days, budget, turns
        self.host_price = host_price
        self.section = RefetchSection(
            rule=RefetchRule.VALUE, min_s=3600.0, budget="1/d", max_s=365 * DAY_S
        )
        self.prices = PriceInForce(self.section)
        number = pages.number
        self.histories = [History()] * number
        self.cells: dict[int, int] = {}
        self.fresh = np.zeros(number, bool)
        self.looks = self.fetches = 0
        self.shares: list[tuple[float, float]] = []
        self.used: list[tuple[float, int]] = []
        self.is_known = is_known
        if is_known:
            self._fetch_all()

    def run(self) -> None:
        pages = self.pages
        chance = np.random.default_rng(7)
        change = chance.exponential(1 / pages.rate)
        due = [(float(at), page) for page, at in enumerate(chance.uniform(0, 15, pages.number))]
        heapq.heapify(due)
        waiting: list[tuple[int, float, int]] = []  # by band and time, as the queue of a host
        searched, saved = 0.0, 0.0
        for step in range(1, int(self.days / STEP)):
            now = step * STEP
            while (late := change <= now).any():
                self.fresh[late] = False
                change[late] += chance.exponential(1 / pages.rate[late])
            if now >= searched:
                searched = now + _SEARCHED
                self._search(now)
            # A page has its exact time: rounded to hours, short intervals would be much longer.
            while due and due[0][0] <= now:
                at, page = heapq.heappop(due)
                band, later = self._judged(page, at)
                if later:
                    heapq.heappush(due, (later, page))
                else:
                    heapq.heappush(waiting, (band, at, page))
            saved = min(saved + self.turns * STEP, max(self.turns * STEP, 1.0) + 1)
            fetched = 0
            while waiting and fetched + 1 <= saved:
                _, at, page = heapq.heappop(waiting)
                at = at if self.turns == math.inf else now
                heapq.heappush(due, (at + self._fetch(page, at) / DAY_S, page))
                fetched += 1
            saved -= fetched if saved < math.inf else 0
            self.used.append((now, fetched))
            self.shares.append((now, float((pages.weight * self.fresh).sum())))

    def _fetch_all(self) -> None:
        """Each page was fetched once, at some time before the start."""
        before = np.random.default_rng(8).uniform(0, 15, self.pages.number)
        for page, days in enumerate(before.tolist()):
            self._fetch(page, -days)
            self.histories[page] = msgspec.structs.replace(self.histories[page], fetches=3)
        self.fresh[:] = np.random.default_rng(9).random(self.pages.number) < np.exp(
            -self.pages.rate * before
        )

    def freshness(self, first: float, last: float) -> tuple[float, float]:
        """The mean freshness and the fetches a day between two shares of the time."""
        low, high = first * self.days, last * self.days
        shares = [each for at, each in self.shares if low < at <= high]
        used = sum(each for at, each in self.used if low < at <= high)
        return float(np.mean(shares)) / self.pages.weight.sum(), used / (high - low)

    def _search(self, now: float) -> None:
        price, budget = self.prices.price, self.budget(now)
        if budget:
            for _ in range(int(_SEARCHED * 1440)):
                if (found := next_price(self.section, self.cells, price, budget)) == price:
                    break
                price = found
            self.prices.follow(price, self.prices.number + 1)
        if self.host_price is not None:
            self.prices.hosts[HOST] = self.host_price(self.cells, self.prices.price)

    def _judged(self, page: int, now: float) -> tuple[int, float]:
        history = self.histories[page]
        if not history.fetches:
            return 34, 0.0
        self.looks += 1
        record = UrlRecord(UrlState.FETCHED, True, "/", 1, 100, LinkKind.A, 0, "", history=history)
        judged = judge_due(self.section, URL, record, self.prices.of_host(HOST), now * DAY_S + 1e9)
        if judged.band is None:
            return 0, (judged.later_at - 1e9) / DAY_S
        # Plain: a queue in the order of due times.
        return (int(judged.band) if self.host_price is not None else 34), 0.0

    def _fetch(self, page: int, now: float) -> float:
        old, changed = self.histories[page], not self.fresh[page]
        seen = old.observations
        if old.fetches:
            seen = add_observation(seen, now * DAY_S + 1e9 - old.fetched_at, changed, None)
        rate = float(self.pages.rate[page]) if self.is_known else estimate_rate(seen)
        cell = cell_of(rate, float(self.pages.weight[page]))
        interval = next_interval(
            self.section,
            URL,
            float(old.interval_s),
            changed=changed,
            is_first=not old.fetches,
            cell=cell,
            look=self.prices.look_at(HOST),
        )
        self.histories[page] = History(
            fetches=old.fetches + 1,
            fetched_at=int(now * DAY_S + 1e9),
            interval_s=int(interval),
            observations=seen,
            cell=cell,
        )
        if old.cell:
            self.cells[old.cell] -= 1
        self.cells[cell] = self.cells.get(cell, 0) + 1
        self.fresh[page] = True
        self.fetches += 1
        return interval


def best_for(pages: Pages, budget: float) -> float:
    """The freshness that a program which knows all rates has for a budget."""
    kept, pages.budget = pages.budget, budget
    best = pages.optimum()[0]
    pages.budget = kept
    return best


def budgets(pages: Pages, days: float) -> None:
    best, price = pages.optimum()
    known: Run = value_run(pages, days, price)
    print(
        f"constant price {known.section.price:.2f}, sought before: {known.freshness / best:.3f} of"
        f" the optimum, {known.fetches / pages.budget:.2f} of the budget"
    )
    for name, factor in (("the price found", 1.0), ("budget doubled", 2.0), ("budget halved", 0.5)):
        began = time.perf_counter()
        run = PriceRun(
            pages, days, lambda now, f=factor: pages.budget * (f if now > days / 2 else 1.0)
        )
        run.run()
        second = best_for(pages, pages.budget * factor)
        parts = []
        for first, last, best_then, share in (
            (0.25, 0.5, best, 1.0),
            (0.5, 0.75, second, factor),
            (0.75, 1.0, second, factor),
        ):
            fresh, used = run.freshness(first, last)
            parts.append(f"{fresh / best_then:.3f} ({used / pages.budget / share:.2f})")
        print(
            f"{name}, by quarters from the second, of the optimum and (of the budget):"
            f" {', '.join(parts)}; price {run.prices.price:.2f},"
            f" {run.looks / run.fetches:.2f} looks a fetch, {time.perf_counter() - began:.0f} s"
        )


def costs() -> None:
    """What finding a price costs a worker and the coordinator, in processor time."""
    chance = np.random.default_rng(3)
    cells = {
        int(cell): int(n)
        for cell, n in zip(
            chance.permutation(960)[:500] + 1, chance.integers(1, 20_000, 500), strict=True
        )
    }
    host = dict(list(cells.items())[:80])

    def timed(what: str, do: Callable[[], object], number: int) -> None:
        began = time.process_time()
        for _ in range(number):
            do()
        print(f"  {what}: {(time.process_time() - began) / number * 1e3:.3f} ms")

    prices = iter(np.exp(chance.normal(0, 0.5, 100)).tolist())
    timed(
        "a step of the search, 500 cells", lambda: next_price(_VALUE, cells, next(prices), 1e4), 20
    )
    turns = demand_at(_VALUE, host, 1.0).due
    price_of_host(_VALUE, host, turns / 4, 1.0)
    timed(
        "a host of 80 cells with too few turns",
        lambda: price_of_host(_VALUE, host, turns / 4, 1.0),
        50,
    )
    timed(
        "a host of 80 cells with enough", lambda: price_of_host(_VALUE, host, turns * 2, 1.0), 200
    )
    every = counted_rows(cells)
    print(
        f"  a complete grid of 500 cells: {every} bytes, one of 50 changed cells about"
        f" {counted_rows(dict(list(cells.items())[:50]))}"
    )
    record = UrlRecord(
        UrlState.FETCHED,
        True,
        "/",
        1,
        100,
        LinkKind.A,
        0,
        "",
        history=History(
            fetches=3, fetched_at=10**9, interval_s=86_400, observations=b"`b", cell=500
        ),
    )
    now = 1e9 + 86_400.0
    timed("a judgement", lambda: judge_due(_VALUE, URL, record, 50.0, now), 20_000)
    print(
        f"  a look that fetches nothing: {look_us(100_000):.0f} us, of 100,000 due rows in memory"
    )


class _Seen:
    """URL-seen that knows nothing."""

    def unseen(self, hashes: Hashes) -> Mask:
        return np.ones(len(hashes), np.bool_)


def look_us(pages: int) -> float:
    """Processor time of a page whose time has come and that gets a later one, in microseconds."""
    at, host, store = 1_750_000_000, "a.example", MemoryKeyValue()
    prices = PriceInForce(_VALUE, 1.0, 1)
    rules = FrontierRules(
        judge=lambda host8, url, record, now: judge_due(
            _VALUE, url, record, prices.of_host(host8), now
        )
    )

    def opened() -> Partition:
        return Partition(0, Overlay(store), _Seen(), FrontierSection(), rules)  # type: ignore[arg-type]

    first, host8, cell = f"http://{host}/", hash8(host), cell_of(1 / 10, 1.0)
    partition = opened()
    found = Discovered(first, host8, hash8(first), LinkKind.SEED, 0, importance=1.0)
    partition.discover_urls([found], at)
    rows: dict[bytes, bytes | None] = dict(partition.freeze())
    history = History(5, at, 200, bytes(20), interval_s=172_800, observations=b"`" * 8, cell=cell)
    for page in range(pages):
        url8, due = hash8(f"http://{host}/{page}"), at + 172_800 + page // 20
        record = UrlRecord(
            UrlState.FETCHED, False, f"/{page}", 1, 100, LinkKind.A, at, due_at=due, history=history
        )
        rows[url_key(host8, url8)] = encode_url(record)
        rows[due_key(due, host8, url8)] = b""
    store.write(rows)
    partition, looked = opened(), 0
    began, now = time.process_time(), float(at + 172_800 + pages)
    while looked < pages and (some := partition.wake_due(now)):
        looked += some
        if looked % 2560 < some:  # as often as commits come
            store.write(partition.freeze())
            partition.table.settle()
    return (time.process_time() - began) / max(looked, 1) * 1e6


def counted_rows(cells: dict[int, int]) -> int:
    terms = PriceTerms(1, 1e4, 0.0, True, 1.0, 3600.0, 90 * DAY_S, 0.1, 0.05)
    return len(encode_worker_message(RefetchGrid(2, 1, cells, 3, 1e4, 1e6, terms, 1.4, 77)))


def one_host(pages: Pages, days: float) -> None:
    price = pages.optimum()[1]
    for ratio, common in ((2, price), (4, price), (16, price), (4, price / 1000)):
        turns = pages.budget / ratio
        most = best_for(pages, turns)
        parts = []
        ways: list[tuple[str, Callable[[dict[int, int], float], float] | None]] = [
            ("its own price", lambda cells, common, t=turns: solved(cells, common, t)),
            ("price times ratio", lambda cells, common, t=turns: by_ratio(cells, common, t)),
            ("queue by time", None),
        ]
        for name, way in ways:
            run = PriceRun(pages, days, lambda now: 0.0, turns, way, is_known=True)
            run.prices.follow(common, 1)
            run.run()
            fresh, used = run.freshness(0.5, 1.0)
            parts.append(f"{name} {fresh / most:.3f} ({used / turns:.2f})")
        print(
            f"one host, {ratio:2} times its turns, of the best and (of the turns): {'; '.join(parts)}"
        )


_VALUE = RefetchSection(rule=RefetchRule.VALUE, budget="", min_s=3600.0, max_s=365 * DAY_S)


def solved(cells: dict[int, int], common: float, turns: float) -> float:
    return price_of_host(_VALUE, cells, turns, common) or common


def by_ratio(cells: dict[int, int], common: float, turns: float) -> float:
    return common * max(1.0, demand_at(_VALUE, cells, common).due / turns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--hosts-only", action="store_true")
    parser.add_argument("--budgets-only", action="store_true")
    args = parser.parse_args()
    pages = Pages(args.pages, args.seed)
    if not args.hosts_only:
        budgets(pages, args.days)
    print("cost of the search:")
    costs()
    if not args.budgets_only:
        one_host(pages, args.days)


if __name__ == "__main__":
    main()
