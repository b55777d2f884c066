"""``log/runs.jsonl``: the cost of each run of a crawl, one line a run, written at its end.

``lycosa simulate --means-of`` reads it. Counts are of the whole crawl at the end of the run, so
what a run did is the difference to the line before it, unless a run in between was killed and left
no line. ``captured`` shows that, because it counts only this run. Processor time is that of all
processes of the crawl; ``start_cpu_s`` of it was spent when ``start_captured`` captures were first
reported, mostly on starting interpreters.
"""

from __future__ import annotations

import resource
from pathlib import Path

import msgspec


class RunCost(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    ``began`` is wall time. ``cores`` is what the machine let it use. ``worker_cpu_s`` is the part
    of the workers without their parse children. ``longest_turn_s`` is the maximum duration of one
    turn of a worker's loop.
    """

    began: float
    seconds: float
    workers: int
    cores: int
    cpu_s: float
    start_cpu_s: float
    worker_cpu_s: float
    start_captured: int
    captured: int
    captures: int
    pages: int
    requests: int
    hosts: int
    body_bytes: int
    longest_turn_s: float = 0.0


def append_cost(folder: Path, cost: RunCost) -> None:
    """Add a line.

    A full or failing disk does not fail a crawl that has ended: then there is no line.
    """
    try:
        with _path(folder).open("ab") as file:
            file.write(msgspec.json.encode(cost) + b"\n")
    except OSError:
        return


def read_costs(folder: Path) -> list[RunCost]:
    """The runs of a crawl folder, oldest first.

    A line that cannot be read is skipped, such as one that a full disk cut.
    """
    try:
        lines = _path(folder).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            found.append(msgspec.json.decode(line, type=RunCost))
        except msgspec.DecodeError:
            # A line that was cut by a full disk. The lines are independent.
            continue
    return found


def ended_children_cpu_s() -> float:
    """Processor seconds of all descendants of this process that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _path(folder: Path) -> Path:
    return folder / "log" / "runs.jsonl"
