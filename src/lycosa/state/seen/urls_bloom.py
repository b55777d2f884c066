"""URL-seen by Bloom filters, for crawls whose hashes do not fit in memory.

It takes 1.8 bytes per URL at an error rate of one in a thousand, where the sorted file takes 8 to
9.

A filter for n hashes with error rate p has m = -n ln p / (ln 2)^2 bits and k = m/n ln 2 positions
for each hash (Bloom 1970). The positions are g_i = h1 + i h2, i = 1 ... k (Kirsch and Mitzenmacher
2006: two hashes work as well as k). h1 is the hash itself, which must be uniform, and h2 is a mix
of it; g_i is taken modulo 2^64 and its upper 32 bits are scaled to m. A filter that holds n hashes
is closed and one of twice the capacity is opened, so a lookup reads log(n) filters, and r filters
have an error rate of at most r p.

A positive answer may be wrong. By default the table confirms it, which makes the answer exact at
the cost of one lookup for every known URL. Without confirmation a new URL is lost with the error
rate that ``snapshot`` states. Hashes that are not saved yet are held exactly.

Payload: for each filter its capacity, m, k and count (u64 each), then its bits, padded to 8 bytes.
The header's first number is the number of filters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil, log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lycosa.state.seen.hash_files import (
    HEADER_BYTES,
    HashFileDamaged,
    Header,
    map_hash_file,
    write_hash_file,
)
from lycosa.state.seen.saving import MAX_DELTA, SavingSeenUrls
from lycosa.state.seen.seen_port import Confirm, Hashes, Mask, SeenSnapshot

MAGIC, VERSION = b"LYCOBLOM", 1
_BATCH = 4096
_MAX_BITS = 1 << 32  # positions have 32 bits
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # of splitmix64
_U64 = np.uint64

# Its declared overloads differ between releases of NumPy.
_all_bits: Callable[..., NDArray[np.uint8]] = np.bitwise_and.reduce


class BloomFilter:
    """Bits for ``capacity`` hashes with error rate ``error``; ``count`` were added."""

    def __init__(self, capacity: int, error: float, *, bits: int = 0, positions: int = 0) -> None:
        self.capacity = capacity
        self.bits = bits or min(_MAX_BITS, ceil(-capacity * log(error) / log(2) ** 2))
        self.positions = positions or max(1, round(self.bits / capacity * log(2)))
        self.count = 0
        self.array: NDArray[np.uint8] = np.zeros((self.bits + 63) // 64 * 8, dtype=np.uint8)

    def has_hashes(self, hashes: Hashes) -> Mask:
        """False where a hash was certainly not added."""
        found = np.empty(len(hashes), dtype=np.bool_)
        for start in range(0, len(hashes), _BATCH):
            places = self._places(hashes[start : start + _BATCH])
            hits = self.array[places >> _U64(3)] >> (places & _U64(7)).astype(np.uint8)
            found[start : start + _BATCH] = _all_bits(hits, axis=0) & 1
        return found

    def add_hashes(self, hashes: Hashes) -> None:
        for start in range(0, len(hashes), _BATCH):
            places = self._places(hashes[start : start + _BATCH]).ravel()
            np.bitwise_or.at(
                self.array, places >> _U64(3), np.uint8(1) << (places & _U64(7)).astype(np.uint8)
            )
        self.count += len(hashes)

    def copy(self) -> BloomFilter:
        """A copy that can grow while this filter is read."""
        other = BloomFilter(self.capacity, 0.5, bits=self.bits, positions=self.positions)
        other.array[:] = self.array
        other.count = self.count
        return other

    def fill(self) -> float:
        """The share of bits that are set."""
        return int(np.bitwise_count(self.array).sum(dtype=np.int64)) / self.bits

    def error_rate(self) -> float:
        """The share of absent hashes that ``has_hashes`` reports as present, estimated from the
        fill.
        """
        return self.fill() ** self.positions

    def _places(self, hashes: Hashes) -> NDArray[np.uint64]:
        """Bit positions of the hashes, one row for each of k."""
        step: Hashes = hashes ^ (hashes >> _U64(30))
        for factor, shift in zip(_MIX, (_U64(27), _U64(31)), strict=True):
            step = step * factor
            step ^= step >> shift
        turns: NDArray[np.uint64] = np.arange(1, self.positions + 1, dtype=np.uint64)[:, None]
        rows = hashes + step * turns
        places: NDArray[np.uint64] = ((rows >> _U64(32)) * _U64(self.bits)) >> _U64(32)
        return places


_Filters = tuple[BloomFilter, ...]


class BloomSeenUrls(SavingSeenUrls[_Filters]):
    """A ``SeenUrls`` with filters for ``capacity`` hashes, then 2, 4, ... times as many.

    Each filter has the error rate ``error``. ``confirm`` is asked about hashes that a filter
    reports; with ``None`` the filters are trusted. An existing file keeps its sizes. ``max_delta``
    is the number of hashes in memory, held exactly, above which ``should_save`` is true.
    """

    def __init__(
        self,
        path: Path,
        capacity: int,
        error: float,
        confirm: Confirm | None = None,
        max_delta: int = MAX_DELTA,
    ) -> None:
        if capacity < 1 or not 0 < error < 1:
            raise ValueError(
                "a Bloom filter needs a capacity of at least 1 and an error rate between 0 and 1,"
                f" not {capacity} and {error}"
            )
        self._capacity, self._error, self._confirm = capacity, error, confirm
        self._false_positives = 0
        filters, stamp, self._damage = _open(path)
        super().__init__(path, filters, stamp, (), max_delta)

    def snapshot(self) -> SeenSnapshot:
        self._adopt()
        filters, delta = self._known, self._delta
        size = sum(len(f.array) for f in filters)
        if self._confirm is not None:
            new = self._unseen or 1
            error_rate = self._false_positives / new
        else:
            error_rate = 1.0 - float(np.prod([1.0 - f.error_rate() for f in filters]))
        return SeenSnapshot(
            count=self._count(filters) + len(delta),
            unsaved=len(delta),
            memory_bytes=size + delta.memory_bytes,
            disk_bytes=size + 32 * len(filters) + HEADER_BYTES if self.stamp >= 0 else 0,
            asked=self._asked,
            unseen=self._unseen,
            false_positives=self._false_positives,
            error_rate=error_rate,
            damage=self._damage,
        )

    def _lacks(self, hashes: Hashes) -> Mask:
        lacking = ~_claims(self._known, hashes)
        if self._confirm is not None:
            lacking |= self._refuted(hashes, ~lacking, self._confirm)
        return lacking

    def _count(self, known: _Filters) -> int:
        return sum(bloom.count for bloom in known)

    def _write(self, known: _Filters, parts: list[Hashes], stamp: int) -> _Filters:
        filters = self._grown(known, parts)
        _write(self._path, filters, stamp)
        return filters

    def _write_anew(self, hashes: Iterable[Hashes], stamp: int) -> _Filters:
        filters: _Filters = ()
        for part in hashes:
            # A repeated hash sets the same bits but would count towards the capacity.
            part = np.unique(part)
            filters = self._grown(filters, [part[~_claims(filters, part)]], in_place=True)
        _write(self._path, filters, stamp)
        self._damage = ""
        return filters

    def _refuted(self, hashes: Hashes, claimed: Mask, confirm: Confirm) -> Mask:
        """True where a filter reports a hash that neither the table nor the memory contains."""
        refuted = np.zeros(len(hashes), dtype=np.bool_)
        places = np.flatnonzero(claimed)
        # the table does not contain the newest hashes yet
        places = places[~self._delta.holds_hashes(hashes[places])]
        if len(places):
            refuted[places] = ~confirm(hashes[places])
            self._false_positives += len(np.unique(hashes[refuted]))
        return refuted

    def _grown(self, filters: _Filters, parts: list[Hashes], in_place: bool = False) -> _Filters:
        """Filters with the parts added. The given filters stay unchanged unless ``in_place``."""
        grown = list(filters)
        if grown and not in_place:
            grown[-1] = grown[-1].copy()
        for part in parts:
            while len(part):
                if not grown or grown[-1].count >= grown[-1].capacity:
                    capacity = 2 * grown[-1].capacity if grown else self._capacity
                    grown.append(BloomFilter(capacity, self._error))
                room = grown[-1].capacity - grown[-1].count
                grown[-1].add_hashes(part[:room])
                part = part[room:]
        return tuple(grown)


def _claims(filters: _Filters, hashes: Hashes) -> Mask:
    """True where any filter reports a hash; the largest filter is read first."""
    claimed = np.zeros(len(hashes), dtype=np.bool_)
    for bloom in reversed(filters):
        places = np.flatnonzero(~claimed)
        claimed[places] = bloom.has_hashes(hashes[places])
    return claimed


def _open(path: Path) -> tuple[_Filters, int, str]:
    try:
        header, payload = map_hash_file(path, MAGIC, VERSION)
        return _content(header, payload), header.stamp, ""
    except FileNotFoundError:
        return (), -1, ""
    except HashFileDamaged as error:
        return (), -1, str(error)


def _content(header: Header, payload: NDArray[np.uint8]) -> _Filters:
    filters: list[BloomFilter] = []
    for _ in range(header.first):
        capacity, bits, positions, count = (int(value) for value in payload[:32].view("<u8"))
        bloom = BloomFilter(capacity, 0.5, bits=bits, positions=positions)
        # copied into memory and not mapped, because every lookup reads random places
        bloom.array[:] = payload[32 : 32 + len(bloom.array)]
        bloom.count = count
        payload = payload[32 + len(bloom.array) :]
        filters.append(bloom)
    return tuple(filters)


def _write(path: Path, filters: _Filters, stamp: int) -> None:
    parts: list[NDArray[np.generic]] = []
    for bloom in filters:
        parts += [
            np.array([bloom.capacity, bloom.bits, bloom.positions, bloom.count], dtype="<u8"),
            bloom.array,
        ]
    write_hash_file(
        path, Header(MAGIC, VERSION, stamp, sum(f.count for f in filters), len(filters)), parts
    )
