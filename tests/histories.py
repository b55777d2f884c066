"""Seeded histories: a crawl by one to three workers that dies, loses packets and its disk, and must
come to what the web's own survey says.

What ``kill -9`` or a loss of power leaves is taken literally: at a crash the folder is copied as it
is at that instant, the files that are appended to are cut somewhere behind what was synced (or
their last bytes are rubbish), tables lack what was not flushed. Beside it: lost connections, names
that do not resolve, hosts that are ill for a while, parcels of the exchange lost, repeated and
late, a slow disk and a full one, jumps of the wall clock (by a year and more with ``wild_clock``),
another number of workers after a restart.

The crawl is the one that runs on the real web (``run_workers``), with RocksDB and files. ``plant``
puts a bug into it: the histories that do not find it prove nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TypeVar

from dying import Dying
from judging import (
    are_balanced,
    asked,
    errands_are_kept,
    is_balanced,
    is_polite,
    new_folder,
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
from lycosa.base.model.completed import UrlState
from lycosa.base.model.fetched import FetchKind
from lycosa.base.ports import ResolveError
from lycosa.base.reasons import Reason
from lycosa.inspect.audit.folder_audit import audit
from lycosa.state.attempts import Suspicion
from lycosa.state.exchange import ExchangeError, Parcel
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.kv.rocks import RocksKeyValue, SharedCache
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
from lycosa.worker.assembly import Assembled
from lycosa.worker.visit.pacing import HostRest
from planting import planted
from several_workers import SlowExchange, run_workers
from virtual_crawl import VirtualCrawl

AnyHistory = TypeVar("AnyHistory", bound="History")
LONGEST_END_S = 7200.0
HOSTS, PAGES, LEAST_URLS, LEAST_FAULTS, DEATHS = 52, 46, 2000, 10, 6
PLANTS = {
    "early": "a commit is told before its captures are on disk",
    "hasty": "a host is released without its delay",
    "forgetful": "what earlier runs left in the outboxes is not sent",
    "pushy": "an errand does not wait for the rest of its host",
    "mute": "an errand is done in one commit and its answer is in a later one",
}
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
_APPENDED = ("warc/*.open", "journal/*.open", "log/commit-*")


class Breach(AssertionError):
    """A promise was broken; says by which history."""


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


class Disk:
    """Knows of every file how much of it is synced, and leaves the rest to chance. Within
    ``watched`` nothing is synced in truth.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._synced: dict[tuple[int, int], int] = {}
        self.torn = 0
        self.faults: Faults | None = None

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        calls = os.fsync, os.fdatasync
        os.fsync = os.fdatasync = self._sync  # type: ignore[assignment]  # called with descriptors only
        try:
            yield
        finally:
            os.fsync, os.fdatasync = calls

    def _sync(self, fd: int) -> None:
        if self.faults is not None:
            self.faults.reach("sync")  # written, and not yet on disk
        found = os.fstat(fd)
        self._synced[found.st_dev, found.st_ino] = found.st_size

    def image(self, folder: Path, to: Path) -> None:
        """Copies a folder as a loss of power would leave it."""
        shutil.copytree(folder, to)
        for pattern in _APPENDED:
            for copy in sorted(to.glob(pattern)):
                found = (folder / copy.relative_to(to)).stat()
                self._tear(copy, self._synced.get((found.st_dev, found.st_ino), 0), found.st_size)
        self._synced = {
            (found.st_dev, found.st_ino): found.st_size
            for path in to.rglob("*")
            if (found := path.stat())
        }

    def _tear(self, path: Path, synced: int, size: int) -> None:
        if size <= synced:
            return
        self.torn += 1
        kept = self._chance.randint(synced, size)
        with path.open("r+b") as file:
            file.truncate(kept)
            if self._chance.random() < 0.3:  # the length was written, the bytes were not
                file.seek(kept)
                file.write(bytes(size - kept))


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


class History:
    """One crawl and everything that happens to it. All of it follows from the seed."""

    def __init__(self, seed: int, path: Path, plant: str = "", wild_clock: bool = False) -> None:
        self.seed, self.plant, self._path, self._wild_clock = seed, plant, path, wild_clock
        self._off_s = 0.0  # how far a wild clock is off
        self.chance = random.Random(f"history {seed}")
        self.disk = Disk(self.chance)
        self.web, self._seeds = web_to_crawl(seed)
        self.faults: Counter[str] = Counter()
        self.is_troubled = True
        self.told: list[str] = []
        self._tables: list[RocksKeyValue] = []
        self._opened: dict[int, KeyValue] = {}  # by this start
        self._cache = SharedCache(64 << 20, 64 << 20)
        self.crawl = VirtualCrawl(
            new_folder(path / "crawl-0"), self.web, settings(seed, wild_clock), self._open
        )
        self.crawl.answers = IllHosts(self, self.web)
        self.crawl.resolver = BadNames(self, SyntheticResolver(self.web.hosts, self.crawl.clock))

    def _open(self, folder: Path) -> KeyValue:
        folder.mkdir(parents=True, exist_ok=True)
        table = RocksKeyValue(folder, self._cache)
        # A thread of a table that is dead must not change files while they are copied: in a real
        # crash it dies as well.
        table._db.set_options({"disable_auto_compactions": "true"})
        self._tables.append(table)
        return table

    def live(self, deaths: int = DEATHS) -> None:
        """Runs, dies, is started again, and comes to its end."""
        bug = planted(*_bug(self.plant)) if self.plant else contextlib.nullcontext()
        with self.disk.watched(), bug:
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
        self._start_over(image)
        return True

    def _run(self, faults: Faults | None) -> None:
        self.disk.faults = faults
        running = run_workers(
            self.crawl,
            self.chance.choice((1, 1, 2, 3)),
            self._seeds,
            faults,
            BadExchange(self),
            self._check_start,
        )
        assert running

    def _check_start(self, assembled: Assembled) -> None:
        """What recovery left adds up. (Parcels from an earlier run between partitions of one
        worker may be in its open commit by now.)
        """
        acquit(assembled)
        for number, table in assembled.worker._books.shard.tables.items():
            is_balanced(table)
            self._opened[number] = table
        if len(self._opened) == self.crawl.config.frontier.partitions:
            self.faults["open question"] += errands_are_kept(self._opened)
            self._opened = {}

    def _start_over(self, image: Path) -> None:
        self.disk.faults = None
        # closed before its files go: a flush that fails is tried again a second later, and others
        # wait for it
        for table in self._tables:
            table.close()
        self._tables.clear()
        self._opened = {}  # a crash may come when only some workers have started
        shutil.rmtree(self.crawl.folder)
        self.crawl.folder = image
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
        judge_end(self.crawl, self.web, self._seeds)
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
    crashes = assembled.worker._books.crashes
    for url in crashes.suspects():
        if crashes.suspicion_of(url) > Suspicion.SUSPECT:
            crashes.clear_suspicion(url)


def judge_end(crawl: VirtualCrawl, web: SyntheticWeb, seeds: Sequence[str]) -> None:
    """What a crawl that has ended came to, by the web's own survey. Raises ``AssertionError``
    for the first promise that does not hold.
    """
    truth = web.survey(seeds)
    requested = asked(crawl.log)
    assert set(requested) == truth.requested, ("requests", set(requested) ^ truth.requested)
    found = {url: state for url, (state, _) in outcomes(crawl).items()}
    assert {u for u, s in found.items() if s is UrlState.FETCHED} == truth.pages | truth.others
    assert {u for u, s in found.items() if s is UrlState.REDIRECTED} == set(truth.redirected)
    assert {u for u, s in found.items() if s is UrlState.FAILED} == set(truth.failed)
    assert {u for u, s in found.items() if s is UrlState.REFUSED} == truth.disallowed
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
    seed: int, path: Path, plant: str = "", with_audit: bool = True, wild_clock: bool = False
) -> History:
    """One history to its end. Raises ``Breach``, whatever went wrong."""
    return judged(History(seed, path, plant, wild_clock), seed, with_audit)


def judged(history: AnyHistory, seed: int, with_audit: bool) -> AnyHistory:
    """The history at its end. Raises ``Breach``, whatever went wrong: an error inside the crawl is
    one as well.
    """
    try:
        history.live()
        history.judge(with_audit)
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}"[:600]
        raise Breach(f"seed {seed}: {what} (history: {'; '.join(history.told)})") from error
    return history


# -- planted bugs


def _bug(
    plant: str,
) -> tuple[object, str, Callable[[Callable[..., object]], Callable[..., object]]]:
    if plant == "early":
        from lycosa.state.store import segment_files  # the module whose call is left out

        return segment_files, "sync_data", lambda right: lambda fd: None
    if plant == "hasty":

        def hasty(self: HostRest) -> float:
            self.until, self.time_until = self._ended
            return 0.0

        return HostRest, "decide_delay", lambda right: hasty
    if plant == "pushy":
        from lycosa.stages.frontier.visit_state import VisitState

        return (
            VisitState,
            "ready_time",
            lambda right: property(lambda self: 0.0 if self.record.errands else self.next_time),
        )  # type: ignore[arg-type,return-value]
    if plant == "mute":
        from lycosa.base.model.errand import Answer
        from lycosa.worker.intake.outgoing_parcels import OutgoingParcels

        def hold_back(right: Callable[..., object]) -> Callable[..., object]:
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

            return cut

        return OutgoingParcels, "cut_parcels", hold_back
    from lycosa.state.exchange.outbox import Outbox

    return Outbox, "destinations", lambda right: lambda self: []
