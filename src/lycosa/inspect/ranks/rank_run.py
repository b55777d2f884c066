"""Computes a result of ranks, step by step, each a file of the work folder.

    links        the links that count, and the pages that were fetched
    hosts        their hosts, reversed names and sites
    of each level: names, sources and offsets of the graph, PageRank, harmonic centrality, texts
    result       ``ranks/NUMBER/`` in the store; then the work folder is deleted

A run that was killed continues with the first step whose file is missing, over the links that were
stored when it began.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.ranks.counted_links import (
    CountedLinks,
    write_host_pairs,
    write_hosts,
    write_links,
)
from lycosa.inspect.ranks.graph_tables import GraphTables, open_duckdb
from lycosa.inspect.ranks.harmonic_centrality import (
    EXACT,
    HYPERBALL,
    exact_harmonic,
    hyperball,
    registers_for,
)
from lycosa.inspect.ranks.link_graph import LinkGraph, open_graph, write_graph
from lycosa.inspect.ranks.page_rank import page_rank
from lycosa.inspect.ranks.work_files import Arrays, WorkFolder
from lycosa.state.objects.sameness import file_content
from lycosa.state.ranks.rank_results import (
    PARTS,
    RankedFile,
    RankedLevel,
    RankManifest,
    RankOptions,
    RankResults,
)


class RankProgress(msgspec.Struct):
    """What a run does: the ``step`` of ``steps``, in words, and how far it is."""

    step: int = 0
    steps: int = 0
    text: str = ""
    detail: str = ""


class NoLinks(Exception):
    """No page was fetched, so there is nothing to rank."""


class RankRun:
    """One run. ``read`` opens the crawl, which only the first step needs.

    ``told`` gets the progress. Raises ``NoLinks``, ``TooManyVertices``, ``ObjectError``,
    ``OSError``, ``duckdb.Error``, and what ``CrawlTables`` raises.
    """

    def __init__(
        self,
        reader: CrawlReader,
        results: RankResults,
        work: WorkFolder,
        options: RankOptions,
        levels: Sequence[str],
        memory_mb: int,
        told: Callable[[RankProgress], object] = lambda progress: None,
    ) -> None:
        self._reader, self._results, self._work = reader, results, work
        self._options, self._levels, self._memory_mb = options, levels, memory_mb
        self._told = told
        self._progress = RankProgress(steps=3 + 4 * len(levels))

    def run(self, created: str) -> RankManifest:
        """Compute and store a result; ``created`` is the time now, in ISO 8601."""
        with ExitStack() as stack:
            links, pages, read = self._read_links()
            connection = stack.enter_context(open_duckdb(self._work.path, self._memory_mb))
            self._tell("hosts and their sites")
            hosts = self._work.make(
                "hosts.parquet",
                lambda path: write_hosts(connection, links, pages, self._reader.sites, path),
            )
            pairs = self._work.make(
                "host-pairs.parquet", lambda path: write_host_pairs(connection, links, path)
            )
            tables = GraphTables(connection, links, pages, hosts, pairs)
            levels = {level: self._rank(level, tables) for level in self._levels}
        self._tell("storing the result")
        return self._store(read, levels, created)

    def _read_links(self) -> tuple[Path, Path, CountedLinks]:
        """The links and pages, and the note on them, which is made last."""
        self._tell("reading links")
        path, options = self._work.path, self._options
        links, pages = path / "links.parquet", path / "pages.parquet"
        note = self._work.make_note(
            "links.json",
            lambda: write_links(self._reader, options, self._memory_mb, links, pages),
        )
        read = msgspec.json.decode(note.read_bytes(), type=CountedLinks)
        if not read.captures and not read.links:
            raise NoLinks("the crawl has no page yet, so there is nothing to rank")
        return links, pages, read

    def _rank(self, level: str, tables: GraphTables) -> RankedLevel:
        """The texts of a level, in the work folder."""
        self._tell(f"numbering {level}s")
        names = self._work.make(f"{level}-names", lambda path: tables.write_names(level, path))
        graph = self._graph(level, names, tables)
        self._tell(f"PageRank of {level}s")
        rank = self._work.make_arrays(f"{level}-pagerank", lambda: self._page_rank(level, graph))
        self._tell(f"harmonic centrality of {level}s")
        is_exact = graph.vertices * graph.edges <= self._options.exact_up_to
        central = self._work.make_arrays(
            f"{level}-harmonic", lambda: self._harmonic(level, graph, is_exact)
        )
        self._tell(f"writing {level}s")
        values = central["values"], rank["ranks"]
        write = {
            "vertices": lambda path: tables.write_vertices(level, names, path),
            "edges": lambda path: tables.write_edges(graph, path),
            "ranks": lambda path: tables.write_ranks(level, names, *values, path),
        }
        for part in PARTS:
            self._work.make(_text(level, part), write[part])
        return RankedLevel(
            vertices=graph.vertices,
            edges=graph.edges,
            dangling=graph.dangling,
            pagerank_steps=int(rank["steps"]),
            pagerank_change=float(rank["change"]),
            harmonic=EXACT if is_exact else HYPERBALL,
            registers=0 if is_exact else self._registers(graph),
            radius=int(central["radius"]),
            files={part: self._described(_text(level, part)) for part in PARTS},
        )

    def _graph(self, level: str, names: Path, tables: GraphTables) -> LinkGraph:
        sources = self._work.path / f"{level}-sources"
        arrays = self._work.make_arrays(
            f"{level}-offsets",
            lambda: write_graph(tables.pairs(level, names), tables.count_names(names), sources),
        )
        return open_graph(sources, arrays)

    def _page_rank(self, level: str, graph: LinkGraph) -> Arrays:
        def tell(step: int, change: float) -> None:
            self._tell(detail=f"step {step}, change {change:.1e}")

        of, checkpoint = self._options, f"{level}-pagerank.npz"
        return page_rank(graph, of.damping, of.tolerance, self._work, checkpoint, tell)

    def _harmonic(self, level: str, graph: LinkGraph, is_exact: bool) -> Arrays:
        def tell(distance: int, share: float) -> None:
            self._tell(
                detail=f"distance {distance}, "
                + (f"{share:.0%} done" if is_exact else f"{share:.1%} of balls grew")
            )

        name = f"{level}-balls"
        if is_exact:
            found = exact_harmonic(graph, self._work, name, tell)
        else:
            found = hyperball(graph, self._registers(graph), self._work, name, tell)
        self._work.discard(f"{name}.0", f"{name}.1")
        return found

    def _registers(self, graph: LinkGraph) -> int:
        return self._options.registers or registers_for(graph.edges)

    def _described(self, name: str) -> RankedFile:
        content = file_content(self._work.path / name)
        return RankedFile(content.size, content.sha256)

    def _store(
        self, read: CountedLinks, levels: dict[str, RankedLevel], created: str
    ) -> RankManifest:
        number = self._results.begin(self._work.run)
        for level in levels:
            for part in PARTS:
                self._results.put_part(number, level, part, self._work.path / _text(level, part))
        # Noted first: a run that is killed behind ``finish`` would have another time now.
        note = self._work.make_note(
            "ranks.json",
            lambda: RankManifest(
                number,
                read.crawl,
                created,
                self._options,
                read.digest,
                read.captures,
                read.links,
                read.segments,
                levels,
            ),
        )
        manifest = msgspec.json.decode(note.read_bytes(), type=RankManifest)
        self._results.finish(manifest)
        return manifest

    def _tell(self, text: str = "", detail: str = "") -> None:
        """Begin a step with this text, or say how far the present one is."""
        if text:
            self._progress.step += 1
            self._progress.text = text
        self._progress.detail = detail
        self._told(self._progress)


def _text(level: str, part: str) -> str:
    return f"{level}-{part}.txt.gz"
