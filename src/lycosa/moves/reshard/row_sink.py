"""Writes the rows of new shards in batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lycosa.state.kv.kv_port import KeyValue

_BATCH = 5000


class RowSink:
    """The tables of some new shards, by number. Rows of other shards are ignored."""

    def __init__(self, tables: Mapping[int, KeyValue]) -> None:
        self._tables = tables
        self._open: dict[int, dict[bytes, bytes | None]] = {number: {} for number in tables}
        self.rows = 0

    @property
    def shards(self) -> list[int]:
        """The shards whose rows are written."""
        return list(self._tables)

    def put(self, shard: int, key: bytes, value: bytes) -> None:
        """Write a row."""
        rows = self._open.get(shard)
        if rows is None:
            return
        rows[key] = value
        self.rows += 1
        if len(rows) >= _BATCH:
            self._tables[shard].write(rows)
            self._open[shard] = {}

    def merge(
        self, shard: int, key: bytes, value: bytes, merged: Callable[[bytes, bytes], bytes]
    ) -> None:
        """Write a row; if there is one, the result of ``merged`` (before, value) replaces it."""
        if shard in self._open:
            before = self._open[shard].get(key) or self._tables[shard].get(key)
            self.put(shard, key, value if before is None else merged(before, value))

    def flush(self) -> None:
        """Write what waits."""
        for shard, rows in self._open.items():
            if rows:
                self._tables[shard].write(rows)
                self._open[shard] = {}
