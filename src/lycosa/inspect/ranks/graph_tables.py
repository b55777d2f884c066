"""From links between URLs to numbered graphs, and from numbers to text files, by DuckDB.

DuckDB gets a limit of memory and spills what exceeds it to the work folder. Vertices are numbered
in the order of their names, by bytes, as Common Crawl's are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lycosa.inspect.ranks.counted_links import parquet, sql_path
from lycosa.inspect.ranks.link_graph import MAX_VERTICES, LinkGraph, Numbers
from lycosa.inspect.ranks.page_rank import Values
from lycosa.state.ranks.rank_text import DOMAIN, HOST, PAGE, header

_BATCH = 1 << 20
_TEXT = "(FORMAT csv, DELIMITER '\t', QUOTE '', ESCAPE '', HEADER {header}, COMPRESSION gzip)"
# Names of the vertices of each level, with the number of hosts.
_NAMES = {
    PAGE: "SELECT DISTINCT url AS name, 0 AS hosts FROM (SELECT source AS url FROM {links}"
    " UNION ALL SELECT target FROM {links} UNION ALL SELECT url FROM {pages})",
    HOST: "SELECT name, 0 AS hosts FROM {hosts}",
    DOMAIN: "SELECT site AS name, count(*) AS hosts FROM {hosts} GROUP BY site",
}
# The number of the vertex of each end of a pair: of a URL, or of a host.
_ENDS = {
    PAGE: "SELECT name AS part, file_row_number::INTEGER AS id FROM {names}",
    HOST: "SELECT host AS part, n.file_row_number::INTEGER AS id FROM {hosts} h"
    " JOIN {names} n ON h.name = n.name",
    DOMAIN: "SELECT host AS part, n.file_row_number::INTEGER AS id FROM {hosts} h"
    " JOIN {names} n ON h.site = n.name",
}


class TooManyVertices(Exception):
    """A graph is too large for one machine."""


class GraphTables:
    """The tables of one run. ``links``, ``pages`` and ``hosts`` are its Parquet files,
    ``host_pairs`` the links between hosts.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        links: Path,
        pages: Path,
        hosts: Path,
        host_pairs: Path,
    ) -> None:
        self._connection = connection
        self._files = {"links": parquet(links), "pages": parquet(pages), "hosts": parquet(hosts)}
        self._host_pairs = parquet(host_pairs)

    def write_names(self, level: str, path: Path) -> None:
        """Write the vertices of a level; the number of a row is that of its vertex."""
        select = _NAMES[level].format(**self._files)
        self._run(
            f"COPY (SELECT name, hosts FROM ({select}) ORDER BY name) TO {sql_path(path)}"
            " (FORMAT parquet, COMPRESSION zstd)"
        )

    def count_names(self, names: Path) -> int:
        """The number of vertices. Raises ``TooManyVertices``."""
        count: int = pq.read_metadata(names).num_rows
        if count > MAX_VERTICES:
            raise TooManyVertices(
                f"the graph has {count:,} vertices; this command numbers {MAX_VERTICES:,} at most:"
                " use examples/spark_ranks.py, or --levels without page"
            )
        return count

    def pairs(self, level: str, names: Path) -> Iterator[tuple[Numbers, Numbers]]:
        """The edges as numbers (source, target), by target and source, each once."""
        ends = _ENDS[level].format(
            names=f"read_parquet({sql_path(names)}, file_row_number = true)", **self._files
        )
        pairs = self._files["links"] if level == PAGE else self._host_pairs
        found = self._connection.sql(
            f"SELECT DISTINCT s.id AS source, t.id AS target FROM {pairs} p"
            f" JOIN ({ends}) s ON p.source = s.part JOIN ({ends}) t ON p.target = t.part"
            " ORDER BY target, source"
        )
        reader: pa.RecordBatchReader = found.to_arrow_reader(_BATCH)
        for batch in reader:
            sources, targets = batch.column(0).to_numpy(), batch.column(1).to_numpy()
            # Not a condition of the query: that would be evaluated for all pairs of vertices.
            keep = sources != targets
            yield sources[keep], targets[keep]

    def write_vertices(self, level: str, names: Path, path: Path) -> None:
        """Write ``vertices.txt.gz``."""
        hosts = ", hosts" if level == DOMAIN else ""
        self._write_text(
            f"SELECT file_row_number, name{hosts}"
            f" FROM read_parquet({sql_path(names)}, file_row_number = true)"
            " ORDER BY file_row_number",
            path,
            has_header=False,
        )

    def write_edges(self, graph: LinkGraph, path: Path) -> None:
        """Write ``edges.txt.gz``, by source and target."""
        schema = pa.schema([("source", pa.int32()), ("target", pa.int32())])
        reader = pa.RecordBatchReader.from_batches(schema, _edge_batches(graph, schema))
        self._connection.register("edges", reader)
        select = "SELECT source, target FROM edges ORDER BY source, target"
        self._write_text(select, path, has_header=False)
        self._connection.unregister("edges")

    def write_ranks(
        self, level: str, names: Path, harmonic: Values, pagerank: Values, path: Path
    ) -> None:
        """Write ``ranks.txt.gz``, by position of harmonic centrality."""
        values = {
            "harmonicc_pos": positions(harmonic),
            "harmonicc_val": harmonic,
            "pr_pos": positions(pagerank),
            "pr_val": pagerank,
        }
        columns = [*values, "name", *(("hosts",) if level == DOMAIN else ())]
        named = zip(columns, header(level), strict=True)
        self._connection.register("ranks", pa.table({"id": np.arange(len(harmonic)), **values}))
        self._write_text(
            f'SELECT {", ".join(f"""{column} AS "{shown}" """ for column, shown in named)}'
            f" FROM ranks JOIN read_parquet({sql_path(names)}, file_row_number = true) n"
            " ON ranks.id = n.file_row_number ORDER BY harmonicc_pos",
            path,
            has_header=True,
        )
        self._connection.unregister("ranks")

    def _write_text(self, select: str, path: Path, has_header: bool) -> None:
        form = _TEXT.format(header="true" if has_header else "false")
        self._run(f"COPY ({select}) TO {sql_path(path)} {form}")

    def _run(self, statement: str) -> duckdb.DuckDBPyConnection:
        return self._connection.execute(statement)


def positions(values: Values) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The place of each value from 1 on, the greatest first; equal ones by number of vertex."""
    found = np.empty(len(values), dtype=np.int64)
    found[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return found


def open_duckdb(work: Path, memory_mb: int) -> duckdb.DuckDBPyConnection:
    """DuckDB with a limit of memory that spills to a work folder."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{memory_mb}MB",
            "temp_directory": str(work / "spill"),
            "autoinstall_known_extensions": "false",
            "python_enable_replacements": "false",
        },
    )
    # Joins run as they are written. From its estimates DuckDB may choose to make all pairs of
    # vertices first.
    connection.execute("SET disabled_optimizers = 'join_order'")
    # DuckDB would print it on standard output, for queries of more than two seconds.
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET enable_progress_bar_print = false")
    return connection


def _edge_batches(graph: LinkGraph, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for begin, end in graph.spans(_BATCH, _BATCH):
        first, last = int(graph.offsets[begin]), int(graph.offsets[end])
        links = np.diff(graph.offsets[begin : end + 1])
        targets = np.repeat(np.arange(begin, end, dtype=np.int32), links)
        yield pa.record_batch([np.asarray(graph.sources[first:last]), targets], schema=schema)
