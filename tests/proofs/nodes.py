"""Histories of a crawl on many nodes, two thousand with 4 to 8 shards and a hundred with 40,
without a breach, and five hundred on machines that lose their parsers; twelve planted bugs, all
found.

``tests/nodes`` says what happens in a history: the crawler's own coordinator, node logic, workers,
commits and exchange in virtual time, over a Kafka, an object store and inbox topics in memory.
Histories run on as many processes as there are cores. A seed that fails is printed and replays
exactly: ``script/prove nodes --first SEED --seeds 1``.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import msgspec

from nodes.history import Breach, NodesHistory, live_and_judge
from nodes.plants import PLANTS
from nodes.unparsed import UnparsedHistory
from planting import assert_fits

_SEEDS, _LARGE, _SHORT, _MOST_TO_FIND = 2000, 100, 6, 300
_LARGE_SHARDS, _LARGE_NODES = 40, 5
_TOLD_S = 60.0
_BATCH = 200


class Outcome(msgspec.Struct, frozen=True):
    """What one history came to, and its breach (empty = none)."""

    seed: int
    requests: int = 0
    faults: int = 0
    takeovers: int = 0
    cpu_s: float = 0.0
    breach: str = ""


def live(
    work: str,
    seed: int,
    shards: int = 0,
    nodes: int = 0,
    plant: str = "",
    kind: type[NodesHistory] = NodesHistory,
) -> Outcome:
    """One history in a folder of its own, which is gone afterwards."""
    began = time.process_time()
    with tempfile.TemporaryDirectory(dir=work, ignore_cleanup_errors=True) as folder:
        try:
            lived = live_and_judge(seed, Path(folder), shards, nodes, plant, kind)
        except Breach as breach:
            return Outcome(seed, cpu_s=time.process_time() - began, breach=str(breach))
    return Outcome(seed, lived.requests, lived.faults, lived.takeovers, time.process_time() - began)


def prove(work: Path, short: bool, seeds: int = 0, first: int = 0) -> list[str]:
    """Raises ``AssertionError`` with the seeds of the histories that broke a promise, or the bug
    that none of them found.
    """
    small, large = (
        seeds or (_SHORT if short else _SEEDS),
        seeds // 20 if seeds else 1 if short else _LARGE,
    )
    told = [
        _lived(work, range(first, first + small), 0, 0, "4 to 8 shards on 1 to 5 nodes"),
        _lived(
            work,
            range(first, first + max(small // 4, 1)),
            0,
            0,
            "machines without parsers",
            UnparsedHistory,
        ),
    ]
    if large:
        told.append(
            _lived(
                work,
                range(first, first + large),
                _LARGE_SHARDS,
                _LARGE_NODES,
                f"{_LARGE_SHARDS} shards on {_LARGE_NODES} nodes",
            )
        )
    return told + [_found(work, plant, first) for plant in PLANTS]


def _lived(
    work: Path,
    seeds: range,
    shards: int,
    nodes: int,
    what: str,
    kind: type[NodesHistory] = NodesHistory,
) -> str:
    began = last = time.monotonic()
    outcomes: list[Outcome] = []
    for each in _all_of(work, seeds, shards, nodes, kind):
        outcomes.append(each)
        if each.breach:
            print(each.breach, flush=True)
        if time.monotonic() - last >= _TOLD_S or len(outcomes) == len(seeds):
            last = time.monotonic()
            clean = sum(1 for lived in outcomes if not lived.breach)
            print(f"{clean} of {len(seeds)} histories of {what} without a breach", flush=True)
    broken = sorted(each.seed for each in outcomes if each.breach)
    assert not broken, (
        f"{len(broken)} of {len(seeds)} histories ({what}) broke a promise: seeds {broken}"
    )
    return (
        f"{len(outcomes)} histories of {what} (seeds {seeds.start} to {seeds.stop - 1}), no breach,"
        f" in {time.monotonic() - began:.0f} s; {sum(each.cpu_s for each in outcomes):.0f} s of"
        f" CPU, {sum(each.requests for each in outcomes):,} requests,"
        f" {sum(each.takeovers for each in outcomes):,} takeovers,"
        f" {sum(each.faults for each in outcomes):,} faults (least of a history:"
        f" {min(each.faults for each in outcomes)})"
    )


def _all_of(
    work: Path, seeds: range, shards: int, nodes: int, kind: type[NodesHistory]
) -> Iterator[Outcome]:
    """The histories as they end."""
    for batch in (seeds[at : at + _BATCH] for at in range(0, len(seeds), _BATCH)):
        with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
            for future in as_completed(
                [pool.submit(live, str(work), seed, shards, nodes, "", kind) for seed in batch]
            ):
                yield future.result()


def _some(seeds: range, number: int) -> Iterator[range]:
    return (seeds[at : at + number] for at in range(0, len(seeds), number))


def _found(work: Path, plant: str, first: int) -> str:
    """Tries seeds, as many at a time as there are cores, until one finds the bug."""
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        for some in _some(range(first, first + _MOST_TO_FIND), os.cpu_count() or 1):
            for lived in pool.map(
                live,
                [str(work)] * len(some),
                some,
                [0] * len(some),
                [0] * len(some),
                [plant] * len(some),
            ):
                if lived.breach:
                    assert_fits(plant, lived.breach)
                    return (
                        f"planted bug found by history {lived.seed - first + 1}: {PLANTS[plant]}\n "
                        f"   {lived.breach[:160]}"
                    )
    raise AssertionError(f"not found by {_MOST_TO_FIND} histories: {PLANTS[plant]}")
