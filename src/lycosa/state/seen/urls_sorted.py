"""Exact URL-seen: a memory-mapped file of sorted 64-bit hashes, and newer hashes in memory.

BUbiNG's sieve and IRLbot's DRUM write new URLs to buckets and merge these with a sorted file in one
sequential pass. This implementation makes the same trade but answers at once. Hashes are uniform,
so the upper bits of a hash determine its approximate position. The file ends with a table that says
where each of 2^b buckets of about six hashes starts. A lookup touches one page of this table and
one page of the hashes; a binary search over ten million touches some twenty. The cost is 8 to 9
bytes per URL, and as the file is mapped, the system can reclaim that memory.

Payload: ``count`` hashes (u64, little-endian, ascending), then 2^b + 1 bucket starts (u32). The
header's first number is b.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lycosa.state.seen.delta import is_in_sorted, merged_hashes
from lycosa.state.seen.hash_files import (
    HEADER_BYTES,
    HashFileDamaged,
    HashFileWriter,
    Header,
    map_hash_file,
    restamp,
)
from lycosa.state.seen.saving import MAX_DELTA, SavingSeenUrls
from lycosa.state.seen.seen_port import Hashes, Mask, SeenSnapshot

MAGIC, VERSION = b"LYCOSEEN", 1
_BUCKET = 8  # maximum of the average number of hashes in a bucket
_WIDEST = 64  # with larger buckets (hashes that are not uniform) all hashes are bisected
_BATCH = 4096  # hashes looked up together, so that the data they touch stays in the CPU cache
_BLOCK = 1 << 18  # hashes merged at a time: bounds memory and the hold of the interpreter lock
_RUN = 1 << 22  # hashes sorted in memory at a time when the file is rebuilt from the table


class _Sorted:
    """The immutable content of the file."""

    def __init__(self, hashes: Hashes, starts: NDArray[np.uint32]) -> None:
        self.hashes = hashes
        self.starts = starts
        self._shift = np.uint64(65 - (len(starts) - 1).bit_length())  # 2^b + 1 starts

    def __len__(self) -> int:
        return len(self.hashes)

    def lacks(self, hashes: Hashes) -> Mask:
        """True where a hash is not in the file."""
        if not len(self):
            return np.ones(len(hashes), dtype=np.bool_)
        if len(hashes) <= _BATCH:
            return self._lacks(hashes)
        order = np.argsort(hashes)  # neighbours in the file are then looked up together
        lacking = np.empty(len(hashes), dtype=np.bool_)
        for start in range(0, len(hashes), _BATCH):
            part = order[start : start + _BATCH]
            lacking[part] = self._lacks(hashes[part])
        return lacking

    def _lacks(self, hashes: Hashes) -> Mask:
        buckets = (
            (hashes >> self._shift).astype(np.intp)
            if self._shift < 64
            else np.zeros(len(hashes), dtype=np.intp)
        )
        first = self.starts[buckets].astype(np.intp)
        width = int((self.starts[buckets + 1] - first).max(0, initial=0))
        if width > _WIDEST:
            return ~is_in_sorted(self.hashes, hashes)
        # Each row is one bucket and perhaps the start of the next ones, whose hashes are different
        # and cannot match.
        places = first[:, None] + np.arange(width, dtype=np.intp)
        np.minimum(places, len(self) - 1, out=places)
        lacking: Mask = ~(self.hashes[places] == hashes[:, None]).any(axis=1)
        return lacking


_NONE: Hashes = np.empty(0, dtype=np.uint64)
_NOTHING = _Sorted(_NONE, np.zeros(2, dtype=np.uint32))


class SortedSeenUrls(SavingSeenUrls[_Sorted]):
    """A ``SeenUrls`` that is exact."""

    def __init__(self, path: Path, max_delta: int = MAX_DELTA) -> None:
        """``max_delta``: hashes in memory above which ``should_save`` is true."""
        base, stamp, self._damage = _open(path)
        super().__init__(path, base, stamp, _NOTHING, max_delta)

    def snapshot(self) -> SeenSnapshot:
        self._adopt()
        count, delta = len(self._known), self._delta
        return SeenSnapshot(
            count=count + len(delta),
            unsaved=len(delta),
            memory_bytes=delta.memory_bytes,
            disk_bytes=(
                8 * count + 4 * len(self._known.starts) + HEADER_BYTES if self.stamp >= 0 else 0
            ),
            asked=self._asked,
            unseen=self._unseen,
            damage=self._damage,
        )

    def _lacks(self, hashes: Hashes) -> Mask:
        return self._known.lacks(hashes)

    def _count(self, known: _Sorted) -> int:
        return len(known)

    def _write(self, known: _Sorted, parts: list[Hashes], stamp: int) -> _Sorted:
        return _write(self._path, known, np.sort(np.concatenate([_NONE, *parts])), stamp)

    def _write_anew(self, hashes: Iterable[Hashes], stamp: int) -> _Sorted:
        # stamp -1 until the end, so that a file which a crash leaves is not used
        base = _write(self._path, _NOTHING, _NONE, -1)
        for run in _runs(hashes):
            base = _write(self._path, base, run, -1)
        restamp(self._path, stamp)
        self._damage = ""
        return base


def _open(path: Path) -> tuple[_Sorted, int, str]:
    try:
        header, payload = map_hash_file(path, MAGIC, VERSION)
        return (
            (_content(header, payload), header.stamp, "")
            if header.stamp >= 0
            else (_NOTHING, -1, f"{path} is incomplete")
        )
    except FileNotFoundError:
        return _NOTHING, -1, ""
    except HashFileDamaged as error:
        return _NOTHING, -1, str(error)


def _content(header: Header, payload: NDArray[np.uint8]) -> _Sorted:
    split = 8 * header.count
    if len(payload) != split + 4 * ((1 << header.first) + 1):
        raise HashFileDamaged("the length does not match the header")
    return _Sorted(payload[:split].view("<u8"), payload[split:].view("<u4"))


def _write(path: Path, base: _Sorted, fresh: Hashes, stamp: int) -> _Sorted:
    """Merge ``fresh`` (sorted) into ``base``, write the file and map it."""
    bits = max(0, int(np.ceil(np.log2(max(1, len(base) + len(fresh)) / _BUCKET))))
    counts = np.zeros((1 << bits) + 1, dtype=np.uint32)
    count, writer = 0, HashFileWriter(path)
    try:
        for block in _merge(base.hashes, fresh):
            writer.write(block)
            count += len(block)
            _count_buckets(counts, block, bits)
        np.cumsum(counts, dtype=np.uint32, out=counts)
        writer.write(counts)
        writer.commit(Header(MAGIC, VERSION, stamp, count, bits))
    finally:
        writer.abandon()
    return _content(*map_hash_file(path, MAGIC, VERSION))


def _merge(base: Hashes, fresh: Hashes) -> Iterator[Hashes]:
    """Merge two sorted arrays without duplicates, in blocks."""
    taken = 0
    for start in range(0, max(1, len(base)), _BLOCK):
        block = base[start : start + _BLOCK]
        is_last = start + _BLOCK >= len(base)
        upto = len(fresh) if is_last else int(np.searchsorted(fresh, block[-1], side="right"))
        both = merged_hashes(block, fresh[taken:upto])
        taken = upto
        if len(both):
            keep = np.ones(len(both), dtype=np.bool_)
            np.not_equal(both[1:], both[:-1], out=keep[1:])
            yield both if keep.all() else both[keep]


def _count_buckets(counts: NDArray[np.uint32], block: Hashes, bits: int) -> None:
    """Count the hashes of a sorted block by bucket; the count of bucket i is added at i + 1."""
    buckets = (
        (block >> np.uint64(64 - bits)).astype(np.intp)
        if bits
        else np.zeros(len(block), dtype=np.intp)
    )
    first = int(buckets[0])
    found = np.bincount(buckets - first)
    counts[first + 1 : first + 1 + len(found)] += found.astype(np.uint32)


def _runs(hashes: Iterable[Hashes]) -> Iterator[Hashes]:
    """Sorted runs of bounded length."""
    parts: list[Hashes] = []
    size = 0
    for part in hashes:
        parts.append(part)
        size += len(part)
        if size >= _RUN:
            yield np.sort(np.concatenate(parts))
            parts, size = [], 0
    if size:
        yield np.sort(np.concatenate(parts))
