"""A continuous crawl for many virtual days, with all that goes wrong in such a time, and its judge.

The frontier, the schedule, the queues of hosts, delays, the judgement of due pages, the grids and
the search for the price are the crawler's, over a clock that jumps (package ``simulate``). Every few
hours something happens: the crawl is killed with what it has not committed, sometimes its machine is
lost for hours; an operator changes the policies of all records, or the budget; sitemaps announce
changes that are true, false, in the future or of a clock that is years late. One host answers 304 to
everything, one changes at each request, one has more pages than turns.

Judged are, all the time: each host rests after each request as long as its delay says, and has one
at a time; nothing that is due is forgotten. And at each look: no page that is no probe waits for
longer than the pages before it in its host's queue take; the state does not grow; the audit recounts
records, queues, schedules, counters, and the grids of the crawl and of its hosts.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from lycosa.base.config.sections import (
    Config,
    PolitenessSection,
    RefetchRule,
    RefetchSection,
)
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.url_state import UrlState
from lycosa.base.urls.identity import hash8
from lycosa.inspect.audit.capture_index import CaptureIndex
from lycosa.inspect.audit.state_check import StateChecks
from lycosa.inspect.committed_state import TableView
from lycosa.simulate.drive import Drive, Point
from lycosa.simulate.host_answers import HostAnswers
from lycosa.simulate.jump_clock import SIMULATION_EPOCH
from lycosa.simulate.page_copies import Copies
from lycosa.simulate.resources import Meters, Resources
from lycosa.simulate.sample import Host, Sample
from lycosa.simulate.simulated_table import SimulatedTable
from lycosa.simulate.visits import Visits
from lycosa.simulate.web_model import Web
from lycosa.stages.frontier.due import DueQueue, is_probe_place
from lycosa.stages.frontier.frontier import Frontier
from lycosa.stages.frontier.host_grids import HostGridRow
from lycosa.state.shard.counters import Counters, count
from planting import Change, Plant, breaches, planted

DAY_S, HOUR_S = 86_400.0, 3600.0
BIG, LIAR, RESTLESS, TRUE_NEWS, FALSE_NEWS = range(5)
_ROUND_DAYS = 3.0  # in which the big host can be fetched once
LONGEST_AWAY_S = 4 * HOUR_S
# Of the turns of a host one in twenty is for a probe, and of its three bands of due pages the last
# one has one in four. Four retries may come between, and new pages have half of all turns.
_BAND_SHARE = 0.25 * 0.95 * 0.5
_LOOK_S = 3 * HOUR_S
_SETTLED_DAYS = 6.0  # the first round is over, and the first refetches
_RULES = (
    ("host:h3.example every 12h", "host:h7.example never"),
    ("host:h3.example value min=2h max=20d", "re:[13]$ adaptive min=6h max=10d"),
    (),
    ("host:h8.example weekly",),
)


class Pressed(Exception):
    """A host was asked too early, or twice at a time."""


class _Stopped(Exception):
    """The time has come for something else."""


class Resting:
    """Watches that hosts rest. ``ended`` has the last answer of each."""

    def __init__(self) -> None:
        self.ended: dict[str, float] = {}
        self._open: set[str] = set()
        self.requests = 0
        self.delay_s = 1.0

    def begins(self, host: Host, now: float) -> None:
        delay_s = max(self.delay_s, host.crawl_delay_s)
        rest_s = now - self.ended.get(host.name, -math.inf)
        if host.name in self._open or rest_s < delay_s - 1e-6:
            raise Pressed(
                f"{host.name} after {rest_s:.3f} s instead of {delay_s:.0f} s at {now:.0f}"
            )
        self._open.add(host.name)
        self.requests += 1

    def ends(self, host: Host, now: float) -> None:
        self._open.discard(host.name)
        self.ended[host.name] = now

    def forget_open(self, now: float) -> None:
        """The crawl was killed: what it was asking has ended by now."""
        for name in self._open:
            self.ended[name] = now
        self._open.clear()


class Answers(HostAnswers):
    """One host says 304 to whatever it was asked before."""

    def _answer(self, known: Any, lease: Any, at: float) -> tuple[int, float]:
        if known.host.name == f"h{LIAR}.example" and lease is not None:
            history = lease.record.history
            return (304, 0) if history is not None and history.etag else (200, 1000.0)
        return super()._answer(known, lease, at)


class Month:
    """One crawl of a few hosts by ``seed``, with ``pages`` on the big one."""

    def __init__(self, seed: int, folder: Path, pages: int = 2000, hosts: int = 14) -> None:
        self.chance = random.Random(f"month {seed}")
        self.happened: Counter[str] = Counter()
        slow_s = _ROUND_DAYS * DAY_S / pages
        sizes = [pages] + [self.chance.randint(5, max(pages // 20, 6)) for _ in range(hosts - 1)]
        self._sample = Sample(
            1.0,
            [
                Host(
                    f"h{number}.example",
                    size,
                    0.1,
                    slow_s if number == BIG else -1.0,
                    1000.0,
                    f"2001:2::{number % 5:x}",
                    False,
                    number % 2 == 1,
                )
                for number, size in enumerate(sizes)
            ],
        )
        rates = np.exp(np.random.default_rng(seed).normal(math.log(1 / 10), 1.8, sum(sizes)))
        self._first = [0, *np.cumsum(sizes).tolist()]
        rates[self._first[RESTLESS] : self._first[RESTLESS + 1]] = 1e5
        self._copies = Copies(len(rates), 1.0, seed)
        self._copies.follow_rates(rates / DAY_S)
        self._budget = sum(sizes) / 2.0
        self._section = RefetchSection(
            rule=RefetchRule.VALUE, min_s=HOUR_S, max_s=30 * DAY_S, budget=f"{self._budget:.0f}/d"
        )
        self._config = Config(
            seed=seed,
            refetch=self._section,
            politeness=PolitenessSection(adaptive_factor=0.0, max_crawl_delay_s=slow_s),
        )
        self._web = Web(hosts=hosts, pages=len(rates), errors=0.02, dead=0.0, robots_delay=0.0)
        self._meters = Meters(Resources(cores=100.0), 1, 100, 1.0, self._sample.typical)
        self.resting = Resting()
        self._table = SimulatedTable(folder, self._config)
        self._visits = self._begin(0.0)
        self._visits.seed()
        self._drive = Drive(self._sample, self._visits, self._table)
        self._rules = 0
        self._waited: dict[bytes, float] = {}  # since when a due page was seen waiting
        self._most: Counter[bytes] = Counter()  # that waited at a host at a time
        self.longest_wait_s = 0.0
        self.rows: list[tuple[float, int, int]] = []  # day, rows and bytes of the state

    def _begin(self, now: float) -> Visits:
        visits = Visits(
            self._sample,
            self._web,
            self._config,
            self._table,
            self._meters,
            self.resting,
            self._copies,
        )
        stages = visits._stages
        stages.exchanges = Answers(
            self._sample, self._web, self._config, self._copies, self._meters, self.resting
        )
        visits.clock.now = now
        return visits

    def live(self, days: float) -> None:
        """Live until a day. Raises ``AssertionError`` and ``Pressed``."""
        happenings = [
            self._kill,
            self._kill,
            self._lose,
            self._change_policies,
            self._change_budget,
            self._announce,
            self._announce,
        ]
        at = self._visits.clock.now
        look_at = at + _LOOK_S
        while at < days * DAY_S:
            event_at = at + self.chance.expovariate(1 / (6 * HOUR_S))
            at = min(event_at, look_at, days * DAY_S)
            self._run(at)
            if at >= look_at:
                look_at = at + _LOOK_S
                self._look(at)
            if at >= event_at:
                self.chance.choice(happenings)()
                at = self._visits.clock.now

    def _run(self, until: float) -> None:
        """Run until a time, without the commit that ends a simulation."""

        def stop(_: Point) -> None:
            raise _Stopped

        with suppress(_Stopped):
            self._drive.run(until + 1.0, [until], stop)

    # -- what happens

    def _kill(self) -> None:
        self.happened["kill"] += 1
        self._restart(self.chance.uniform(1.0, 60.0))

    def _lose(self) -> None:
        self.happened["lose"] += 1
        self._restart(self.chance.uniform(HOUR_S, LONGEST_AWAY_S))

    def _restart(self, away_s: float) -> None:
        now = self._visits.clock.now
        self._visits.close()
        self.resting.forget_open(now)
        self._table.reopen()
        self._visits = visits = self._begin(now + away_s)
        # As the attempt log has it: the last contact with each host.
        delays = {host.name: max(1.0, host.crawl_delay_s) for host in self._sample.hosts}
        visits.frontier.hold_back(
            {name: at + delays[name] for name, at in self.resting.ended.items()}
        )
        self._drive = Drive(self._sample, visits, self._table)
        for page in list(self._waited):
            self._waited[page] += away_s

    def _change_policies(self) -> None:
        self._rules += 1
        rules = _RULES[self._rules % len(_RULES)]
        self.happened["policies"] += 1
        self._follow(msgspec.structs.replace(self._section, policies=rules))

    def _change_budget(self) -> None:
        self.happened["budget"] += 1
        budget = self._budget * self.chance.choice((0.5, 1.0, 2.0))
        self._follow(msgspec.structs.replace(self._section, budget=f"{budget:.0f}/d"))

    def _follow(self, section: RefetchSection) -> None:
        self._section = section
        self._table.follow_settings(section)
        visits = self._visits
        visits.frontier.follow_policies()
        while visits.frontier.walks_policies:
            visits.frontier.step_policies(visits.clock.wall(), visits.pacing.delay_of)
        self._table.commit()
        # What has another policy has another time, which the wait of before says nothing about.
        self._waited.clear()

    def _announce(self) -> None:
        """Sitemaps of two hosts: one tells the truth, the other that everything is new."""
        self.happened["announce"] += 1
        visits, now = self._visits, self._visits.clock.wall()
        found = []
        for host, is_true in ((TRUE_NEWS, True), (FALSE_NEWS, False)):
            lastmod = self.chance.choice((now, now - 60, now + 365 * DAY_S, 86_400.0))
            for number in range(self._sample.hosts[host].pages):
                page = self._first[host] + number
                if is_true and self._copies.is_current(page, visits.clock.now):
                    continue
                url = f"http://h{host}.example/{number}"
                found.append(
                    Discovered(
                        url,
                        hash8(f"h{host}.example"),
                        hash8(url),
                        LinkKind.SITEMAP,
                        1,
                        lastmod=int(now - 60 if is_true else lastmod),
                    )
                )
        visits.partition.discover_urls(found, now)

    # -- judging

    def _look(self, now: float) -> None:
        self._table.commit()
        view, wall = TableView(0, self._table.store), SIMULATION_EPOCH + now
        waiting: dict[bytes, Any] = {}
        number = Counter[bytes]()
        for entry in view.urls():
            record, history = entry.record, entry.record.history
            key = entry.host8 + hash8(entry.url)
            if record.state is UrlState.QUEUED and not record.due_at and history is not None:
                waiting[key] = entry
                number[entry.host8] += 1
            elif record.due_at and not is_probe_place(record.due_at):
                assert record.due_at > wall - HOUR_S, (
                    f"{entry.url} was due {(wall - record.due_at) / HOUR_S:.1f} h ago and does not"
                    " wait"
                )
        for host8, many in number.items():
            self._most[host8] = max(self._most[host8], many)
        delays = {hash8(host.name): max(1.0, host.crawl_delay_s) for host in self._sample.hosts}
        for key in list(self._waited):
            if key not in waiting:
                del self._waited[key]
        for key, entry in waiting.items():
            since = self._waited.setdefault(key, now)
            wait_s = now - since
            self.longest_wait_s = max(self.longest_wait_s, wait_s)
            bound_s = (self._most[key[:8]] + 1) * delays[key[:8]] * 1.1 / _BAND_SHARE + 2 * _LOOK_S
            assert wait_s <= bound_s, (
                f"{entry.url} has waited for {wait_s / DAY_S:.2f} days, and may wait for"
                f" {bound_s / DAY_S:.2f}"
            )
        rows = [len(key) + len(value) for key, value in view.scan(b"", b"\xff" * 40)]
        self.rows.append((now / DAY_S, len(rows), sum(rows)))

    def audit(self) -> None:
        """Raises ``AssertionError`` for a breach of the audit's checks."""
        self._table.commit()
        checks = StateChecks(CaptureIndex(), None, lambda *_: None)
        checks.check_partition(TableView(0, self._table.store), 1)
        breaches = [
            breach
            for check in checks.all_checks()
            if check is not checks.records  # there are no journals here
            for breach in check.first
        ]
        assert not breaches, breaches[:5]

    @property
    def grids(self) -> int:
        """The number of hosts with a grid of their own."""
        return len(self._visits.partition.host_grids.known)

    def judge(self) -> list[str]:
        """What it came to, once it has been lived."""
        self.audit()
        last = self.rows[-1]
        first = next((each for each in self.rows if each[0] > _SETTLED_DAYS), last)
        assert last[1] < 1.3 * first[1] + 200, (first, last)
        assert last[2] < 1.5 * first[2] + 50_000, (first, last)
        return [
            f"{last[0]:.0f} days, {self.resting.requests:,} requests,"
            f" {sum(self.happened.values())} happenings {dict(self.happened)}",
            f"no host was asked early; the longest wait of a due page was"
            f" {self.longest_wait_s / HOUR_S:.1f} h, always within its bound",
            f"state: {first[1]:,} rows and {first[2]:,} bytes on day {first[0]:.0f},"
            f" {last[1]:,} and {last[2]:,} on day {last[0]:.0f}; the audit finds no breach",
        ]

    def close(self) -> None:
        self._visits.close()
        self._table.close()


def live_and_judge(
    seed: int, folder: Path, plant: Plant | None = None, pages: int = 600, days: float = 10.0
) -> tuple[Month, list[str]]:
    """One month, and what it came to. Raises ``Breach``."""
    with planted(plant):
        month = Month(seed, folder, pages)
        with breaches(seed, lambda: [str(dict(month.happened))]):
            try:
                month.live(days)
                return month, month.judge()
            finally:
                month.close()


def _lossy_due() -> tuple[Change]:
    right = DueQueue.add_due

    def add_due(self: DueQueue, due_at: int, suffix: bytes) -> None:
        if suffix[-1] % 16:
            right(self, due_at, suffix)

    return (Change(DueQueue, "add_due", add_due),)


def _only_added(self: HostGridRow, before: int, after: int) -> None:
    if after:
        count(self.cells, after)


PLANTS = {
    "restart": Plant(
        "hosts do not rest after a restart",
        lambda: (Change(Frontier, "hold_back", lambda self, not_before: None),),
    ),
    "cell": Plant(
        "a page that moves to another cell is not counted there",
        lambda: (Change(Counters, "move_cell", lambda self, old, new: 0),),
    ),
    "grid": Plant(
        "a page of a large host that moves to another cell stays in its old one as well",
        lambda: (Change(HostGridRow, "move", _only_added),),
    ),
    "due": Plant("some due times are not in the schedule", _lossy_due),
}
