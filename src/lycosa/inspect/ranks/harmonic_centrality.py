"""Harmonic centrality: the sum of 1 / distance over all vertices from which a vertex is reached.

The **ball** of a vertex at distance t is the set of vertices from which at most t edges lead to it.
The balls at t + 1 are the unions of those at t over the edges, so a few passes over the edges give
the sizes of all balls, and

    H(v) = sum over t of (size of the ball of v at t - size at t - 1) / t

A graph that is small enough has its balls as **bit sets**, for some thousands of sources at a
time: the result is exact. In a larger one a ball is a **HyperLogLog counter** of 2^p registers
(HyperBall: Boldi and Vigna, "In-core computation of geometric centralities with HyperBall", 2013),
whose relative standard deviation is 1.04 / 2^(p/2). Both unions are one operation on rows of bytes.

A vertex is only looked at again when the ball of one that links to it has grown, so the last of
many steps cost little.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lycosa.inspect.ranks.link_graph import LinkGraph, Numbers
from lycosa.inspect.ranks.page_rank import Values
from lycosa.inspect.ranks.work_files import Arrays, WorkFolder

EXACT, HYPERBALL = "exact", "hyperball"

_ROWS, _EDGES = 8192, 4 << 20  # of a range of vertices that is worked on at once
_WORDS = 32  # of a row of a bit set: 2,048 sources at a time
_FEW = 16  # vertices with more links than others in their range, each done by itself
_PIECE = 1 << 16
# One step over the edges reads at most this, so that small graphs have more registers.
_READ_BYTES = 2_560_000_000
_LEAST_REGISTERS, _MOST_REGISTERS = 6, 12

Cells = np.ndarray[Any, Any]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
OnDistance = Callable[[int, float], object]
"""Gets the distance reached and the share of the work that is done, or of vertices that changed."""


class _Ball(NamedTuple):
    """How balls are kept: the union of two, the size of each, the type of a cell of a row."""

    union: np.ufunc
    sizes: Callable[[Cells], Values]
    cell: type[np.generic]


def registers_for(edges: int) -> int:
    """The binary logarithm of the number of registers for a graph with so many edges."""
    fitting = int(np.log2(max(_READ_BYTES // max(edges, 1), 1)))
    return min(max(fitting, _LEAST_REGISTERS), _MOST_REGISTERS)


def exact_harmonic(graph: LinkGraph, work: WorkFolder, name: str, tell: OnDistance) -> Arrays:
    """``values`` of all vertices, and the ``radius``: the greatest distance.

    ``name`` is the beginning of the names of files in ``work``.
    """
    count = graph.vertices
    words = min(_WORDS, -(-count // 64))
    found = work.load_checkpoint(f"{name}.npz")
    values: Values = found["values"] if found else np.zeros(count)
    begin, radius = (int(found["begin"]), int(found["radius"])) if found else (0, 0)
    while begin < count:
        balls = _two(work, name, (count, words), np.uint64, is_new=True)
        sources = np.arange(begin, min(begin + 64 * words, count))
        bit = sources - begin
        balls[0][sources, bit >> 6] = np.uint64(1) << (bit & 63).astype(np.uint64)
        distance, current, sizes = 0, 0, _population(balls[0])
        changed: Flags = sizes > 0
        while changed.any():
            distance, current = distance + 1, 1 - current
            sizes, changed = _step(_SETS, graph, balls, current, changed, sizes, values, distance)
        radius, begin = max(radius, distance - 1), begin + 64 * words
        work.save_checkpoint(
            f"{name}.npz",
            {"values": values, "begin": np.array(begin), "radius": np.array(radius)},
        )
        tell(radius, min(begin / count, 1.0))
    return {"values": values, "radius": np.array(radius)}


def hyperball(
    graph: LinkGraph, registers: int, work: WorkFolder, name: str, tell: OnDistance
) -> Arrays:
    """An estimate of what ``exact_harmonic`` gives, with ``2 ** registers`` bytes a vertex, twice.

    The same graph gives the same numbers in each run.
    """
    count = graph.vertices
    found = work.load_checkpoint(f"{name}.npz", has_scratch=True)
    balls = _two(work, name, (count, 1 << registers), np.uint8, is_new=found is None)
    if found is None:
        _fill(balls[0], registers)
        found = {
            "values": np.zeros(count),
            "sizes": _in_parts(_estimate, balls[0]),
            "changed": np.ones(count, dtype=np.bool_),
            "distance": np.array(0),
        }
    values, sizes, changed = found["values"], found["sizes"], found["changed"]
    distance = int(found["distance"])
    while changed.any():
        distance += 1
        sizes, changed = _step(
            _COUNTERS, graph, balls, distance & 1, changed, sizes, values, distance
        )
        work.save_checkpoint(
            f"{name}.npz",
            {"values": values, "sizes": sizes, "changed": changed, "distance": np.array(distance)},
        )
        tell(distance, float(np.count_nonzero(changed)) / count)
    return {"values": values, "radius": np.array(max(distance - 1, 0))}


def _two(
    work: WorkFolder, name: str, shape: tuple[int, int], kind: type[np.generic], is_new: bool
) -> tuple[Cells, Cells]:
    """The balls of this distance and of the next, which change places."""
    first, second = (work.scratch_file(f"{name}.{at}", shape, kind, is_new) for at in (0, 1))
    return first, second


def _step(
    ball: _Ball,
    graph: LinkGraph,
    balls: tuple[Cells, Cells],
    into: int,
    grown: Flags,
    sizes: Values,
    values: Values,
    distance: int,
) -> tuple[Values, Flags]:
    """Make the balls of the next distance in ``balls[into]``, and add to ``values``.

    Returns the sizes and which balls have changed.
    """
    before, after = balls[1 - into], balls[into]
    sizes, changed = sizes.copy(), np.zeros(len(grown), dtype=np.bool_)
    for begin, end in graph.spans(_EDGES, _ROWS):
        united = _united(ball.union, before, graph, begin, end, grown)
        after[begin:end] = united
        rows = np.flatnonzero((united != before[begin:end]).any(axis=1))
        if len(rows):
            changed[begin + rows] = True
            now = np.maximum(ball.sizes(united[rows]), sizes[begin + rows])
            values[begin + rows] += (now - sizes[begin + rows]) / distance
            sizes[begin + rows] = now
    return sizes, changed


def _united(
    union: np.ufunc, before: Cells, graph: LinkGraph, begin: int, end: int, grown: Flags
) -> Cells:
    """The balls of a range of vertices, united with the grown ones of those that link to them."""
    sources, starts = _grown_sources(graph, begin, end, grown)
    degrees = np.diff(starts)
    # By falling number of links, so that the vertices with a k-th link are the first ones: each
    # operation below works on whole rows in place, which is ten times faster than ``reduceat``.
    order = np.argsort(-degrees, kind="stable")
    degrees, starts = degrees[order], starts[:-1][order]
    united = before[begin:end][order]
    at = 0
    while True:
        having = int(np.searchsorted(-degrees, -at, side="left"))
        if having <= _FEW:
            break
        linking = before.take(sources[starts[:having] + at], axis=0)
        union(united[:having], linking, out=united[:having])
        at += 1
    for row in range(having):
        stop = int(starts[row] + degrees[row])
        for piece in range(int(starts[row]) + at, stop, _PIECE):
            linking = before.take(sources[piece : min(piece + _PIECE, stop)], axis=0)
            union(united[row], union.reduce(linking, axis=0), out=united[row])
    result = np.empty_like(united)
    result[order] = united
    return result


def _grown_sources(
    graph: LinkGraph, begin: int, end: int, grown: Flags
) -> tuple[Numbers, np.ndarray[Any, np.dtype[np.int64]]]:
    """The vertices with a grown ball that link to a range of vertices, and where those of each
    vertex begin.
    """
    first, last = int(graph.offsets[begin]), int(graph.offsets[end])
    sources = np.asarray(graph.sources[first:last])
    keep = grown.take(sources)
    kept = np.concatenate(([0], np.cumsum(keep)))
    return sources[keep], kept[graph.offsets[begin : end + 1] - first]


def _population(rows: Cells) -> Values:
    """The sizes of bit sets."""
    sizes: Values = np.bitwise_count(rows).sum(axis=1, dtype=np.float64)
    return sizes


def _estimate(rows: Cells) -> Values:
    """The sizes that HyperLogLog counters estimate (Flajolet et al. 2007, with its correction for
    small sets by the number of empty registers).
    """
    count = rows.shape[1]
    # 2 ** -register as the bits of a float: a table of powers would be four times slower.
    powers = ((np.int32(127) - rows.astype(np.int32)) << 23).view(np.float32)
    estimate: Values = _alpha(count) * count * count / powers.sum(axis=1, dtype=np.float64)
    empty = np.count_nonzero(rows == 0, axis=1)
    small = (estimate <= 2.5 * count) & (empty > 0)
    estimate[small] = count * np.log(count / empty[small])
    return estimate


def _alpha(count: int) -> float:
    return 0.709 if count == 64 else 0.7213 / (1 + 1.079 / count)


def _in_parts(sizes: Callable[[Cells], Values], rows: Cells) -> Values:
    return np.concatenate(
        [sizes(np.asarray(rows[at : at + _ROWS])) for at in range(0, len(rows), _ROWS)]
    )


def _fill(rows: Cells, registers: int) -> None:
    """Put each vertex into its own counter."""
    for begin in range(0, len(rows), _PIECE):
        vertices = np.arange(begin, min(begin + _PIECE, len(rows)), dtype=np.uint64)
        mixed = _mixed(vertices)
        register = (mixed >> np.uint64(64 - registers)).astype(np.int64)
        rest = (mixed << np.uint64(registers)) | np.uint64((1 << registers) - 1)
        # The number of leading zeros and one: 64 minus the bits of the number.
        bits = np.floor(np.log2(rest.astype(np.float64))) + 1
        rows[vertices.astype(np.int64), register] = (65 - np.minimum(bits, 64)).astype(np.uint8)


def _mixed(numbers: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Hashes of vertex numbers: the finalizer of SplitMix64 (Steele, Lea and Flood 2014)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


_SETS = _Ball(np.bitwise_or, _population, np.uint64)
_COUNTERS = _Ball(np.maximum, _estimate, np.uint8)
