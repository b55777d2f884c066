"""A graph in files: for each vertex the vertices that link to it, as PageRank and balls need it.

``sources`` has the vertices with an edge to vertex 0, then those to vertex 1, and so on; those of
vertex ``v`` are from ``offsets[v]`` to ``offsets[v + 1]``. Each edge is there once, and none leads
from a vertex to itself. The sources are mapped from a file; memory has 12 bytes for each vertex.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.int32]]
Offsets = np.ndarray[Any, np.dtype[np.int64]]

MAX_VERTICES = 2**31 - 1


class LinkGraph(NamedTuple):
    """See above; ``out`` is the number of edges from each vertex."""

    sources: Numbers
    offsets: Offsets
    out: Numbers

    @property
    def vertices(self) -> int:
        return len(self.out)

    @property
    def edges(self) -> int:
        return len(self.sources)

    @property
    def dangling(self) -> int:
        """The number of vertices without an edge to another one."""
        return int(np.count_nonzero(self.out == 0))

    def spans(self, edges: int, rows: int) -> Iterator[tuple[int, int]]:
        """Divide the vertices into ranges of at most so many edges and vertices.

        A vertex with more edges is a range by itself.
        """
        begin, count = 0, self.vertices
        while begin < count:
            limit = int(self.offsets[begin]) + edges
            end = int(np.searchsorted(self.offsets, limit, side="right")) - 1
            end = min(max(end, begin + 1), begin + rows, count)
            yield begin, end
            begin = end


def write_graph(
    pairs: Iterable[tuple[Numbers, Numbers]], vertices: int, path: Path
) -> dict[str, np.ndarray[Any, Any]]:
    """Write the sources of a graph to a file; returns offsets and numbers of edges.

    ``pairs`` are batches of (source, target), in the order of target and source, each pair once.
    """
    counts = np.zeros(vertices + 1, dtype=np.int64)
    out = np.zeros(vertices, dtype=np.int32)
    with path.open("wb") as file:
        for sources, targets in pairs:
            if len(targets):
                first = int(targets[0])
                found = np.bincount(targets - first)
                counts[first + 1 : first + 1 + len(found)] += found
                out += np.bincount(sources, minlength=vertices).astype(np.int32)
                file.write(np.ascontiguousarray(sources, dtype=np.int32).tobytes())
    return {"offsets": np.cumsum(counts), "out": out}


def open_graph(path: Path, arrays: dict[str, np.ndarray[Any, Any]]) -> LinkGraph:
    """The graph that ``write_graph`` wrote."""
    if path.stat().st_size:
        sources: Numbers = np.memmap(path, dtype=np.int32, mode="r")
    else:
        sources = np.zeros(0, dtype=np.int32)  # an empty file cannot be mapped
    return LinkGraph(sources, arrays["offsets"], arrays["out"])
