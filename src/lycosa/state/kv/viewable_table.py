"""A table that can be read as it was after a certain commit, while its owner continues to write.

A scan of a table sees one moment, but two lookups see two moments, and explaining or recounting a
crawl needs many lookups that agree. So while there is a frozen table, each write first saves the
values that it replaces, and lookups in the frozen table prefer the saved values. While there is
none, nothing is saved, and the owner's reads have no extra cost.

A lookup reads the table *before* it reads the saved values, and a write saves the old value before
it changes the table. So whether a lookup finds the old or the new value in the table, its result is
the old value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Lock

from lycosa.state.kv.kv_port import CheckpointTable, KeyValue, Writes, pairs_of
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.merged_table import KeyValuePair, laid_over

_ABSENT, _VALUE = b"0", b"1"  # prefix of each saved value: whether the key had one


class ViewableTable:
    """A ``KeyValue`` that can be frozen.

    ``freeze`` may be called, and the frozen table read, on any thread that may read the table
    itself.
    """

    def __init__(self, table: KeyValue) -> None:
        self._table = table
        # The table's own methods, so that the owner's reads cost nothing extra.
        self.get: Callable[[bytes], bytes | None] = table.get
        self.get_many: Callable[[Sequence[bytes]], list[bytes | None]] = table.get_many
        self.flush: Callable[[], None] = table.flush
        self._frozen: list[FrozenTable] = []
        self._writing = Lock()

    def scan(self, start: bytes, end: bytes, limit: int = 0) -> Iterator[KeyValuePair]:
        return self._table.scan(start, end, limit)

    def write(self, writes: Writes) -> None:
        # Old values are saved and new ones written under one lock, so that no freeze comes between
        # the two.
        with self._writing:
            for each in self._frozen:
                each.keep([key for key, _ in pairs_of(writes)])
            self._table.write(writes)

    def close(self) -> None:
        """Close the table. Its frozen tables cannot be read afterwards."""
        self._table.close()

    def checkpoint(self, folder: Path) -> None:
        """See ``CheckpointTable``. Raises ``TypeError`` when the table cannot be copied."""
        if not isinstance(self._table, CheckpointTable):
            raise TypeError(f"{self._table!r} cannot be copied while it is open")
        self._table.checkpoint(folder)

    def freeze(self) -> FrozenTable:
        """The table as it is now. Waits for a write in progress.

        Close the result after use: until then each write saves old values.
        """
        with self._writing:
            frozen = FrozenTable(self._table, self._forget)
            self._frozen.append(frozen)
            return frozen

    def _forget(self, frozen: FrozenTable) -> None:
        with self._writing:
            self._frozen.remove(frozen)

    def __repr__(self) -> str:
        return f"ViewableTable({self._table!r}, frozen={len(self._frozen)})"


class FrozenTable:
    """A table as it was at one moment; implements ``SavedTable``.

    ``forget`` is called once, when the frozen table is closed.
    """

    def __init__(self, table: KeyValue, forget: Callable[[FrozenTable], None]) -> None:
        self._table, self._forget = table, forget
        self._kept = MemoryKeyValue()
        self._keeping = Lock()
        self._is_open = True

    def keep(self, keys: Sequence[bytes]) -> None:
        """Save the current values of ``keys``, which are about to be written."""
        missing = [
            key for key, kept in zip(keys, self._kept.get_many(keys), strict=True) if kept is None
        ]
        values = self._table.get_many(missing)
        # A scan on another thread copies these rows, and must not see half of a batch.
        with self._keeping:
            self._kept.write(
                [
                    (key, _ABSENT if value is None else _VALUE + value)
                    for key, value in zip(missing, values, strict=True)
                ]
            )
            self._kept.flush()  # frees the undo list, which is never needed here

    def get(self, key: bytes) -> bytes | None:
        value = self._table.get(key)
        # After the table, never before: a write in between saves the old value first, so one of the
        # two has it.
        kept = self._kept.get(key)
        return value if kept is None else _value_of(kept)

    def scan(self, start: bytes, end: bytes) -> Iterator[KeyValuePair]:
        """Pairs with ``start <= key < end`` in order. The iterator must be exhausted or closed."""
        # fixed at this moment; later writes do not affect it
        pairs = self._table.scan(start, end)
        with self._keeping:
            kept = [(key, _value_of(value)) for key, value in self._kept.scan(start, end)]
        return laid_over(pairs, kept) if kept else pairs

    def close(self) -> None:
        """Stop saving old values. Waits for a write in progress."""
        if self._is_open:
            self._is_open = False
            self._forget(self)

    def __repr__(self) -> str:
        return f"FrozenTable({self._table!r}, kept={len(self._kept)}, open={self._is_open})"


def _value_of(kept: bytes) -> bytes | None:
    return kept[1:] if kept[:1] == _VALUE else None
