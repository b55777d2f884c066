"""Cold records put back into a table whose crawl is moved or rescued.

A move writes each row to the shard that owns its host, and cold files are of one old partition. So
before rows are divided or captures entered, the records are rows again, and all that follows needs
to know nothing of cold files. The new owners archive them again by the same rules, some with each
commit. For that time the tables are as large as they would be without cold files.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from lycosa.stages.frontier.host_grids import HOST_GRIDS, decode_host_grid, is_readable
from lycosa.state.cold.cold_rows import CELLS_PREFIX, cold_key
from lycosa.state.cold.whole_table import open_cold_records
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.kv.table_records import encode_record, prefix_end
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.shard.counters import COUNTERS_KEY, counters_of

_AT_ONCE = 5_000


def return_records(table: KeyValue, store: ObjectStore) -> int:
    """Write all cold records to the table, which then names no file; returns their number.

    URLs that are to come back stay noted. Files are not changed. A call that was broken off may be
    repeated. Raises ``ColdDamaged`` or ``ObjectError``.
    """
    cold = open_cold_records(table, store)
    if cold is None:
        return 0
    returned = 0
    records = cold.scan(b"U", prefix_end(b"U"))
    while part := dict(islice(records, _AT_ONCE)):
        held = table.get_many(list(part))
        # A row of the table is newer than the record in a file.
        rows = {key: part[key] for key, row in zip(part, held, strict=True) if row is None}
        table.write(rows)
        returned += len(rows)
    counters = msgspec.structs.replace(counters_of(table), cold={})
    counted = dict.fromkeys(_rows_of_counts(table))
    # Last, because the files are found by these rows.
    named = dict.fromkeys(map(cold_key, cold.rows))
    table.write({COUNTERS_KEY: encode_record(counters), **counted, **named})
    cold.close()
    return returned


def _rows_of_counts(table: KeyValue) -> Iterator[bytes]:
    """The keys of rows that count cold pages apart from those in the table.

    The grid of a host that is not complete is one: its walk would count them again.
    """
    for key, _ in table.scan(CELLS_PREFIX, prefix_end(CELLS_PREFIX)):
        yield key
    for key, value in table.scan(HOST_GRIDS, prefix_end(HOST_GRIDS)):
        if not is_readable(value) or not decode_host_grid(value).is_whole:
            yield key
