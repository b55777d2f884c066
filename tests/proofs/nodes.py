"""Histories of a crawl on many nodes, two thousand with 4 to 8 shards and a hundred with 40, without a
breach; five hundred on machines that lose their parsers, five hundred in which pages are rendered on
four machines, and two hundred in which operators and callers take part or everything happens at
once; planted bugs, all found.

``tests/nodes`` says what happens in a history: the crawler's own coordinator, node logic, workers,
commits and exchange in virtual time, over a Kafka, an object store and inbox topics in memory.
Histories run on as many processes as there are cores. A seed that fails is printed and replays
exactly: ``script/prove nodes --first SEED --seeds 1``.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from nodes.changes import Changes
from nodes.clocks import Clocks
from nodes.doors import Doors
from nodes.history import live_and_judge
from nodes.outside import Outside
from nodes.plants import PLANTS
from nodes.plugin import Plugin
from nodes.pools import Pool
from nodes.refetches import Refetches
from nodes.renders import Renders
from nodes.shaky import Shaky
from nodes.stops import Stops
from nodes.unparsed import Unparsed
from planting import Breach
from proofs.seeds import find_plant, on_all_cores

_SEEDS, _LARGE, _SHORT = 2000, 100, 6
_LARGE_SHARDS, _LARGE_NODES = 40, 5
_RENDERING_SHARE = 4  # by how much histories with renderers are fewer
_TOLD_S = 60.0
WITH_PLUGINS: dict[str, tuple[int, tuple[type[Plugin], ...]]] = {
    "machines without parsers": (4, (Unparsed,)),
    "refetches": (20, (Refetches,)),
    "operators and callers": (20, (Changes, Stops, Outside)),
    "many faults": (20, (Outside, Pool, Changes, Clocks, Doors, Shaky, Stops, Unparsed)),
}
"""Combinations, and by how much their histories are fewer than those without."""


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
    plant: str = "",
    shards: int = 0,
    nodes: int = 0,
    plugins: Sequence[type[Plugin]] = (),
) -> Outcome:
    """One history in a folder of its own, which is gone afterwards."""
    began = time.process_time()
    with tempfile.TemporaryDirectory(dir=work, ignore_cleanup_errors=True) as folder:
        try:
            bug = PLANTS[plant] if plant else None
            lived = live_and_judge(seed, Path(folder), plugins, shards, nodes, bug)
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
        _lived(work, range(first, first + small), "4 to 8 shards on 1 to 5 nodes"),
        *(
            _lived(work, range(first, first + max(small // share, 1)), what, plugins)
            for what, (share, plugins) in WITH_PLUGINS.items()
        ),
    ]
    rendering = range(first, first + max(small // _RENDERING_SHARE, 1))
    told.append(_lived(work, rendering, "four nodes and renderers", (Renders,), (4, 4)))
    if large:
        what = f"{_LARGE_SHARDS} shards on {_LARGE_NODES} nodes"
        size = (_LARGE_SHARDS, _LARGE_NODES)
        told.append(_lived(work, range(first, first + large), what, (), size))
    return told + [find_plant(live, str(work), PLANTS, plant, first) for plant in PLANTS]


def _lived(
    work: Path,
    seeds: range,
    what: str,
    plugins: Sequence[type[Plugin]] = (),
    size: tuple[int, int] = (0, 0),
) -> str:
    began = last = time.monotonic()
    outcomes: list[Outcome] = []
    cases = [(str(work), seed, "", *size, plugins) for seed in seeds]
    for each in on_all_cores(live, cases):
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
