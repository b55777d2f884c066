"""Near-duplicates by events: the owner of a bucket judges when it has the fingerprint.

Between machines a page does not wait for the owners of its buckets. Each of them gets the page's
fingerprint by parcel, judges it with the buckets that it owns, files it, and answers with a verdict
only when there is a near-duplicate (module ``intake.near_duplicates``).

**Owners.** A bucket is a pair of two of five blocks (module ``simhash``). Its owner follows from
the upper block of the pair alone. Two simhashes with a common bucket have this block in common, so
they meet at its owner. The four possible upper blocks give at most four owners for a page, where a
hash of the pair would give ten.

**Which of two is the copy.** The capture with the later date, or with the greater URL on equal
dates. The rule does not depend on the order in which fingerprints arrive, so no two pages are both
called a near-duplicate of the other. When the earlier page's fingerprint arrives second, the
verdict goes to the partition of the page that was filed before. A page that an owner calls a
near-duplicate is not filed there, so it is not the original of others. An owner that shares no
block with the original files it.

Rows are those of ``NearIndex``; each owner keeps the ``s`` row of every simhash that it files.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache

from lycosa.base.model.capture import Original
from lycosa.base.model.parcel_items import Fingerprint, Verdict
from lycosa.state.seen.content_seen import decode_original, encode_original
from lycosa.state.seen.foreign_keys import BUCKET
from lycosa.state.seen.seen_port import PointTable
from lycosa.state.seen.simhash import MAX_DISTANCE, bucket_keys, simhash_key, upper_blocks


class NearJudge:
    """Judges for the partitions of one worker.

    ``tables`` are those it owns, by number; the crawl has ``partitions`` in all.
    """

    def __init__(
        self,
        partitions: int,
        tables: Mapping[int, PointTable],
        max_distance: int = MAX_DISTANCE,
    ) -> None:
        self._partitions, self._tables, self._max_distance = partitions, tables, max_distance
        # What ``find_earlier`` read, for the judgement of the same page that follows.
        self._read: dict[bytes, bytes] = {}
        self._judged = self._filed = self._not_filed = 0

    def owners_of(self, simhash: int) -> Mapping[int, Sequence[bytes]]:
        """The partitions that own buckets of a simhash, each with the keys of its buckets."""
        return _owners(simhash, self._partitions)

    def find_earlier(self, page: Fingerprint) -> Original | None:
        """The earliest similar capture that the worker's own partitions know."""
        self._read.clear()
        found = [
            verdict
            for number, keys in self.owners_of(page.simhash).items()
            if number in self._tables
            for verdict in self._similar(number, keys, page)
            if verdict.url == page.original.url
        ]
        return min(found, key=_rank).original if found else None

    def judge_fingerprint(self, partition: int, page: Fingerprint) -> list[Verdict]:
        """Judge a page with the buckets of an owned partition; file it unless it is a copy.

        The verdict concerns this page, or else pages that were filed before and are later ones.
        """
        keys = self.owners_of(page.simhash).get(partition, ())
        similar = self._similar(partition, keys, page)
        copy_of = [verdict for verdict in similar if verdict.url == page.original.url]
        self._judged += 1
        if not copy_of:
            self._file(partition, keys, page)
        for key in keys:
            self._read.pop(key, None)
        return [min(copy_of, key=_rank)] if copy_of else similar

    def snapshot(self) -> dict[str, int]:
        """Fingerprints judged and filed since the start, and refusals by full buckets."""
        return {
            "judged": self._judged,
            "filed": self._filed,
            "refused_by_full_bucket": self._not_filed,
        }

    def _similar(self, partition: int, keys: Sequence[bytes], page: Fingerprint) -> list[Verdict]:
        """A verdict for each pair of the page and another one within the distance."""
        table, found = self._tables[partition], {page.simhash}
        for key in keys:
            bucket = self._bucket(partition, key)
            if bucket and self._max_distance:
                found.update(struct.unpack(f">{len(bucket) // 8}Q", bucket))
        verdicts = []
        for simhash in found:
            distance = (simhash ^ page.simhash).bit_count()
            value = table.get(simhash_key(simhash)) if distance <= self._max_distance else None
            other = None if value is None else decode_original(value)
            if other is None or other.url == page.original.url:
                continue
            if _order(other) < _order(page.original):
                verdicts.append(Verdict(page.original.url, page.simhash, distance, other))
            else:
                verdicts.append(Verdict(other.url, simhash, distance, page.original))
        return verdicts

    def _bucket(self, partition: int, key: bytes) -> bytes:
        bucket = self._read.get(key)
        if bucket is None:
            bucket = self._read[key] = self._tables[partition].get(key) or b""
        return bucket

    def _file(self, partition: int, keys: Sequence[bytes], page: Fingerprint) -> None:
        self._filed += 1
        table, key, packed = (
            self._tables[partition],
            simhash_key(page.simhash),
            page.simhash.to_bytes(8),
        )
        value = table.get(key)
        if value is None or _order(page.original) < _order(decode_original(value)):
            table.put(key, encode_original(page.original))
        for key in keys:
            bucket = self._bucket(partition, key)
            if packed in (bucket[at : at + 8] for at in range(0, len(bucket), 8)):
                continue
            if len(bucket) >= 8 * BUCKET:
                self._not_filed += 1
            else:
                table.put(key, bucket + packed)


def _rank(verdict: Verdict) -> tuple[int, str]:
    return verdict.rank


def _order(capture: Original) -> tuple[int, str]:
    return capture.date_us, capture.url


@lru_cache(maxsize=8)  # a page is judged by several owned partitions, and then filed
def _owners(simhash: int, partitions: int) -> Mapping[int, Sequence[bytes]]:
    owners: dict[int, list[bytes]] = {}
    for key, block in zip(bucket_keys(simhash), upper_blocks(simhash), strict=True):
        owners.setdefault(block % partitions, []).append(key)
    return owners
