"""Seconds to divide the state of a crawl into twice as many shards: ``python -m bench.reshard``.

The state is made up: hosts of 100 URLs, of which a part waits and all others are due again. The
tables are RocksDB's; gathering, sending to object storage and logs are not included.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import msgspec

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.urls.identity import hash8, partition_of
from lycosa.moves.reshard.counting import recounted
from lycosa.moves.reshard.division import Division, OldState
from lycosa.moves.reshard.host_owners import HostOwners
from lycosa.moves.reshard.row_sink import RowSink
from lycosa.stages.frontier.back_queue import Lane
from lycosa.stages.frontier.front_queues import FRONT_KEY, Range
from lycosa.stages.frontier.visit_state import HostState, VisitRecord
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.kv.table_records import (
    UrlRecord,
    due_key,
    encode_record,
    encode_url,
    front_key,
    host_key,
    queue_key,
    url_key,
)
from lycosa.state.shard.counters import COUNTERS_KEY, Counters

_PER_HOST, _WAITING, _BANDS = 100, 30, 8
_ID = "urn:uuid:00000000-0000-4000-8000-000000000000"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.reshard", description=__doc__)
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        opener = rocks_opener(64 << 20, 128 << 20)
        tables = {n: opener(Path(folder) / f"old{n}") for n in range(given.partitions)}
        shards = 2 * given.partitions
        made = {n: opener(Path(folder) / f"new{n}") for n in range(shards)}
        _fill(tables, given.urls)
        owners = HostOwners(tables, lambda host: host, shards)
        began = time.perf_counter()
        counters = recounted(owners)
        counted = time.perf_counter()
        Division(OldState(owners, _BANDS, was_on_machine=False), RowSink(made), counters).write()
        for table in made.values():
            table.flush()
        ended = time.perf_counter()
        print(
            f"{given.urls:,} URLs, {given.partitions} to {shards} shards: counted in"
            f" {counted - began:.1f} s, divided in {ended - counted:.1f} s"
        )
        for table in [*tables.values(), *made.values()]:
            table.close()


def _fill(tables: dict[int, KeyValue], urls: int) -> None:
    history = History(1, 1_700_000_000, 200, b"d" * 20, 7, record_id=_ID, segment="s" * 40)
    fetched = encode_url(_record(UrlState.FETCHED, due_at=2_000_000_000, history=history))
    waiting = encode_url(_record(UrlState.QUEUED))
    counters = {number: Counters() for number in tables}
    lined_up = dict.fromkeys(tables, 0)
    for number in range(urls // _PER_HOST):
        host = f"h{number}.example"
        partition, host8 = partition_of(host, len(tables)), hash8(host)
        count = counters[partition]
        count.hosts += 1
        rows: dict[bytes, bytes | None] = {}
        keys = [hash8(f"http://{host}/{page}") for page in range(_PER_HOST)]
        for page, url8 in enumerate(keys):
            is_waiting = page < _WAITING
            count.move_urls(None, UrlState.QUEUED if is_waiting else UrlState.FETCHED)
            rows[url_key(host8, url8)] = waiting if is_waiting else fetched
        for seq in range(0, _WAITING, 15):
            rows[queue_key(host8, 2, seq // 15)] = b"".join(keys[seq : seq + 15])
        rows[due_key(2_000_000_000 + number, host8, keys[_WAITING])] = b"".join(
            host8 + url8 for url8 in keys[_WAITING + 1 :][:63]
        )
        place = 2, lined_up[partition]
        lined_up[partition] += 1
        rows[front_key(*place)] = host8
        visit = VisitRecord(
            host, HostState.READY, {2: Lane(0, _WAITING // 15)}, _WAITING, front=place
        )
        rows[host_key(host8)] = encode_record(visit)
        tables[partition].write(rows)
    for partition, table in tables.items():
        ranges = [Range(0, 0, 0)] * _BANDS
        ranges[2] = Range(0, lined_up[partition], lined_up[partition])
        table.write({COUNTERS_KEY: msgspec.msgpack.encode(counters[partition])})
        table.write({FRONT_KEY: encode_record(ranges)})
        table.flush()


def _record(state: UrlState, **values: object) -> UrlRecord:
    return UrlRecord(state, False, "/a/page/somewhere", 2, 100, LinkKind.A, 1_700_000_000, **values)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
