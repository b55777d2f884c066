"""Seeded histories: a crawl by one to three workers that dies, loses packets and its disk, and must
come to what the web's own survey says.

What ``kill -9`` or a loss of power leaves is taken literally (``dying``). Besides: lost connections, names
that do not resolve, hosts that are ill for a while, parcels of the exchange lost, repeated and
late, a slow disk and a full one, jumps of the wall clock (by a year and more with ``wild_clock``),
another number of workers after a restart.

The crawl is the one that runs on the real web (``run_workers``), with RocksDB and files. ``plant``
puts a bug into it: the histories that do not find it prove nothing.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TypeVar

from dying import Dying, DyingCrawl
from judging import (
    are_balanced,
    asked,
    ends_as_surveyed,
    errands_are_kept,
    is_balanced,
    is_polite,
    no_disallowed,
    outcomes,
    quick_config,
    stored_rows,
)
from lycosa.base.config.sections import (
    Config,
    FrontierSection,
    PolitenessSection,
    RefetchRule,
    RefetchSection,
    RetrySection,
    RobotsSection,
    StoreSection,
)
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.parcel_items import Answer
from lycosa.base.ports import ResolveError
from lycosa.base.reasons import Reason
from lycosa.inspect.audit.folder_audit import audit
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.state.attempts import Suspicion
from lycosa.state.exchange.exchange_errors import ExchangeError
from lycosa.state.exchange.exchange_port import Parcel
from lycosa.state.exchange.outbox import Outbox
from lycosa.state.kv.kv_port import KeyValue
from lycosa.synthetic import (
    Crash,
    FaultRates,
    Faults,
    Response,
    SyntheticResolver,
    SyntheticWeb,
    WebPlan,
)
from lycosa.synthetic.virtual_clock import VIRTUAL_EPOCH
from lycosa.worker.assemble import Assembled
from lycosa.worker.intake.outgoing_parcels import OutgoingParcels
from lycosa.worker.visit.pacing import HostRest
from planting import Change, Plant, breaches, planted
from several_workers import SlowExchange
from virtual_crawl import VirtualCrawl

AnyHistory = TypeVar("AnyHistory", bound="History")
LONGEST_END_S = 7200.0
HOSTS, PAGES, LEAST_URLS, LEAST_FAULTS, DEATHS = 52, 46, 2000, 10, 6
_POINTS = {  # how often each is reached in a run, about
    "commit:cut": 60,
    "commit:begin": 60,
    "commit:stored": 60,
    "commit:logged": 60,
    "commit:applied": 150,
    "commit:settled": 60,
    "before:fetch": 2000,
    "after:fetch": 2000,
    "before:offload": 150,
    "after:offload": 150,
    "sync": 200,
    "turn": 20_000,
}
_OFF_S = (0.0, 400 * 86400.0, 86400.0, 3600.0, -3600.0, -86400.0, -400 * 86400.0)


def web_to_crawl(seed: int) -> tuple[SyntheticWeb, list[str]]:
    """A web, and where to begin for at least ``LEAST_URLS`` to be requested: robots.txt may
    close much of it, or the first two hosts.
    """
    for pages in count(PAGES, 6):
        web = web_of(seed, pages)
        for first in (0, 2):
            seeds = [web.seed_url(first), web.seed_url(first + 1)]
            if len(web.survey(seeds).requested) >= LEAST_URLS:
                return web, seeds
    raise AssertionError("pages without end")


def web_of(seed: int, pages: int) -> SyntheticWeb:
    """Some two thousand URLs on fifty hosts, small pages, every kind of end."""
    chance = random.Random(seed)
    return SyntheticWeb(
        WebPlan(
            seed=seed,
            hosts=HOSTS,
            pages=pages,
            distribution=chance.choice(("fixed", "fixed", "lognormal")),
            page_bytes=300,
            links=8,
            cross_links=0.2,
            redirects=0.05,
            gone=0.03,
            duplicates=0.04,
            error_rate=chance.choice((0.0, 0.05)),
            dead_hosts=chance.choice((0.0, 0.04)),
            robots=0.4,
            robots_variants=(
                "section",
                "wildcard",
                "delay",
                "closed",
                "redirect",
                "absent",
                *["redirect-hub"] * 4,
            ),
        )
    )


def settings(seed: int, wild_clock: bool = False) -> Config:
    """Short waits, so that whatever is lost is asked for again within the crawl; small segments.
    Nothing is fetched again because a wild clock says that a week has passed.
    """
    return quick_config(
        seed=seed,
        refetch=RefetchSection(rule=RefetchRule.OFF if wild_clock else RefetchRule.ADAPTIVE),
        # Nobody waits longer because the wall clock was set back.
        frontier=FrontierSection(partitions=3, bands=3, head=5, finish_wait_s=1800.0),
        politeness=PolitenessSection(backoff_s=2.0, max_backoff_s=20.0, adaptive_factor=2.0),
        retry=RetrySection(
            tries=20,
            first_s=2.0,
            max_s=30.0,
            dns_tries=20,
            host_failures=10_000,
            away_s=600.0,
        ),
        robots=RobotsSection(retry_s=3.0),
        store=StoreSection(segment_bytes=300_000, segment_age_s=60.0),
    )


class Death(Dying):
    """Takes an image of the folder as a disk may hold it, and counts the faults of ports."""

    def __init__(
        self, history: History, image: Path, rates: FaultRates, point: str, at: int
    ) -> None:
        def keep() -> None:
            history.disk.image(history.crawl.folder, image)

        super().__init__(keep, history.chance, at, point, rates)
        self._history = history

    def happens(self, rate: float) -> bool:
        did = super().happens(rate)
        self._history.faults["port"] += did
        return did


class BadExchange(SlowExchange):
    """Loses parcels before and after they arrive, repeats them and brings them late."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    async def deliver_parcel(self, parcel: Parcel) -> None:
        chance = self._history.chance
        kind = chance.choices(("", "lost", "unanswered", "twice", "late"), (80, 5, 5, 5, 5))[0]
        self._history.faults["parcel"] += bool(kind)
        if kind == "late":
            await asyncio.sleep(chance.uniform(0.0, 5.0))
        if kind == "lost":
            raise ExchangeError("lost")
        await super().deliver_parcel(parcel)
        if kind == "twice":
            await super().deliver_parcel(parcel)
        if kind == "unanswered":
            raise ExchangeError("the acknowledgement was lost")


class BadNames:
    """A resolver that gives no answer now and then."""

    def __init__(self, history: History, inner: SyntheticResolver) -> None:
        self._history, self._inner = history, inner

    async def resolve(self, name: str) -> Sequence[str]:
        if self._history.is_troubled and self._history.chance.random() < 0.03:
            self._history.faults["name"] += 1
            raise ResolveError(name, Reason.DNS_TIMEOUT, "injected")
        return await self._inner.resolve(name)

    async def close(self) -> None:
        await self._inner.close()


class IllHosts:
    """The web, of which some hosts say 503 for a while."""

    def __init__(self, history: History, web: SyntheticWeb) -> None:
        self._history, self._web = history, web
        self._ill: dict[int, tuple[float, float]] = {}
        for host in history.chance.sample(range(len(web.hosts)), 4):
            start = history.chance.uniform(0.0, 60.0)
            self._ill[host] = (start, start + history.chance.uniform(5.0, 40.0))

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        index = self._web.hosts.find(url.split("/")[2])
        start, end = self._ill.get(-1 if index is None else index, (0.0, 0.0))
        if start <= at - VIRTUAL_EPOCH < end:
            self._history.faults["ill host"] += 1
            return Response(503, [("Content-Type", "text/html")], b"<p>ill", 0.05)
        return self._web.respond(url, at, headers)


class History(DyingCrawl):
    """One crawl and everything that happens to it. All of it follows from the seed."""

    def __init__(
        self, seed: int, path: Path, plant: Plant | None = None, wild_clock: bool = False
    ) -> None:
        self.seed, self._plant, self._wild_clock = seed, plant, wild_clock
        self._off_s = 0.0  # how far a wild clock is off
        self.faults: Counter[str] = Counter()
        self.is_troubled = True
        self._opened: dict[int, KeyValue] = {}  # by this start
        web, seeds = web_to_crawl(seed)
        chance = random.Random(f"history {seed}")
        super().__init__(path, web, seeds, settings(seed, wild_clock), chance)
        self.crawl.answers = IllHosts(self, self.web)
        self.crawl.resolver = BadNames(self, SyntheticResolver(self.web.hosts, self.crawl.clock))

    def live(self, deaths: int = DEATHS) -> None:
        """Runs, dies, is started again, and comes to its end."""
        with self.disk.watched(), planted(self._plant):
            for number in range(1, deaths + 1):
                if not self._run_and_die(self._path / f"crawl-{number}"):
                    break
            self.is_troubled = False
            began = self.crawl.now
            self._run(None)
            assert self.crawl.now - began < LONGEST_END_S, "it waited too long"

    def _run_and_die(self, image: Path) -> bool:
        chance = self.chance
        rates = FaultRates(
            connection_lost=0.02,
            disk_slow=0.02,
            disk_slow_s=chance.uniform(0.5, 5.0),
            disk_full=0.003,
        )
        point = chance.choice([*_POINTS, "sync", "sync", "sync"])  # where most can be torn
        death = Death(self, image, rates, point, chance.randint(1, max(_POINTS[point] // 4, 1)))
        try:
            self._run(death)
        except Crash as crash:
            self.told.append(f"{crash.point} at {self.crawl.now:.1f}")
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self.disk.image(self.crawl.folder, image)
            self.told.append(f"full disk at {self.crawl.now:.1f}")
        else:
            return False
        self.faults["end"] += 1
        self.start_over(image)
        return True

    def _run(self, faults: Faults | None) -> None:
        workers = self.chance.choice((1, 1, 2, 3))
        self.run(workers, faults, BadExchange(self), self._check_start)

    def _check_start(self, assembled: Assembled) -> None:
        """What recovery left adds up. (Parcels from an earlier run between partitions of one
        worker may be in its open commit by now.)
        """
        acquit(assembled)
        for number, table in assembled.worker._files.shard.tables.items():
            is_balanced(table)
            self._opened[number] = table
        if len(self._opened) == self.crawl.config.frontier.partitions:
            self.faults["open question"] += errands_are_kept(self._opened)
            self._opened = {}

    def start_over(self, image: Path) -> None:
        super().start_over(image)
        self._opened = {}  # a crash may come when only some workers have started
        self.crawl.now += self.chance.choice((0.0, 0.5, 20.0))
        if self._wild_clock:
            self._set_wildly()
        elif self.chance.random() < 0.3:
            jump = self.chance.choice((-3600.0, -7.0, 7.0, 3600.0))
            self.crawl.clock.jump(jump)
            self.told.append(f"wall clock set by {jump:+.0f}")
            self.faults["clock"] += 1

    def _set_wildly(self) -> None:
        """The next run has a clock that is far ahead or behind, or right again."""
        off_s = self.chance.choice([off_s for off_s in _OFF_S if off_s != self._off_s])
        self.crawl.clock.jump(off_s - self._off_s)
        self._off_s = off_s
        self.told.append(f"wall clock off by {off_s:+.0f}")
        self.faults["clock"] += 1

    # -- judging

    def judge(self, with_audit: bool = True) -> None:
        """Raises ``AssertionError`` for the first promise that does not hold."""
        judge_end(self.crawl, self.web, self.seeds)
        if with_audit:
            report = audit(self.crawl.folder)
            assert report.is_clean, report.first_breaches()
        assert sum(self.faults.values()) >= LEAST_FAULTS, f"too little happened: {self.faults}"

    @property
    def events(self) -> list[tuple[float, float, str, str, int]]:
        """Everything that the web saw, for comparing one history with its repetition."""
        return [
            (each.start, each.end, each.host, each.path, each.status)
            for each in self.crawl.log.exchanges
        ]


def acquit(assembled: Assembled) -> None:
    """These crashes are nobody's fault, so no URL may be condemned for being in flight at three
    of them.
    """
    crashes = assembled.worker._files.crashes
    for url in crashes.suspects():
        if crashes.suspicion_of(url) > Suspicion.SUSPECT:
            crashes.clear_suspicion(url)


def judge_end(crawl: VirtualCrawl, web: SyntheticWeb, seeds: Sequence[str]) -> None:
    """What a crawl that has ended came to, by the web's own survey. Raises ``AssertionError``
    for the first promise that does not hold.
    """
    truth = web.survey(seeds)
    found = {url: state for url, (state, _) in outcomes(crawl).items()}
    ends_as_surveyed(truth, asked(crawl.log), found)
    are_balanced(crawl)
    is_polite(crawl.log, crawl.config.politeness)
    no_disallowed(web, crawl.log)
    with_body = Counter(
        row.url
        for row in stored_rows(crawl.folder)
        if row.kind is FetchKind.PAGE and row.status == 200
    )
    assert set(with_body) == truth.pages | truth.others, "captures"
    assert max(with_body.values()) == 1, "a page was stored twice"


def live_and_judge(
    seed: int,
    path: Path,
    plant: Plant | None = None,
    with_audit: bool = True,
    wild_clock: bool = False,
) -> History:
    """One history to its end. Raises ``Breach``, whatever went wrong."""
    return judged(History(seed, path, plant, wild_clock), with_audit)


def judged(history: AnyHistory, with_audit: bool) -> AnyHistory:
    """The history at its end. Raises ``Breach``, whatever went wrong."""
    with breaches(history.seed, lambda: history.told):
        history.live()
        history.judge(with_audit)
    return history


# -- planted bugs


def _early() -> Iterable[Change]:
    from lycosa.state.store import segment_files  # the module whose call is left out

    return [Change(segment_files, "sync_data", lambda fd: None)]


def _hasty() -> Iterable[Change]:
    def hasty(self: HostRest) -> float:
        self.until, self.time_until = self._ended
        return 0.0

    return [Change(HostRest, "decide_delay", hasty)]


def _forgetful() -> Iterable[Change]:
    return [Change(Outbox, "destinations", lambda self: [])]


def _pushy() -> Iterable[Change]:
    time = property(lambda self: 0.0 if self.record.errands else self.next_time)
    return [Change(VisitState, "ready_time", time)]


def _mute() -> Iterable[Change]:
    right = OutgoingParcels.cut_parcels
    held: dict[int, list[tuple[int, int, Answer]]] = {}
    cuts: Counter[int] = Counter()

    def cut(self: OutgoingParcels) -> object:
        for (source, destination), items in self._errands.items():
            held.setdefault(id(self), []).extend(
                (source, destination, each) for each in items if isinstance(each, Answer)
            )
            items[:] = [each for each in items if not isinstance(each, Answer)]
        cuts[id(self)] += 1
        if cuts[id(self)] % 10 == 0:
            for source, destination, answer in held.pop(id(self), ()):
                self.post_errand(source, destination, answer)
        return right(self)

    return [Change(OutgoingParcels, "cut_parcels", cut)]


PLANTS = {
    "early": Plant("a commit is told before its captures are on disk", _early),
    "hasty": Plant("a host is released without its delay", _hasty),
    "forgetful": Plant("what earlier runs left in the outboxes is not sent", _forgetful),
    "pushy": Plant("an errand does not wait for the rest of its host", _pushy),
    "mute": Plant("an errand is done in one commit and its answer is in a later one", _mute),
}
