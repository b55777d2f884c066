"""Which links count: the link graph as it was stored last, in Parquet files of a work folder.

Of each page the newest capture counts that says something about its content, as for items: not an
error that passes, and not a 304, after which the content before counts. A capture that is a revisit
has the links of the body that it names. So a page that is gone links to nothing, and one that was
fetched a hundred times counts once.

Links count of the kinds that lead a reader to a page, and redirects, each from its URL to its
target. Links that are nofollow, and those of a page that is nofollow as a whole, do not.
``docs/ranks.md`` has the reasons.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lycosa.base.model.discovered import LinkKind
from lycosa.base.urls.identity import Canonicalizer, InvalidUrl, Sites, reversed_host
from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.crawl_tables import CrawlTables
from lycosa.inspect.saved_settings import load_saved_settings
from lycosa.state.ranks.rank_results import RankOptions
from lycosa.state.store.derived_files import LINKS, PAGES

LEADING_KINDS = tuple(kind.name.lower() for kind in LinkKind if kind.leads)
"""The kinds of links that count, as they are stored."""
_BATCH = 1 << 16
_PAIR = pa.schema([("source", pa.string()), ("target", pa.string())])
_HOSTS = pa.schema([("host", pa.string()), ("name", pa.string()), ("site", pa.string())])

# The same choice as of items (``inspect.item_tables``).
_CONTENT = """
CREATE TEMP TABLE content AS
SELECT url, fetch_time AS made_at, fetch_status AS status, fetch_redirect AS redirect, nofollow,
    CASE WHEN duplicate_of = url THEN duplicate_of_time END AS first_at
FROM pages
WHERE fetch_status <> 304
    AND (fetch_status BETWEEN 200 AND 299 OR fetch_status IN (301, 302, 303, 307, 308, 404, 410))
QUALIFY row_number() OVER (PARTITION BY url ORDER BY fetch_time DESC, fetch_number DESC) = 1
"""
_LINKS = """
SELECT source_url AS source, target_url AS target FROM links JOIN content ON source_url = url
WHERE kind IN ({kinds}) AND status BETWEEN 200 AND 299 AND ({nofollow} OR NOT (
    links.nofollow OR content.nofollow))
    AND (source_time = made_at OR source_time = first_at)
UNION ALL SELECT source, target FROM redirects
"""


class CountedLinks(msgspec.Struct, frozen=True):
    """What was read: see ``RankManifest``."""

    crawl: str
    segments: Sequence[str]
    captures: int
    links: int
    digest: str


def links_digest(reader: CrawlReader) -> str:
    """What a result of the present captures has as ``links_digest``. Raises ``OSError``."""
    digest = hashlib.sha256()
    for each in reader.source.list_segments():
        digest.update(f"{each.name} {each.journal_length}\n".encode())
    return digest.hexdigest()


def write_links(
    reader: CrawlReader, options: RankOptions, memory_mb: int, links: Path, pages: Path
) -> CountedLinks:
    """Write the links that count (source, target), and the URLs of pages that were fetched.

    Links may be there twice. Raises what ``CrawlTables`` raises.
    """
    digest, segments = links_digest(reader), reader.source.list_segments()
    canonicalizer = load_saved_settings(reader).canonicalizer
    with CrawlTables(reader, [PAGES, LINKS], memory_mb) as tables:
        run = tables.connection.execute
        run(_CONTENT)
        tables.connection.register("redirects", _redirects(tables.connection, canonicalizer))
        select = _LINKS.format(
            kinds=", ".join(f"'{each}'" for each in options.kinds),
            nofollow="true" if options.nofollow else "false",
        )
        run(f"COPY ({select}) TO {sql_path(links)} (FORMAT parquet, COMPRESSION zstd)")
        fetched = "SELECT url FROM content WHERE status BETWEEN 200 AND 299"
        run(f"COPY ({fetched}) TO {sql_path(pages)} (FORMAT parquet, COMPRESSION zstd)")
    return CountedLinks(
        reader.manifest.crawl,
        [each.name for each in segments],
        pq.read_metadata(pages).num_rows,
        pq.read_metadata(links).num_rows,
        digest,
    )


def _redirects(connection: duckdb.DuckDBPyConnection, canonicalizer: Canonicalizer) -> pa.Table:
    """Redirects with canonical targets, as links have them."""
    found = connection.execute(
        "SELECT url, redirect FROM content WHERE redirect IS NOT NULL"
        " AND status IN (301, 302, 303, 307, 308)"
    )
    sources, targets = list[str](), list[str]()
    for source, location in rows_of_cursor(found):
        try:
            targets.append(canonicalizer.canonical(location, source))
        except InvalidUrl:
            continue  # the crawl did not follow it either
        sources.append(source)
    return pa.table([sources, targets], schema=_PAIR)


def write_hosts(
    connection: duckdb.DuckDBPyConnection, links: Path, pages: Path, sites: Sites, path: Path
) -> None:
    """Write all hosts of the links and pages with their reversed names and sites."""
    found = connection.execute(
        "SELECT DISTINCT split_part(url, '/', 3) FROM ("
        f"SELECT source AS url FROM {parquet(links)} UNION ALL"
        f" SELECT target FROM {parquet(links)} UNION ALL SELECT url FROM {parquet(pages)})"
    )
    with pq.ParquetWriter(path, _HOSTS, compression="zstd") as writer:
        while rows := found.fetchmany(_BATCH):
            hosts = [host for (host,) in rows]
            names = [reversed_host(host) for host in hosts]
            domains = [reversed_host(sites.site_of(host)) for host in hosts]
            writer.write_table(pa.table([hosts, names, domains], schema=_HOSTS))


def write_host_pairs(connection: duckdb.DuckDBPyConnection, links: Path, path: Path) -> None:
    """Write the links between hosts (source, target), each once."""
    connection.execute(
        "COPY (SELECT DISTINCT split_part(source, '/', 3) AS source,"
        f" split_part(target, '/', 3) AS target FROM {parquet(links)})"
        f" TO {sql_path(path)} (FORMAT parquet, COMPRESSION zstd)"
    )


def rows_of_cursor(cursor: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, ...]]:
    """The rows of a query, in batches."""
    while rows := cursor.fetchmany(_BATCH):
        yield from rows


def sql_path(path: Path) -> str:
    """A path as an SQL string."""
    return "'" + str(path).replace("'", "''") + "'"


def parquet(path: Path) -> str:
    """The rows of a Parquet file, as a table of a query."""
    return f"read_parquet({sql_path(path)})"
