"""The ranks of one partition's hosts and pages, as a worker reads them while it crawls.

A file of hashes (``seen.hash_files``), mapped into memory. Its payload, all little-endian:

    8 bytes for each host: the first eight bytes of its SHA-256 as a number, sorted
    8 bytes for each page: the same of its URL, sorted
    1 byte for each host, 1 byte for each page: its rank, in the order of the hashes

The header has the number of hosts and of pages together, and of hosts alone. Nine bytes a name: the
ranks of 300 million hosts are 2.7 GB over all partitions, of which only pages that are looked up
are in memory. A rank is the quantile in 255ths: 255 x (share of names with less + half of the share
of those with the same). It does not depend on the size of the graph, nor on the kind of centrality.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lycosa.base.model.factors import NO_RANK
from lycosa.state.seen.hash_files import Header, map_hash_file, write_hash_file
from lycosa.state.seen.seen_port import Hashes

_MAGIC, _VERSION = b"LYCRANK\n", 1

RankBytes = NDArray[np.uint8]
RankedHashes = tuple[Hashes, RankBytes]
"""Hashes of names, and their ranks."""


class RankFile:
    """The file at ``path``, verified. Raises ``FileNotFoundError`` or ``HashFileDamaged``."""

    def __init__(self, path: Path) -> None:
        header, payload = map_hash_file(path, _MAGIC, _VERSION)
        self.hosts, self.pages = header.first, header.count - header.first
        names = 8 * header.count
        hashes = payload[:names].view("<u8")
        self._hosts, self._pages = hashes[: self.hosts], hashes[self.hosts :]
        self._host_ranks = payload[names : names + self.hosts]
        self._page_ranks = payload[names + self.hosts :]

    def __repr__(self) -> str:
        return f"<RankFile hosts={self.hosts} pages={self.pages}>"

    def host_rank(self, host8: bytes) -> int:
        """The rank of a host in 255ths, or ``NO_RANK``."""
        return _find(self._hosts, self._host_ranks, host8)

    def page_rank(self, url8: bytes) -> int:
        """The rank of a page in 255ths, or ``NO_RANK``."""
        return _find(self._pages, self._page_ranks, url8)


def write_rank_file(path: Path, hosts: RankedHashes, pages: RankedHashes) -> None:
    """Write hashes, in any order, with their ranks. Of equal hashes the greatest rank counts."""
    (host_hashes, host_ranks), (page_hashes, page_ranks) = _sorted(*hosts), _sorted(*pages)
    number = len(host_hashes)
    header = Header(_MAGIC, _VERSION, 0, number + len(page_hashes), first=number)
    parts = (host_hashes, page_hashes, host_ranks, page_ranks)
    write_hash_file(path, header, [each for each in parts if len(each)])


def _sorted(hashes: Hashes, ranks: RankBytes) -> tuple[NDArray[np.uint64], RankBytes]:
    order = np.lexsort((ranks, hashes))
    hashes, ranks = hashes[order], ranks[order]
    is_last = np.ones(len(hashes), bool)
    is_last[:-1] = hashes[1:] != hashes[:-1]
    return hashes[is_last].astype("<u8"), ranks[is_last]


def _find(hashes: Hashes, ranks: RankBytes, key: bytes) -> int:
    number = np.uint64(int.from_bytes(key, "big"))
    at = int(hashes.searchsorted(number))
    return int(ranks[at]) if at < len(hashes) and hashes[at] == number else NO_RANK
