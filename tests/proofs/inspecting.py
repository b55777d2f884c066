"""Inspecting: every command that reads a crawl folder, run again and again beside crawls that run
and on what kills leave of them.

The crawls are of a synthetic web whose hosts link to each other, by one, two and four workers.
While one runs, each command is run in turn: none may end with an internal error, none may say that
the folder is damaged, and ``lycosa audit`` may name no breach. Then everything is killed with
``kill -9``, the commands are run on what is left, and the same command resumes the crawl.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec

from lycosa.synthetic import SyntheticWeb, WebPlan
from proofs.crawls import Done, RunningCrawl, Whom, lycosa
from serving import served

WORKERS = (1, 2, 4)
_PLAN = WebPlan(hosts=80, pages=120, cross_links=0.4, seed=12)
_SMALL = msgspec.structs.replace(_PLAN, hosts=8)  # each host adds a page a second to the load
_QUESTIONS = (
    "SELECT count(*), count(DISTINCT url) FROM fetches",
    "SELECT count(*) FROM links JOIN pages ON source_url = url",
    "SELECT state, count(*) FROM urls GROUP BY 1",
    "SELECT state, sum(waiting) FROM hosts GROUP BY 1",
)


class Trial(NamedTuple):
    """One command and how it ended, beside a crawl that ran (``moment`` is the number of
    workers) or on one that was killed.
    """

    moment: str
    arguments: tuple[str, ...]
    done: Done

    @property
    def fault(self) -> str:
        """What is wrong with how it ended; empty when nothing is."""
        if self.done.code == 0:
            return ""
        text = (self.done.err + self.done.out).strip().splitlines()
        return (
            f"{self.moment}: lycosa {' '.join(self.arguments)} gave {self.done.code}:"
            f" {' | '.join(text[-4:])}"
        )


def commands(folder: Path, url: str, out: Path) -> list[tuple[str, ...]]:
    """Every way of reading a folder, each once."""
    place = str(folder)
    return [
        ("status", place, "--sites", "5"),
        ("audit", place, "--all", "--pauses"),
        ("explain", place, url),
        ("explain", place, f"{url}never/found"),
        *(("sql", place, question) for question in _QUESTIONS),
        *(
            ("export", place, kind, "-o", str(out / f"{kind}.jsonl"))
            for kind in ("pages", "links", "urls", "hosts", "fetches")
        ),
        ("export", place, "pages", "-o", str(out / "pages.parquet")),
        ("simulate", "--hosts-of", place, "--days", "0.01"),
    ]


def arguments(port: int, workers: int, seed_url: str) -> list[str]:
    """A quick crawl with small segments and tables that are flushed often, so that files change
    under the readers' hands.
    """
    settings = {
        "politeness.address_delay_s": 0,
        "politeness.address_slots": 100,
        "store.segment_bytes": 200_000,
        "store.commit_s": 0.1,
    }
    return [
        seed_url,
        *("--scope", "any", "--resolve", "*=127.0.0.1", "--delay", "1s", "--workers", str(workers)),
        *(word for name, value in settings.items() for word in ("--set", f"{name}={value}")),
    ]


class Inspection:
    """One crawl with everything that reads it."""

    def __init__(
        self,
        work: Path,
        web: SyntheticWeb,
        port: int,
        workers: int,
        chance: random.Random,
        most: int,
    ) -> None:
        self.trials: list[Trial] = []
        self._folder, self._log, self._out = (
            work / f"crawl-{workers}",
            work / f"crawl-{workers}.out",
            work / "out",
        )
        self._out.mkdir(exist_ok=True)
        self._port, self._workers, self._chance, self._most = port, workers, chance, most
        self._seed_url = web.seed_url(port=port)

    def beside(self, rounds: int) -> None:
        """``rounds`` of all commands beside the crawl, which is killed after each."""
        for number in range(rounds):
            running = RunningCrawl(
                self._folder, arguments(self._port, self._workers, self._seed_url), self._log
            )
            has_begun = running.runs_until(lambda: any(self._folder.glob("journal/*")), 120)
            assert has_begun, self._log.read_text()[-2000:]
            for command in self._shuffled():
                for each in (("audit", str(self._folder)), command):
                    if running.process.poll() is None:
                        self._try(f"{self._workers} workers", each)
            running.kill(Whom.ALL)
            for command in self._shuffled():
                self._try(f"{self._workers} workers, killed ({number})", command)

    def _shuffled(self) -> list[tuple[str, ...]]:
        listed = commands(self._folder, self._seed_url, self._out)
        self._chance.shuffle(listed)
        return listed[: self._most]

    def _try(self, moment: str, command: tuple[str, ...]) -> None:
        self.trials.append(Trial(moment, command, lycosa(*command, timeout=600)))


def prove(work: Path, short: bool, rounds: int = 0) -> list[str]:
    """Runs the proof; gives the lines of its report. Raises ``AssertionError``."""
    web, chance = SyntheticWeb(_SMALL if short else _PLAN), random.Random(7)
    trials = list[Trial]()
    with served(web) as port:
        for workers in WORKERS[1:2] if short else WORKERS:
            inspection = Inspection(work, web, port, workers, chance, 3 if short else 100)
            inspection.beside(rounds or (1 if short else 10))
            trials += inspection.trials
    faults = [trial.fault for trial in trials if trial.fault]
    ran = Counter((trial.moment.split(" (")[0], trial.arguments[0]) for trial in trials)
    failed = Counter(
        (trial.moment.split(" (")[0], trial.arguments[0]) for trial in trials if trial.fault
    )
    report = [
        f"{moment}: {command}: {number} times, {failed[moment, command]} failed"
        for (moment, command), number in sorted(ran.items())
    ]
    assert not faults, "\n".join([*report, *faults[:40]])
    return report
