"""A crawl in the layout of Common Crawl: links to the WARC and WET files, lists of paths, indexes.

    crawl-data/CRAWL/segments/SEGMENT/warc/NAME.warc.gz     a link to the file of the crawl
    crawl-data/CRAWL/segments/SEGMENT/wet/NAME.warc.wet.gz
    crawl-data/CRAWL/{segment,warc,wet,cc-index,cc-index-table}.paths.gz
    cc-index/collections/CRAWL/indexes/cdx-00000.gz, cluster.idx      CDXJ as ZipNum
    cc-index/table/cc-main/warc/crawl=CRAWL/subset=.../part-00000.parquet

So programs that are written for Common Crawl's releases read the crawl: by the list of paths, by
the columnar index, or with pywb by the ZipNum index. Names inside are those of a release, relative
to its root. Only closed segments are there. Nothing is copied: the files are hard links, or
symbolic links where the folder is on another file system. Source: commoncrawl.org, "Get started"
and the schema of cc-index-table.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from lycosa.inspect.committed_state import CrawlReader
from lycosa.inspect.crawl_tables import CrawlTables
from lycosa.state.store import cdxj, layout
from lycosa.state.store.derived_files import TEXT
from lycosa.state.store.sorted_lines import SortedLines

_BLOCK = 3000  # lines of a block of the ZipNum index, as in Common Crawl's
_SAFE = re.compile(r"[^A-Za-z0-9._-]")
_KINDS = ((layout.WARC, "warc"), (TEXT, "wet"))


class LayoutError(Exception):
    """The layout cannot be written; the message says why and what to do."""


class Written(msgspec.Struct, frozen=True):
    """What was written: the name of the crawl, and numbers of segments, files and captures."""

    crawl: str
    segments: int
    files: int
    captures: int


def write_layout(reader: CrawlReader, crawl: str, target: Path) -> Written:
    """Write the layout of a crawl folder into a new or empty folder.

    ``crawl`` is its name there, like ``CC-MAIN-2026-47``. Raises ``LayoutError``, ``JournalError``
    and ``OSError``.
    """
    folder = reader.origin.folder
    if folder is None:
        raise LayoutError("this layout has links to files, so it is made of a crawl folder only")
    if target.exists() and any(target.iterdir()):
        raise LayoutError(f"{target} is not empty; give a new folder")
    name = _SAFE.sub("_", crawl)
    closed = [each for each in reader.source.list_segments() if each.is_closed]
    target.mkdir(parents=True, exist_ok=True)
    paths: dict[str, list[str]] = {"warc": [], "wet": []}
    for segment in closed:
        for kind, there in _KINDS:
            file = folder / layout.file_name(kind, segment.name)
            if file.is_file():
                path = f"{_place(name, segment.name)}{there}/{file.name}"
                _link(file, target / path)
                paths[there].append(path)
    captures, paths["cc-index"] = _write_index(reader, name, target)
    paths["cc-index-table"] = _write_table(reader, name, target, {each.name for each in closed})
    paths["segment"] = [_place(name, each.name) for each in closed]
    for each, lines in paths.items():
        _write_paths(target / "crawl-data" / name / f"{each}.paths.gz", lines)
    return Written(name, len(closed), len(paths["warc"]) + len(paths["wet"]), captures)


def _place(crawl: str, segment: str) -> str:
    return f"crawl-data/{crawl}/segments/{segment}/"


def _link(file: Path, link: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, link)
    except OSError:  # another file system, or one without hard links
        link.symlink_to(file.resolve())


def _write_paths(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{line}\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def _write_index(reader: CrawlReader, crawl: str, target: Path) -> tuple[int, list[str]]:
    """The lines of all captures in blocks that are compressed one by one, and their directory."""
    below = f"cc-index/collections/{crawl}/indexes/"
    (target / below).mkdir(parents=True)
    lines, number, at = SortedLines(target / below), 0, 0
    try:
        for line in _index_lines(reader, crawl):
            lines.add_line(line)
            number += 1
        ordered = lines.merged()
        with (
            (target / below / "cdx-00000.gz").open("wb") as file,
            (target / below / "cluster.idx").open("wb") as directory,
        ):
            for block, part in enumerate(iter(lambda: list(islice(ordered, _BLOCK)), []), 1):
                data = gzip.compress(b"".join(part), mtime=0)
                key = b" ".join(part[0].split(b" ", 2)[:2])
                directory.write(key + f"\tcdx-00000.gz\t{at}\t{len(data)}\t{block}\n".encode())
                at += file.write(data)
    finally:
        lines.close()
    return number, [f"{below}cdx-00000.gz", f"{below}cluster.idx"]


def _index_lines(reader: CrawlReader, crawl: str) -> Iterator[bytes]:
    for segment in reader.source.list_segments():
        if not segment.is_closed:
            continue
        there = f"{_place(crawl, segment.name)}warc/".encode()
        for row in reader.source.read_rows(segment):
            if not reader.may_give(row):
                raise LayoutError(
                    f"{row.url} was fetched with credentials, and a WARC file is given whole; give"
                    " --private to have it with such captures"
                )
            line = cdxj.line(row)
            if line is not None:
                yield line.replace(b'"filename":"warc/', b'"filename":"' + there, 1)


def _write_table(reader: CrawlReader, crawl: str, target: Path, closed: set[str]) -> list[str]:
    """The columnar index, in folders by crawl and subset, as Hive and Spark read them."""
    root = target / "cc-index" / "table" / "cc-main" / "warc"
    root.mkdir(parents=True)
    with CrawlTables(reader, ["ccindex"]) as tables:
        tables.connection.execute("CREATE TEMP TABLE closed (name VARCHAR)")
        if closed:
            tables.connection.executemany("INSERT INTO closed VALUES (?)", [[n] for n in closed])
        subsets = tables.connection.execute("SELECT DISTINCT subset FROM ccindex").fetchall()
        files = []
        for (subset,) in sorted(subsets):
            path = root / f"crawl={crawl}" / f"subset={subset}" / "part-00000.parquet"
            path.parent.mkdir(parents=True)
            tables.connection.execute(_COPY.format(path=_quoted(path)), [crawl, subset])
            files.append(str(path.relative_to(target)))
    return files


_COPY = """
    COPY (
        SELECT * EXCLUDE (crawl, subset) REPLACE (
            'crawl-data/' || $1 || '/segments/' || warc_segment || '/warc/'
                || parse_filename(warc_filename) AS warc_filename
        )
        FROM ccindex WHERE subset = $2 AND warc_segment IN (SELECT name FROM closed)
        ORDER BY url_surtkey, fetch_time
    ) TO {path} (FORMAT parquet, COMPRESSION zstd)
"""


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
