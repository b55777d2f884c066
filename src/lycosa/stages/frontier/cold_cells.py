"""The pages of a host by cell whose records are in cold files: row ``k host8``.

Such a page asks for a fetch one day, so the price of a refetch counts it as before. The counters
and the visit state of its host have it in a sum. But what reads the records of one host, to count
them by cell, reads the table, and a file cannot be read on the loop. It begins with this row.

The row changes in the commits in which records leave the table or come back.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lycosa.base.system.frames import UNREADABLE
from lycosa.state.cold.cold_rows import CELLS_PREFIX
from lycosa.state.kv.overlay import Overlay
from lycosa.state.kv.table_records import encode_record
from lycosa.state.shard.counters import count, uncount

_decode = msgspec.msgpack.Decoder(dict[int, int]).decode


def cells_key(host8: bytes) -> bytes:
    return CELLS_PREFIX + host8


def cold_cells(get: Callable[[bytes], bytes | None], host8: bytes) -> dict[int, int]:
    """The cold pages of a host by ``counted_cell`` in a partition, whose table ``get`` reads.

    A row that cannot be read counts as none, which the audit reports.
    """
    value = get(cells_key(host8))
    try:
        return _decode(value) if value is not None else {}
    except UNREADABLE:
        return {}


def count_cold(table: Overlay, host8: bytes, cell: int, is_cold: bool) -> None:
    """Count a page that becomes cold, or no longer is, in the row of its host."""
    cells = cold_cells(table.get, host8)
    (count if is_cold else uncount)(cells, cell)
    if cells:
        table.put(cells_key(host8), encode_record(cells))
    else:
        table.delete(cells_key(host8))
