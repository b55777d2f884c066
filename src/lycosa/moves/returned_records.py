"""Cold records put back into a table whose crawl is moved or rescued.

A move writes each row to the shard that owns its host, and cold files are of one old partition. So
before rows are divided or captures entered, the records are rows again, and all that follows needs
to know nothing of cold files. The new owners archive them again by the same rules, some with each
commit. For that time the tables are as large as they would be without cold files.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from lycosa.base.model.url_state import History
from lycosa.stages.frontier.visit_state import decode_visit
from lycosa.state.cold.cold_rows import cold_key
from lycosa.state.cold.whole_table import open_cold_records
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.kv.table_records import (
    decode_url,
    encode_record,
    host_grid_key,
    host_key,
    prefix_end,
)
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.shard.counters import COUNTERS_KEY, Counters, counters_of

_AT_ONCE = 5_000


def return_records(table: KeyValue, store: ObjectStore) -> int:
    """Write all cold records to the table, which then names no file; returns their number.

    URLs that are to come back stay noted. Files are not changed. A table that was left half-way may
    not be used. Raises ``ColdDamaged`` or ``ObjectError``.
    """
    cold = open_cold_records(table, store)
    if cold is None:
        return 0
    counters, returned = counters_of(table), 0
    records = cold.scan(b"U", prefix_end(b"U"))
    while part := dict(islice(records, _AT_ONCE)):
        held = table.get_many(list(part))
        # A row of the table is newer than the record in a file.
        rows = {key: part[key] for key, row in zip(part, held, strict=True) if row is None}
        table.write({**rows, **_counted_again(table, counters, rows)})
        returned += len(rows)
    counters.cold = {}
    table.write({COUNTERS_KEY: encode_record(counters), **dict.fromkeys(map(cold_key, cold.rows))})
    cold.close()
    return returned


def _counted_again(
    table: KeyValue, counters: Counters, rows: Mapping[bytes, bytes]
) -> dict[bytes, bytes | None]:
    """What has to be written because pages have a cell again, which cold ones do not count in."""
    pages: dict[bytes, int] = {}
    for key, value in rows.items():
        history: History | None = decode_url(value).history
        if history is not None and history.cell:
            pages[key[1:9]] = pages.get(key[1:9], 0) + counters.move_cell(None, history)
    writes: dict[bytes, bytes | None] = {}
    for host8, number in pages.items():
        if (host := table.get(host_key(host8))) is not None:
            record = decode_visit(host)
            record.cells += number
            writes[host_key(host8)] = encode_record(record)
            # Its next owner makes the host's own counts again.
            writes[host_grid_key(host8)] = None
    return writes
