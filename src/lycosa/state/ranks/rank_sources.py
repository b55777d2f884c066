"""Where ranks come from: a result of ``lycosa rank``, or files in the form of Common Crawl."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import msgspec

from lycosa.state.folder.manifest import has_manifest
from lycosa.state.objects.folder import FolderStore
from lycosa.state.ranks.rank_results import RANKS_FOLDER, RankResults, RanksError
from lycosa.state.ranks.rank_set import Scores, make_rank_set
from lycosa.state.ranks.rank_text import HOST, PAGE, RankedName, RankTextError, read_ranks

_PIECE = 1 << 20


class RankSource(msgspec.Struct, frozen=True):
    """Scores of hosts and of pages, and in words where they are from."""

    words: str
    hosts: Scores
    pages: Scores = ()


def result_source(results: RankResults, number: int) -> RankSource:
    """PageRanks of a result of ``lycosa rank``. Raises ``RanksError`` or ``ObjectError``."""
    manifest = results.read_manifest(number)
    levels = manifest.levels
    if HOST not in levels and PAGE not in levels:
        raise RanksError(f"result {number} of ranks has neither hosts nor pages")
    words = f"result {number} of lycosa rank in the crawl {manifest.crawl}"
    hosts, pages = (
        _page_ranks(results.rows(number, each)) if each in levels else () for each in (HOST, PAGE)
    )
    return RankSource(words, hosts, pages)


def given_source(given: Sequence[Path]) -> RankSource:
    """The ranks that an operator names.

    Each is a file of ranks (of hosts or of pages; several are joined), the folder of a result
    (``DIR/ranks/3``), or a crawl folder, of which the newest result counts. Raises ``RanksError``,
    at once for what is seen from the names and the first line, later from the iterators.
    """
    folders = [each for each in given if each.is_dir()]
    if folders:
        if len(given) > 1:
            raise RanksError("give one folder with ranks, or files of ranks")
        return _folder_source(folders[0])
    words: list[str] = []
    by_level: dict[str, Scores] = {HOST: (), PAGE: ()}
    for path in given:
        level, scores = _file_scores(path)
        by_level[level] = chain(by_level[level], scores)
        words.append(f"{path.name} (SHA-256 {_sha256(path)[:12]})")
    return RankSource(" and ".join(words), by_level[HOST], by_level[PAGE])


def use_source(
    folder: Path, partitions: int, owner_of: Callable[[str], int], source: RankSource
) -> str:
    """Make a set of rank files of a source; returns its digest. Raises ``RanksError``."""
    try:
        return make_rank_set(folder, partitions, owner_of, source.words, source.hosts, source.pages)
    except RankTextError as error:
        raise RanksError(f"{source.words}: {error}") from error


def _folder_source(folder: Path) -> RankSource:
    top, number = folder, 0
    if folder.name.isdecimal() and folder.parent.name == RANKS_FOLDER:
        top, number = folder.parent.parent, int(folder.name)
    results = RankResults(FolderStore(str(top), top))
    numbers = results.numbers()
    if not numbers:
        if not has_manifest(top):
            raise RanksError(f"{folder} is neither a crawl folder nor a result of `lycosa rank`")
        raise RanksError(f"{folder} has no ranks; `lycosa rank {top}` computes them")
    return result_source(results, number or numbers[-1])


def _file_scores(path: Path) -> tuple[str, Iterator[tuple[str, float]]]:
    """Whether a file has hosts or pages, and its scores."""
    rows = read_ranks(_pieces(path))
    try:
        first = next(rows, None)
    except (OSError, RankTextError) as error:
        raise RanksError(f"{path} is no file of ranks: {error}") from error
    if first is None:
        raise RanksError(f"{path} has no ranks")
    return PAGE if "://" in first.name else HOST, _page_ranks(chain([first], rows))


def _page_ranks(rows: Iterator[RankedName]) -> Iterator[tuple[str, float]]:
    return ((row.name, row.pagerank) for row in rows)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
