"""Two thousand seeded histories of crawls that die and lose things, without one breach; and three
planted bugs, each of them found.

Every history is at least two thousand URLs on fifty hosts with at least ten faults, by the worker
that crawls the real web, with RocksDB and files (``tests/histories.py`` says what happens to it).
Histories run on as many processes as there are cores. A seed that fails is printed and replays
exactly: ``script/prove histories --first SEED --seeds 1``.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import msgspec

from histories import PLANTS, Breach, live_and_judge
from planting import assert_fits

_SEEDS, _SHORT, _MOST_TO_FIND = 2000, 6, 200
_TOLD_S = 60.0
_BATCH = 100


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
            history = live_and_judge(seed, Path(folder), plant, with_audit=seed % 10 == 0)
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
    for each in _all_of(work, range(first, first + seeds)):
        (breaches if each.breach else lived).append(each)
        if each.breach:
            print(each.breach, flush=True)
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
    return told + [_found(work, plant, first) for plant in PLANTS]


def _all_of(work: Path, seeds: range) -> Iterator[Lived]:
    """The histories as they end, with a line of progress a minute."""
    done, last = 0, time.monotonic()
    for batch in (seeds[at : at + _BATCH] for at in range(0, len(seeds), _BATCH)):
        # Fresh processes for each batch, for their memory's sake. (A pool that replaces them by
        # itself, max_tasks_per_child, hung.)
        with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
            for future in as_completed([pool.submit(live, str(work), seed) for seed in batch]):
                done += 1
                if time.monotonic() - last >= _TOLD_S:
                    last = time.monotonic()
                    print(f"{done} of {len(seeds)} histories", file=sys.stderr, flush=True)
                yield future.result()


def _found(work: Path, plant: str, first: int) -> str:
    for number in range(_MOST_TO_FIND):
        lived = live(str(work), first + number, plant)
        if lived.breach:
            assert_fits(plant, lived.breach)
            return (
                f"planted bug found by history {number + 1}: {PLANTS[plant]}\n   "
                f" {lived.breach[:160]}"
            )
    raise AssertionError(f"not found by {_MOST_TO_FIND} histories: {PLANTS[plant]}")
