"""Parsers that are killed, and a system without processes to give: no page is lost, and nothing of
it is silent.

A site is a tree in which each page is linked once, so a page that is stored without its links costs
everything below it. One crawl a round goes through faults that a seed draws, at moments counted in
requests that the server has seen:

kill      ``kill -9`` of the parse child, as the system's memory killer does it, with documents in
it: it is stopped for a moment before outage    the same, and for some seconds no process and no
thread can be started by the worker (``strace`` lets clone and fork fail) worker    ``kill -9`` of
the worker, while for some seconds its supervisor can start none

After each crawl every page has been found and fetched, none has a remark of the parser, ``lycosa
audit`` finds nothing, and the summary and the lines of the crawl tell of each outage. One more
crawl is stopped (Ctrl-C) during an outage that does not end before it does: it ends within seconds,
and the same command fetches the rest.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lycosa.base.model.url_state import UrlState
from lycosa.inspect.committed_state import read_folder
from lycosa.synthetic import Response
from proofs.crawls import FAST, RunningCrawl, Whom, children, command_of
from proofs.durability import audit
from serving import served

_HOSTS = 8
_BRANCHES = 4
_CALLS = "vfork,fork,clone,clone3"
_WORDS = ("amber", "birch", "cedar", "delta", "ember", "flint", "grove", "heath", "iris", "jade")
_KINDS = ("kill", "kill", "kill", "outage", "worker")


class Tree:
    """Pages 0 to ``size`` - 1 over eight hosts: page n links to 4n + 1, ..., 4n + 4. Counts the
    pages that were asked for.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.port = 0
        self.asked: Counter[str] = Counter()

    def url(self, number: int) -> str:
        return f"http://h{number % _HOSTS}.test:{self.port}/{number}"

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        name = url.rpartition("/")[2]
        if not name.isdigit() or int(name) >= self.size:
            return Response(404, [("Content-Type", "text/plain")], b"nothing here")
        self.asked[name] += 1
        number = int(name)
        below = range(_BRANCHES * number + 1, min(_BRANCHES * number + _BRANCHES + 1, self.size))
        words = random.Random(number).choices(_WORDS, k=300)
        links = "".join(f'<a href="{self.url(each)}">{each}</a> ' for each in below)
        text = f"<!DOCTYPE html><title>{number}</title><p>{number} {' '.join(words)}</p>{links}"
        return Response(200, [("Content-Type", "text/html")], text.encode())


class Round:
    """One crawl of the tree under the faults of a seed."""

    def __init__(self, tree: Tree, work: Path, seed: int, events: int) -> None:
        self._tree, self._seed = tree, seed
        self._chance = random.Random(f"parser {seed}")
        self.folder, self._log = work / f"round-{seed}", work / f"round-{seed}.out"
        kinds = [*dict.fromkeys(_KINDS), *self._chance.choices(_KINDS, k=max(events - 3, 0))][
            :events
        ]
        self._chance.shuffle(kinds)
        moments = sorted(self._chance.uniform(0.05, 0.7) for _ in kinds)
        self.plan = list(zip(moments, kinds, strict=True))
        self.done: Counter[str] = Counter()

    def arguments(self) -> list[str]:
        return [
            *(
                self._tree.url(0),
                "--scope",
                "any",
                "--resolve",
                "*.test=127.0.0.1",
                *FAST,
                "--delay",
                "0.1s",
            ),
            *(
                "--set",
                "frontier.finish_wait_s=2",
                "--set",
                "store.commit_s=0.3",
                "--set",
                "parse.language=false",
            ),
            *("--set", "seen.near_duplicates=false"),
        ]

    def start(self) -> RunningCrawl:
        return RunningCrawl(self.folder, self.arguments(), self._log)

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def live(self) -> None:
        """The crawl from its start to its end. Raises ``AssertionError``."""
        self._tree.asked.clear()
        running = self.start()
        for moment, kind in self.plan:
            target = int(self._tree.size * moment)
            if not running.runs_until(
                lambda target=target: len(self._tree.asked) >= target, 120
            ) or not self._hit(running, kind):
                break
            self.done[kind] += 1
        code = running.finish(300)
        assert code == 0, f"round {self._seed}: exit {code}\n{self.said()[-3000:]}"

    def _hit(self, running: RunningCrawl, kind: str) -> bool:
        """One fault; whether there was anything to hit."""
        if not running.runs_until(lambda: running.workers() and parse_child(running), 60):
            return False
        running.runs_for(self._chance.uniform(0.0, 0.8))
        child, worker = parse_child(running), next(iter(running.workers()), 0)
        if not child or not worker:
            return False
        seconds = self._chance.uniform(2.5, 6.0)
        if kind != "worker":
            _signal(child, signal.SIGSTOP)
            running.runs_for(self._chance.uniform(0.2, 1.0))
        if kind == "kill":
            _signal(child, signal.SIGKILL)
        elif kind == "outage":
            with without_processes(worker):
                _signal(child, signal.SIGKILL)
                running.runs_for(seconds)
        else:
            with without_processes(running.process.pid):
                running.kill(Whom.WORKER)
                running.runs_for(seconds)
        return True

    def judge(self) -> str:
        """Raises ``AssertionError`` for a page that was lost, a remark, or silence."""
        states, remarks = found(self.folder)
        lost = self._tree.size - states[UrlState.FETCHED]
        told = f"round {self._seed}, {dict(self.done)}"
        assert not lost, (
            f"{told}: {lost} of {self._tree.size} pages lost; {dict(states)},"
            f" {dict(remarks)}\n{self.said()[-3000:]}"
        )
        assert not remarks, f"{told}: {dict(remarks)}\n{self.said()[-3000:]}"
        said = self.said()
        assert said.count("cannot start its parse child") >= bool(self.done["outage"]), (
            f"{told}: silent\n{said[-3000:]}"
        )
        assert said.count("cannot be started") >= bool(self.done["worker"]), (
            f"{told}: silent\n{said[-3000:]}"
        )
        return (
            f"{told}: {states[UrlState.FETCHED]} of {self._tree.size} pages; audit"
            f" {audit(self.folder)}"
        )


def found(folder: Path) -> tuple[Counter[UrlState], Counter[str]]:
    """URLs by state, and those that were fetched by their remark. All pages are different, so
    there is none to be expected.
    """
    states: Counter[UrlState] = Counter()
    remarks: Counter[str] = Counter()
    for entry in read_folder(folder).urls():
        states[entry.state] += 1
        if entry.state is UrlState.FETCHED and entry.record.reason:
            remarks[entry.record.reason.label] += 1
    return states, remarks


def parse_child(running: RunningCrawl) -> int:
    """The process id of the first worker's parse child; 0 when there is none."""
    for worker in running.workers()[:1]:
        return next(
            (
                pid
                for pid in children(worker)
                if "lycosa.stages.parse.parser_process" in command_of(pid)
            ),
            0,
        )
    return 0


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it ended by itself


@contextmanager
def without_processes(pid: int) -> Iterator[None]:
    """A process that can start no process and no thread meanwhile."""
    program = shutil.which("strace")
    assert program is not None, "strace is not installed"
    command = [
        program,
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        f"trace={_CALLS}",
        "-e",
        f"inject={_CALLS}:error=EAGAIN",
        "-p",
        str(pid),
    ]
    tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while tracer.poll() is None and not _is_traced(pid):
            try:
                tracer.wait(0.01)
            except subprocess.TimeoutExpired:
                continue
        yield
    finally:
        tracer.terminate()
        tracer.wait(10)


def _is_traced(pid: int) -> bool:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return all("TracerPid:\t0\n" not in (task / "status").read_text() for task in tasks)
    except (FileNotFoundError, ProcessLookupError):
        return True


def stopped(tree: Tree, work: Path) -> str:
    """Ctrl-C while no parse child can be started; then the same command. Raises
    ``AssertionError``.
    """
    tree.asked.clear()
    crawl = Round(tree, work, -1, 0)
    running = crawl.start()
    assert running.runs_until(
        lambda: len(tree.asked) >= tree.size // 4 and parse_child(running), 60
    ), crawl.said()
    with without_processes(running.workers()[0]):
        _signal(parse_child(running), signal.SIGKILL)
        assert running.runs_until(lambda: "cannot start its parse child" in crawl.said(), 30), (
            crawl.said()
        )
        os.kill(running.process.pid, signal.SIGINT)
        code = running.finish(30)
    assert code == 4, f"exit {code}\n{crawl.said()[-3000:]}"
    between = audit(crawl.folder)
    assert crawl.start().finish(300) == 0, crawl.said()[-3000:]
    states, remarks = found(crawl.folder)
    assert (states[UrlState.FETCHED], remarks) == (tree.size, Counter()), (states, remarks)
    return (
        f"stopped during an outage: audit {between}; then {tree.size} of {tree.size} pages; audit"
        f" {audit(crawl.folder)}"
    )


def prove(work: Path, short: bool, rounds: int = 50) -> list[str]:
    """Gives the lines of the report. Raises ``AssertionError``."""
    tree, report, hits = Tree(400 if short else 700), [], Counter[str]()
    with served(tree) as port:
        tree.port = port
        for seed in range(1 if short else rounds):
            began = time.monotonic()
            one = Round(tree, work, seed, 3 if short else 6)
            one.live()
            report.append(one.judge())
            hits += one.done
            print(f"  {report[-1]}, {time.monotonic() - began:.0f} s", flush=True)
            shutil.rmtree(one.folder)
        report.append(stopped(tree, work))
    return [*report, f"{sum(hits.values())} faults in all: {dict(hits)}"]
