"""Rows of content-seen for new shards, whose keys have other owners.

A digest (``C``) belongs to the shard that its last bytes give. A bucket of SimHashes (``S``)
belongs to the shard that the upper block of its pair gives, and its owner keeps the captures
(``s``) of the SimHashes that it has filed (``seen.near_judge``). On one machine each row is at the
partition of the key, and every SimHash is filed in all its tables. On a cluster an owner files
a SimHash only if it knows no earlier capture like it. So its capture goes where this owner's
buckets for it go, and nowhere else.
"""

from __future__ import annotations

from lycosa.moves.reshard.row_sink import RowSink
from lycosa.state.seen.content_seen import decode_original
from lycosa.state.seen.simhash import upper_block_of, upper_blocks


class ContentRows:
    """Writes them to ``sink``, for ``shards`` shards.

    ``partitions`` is the number of shards before; 0 when the crawl was on one machine.
    """

    def __init__(self, sink: RowSink, shards: int, partitions: int) -> None:
        self._sink, self._shards, self._partitions = sink, shards, partitions

    def put_digest(self, key: bytes, value: bytes) -> None:
        """Write the first capture with a digest."""
        self._sink.put(int.from_bytes(key[-2:], "big") % self._shards, key, value)

    def put_bucket(self, key: bytes, value: bytes) -> None:
        """Write a bucket of SimHashes."""
        self._sink.put(upper_block_of(key) % self._shards, key, value)

    def put_capture(self, partition: int, key: bytes, value: bytes) -> None:
        """Write the first capture with a SimHash, of an old partition, to all its owners."""
        blocks = set(upper_blocks(int.from_bytes(key[1:], "big")))
        if self._partitions:
            blocks = {block for block in blocks if block % self._partitions == partition}
        for shard in {block % self._shards for block in blocks}:
            self._sink.merge(shard, key, value, _earlier)

    def __repr__(self) -> str:
        return f"<ContentRows shards={self._shards} before={self._partitions}>"


def _earlier(before: bytes, value: bytes) -> bytes:
    """The earlier one of two captures."""
    one, other = decode_original(before), decode_original(value)
    return before if (one.date_us, one.url) <= (other.date_us, other.url) else value
