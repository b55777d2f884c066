"""Two thousand seeded histories of crawls that die and lose things, without one breach; and five
planted bugs, each of them found.

Every history is at least two thousand URLs on fifty hosts with at least ten faults, by the worker
that crawls the real web, with RocksDB and files (``tests/histories.py`` says what happens to it).
Histories run on as many processes as there are cores. A seed that fails is printed and replays
exactly: ``script/prove histories --first SEED --seeds 1``.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import msgspec

from histories import PLANTS, live_and_judge
from planting import Breach
from proofs.seeds import find_plant, on_all_cores

_SEEDS, _SHORT = 2000, 6
_TOLD_S = 60.0


class Lived(msgspec.Struct, frozen=True):
    """What one history came to: requests, injected faults, appended files torn at crashes, CPU
    seconds, and its breach (empty = none).
    """

    seed: int
    requests: int
    faults: int
    torn: int
    cpu_s: float
    breach: str


def live(work: str, seed: int, plant: str = "") -> Lived:
    """One history in a folder of its own, which is gone afterwards."""
    began = time.process_time()
    with tempfile.TemporaryDirectory(dir=work, ignore_cleanup_errors=True) as folder:
        try:
            # The audit reads everything again and takes as long as the rest: every tenth history is
            # audited too.
            bug = PLANTS[plant] if plant else None
            history = live_and_judge(seed, Path(folder), bug, with_audit=seed % 10 == 0)
        except Breach as breach:
            return Lived(seed, 0, 0, 0, time.process_time() - began, str(breach))
    faults = sum(history.faults.values())
    return Lived(
        seed, len(history.crawl.log), faults, history.disk.torn, time.process_time() - began, ""
    )


def prove(work: Path, short: bool, seeds: int = 0, first: int = 0) -> list[str]:
    """Raises ``AssertionError`` with the seeds of the histories that broke a promise, or the bug
    that none of them found.
    """
    seeds = seeds or (_SHORT if short else _SEEDS)
    began = time.monotonic()
    lived: list[Lived] = []
    breaches: list[Lived] = []
    last = began
    for each in on_all_cores(live, [(str(work), seed) for seed in range(first, first + seeds)]):
        (breaches if each.breach else lived).append(each)
        if each.breach:
            print(each.breach, flush=True)
        if time.monotonic() - last >= _TOLD_S:
            last = time.monotonic()
            print(f"{len(lived)} of {seeds} histories", file=sys.stderr, flush=True)
    assert not breaches, (
        f"{len(breaches)} of {seeds} histories broke a promise: seeds"
        f" {sorted(each.seed for each in breaches)}"
    )
    told = [
        (
            f"{len(lived)} histories (seeds {first} to {first + seeds - 1}), no breach, in"
            f" {time.monotonic() - began:.0f} s; {sum(each.cpu_s for each in lived):.0f} s of CPU"
        ),
        (
            f"{sum(each.requests for each in lived):,} requests,"
            f" {sum(each.faults for each in lived):,} faults (least of a history:"
            f" {min(each.faults for each in lived)}), {sum(each.torn for each in lived)} files torn"
            " at a crash"
        ),
    ]
    return told + [find_plant(live, str(work), PLANTS, plant, first) for plant in PLANTS]
