"""A crawl on a cluster that is disturbed again and again ends like one left in peace.

Brokers, an S3 server, a coordinator and three nodes crawl nginx and the synthetic server, through
one failing put in ten and faults drawn by a seed (``cluster_faults``): killed workers, nodes,
machines, brokers and coordinators, stopped processes, nodes that are cut off or behind a network
that drops everything, a coordinator whose clock is wrong, spells in which each put is in conflict
with another request (409), records of other programs in all topics. One machine crawls the same web
undisturbed.

Both must have come to the same URLs in the same states with the same bodies, each URL in one table.
WARC, CDXJ and Parquet in the bucket must agree; each capture that was committed, by the feed
``pages``, must be readable there, and be in the feed once. ``lycosa audit`` must find nothing, and
by the servers' own logs no host was pressed.

Four crawls more, each with one fault. An owner that slept while its shard moved sends and writes
nothing when it wakes, and a crawl whose nodes are all gone continues on empty disks
(``cluster_single``). Damaged parts in the bucket are reported, and everything else is indexed; a log
that was deleted and made again stops the crawl, which is complete after a rescue
(``cluster_losses``).
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from proofs.cluster_faults import Disturber, planned_faults
from proofs.cluster_judges import (
    cluster_ends,
    damage_notes,
    differences,
    folder_ends,
    judge_audit,
    judge_feed,
    judge_foreign,
    judge_outputs,
    judge_politeness,
    parts_left,
    read_feed,
    requests_of,
)
from proofs.cluster_losses import ALL_OPEN, damage_parts, judge_damaged, remake_log
from proofs.cluster_parts import Cluster, missing_service, running_cluster
from proofs.cluster_single import await_progress, begin_anew, wake_after_move
from proofs.cluster_web import SHORT, WHOLE, Size, Web
from proofs.crawls import LYCOSA, lycosa
from proofs.outputs import Outputs
from proofs.programs import Program

_STEP_S = 0.2
_MOST_S = 3000.0


class Calm(NamedTuple):
    """The undisturbed crawl of a web, and how many requests it took."""

    size: Size
    folder: Path
    requests: int


class Teller:
    """A line for each event, with its time, in a file."""

    def __init__(self, path: Path) -> None:
        self._path, self._began = path, time.monotonic()

    def __call__(self, text: str) -> None:
        with self._path.open("a") as out:
            out.write(f"{time.monotonic() - self._began:7.1f} {text}\n")


def crawl_calmly(web: Web, work: Path) -> Path:
    """The same crawl on one machine."""
    folder = work / "calm"
    arguments = [*web.seeds, "--dir", str(folder), "--config", str(web.config), "--workers", "2"]
    done = lycosa("crawl", *arguments, timeout=1800)
    assert done.code == 0, done
    return folder


def submit(cluster: Cluster, web: Web) -> Program:
    """The operator's ``lycosa crawl --cluster``, which shows the crawl until its end."""
    command = [*LYCOSA, "crawl", *web.seeds, "--cluster", str(cluster.file)]
    crawl = Program("crawl", command, cluster.work / "crawl.log", cluster.env)
    crawl.start()
    return crawl


def run_through(
    cluster: Cluster,
    crawl: Program,
    step: Callable[[], None] = lambda: None,
    most_s: float = _MOST_S,
    code: int = 0,
) -> None:
    """Until the crawl is over, with an exit code; ``step`` is called meanwhile. Raises
    ``AssertionError``.
    """
    deadline = time.monotonic() + most_s
    while not crawl.wait(_STEP_S):
        assert time.monotonic() < deadline, "\n".join(
            [f"not over after {most_s:.0f} s", crawl.said(), status_of(cluster)]
        )
        step()
    assert crawl.code == code, (crawl.code, crawl.said())


def status_of(cluster: Cluster) -> str:
    """What ``lycosa cluster status`` says."""
    done = cluster.run("cluster", "status", str(cluster.file), timeout=30)
    return done.out + done.err


def disturb(cluster: Cluster, web: Web, expected: int, seed: int, tell: Teller) -> Disturber:
    """Runs the crawl to its end through its faults."""
    chance = random.Random(seed)
    crawl, before = submit(cluster, web), web.requests()
    disturber = Disturber(cluster, planned_faults(cluster.size.faults, chance), chance, tell)
    try:
        run_through(cluster, crawl, lambda: disturber.step((web.requests() - before) / expected))
    finally:
        disturber.undo_all()
        crawl.end()
    return disturber


def judge(cluster: Cluster, web: Web, calm: Path, began: float) -> tuple[list[str], list[str]]:
    """Holds what a cluster left against an undisturbed crawl. Gives a report and what is wrong."""
    outputs = Outputs(cluster.bucket)
    polite, wrong = judge_politeness(requests_of(web, began))
    fed, gaps = judge_feed(read_feed(cluster), outputs)
    audited, unbalanced = judge_audit(cluster)
    ends = cluster_ends(cluster, outputs)
    wrong += [*gaps, *unbalanced, *judge_outputs(outputs), *differences(folder_ends(calm), ends)]
    wrong += [f"damage was noted: {note}" for note in damage_notes(cluster)]
    if left := parts_left(cluster.bucket):
        polite += f"; {len(left)} parts are not deleted yet"
    count = f"{len(ends.states)} URLs, {len(ends.bodies)} with a body"
    return [count, polite, fed, audited], wrong


def prove(
    work: Path, short: bool, seeds: int = 1, first: int = 1, kills: int = 0, pages: int = 0
) -> list[str]:
    """Runs the proof; gives the lines of its report. Raises ``AssertionError``."""
    size = sized(SHORT if short else WHOLE, kills, pages)
    with calm_web(work, size) as (web, calm):
        report = [f"undisturbed on one machine: {calm.requests} requests"]
        for seed in range(first, first + seeds):
            report += prove_disturbed(web, work / f"seed{seed}", calm, seed)
    with calm_web(work / "single", SHORT) as (web, calm):
        report += prove_woken(web, work / "woken", calm)
        report += prove_anew(web, work / "anew", calm)
        report += prove_damaged(web, work / "damaged", calm)
        report += prove_remade(web, work / "remade", calm)
    return report


def sized(size: Size, faults: int = 0, pages: int = 0) -> Size:
    """Another number of faults, or roughly so many pages."""
    if pages:
        size = size._replace(
            static_pages=max(pages // 2 // size.static_hosts, 5),
            synthetic_pages=max(pages // 2 // size.synthetic_hosts, 5),
        )
    return size._replace(faults=faults or size.faults)


@contextmanager
def calm_web(work: Path, size: Size) -> Iterator[tuple[Web, Calm]]:
    """A web, and its undisturbed crawl."""
    assert not (missing := missing_service()), f"missing: {missing}"
    with Web(work, size) as web:
        folder = crawl_calmly(web, work)
        yield web, Calm(size, folder, web.requests())


def prove_disturbed(web: Web, work: Path, calm: Calm, seed: int = 1) -> list[str]:
    """One crawl through faults."""
    began, clock = time.time(), time.monotonic()
    with running_cluster(work, web, calm.size, seed) as cluster:
        tell = Teller(work / "faults.log")
        disturber = disturb(cluster, web, calm.requests, seed, tell)
        seconds = time.monotonic() - clock
        report, wrong = judge(cluster, web, calm.folder, began)
        foreign, unkept = judge_foreign(cluster, disturber.foreign)
        puts = cluster.failed_puts
    report = [
        f"seed {seed}: {disturber.done.total()} faults in {seconds:.0f} s ({_counts(disturber.done)}),"
        f" {puts.total()} puts failed ({_counts(puts)})",
        *report,
        f"wrong clocks of the coordinator, by its own judgement: {_counts(disturber.clocks)}",
        foreign,
    ]
    return _shown(report, [*disturber.wrong, *wrong, *unkept])


def prove_woken(web: Web, work: Path, calm: Calm) -> list[str]:
    """An owner that slept while its shard moved."""
    began = time.time()
    with running_cluster(work, web, calm.size, 1) as cluster:
        before, crawl = web.requests(), submit(cluster, web)
        try:
            await_progress(web, before, calm.requests // 5, crawl)
            found = wake_after_move(cluster, crawl)
            run_through(cluster, crawl)
        finally:
            crawl.end()
        report, wrong = judge(cluster, web, calm.folder, began)
    return _shown([*found, *report], wrong)


def prove_anew(web: Web, work: Path, calm: Calm) -> list[str]:
    """A crawl without its nodes and their disks."""
    began = time.time()
    with running_cluster(work, web, calm.size, 1) as cluster:
        before, crawl = web.requests(), submit(cluster, web)
        try:
            await_progress(web, before, calm.requests // 3, crawl)
            crawl.end()
            done, found = web.requests() - before, begin_anew(cluster)
            crawl = submit(cluster, web)
            run_through(cluster, crawl)
        finally:
            crawl.end()
        again = web.requests() - before - calm.requests
        report, wrong = judge(cluster, web, calm.folder, began)
    line = f"{found}, after {done} of {calm.requests} requests; {again} were repeated"
    return _shown([line, *report], wrong)


def prove_damaged(web: Web, work: Path, calm: Calm) -> list[str]:
    """Parts of the bucket that are damaged."""
    with running_cluster(work, web, calm.size, 1, *ALL_OPEN) as cluster:
        before, crawl = web.requests(), submit(cluster, web)
        try:
            await_progress(web, before, calm.requests // 2, crawl)
            damaged = damage_parts(cluster, crawl)
            run_through(cluster, crawl, code=1)
        finally:
            crawl.end()
        ends = cluster_ends(cluster, Outputs(cluster.bucket))
        line, wrong = judge_damaged(cluster, crawl, damaged, folder_ends(calm.folder), ends)
    return _shown([line], wrong)


def prove_remade(web: Web, work: Path, calm: Calm) -> list[str]:
    """A log that is deleted and made again under running owners."""
    began = time.time()
    with running_cluster(work, web, calm.size, 1) as cluster:
        before, crawl = web.requests(), submit(cluster, web)
        try:
            await_progress(web, before, calm.requests // 2, crawl)
            found = remake_log(cluster, crawl)
            cluster.start_programs()
            crawl = submit(cluster, web)
            run_through(cluster, crawl)
        finally:
            crawl.end()
        again = web.requests() - before - calm.requests
        report, wrong = judge(cluster, web, calm.folder, began)
    return _shown([*found, f"{again} requests were repeated", *report], wrong)


def _counts(kinds: Counter[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


def _shown(report: list[str], wrong: list[str]) -> list[str]:
    assert not wrong, "\n".join([*report, f"{len(wrong)} things are wrong:", *wrong[:30]])
    return report
