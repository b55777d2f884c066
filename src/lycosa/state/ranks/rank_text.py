"""The text form of a web graph's ranks, as Common Crawl publishes it.

    #harmonicc_pos <tab> #harmonicc_val <tab> #pr_pos <tab> #pr_val <tab> #host_rev [<tab> #n_hosts]

One line per vertex, by rising position of harmonic centrality; positions begin at 1. Names of hosts
and domains are reversed (``com.example.www``), so that a sort puts the hosts of a domain together.
The graph itself is in two more files: ``vertices`` (number, name, for a domain the number of its
hosts; numbers from 0, in the order of the names' bytes) and ``edges`` (from, to; in numerical
order). All are gzipped. The forms are those of commoncrawl/cc-webgraph, whose tools read them.

Pages have the same three files, with the URL as the name (``#url``).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

HOST, DOMAIN, PAGE = "host", "domain", "page"
LEVELS = (HOST, DOMAIN, PAGE)

_NAME = {HOST: "#host_rev", DOMAIN: "#host_rev", PAGE: "#url"}
_VALUES = ("#harmonicc_pos", "#harmonicc_val", "#pr_pos", "#pr_val")
_HOSTS = "#n_hosts"
_ADDRESS = re.compile(r"(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9A-Fa-f:.]*\])(?::\d+)?")


class RankTextError(ValueError):
    """A file is not of this form."""


class RankedName(NamedTuple):
    """One vertex. ``name`` is not reversed. ``hosts`` is the number of a domain's hosts, else 0."""

    name: str
    harmonic_position: int
    harmonic: float
    pagerank_position: int
    pagerank: float
    hosts: int = 0


def header(level: str) -> tuple[str, ...]:
    """The names of the columns of a file of ranks."""
    return *_VALUES, _NAME[level], *((_HOSTS,) if level == DOMAIN else ())


def restored_host(reversed_name: str) -> str:
    """The host of which ``reversed_host`` is this: ``com.example.www`` as ``www.example.com``.

    ``reversed_host`` itself would take ``com.example.5`` for an IP address.
    """
    if _ADDRESS.fullmatch(reversed_name):
        return reversed_name
    name, colon, port = reversed_name.partition(":")
    return ".".join(reversed(name.split("."))) + colon + port


def read_ranks(pieces: Iterable[bytes]) -> Iterator[RankedName]:
    """The rows of a file of ranks, ours or Common Crawl's, from its bytes, gzipped or not.

    The first line may name the columns, in any order; without it they are the five of hosts. Raises
    ``RankTextError`` at a line that is not of this form, and at a truncated gzip file.
    """
    lines: Iterator[tuple[int, str]] = enumerate(_lines(_plain(pieces)), start=1)
    number, first = next(lines, (0, "#"))
    if not number:
        return
    columns = _columns(first)
    if not first.startswith("#"):
        lines = chain([(number, first)], lines)
    harmonic_at, harmonic, pagerank_at, pagerank = (columns.index(each) for each in _VALUES)
    is_host = _NAME[HOST] in columns
    name = columns.index(_NAME[HOST if is_host else PAGE])
    hosts = columns.index(_HOSTS) if _HOSTS in columns else -1
    for number, line in lines:
        cells = line.split("\t")
        try:
            yield RankedName(
                restored_host(cells[name]) if is_host else cells[name],
                int(cells[harmonic_at]),
                float(cells[harmonic]),
                int(cells[pagerank_at]),
                float(cells[pagerank]),
                int(cells[hosts]) if hosts >= 0 else 0,
            )
        except (ValueError, IndexError):
            raise RankTextError(
                f"line {number} is not a row of ranks ({', '.join(columns)}): {_shown(line)}"
            ) from None


def _shown(line: str) -> str:
    """A line for a message; of a file that is not text, only what it seems to be."""
    if all(each.isprintable() or each == "\t" for each in line):
        return repr(line[:100])
    return "it is a ZIP file" if line.startswith("PK\x03\x04") else "it is not text"


def _columns(line: str) -> list[str]:
    """The columns that a first line names, if it is not a row."""
    if not line.startswith("#"):
        return list(header(HOST))
    found = line.split("\t")
    if not {*_VALUES} <= {*found} or not {*_NAME.values()} & {*found}:
        raise RankTextError(
            f"the columns are {' '.join(found)!r}: expected {' '.join(header(HOST))!r}"
        )
    return found


def _plain(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The content of a file, which may be of several gzip members."""
    inflate, is_plain, is_begun = zlib.decompressobj(31), None, False
    for piece in pieces:
        if not piece:
            continue
        if is_plain is None:
            is_plain = piece[0] != 0x1F
        if is_plain:
            yield piece
            continue
        try:
            while piece:
                is_begun = True
                yield inflate.decompress(piece)
                if not inflate.eof:
                    break
                piece, inflate, is_begun = inflate.unused_data, zlib.decompressobj(31), False
        except zlib.error as error:
            raise RankTextError(f"it is not a gzip file: {error}") from None
    if is_begun:
        raise RankTextError("the gzip file ends too early; download it again")


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")
