"""Near-duplicates: which earlier capture has a simhash within three bits of a given one?

**Theory** (Manku, Jain, Das Sarma 2007, "Detecting Near-Duplicates for Web Crawling"). Divide the
64 bits into five blocks of 13, 13, 13, 13 and 12. Three differing bits are in at most three blocks,
so at least two of the five blocks are equal. There are ten pairs of blocks. So keep ten tables, one
for each pair, and in each table file every simhash under the value of its pair (25 or 26 bits).
Each simhash within three bits shares a bucket with the given one in at least one table. With n
documents, a bucket contains n / 2^25 others by chance.

**Loss.** A bucket takes 64 simhashes. Later ones are not filed in that table and are found only
through another table; ``snapshot`` counts them. By chance alone a bucket fills at about two billion
documents. A bucket that fills earlier belongs to a cluster of similar pages, and then another page
of that cluster is found instead.

Keys: ``S``, table number (1 byte), value of the block pair (4 bytes), with the simhashes as value,
8 bytes each; ``s`` and the simhash, with the ``Original`` in msgpack as value. Only single keys are
read, so each belongs to the partition that its hash determines.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import combinations

import msgspec

from lycosa.base.model.capture import Original
from lycosa.state.seen.foreign_keys import BUCKET, NO_ANSWERS, ContentAnswers, ForeignKeys
from lycosa.state.seen.seen_port import PointTable

MAX_DISTANCE = 3
_WIDTHS = (13, 13, 13, 13, 12)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Original).decode


def _pairs() -> tuple[tuple[bytes, int, int, int, int], ...]:
    """The key prefix, shifts and masks of each table.

    Shift and mask of the upper block move it directly above the lower one; then shift and mask of
    the lower block.
    """
    blocks, shift = [], 64
    for width in _WIDTHS:
        shift -= width
        blocks.append((shift, (1 << width) - 1, width))
    return tuple(
        (b"S" + bytes([number]), upper[0] - lower[2], upper[1] << lower[2], lower[0], lower[1])
        for number, (upper, lower) in enumerate(combinations(blocks, 2))
    )


_PAIRS = _pairs()
_UPPER = tuple(
    (64 - sum(_WIDTHS[: upper + 1]), (1 << _WIDTHS[upper]) - 1)
    for upper, _ in combinations(range(len(_WIDTHS)), 2)
)
_LOWER_BITS = tuple(_WIDTHS[lower] for _, lower in combinations(range(len(_WIDTHS)), 2))


class NearIndex:
    """The index over all partitions of a crawl.

    ``table_for`` returns the table that owns a key, or ``None`` when another worker owns it. Then
    ``told`` is needed, which holds the owners' answers and sends them new entries.
    """

    def __init__(
        self, table_for: Callable[[bytes], PointTable | None], told: ForeignKeys | None = None
    ) -> None:
        self._table_for = table_for
        self._told = told
        # What the last ``find_nearest`` read, for the ``remember_capture`` that follows: most
        # lookups find nothing, and those are the most expensive for the store. Every write through
        # this object clears it.
        self._read: dict[bytes, tuple[PointTable, bytes | None]] = {}
        self._filed = self._not_filed = 0

    def find_nearest(
        self, simhash: int, max_distance: int = MAX_DISTANCE, answers: ContentAnswers = NO_ANSWERS
    ) -> tuple[Original, int] | None:
        """The first capture with the nearest simhash, and its distance in bits.

        The distance is at most ``max_distance`` (0 to 3). Of equally near simhashes the smallest
        number wins. The simhash 0 means too little text and has no neighbours.
        """
        if not 0 <= max_distance <= MAX_DISTANCE:
            raise ValueError(
                f"the index finds distances from 0 to {MAX_DISTANCE}, not {max_distance}"
            )
        self._read.clear()
        if not simhash:
            return None
        same = self._original(simhash, answers)
        if same is not None:
            return same, 0
        for distance, other in self._near(simhash, max_distance, answers):
            original = self._original(other, answers)
            # a crash between two partitions' commits can leave a bucket ahead of the originals
            if original is not None:
                return original, distance
        return None

    def keys_wanted(self, simhash: int) -> list[bytes]:
        """The keys of other workers that ``find_nearest`` reads first."""
        keys = [simhash_key(simhash), *bucket_keys(simhash)] if simhash else []
        return [key for key in keys if self._table_for(key) is None]

    def keys_wanted_next(
        self, simhash: int, max_distance: int, answers: ContentAnswers
    ) -> list[bytes]:
        """The keys of other workers that ``find_nearest`` reads next: the captures of the near
        simhashes.

        ``answers`` are the answers to the first keys.
        """
        if not simhash or self._original(simhash, answers) is not None:
            return []
        keys = [
            simhash_key(other) for _, other in self._near(simhash, max_distance, answers)[:BUCKET]
        ]
        return [key for key in keys if self._table_for(key) is None and key not in answers]

    def remember_capture(
        self, simhash: int, original: Original, answers: ContentAnswers = NO_ANSWERS
    ) -> None:
        """File a capture under its simhash; a later one with the same simhash changes nothing."""
        if not simhash or self._original(simhash, answers) is not None:
            return
        read, self._read = self._read, {}
        self._put(simhash_key(simhash), _encode(original), read)
        packed = simhash.to_bytes(8, "big")
        for key in bucket_keys(simhash):
            self._put(key, packed, read)

    def file_row(self, table: PointTable, key: bytes, value: bytes) -> None:
        """Store a row from another worker in ``table``, which owns its key."""
        self._read.clear()
        self._file(table, key, value, table.get(key))

    def snapshot(self) -> dict[str, int]:
        """Simhashes filed since the start, and how often a full bucket refused one."""
        return {"filed": self._filed // len(_PAIRS), "refused_by_full_bucket": self._not_filed}

    def _put(
        self, key: bytes, value: bytes, read: Mapping[bytes, tuple[PointTable, bytes | None]]
    ) -> None:
        if key in read:
            table, known = read[key]
            self._file(table, key, value, known)
        elif (owner := self._table_for(key)) is not None:
            self._file(owner, key, value, owner.get(key))
        elif self._told is not None:
            self._told.tell_owner(key, value)

    def _file(self, table: PointTable, key: bytes, value: bytes, known: bytes | None) -> None:
        """Store a row, given ``known``, the table's current value under the key."""
        if key[:1] != b"S":
            if known is None:
                table.put(key, value)
            return
        bucket = known or b""
        self._filed += 1
        if len(bucket) >= 8 * BUCKET:
            self._not_filed += 1
        elif value not in _split(bucket):
            table.put(key, bucket + value)

    def _near(
        self, simhash: int, max_distance: int, answers: ContentAnswers
    ) -> list[tuple[int, int]]:
        """Other simhashes within the distance, nearest first, as (distance, simhash).

        Only those in a common bucket are compared.
        """
        if not max_distance:
            return []
        found: set[int] = set()
        for key in bucket_keys(simhash):
            bucket = self._get(key, answers)
            if bucket:
                found.update(struct.unpack(f">{len(bucket) // 8}Q", bucket))
        return sorted(
            (distance, other)
            for other in found
            if 0 < (distance := (other ^ simhash).bit_count()) <= max_distance
        )

    def _original(self, simhash: int, answers: ContentAnswers) -> Original | None:
        value = self._get(simhash_key(simhash), answers)
        return None if value is None else _decode(value)

    def _get(self, key: bytes, answers: ContentAnswers) -> bytes | None:
        if key in self._read:
            return self._read[key][1]
        table = self._table_for(key)
        if table is not None:
            value = table.get(key)
            self._read[key] = table, value
            return value
        return self._told.get(key, answers) if self._told is not None else None


def simhash_key(simhash: int) -> bytes:
    """The key of the first capture with a simhash."""
    return b"s" + simhash.to_bytes(8, "big")


@lru_cache(maxsize=8)  # a page's keys are looked up and then filed
def bucket_keys(simhash: int) -> tuple[bytes, ...]:
    """The keys of a simhash's buckets, one in each of the ten tables."""
    return tuple(
        [
            prefix
            + ((simhash >> upper & upper_mask) | (simhash >> lower & lower_mask)).to_bytes(4, "big")
            for prefix, upper, upper_mask, lower, lower_mask in _PAIRS
        ]
    )


def upper_blocks(simhash: int) -> tuple[int, ...]:
    """The value of the pair's upper block in each of the ten tables, for ``near_judge``."""
    return tuple(simhash >> shift & mask for shift, mask in _UPPER)


def upper_block_of(key: bytes) -> int:
    """The value of the pair's upper block, by the key of a bucket."""
    return int.from_bytes(key[2:6], "big") >> _LOWER_BITS[key[1]]


def _split(bucket: bytes) -> list[bytes]:
    return [bucket[start : start + 8] for start in range(0, len(bucket), 8)]
