"""The lists of changes of old partitions as those of new shards, in the order of their times.

Each row keeps the number that it had, so a cursor from before the import still says what was read.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import msgspec

from lycosa.moves.reshard.host_owners import HostOwners
from lycosa.moves.reshard.row_sink import RowSink
from lycosa.stages.frontier.change_log import (
    CHANGE_BOUNDS,
    CHANGES,
    ChangeBounds,
    ChangeRow,
    bounds_in,
    change_number,
    decode_change,
    merged_places,
)
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.kv.table_records import change_key, encode_record, prefix_end


def put_changes(owners: HostOwners, sink: RowSink, generation: int) -> None:
    """Write the changes of the shards of ``sink``; ``generation`` counts the imports before.

    Raises ``StateDamaged`` for a change of a host that its partition does not have.
    """
    last = dict.fromkeys(sink.shards, 0)
    streams = [_rows(partition, table) for partition, table in owners.tables.items()]
    for _, partition, number, row in heapq.merge(*streams, key=lambda each: each[:3]):
        shard = owners.shard_of(partition, row.url[:8])
        if shard in last:
            last[shard] += 1
            places = (*row.places, (generation, partition, number))
            moved = msgspec.structs.replace(row, places=places)
            sink.put(shard, change_key(last[shard]), encode_record(moved))
    dropped: tuple[tuple[int, int, int], ...] = ()
    for partition, table in owners.tables.items():
        bounds = bounds_in(table.get)
        own = ((generation, partition, bounds.first - 1),) if bounds.first > 1 else ()
        dropped = merged_places(dropped, (*bounds.dropped, *own))
    for shard, number in last.items():
        bounds = ChangeBounds(number, 1, number, dropped)
        sink.put(shard, CHANGE_BOUNDS, encode_record(bounds))


def _rows(partition: int, table: KeyValue) -> Iterator[tuple[int, int, int, ChangeRow]]:
    """The changes of a partition with their times, partition and number."""
    for key, value in table.scan(CHANGES, prefix_end(CHANGES)):
        row = decode_change(value)
        yield row.noted_s, partition, change_number(key), row
