"""A set of rank files, one for each partition, under the digest of what it is made of.

    ranks/files/DIGEST/00000 ...    the files (``rank_file``), by number of the partition
    ranks/files/DIGEST/set.json     last: where the ranks are from, and the digest of each file

They lie in the crawl folder, or in a cluster's bucket, from where each worker takes those of its
partitions. DIGEST is the SHA-256 of ``set.json``, so the same ranks have the same name everywhere,
and nothing is replaced. ``priority.ranks`` names the set that counts.

A set is made in one pass over the names, in bounded memory: 12 bytes a name go to temporary files
by partition, and a value is kept as its 21 leading bits (sign, exponent and 9 bits of precision),
whose histogram gives the quantiles. So values that differ by less than 0.2 % have equal ranks.
"""

from __future__ import annotations

import hashlib
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from lycosa.base.config.checks import is_digest
from lycosa.base.system.durable import replace_file, sync_folder
from lycosa.base.system.frames import UNREADABLE
from lycosa.base.urls.identity import hash8, host_of
from lycosa.state.objects.cached import CachedObjects
from lycosa.state.objects.folder import FolderStore
from lycosa.state.objects.object_errors import ObjectExists
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.ranks.rank_file import RankBytes, RankFile, write_rank_file
from lycosa.state.ranks.rank_results import RANKS_FOLDER, RanksError
from lycosa.state.seen.seen_port import Hashes

_SET = "set.json"
_FORMAT = 1
_AT_ONCE = 100_000
_SHIFT = 43  # of the bits of a float: the 21 leading ones stay
_ROW = np.dtype([("hash", "<u8"), ("bin", "<u4")])
_HOSTS, _PAGES = "hosts", "pages"

Scores = Iterable[tuple[str, float]]
"""Names and scores, in any order: only the order of the scores counts."""


class RankSet(msgspec.Struct, frozen=True):
    """What a set is: ``source`` in words, the numbers of names, the SHA-256 of each file."""

    source: str
    hosts: int
    pages: int
    files: list[str]
    format: int = _FORMAT


def make_rank_set(
    folder: Path,
    partitions: int,
    owner_of: Callable[[str], int],
    source: str,
    hosts: Scores,
    pages: Scores = (),
) -> str:
    """Write a set below a crawl folder, or another one; returns its digest.

    ``owner_of`` gives the partition of a host. Raises what the iterators raise, and ``OSError``;
    then there is no set. Takes about 6 us a name.
    """
    top = folder / RANKS_FOLDER / "files"
    work = top / f".making-{uuid.uuid4().hex[:8]}"
    work.mkdir(parents=True)
    try:
        number_hosts, of_host = _spread(work, _HOSTS, partitions, owner_of, hosts)
        number_pages, of_page = _spread(
            work, _PAGES, partitions, lambda url: owner_of(host_of(url)), pages
        )
        for partition in range(partitions):
            taken = _taken(work, _HOSTS, partition, of_host)
            write_rank_file(
                work / f"{partition:05}", taken, _taken(work, _PAGES, partition, of_page)
            )
        files = [_sha256(work / f"{partition:05}") for partition in range(partitions)]
        content = msgspec.json.encode(RankSet(source, number_hosts, number_pages, files))
        digest = hashlib.sha256(content).hexdigest()
        replace_file(work / _SET, content)
        sync_folder(work)
        with suppress(OSError):  # the same set is there
            work.rename(top / digest)
            sync_folder(top)
        if not (top / digest / _SET).is_file():
            raise OSError(f"{top / digest} is in the way of a set of ranks; remove it")
        return digest
    finally:
        shutil.rmtree(work, ignore_errors=True)


def upload_rank_set(folder: Path, store: ObjectStore, digest: str) -> None:
    """Store a set that was made in ``folder``. Raises ``ObjectError`` or ``OSError``."""
    found = read_rank_set(FolderStore(str(folder), folder), digest)
    for number in range(len(found.files)):
        store.put(_key(digest, f"{number:05}"), folder / _key(digest, f"{number:05}"))
    with suppress(ObjectExists):
        store.create(_key(digest, _SET), (folder / _key(digest, _SET)).read_bytes())


def read_rank_set(store: ObjectStore, digest: str) -> RankSet:
    """What a set is. Raises ``RanksError`` without a sound one, or ``ObjectError``."""
    key = _key(digest, _SET)
    if not is_digest(digest):
        raise RanksError(f"priority.ranks: {digest!r} is no digest of a set of ranks")
    if store.find(key) is None:
        raise RanksError(
            f"priority.ranks: the crawl has no ranks {digest[:12]}; give them with --ranks FILE, or"
            " leave them out with --set priority.ranks="
        )
    content = store.get(key)
    if hashlib.sha256(content).hexdigest() != digest:
        raise RanksError(f"{key} is damaged: its SHA-256 is not its name")
    try:
        found = msgspec.json.decode(content, type=RankSet)
    except UNREADABLE as error:
        raise RanksError(f"{key} cannot be read: {error}") from error
    if found.format > _FORMAT:
        raise RanksError(f"{key} has format {found.format}; this version reads up to {_FORMAT}")
    return found


def open_rank_file(
    folder: Path, store: ObjectStore | None, digest: str, partition: int, partitions: int
) -> tuple[RankSet, RankFile]:
    """A set, and its file of a partition: in ``folder``, or downloaded there once from ``store``.

    A set that was made for fewer partitions serves more: of 16 and 32 partitions the latter's
    number 17 has sites of the former's number 1. Raises ``RanksError``, ``HashFileDamaged``,
    ``ObjectError`` or ``OSError``. Blocks.
    """
    if store is not None:
        _download(store, folder, _key(digest, _SET))
    found = read_rank_set(FolderStore(str(folder), folder), digest)
    files = found.files
    if partitions % len(files):
        raise RanksError(
            f"priority.ranks: the ranks {digest[:12]} are for {len(files)} partitions, and the"
            f" crawl has {partitions}; make them again"
        )
    number = partition % len(files)
    key = _key(digest, f"{number:05}")
    if (
        store is not None
        and _download(store, folder, key)
        and _sha256(folder / key) != files[number]
    ):
        (folder / key).unlink()
        raise RanksError(f"{key} is damaged: its SHA-256 is not that of {_SET}")
    return found, RankFile(folder / key)


def _download(store: ObjectStore, folder: Path, key: str) -> bool:
    """Have a local copy; returns whether it is new."""
    if (folder / key).exists():
        return False
    if (found := store.find(key)) is not None:
        CachedObjects(store, folder).local_file(found)
    return found is not None


def _key(digest: str, name: str) -> str:
    return f"{RANKS_FOLDER}/files/{digest}/{name}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _spread(
    work: Path, level: str, partitions: int, owner_of: Callable[[str], int], scores: Scores
) -> tuple[int, RankBytes]:
    """Write the rows of all names by partition; returns their number and the rank of each bin."""
    bins = np.zeros(1 << (64 - _SHIFT), np.int64)
    files = [_rows_of(work, level, number).open("wb") for number in range(partitions)]
    try:
        number = 0
        for names, values in _batches(scores):
            rows = np.empty(len(names), _ROW)
            rows["hash"] = np.frombuffer(b"".join(map(hash8, names)), ">u8")
            rows["bin"] = _bins_of(values)
            np.add.at(bins, rows["bin"], 1)
            owners = np.fromiter(map(owner_of, names), np.int64, len(names))
            order = np.argsort(owners, kind="stable")
            cuts = np.searchsorted(owners[order], np.arange(partitions + 1))
            for at, file in enumerate(files):
                file.write(rows[order[cuts[at] : cuts[at + 1]]].tobytes())
            number += len(names)
    finally:
        for file in files:
            file.close()
    middle = np.cumsum(bins) - bins / 2
    return number, np.rint(255 * middle / max(number, 1)).astype(np.uint8)


def _batches(scores: Scores) -> Iterator[tuple[tuple[str, ...], NDArray[np.float64]]]:
    rows = iter(scores)
    while batch := list(islice(rows, _AT_ONCE)):
        names, values = zip(*batch, strict=True)
        yield names, np.asarray(values, np.float64)


def _bins_of(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Numbers in the order of the values: the bits of floats that are not negative."""
    least = np.maximum(np.nan_to_num(values), 0.0)
    return least.view(np.uint64) >> np.uint64(_SHIFT)


def _taken(work: Path, level: str, partition: int, ranks: RankBytes) -> tuple[Hashes, RankBytes]:
    """The hashes and ranks of a partition; its rows are removed."""
    path = _rows_of(work, level, partition)
    rows = np.fromfile(path, _ROW)
    path.unlink()
    return rows["hash"].astype(np.uint64), ranks[rows["bin"]]


def _rows_of(work: Path, level: str, partition: int) -> Path:
    return work / f"{level}-{partition:05}"
