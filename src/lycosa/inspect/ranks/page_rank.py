"""PageRank by power iteration.

    r(v) = (1 - d) / n + d * (sum of r(u) / out(u) over the edges u -> v  +  D / n)

``d`` is the damping factor, ``D`` the sum of the ranks of vertices without an edge to another one:
what they have is divided among all vertices. The ranks add up to 1. (Page, Brin, Motwani and
Winograd 1999; dangling vertices as in Boldi, Santini and Vigna, "PageRank: functional
dependencies", 2009, strongly preferential with a uniform vector, which igraph and networkx compute
too.)

Each step reads the edges once, in the order of their file. The sum of all errors is at most d / (1
- d) times the sum of the changes in the last step, 5.7 times at 0.85.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lycosa.inspect.ranks.link_graph import LinkGraph
from lycosa.inspect.ranks.work_files import Arrays, WorkFolder

Values = np.ndarray[Any, np.dtype[np.float64]]

_EDGES = 2 << 20  # of which the values are in memory at a time
_MOST_STEPS = 1000  # more than any tolerance that a float can express needs at 0.95
_CHECKPOINT_S = 20.0


def page_rank(
    graph: LinkGraph,
    damping: float,
    tolerance: float,
    work: WorkFolder,
    checkpoint: str,
    tell: Callable[[int, float], object],
) -> Arrays:
    """``ranks`` of a graph with at least one vertex, the number of ``steps`` and the last
    ``change``. ``tell`` gets the last two after each step.
    """
    found = work.load_checkpoint(checkpoint)
    count = graph.vertices
    ranks: Values = found["ranks"] if found else np.full(count, 1.0 / count)
    step = int(found["step"]) if found else 0
    is_dangling = graph.out == 0
    saved, change = time.monotonic(), np.inf
    while change > tolerance and step < _MOST_STEPS:
        share = np.where(is_dangling, 0.0, ranks) / np.maximum(graph.out, 1)
        lost = float(ranks[is_dangling].sum())
        following = _sums(graph, share)
        following *= damping
        following += (1.0 - damping + damping * lost) / count
        change = float(np.abs(following - ranks).sum())
        ranks, step = following, step + 1
        tell(step, change)
        if time.monotonic() - saved > _CHECKPOINT_S:
            work.save_checkpoint(checkpoint, {"ranks": ranks, "step": np.array(step)})
            saved = time.monotonic()
    return {"ranks": ranks, "steps": np.array(step), "change": np.array(change)}


def _sums(graph: LinkGraph, share: Values) -> Values:
    """For each vertex the sum of the shares of those that link to it."""
    sums = np.zeros(graph.vertices)
    for begin in range(0, graph.edges, _EDGES):
        end = min(begin + _EDGES, graph.edges)
        # The vertices whose edges are here; the edges of the first and last may be in two parts.
        first = int(np.searchsorted(graph.offsets, begin, side="right")) - 1
        last = int(np.searchsorted(graph.offsets, end, side="left"))
        starts = np.clip(graph.offsets[first : last + 1], begin, end) - begin
        rows = np.flatnonzero(np.diff(starts))
        values = share.take(graph.sources[begin:end])
        sums[first + rows] += np.add.reduceat(values, starts[rows])
    return sums
