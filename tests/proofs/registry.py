"""Registries: a crawl, the projector that copies it to a database, and the database itself are
killed again and again; the tables end equal to the crawl.

nginx serves pages under nine host names to a crawl by several workers. ``lycosa project`` follows it
into a real PostgreSQL or Cassandra (``--database``). At moments that a seed draws, ``kill -9`` hits a
worker, the whole crawl, the projector, or the database, which are started again. Half-way a second
schema is filled from nothing while everything runs.

At the end every row of URLs and hosts, and the log of captures, must equal what the commands that
read the crawl folder say: in the schema that was followed, in the one that was begun half-way, and
in one that is filled from nothing when all is over.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nginx_site import NginxSite
from proofs.crawls import LYCOSA, RunningCrawl, Whom, environment, lycosa
from proofs.kills import HOSTS, arguments, make_site, site_of
from proofs.watching import Lines
from registry_databases import RegistryDatabase, database_of, lacking
from registry_judging import differences

# of each host, and in the short form; a slower crawl, because Cassandra takes seconds to start
_PAGES = {"postgres": (300, 25), "cassandra": (500, 60)}
_MORE_ARGUMENTS = {"postgres": (), "cassandra": ("--delay", "0.5s")}
_ROTA = (
    *("worker", "projector", "database", "all", "projector", "database", "worker"),
    *("supervisor", "projector", "database"),
)


class RunningProjector:
    """``lycosa project`` under way; ``log`` gets its reports."""

    def __init__(self, folder: Path, database: RegistryDatabase, log: Path) -> None:
        self._log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [*LYCOSA, "project", database.name, str(folder), "--json"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=environment({database.variable: database.dsn}),
            )

    def waits_until(self, is_reached: Callable[[], object], most_s: float) -> bool:
        """Waits until a condition holds; whether it does. The projector must not end meanwhile."""
        for _ in range(int(most_s / 0.2)):
            if is_reached():
                return True
            try:
                code = self.process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"the projector ended with code {code}: {self._log.read_text()}")
        return False

    def end(self, number: int = signal.SIGKILL) -> None:
        """Ends it by a signal."""
        self.process.send_signal(number)
        self.process.wait(30)


class Disturbed:
    """A crawl, its projector and its database, and what was killed so far."""

    def __init__(
        self, work: Path, site: NginxSite, database: RegistryDatabase, workers: int
    ) -> None:
        self.work, self.site, self.database, self._workers = work, site, database, workers
        self.folder, self.killed = work / "crawl", Counter[str]()
        self._back = threading.Thread()
        self.crawl = self._start_crawl()
        assert self.crawl.runs_until((self.folder / "crawl.json").exists), "it did not start"
        self.projector = self._start_projector()

    def kill(self, what: str, which: int) -> None:
        """Kills this, and starts it again."""
        self.killed[what] += 1
        if what == "projector":
            self.projector.end()
            self.projector = self._start_projector()
        elif what == "database":
            self.await_database()
            self.database.kill()
            # the next kills hit others while it starts, which takes Cassandra seconds
            self._back = threading.Thread(target=self.database.start)
            self._back.start()
        else:
            self.crawl.runs_until(self.crawl.workers)
            self.crawl.kill(Whom(what), which)
            if what != "worker":
                self.crawl = self._start_crawl()

    def await_database(self) -> None:
        """Waits until the database is back."""
        if self._back.ident is not None:
            self._back.join(120)

    def end(self) -> None:
        """Ends what still runs."""
        self.await_database()
        if self.crawl.process.poll() is None:
            self.crawl.kill(Whom.ALL)
        if self.projector.process.poll() is None:
            self.projector.end()

    def _start_crawl(self) -> RunningCrawl:
        return RunningCrawl(
            self.folder,
            [*arguments(self.site, self._workers), *_MORE_ARGUMENTS[self.database.name]],
            self.work / "crawl.out",
        )

    def _start_projector(self) -> RunningProjector:
        return RunningProjector(self.folder, self.database, self.work / "projector.out")


def prove(
    work: Path, short: bool, kills: int = 0, workers: int = 2, database: str = "postgres"
) -> list[str]:
    """Runs the proof; gives the lines of its report. Raises ``AssertionError``."""
    assert not lacking(database), f"{database} cannot be started here: {lacking(database)}"
    kills = kills or (3 if short else 20)
    root, pages = work / "site", _PAGES[database][short]
    make_site(root, pages)
    front = root / "index.html"
    lost = "".join(f'<a href="/lost/{number}">lost</a>' for number in range(5))
    front.write_text(front.read_text().replace("</ul>", f"</ul>{lost}"))
    server = database_of(database, work / database)
    try:
        server.new_schema("lycosa")
        with site_of(work / "nginx", root) as site:
            run = Disturbed(work, site, server, workers)
            try:
                disturb(run, kills, expected=pages * len(HOSTS))
                assert run.crawl.finish(600) == 0, (work / "crawl.out").read_text()[-2000:]
                return judge(run)
            finally:
                run.end()
    finally:
        server.stop()


def disturb(run: Disturbed, kills: int, expected: int, seed: int = 3) -> None:
    """Kills one part after another while the crawl runs."""
    chance = random.Random(seed)
    lines = Lines(run.site.folder / "access.log")
    for number in range(kills):
        target = int(expected * 0.9 * (number + 1) / (kills + 1))
        assert run.crawl.runs_until(lambda target=target: lines.number() >= target, 120), (
            f"the crawl ended before kill {number}"
        )
        run.crawl.runs_for(chance.uniform(0.0, 0.5))
        run.kill(_ROTA[number % len(_ROTA)], chance.randrange(2))
        if number == kills // 2:
            fill(run, "half")


def fill(run: Disturbed, schema: str) -> dict[str, Any]:
    """Brings a schema up to date; gives the report."""
    run.await_database()
    done = lycosa(
        *("project", run.database.name, str(run.folder), "--once", "--json"),
        *(run.database.option, run.database.new_schema(schema)),
        env={run.database.variable: run.database.dsn},
        timeout=120,
    )
    assert done.code == 0, (done, (run.work / "projector.out").read_text()[-2000:])
    report: dict[str, Any] = json.loads(done.out)
    return report


def judge(run: Disturbed) -> list[str]:
    """Compares all registries with the crawl."""
    server, folder = run.database, run.folder
    run.await_database()
    try:
        run.projector.waits_until(lambda: not differences(server, folder), 60)
    finally:
        run.projector.end(signal.SIGTERM)
    wrong = differences(server, folder)
    fill(run, "half")
    whole = fill(run, "new")
    for schema in ("half", "new"):
        wrong += [f"{schema}: {each}" for each in differences(server, folder, schema)]
    report = [
        f"kills: {', '.join(f'{number} of {what}' for what, number in sorted(run.killed.items()))}",
        _counts(server),
        f"a registry filled from nothing: {whole['rows']} rows, {whole['captures']} captures",
        _lags(run.work / "projector.out"),
        (
            "three registries equal the crawl in every row"
            if not wrong
            else f"{len(wrong)} differences"
        ),
    ]
    assert not wrong, "\n".join([*report, *wrong[:30]])
    return report


def _counts(database: RegistryDatabase) -> str:
    counts = [
        f"{len(database.state_rows(table, 'host', 'lycosa'))} rows of {table}"
        for table in ("urls", "hosts", "crawl_log", "dead_letters")
    ]
    return ", ".join(counts)


def _lags(log: Path) -> str:
    """What the projector said of its lag while it followed."""
    reports = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    lags = sorted(each["lag"]["seconds"] for each in reports if not each["waits_for"])
    away = sum(bool(each["waits_for"]) for each in reports)
    if not lags:
        return "the projector reported no lag"
    return (
        f"lag in {len(lags)} reports: median {lags[len(lags) // 2]:.2f} s, at most {lags[-1]:.2f} s;"
        f" {away} reports that the database is away"
    )
