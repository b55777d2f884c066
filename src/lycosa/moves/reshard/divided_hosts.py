"""Visit states of new shards, the index of host names, and the places where hosts wait.

A host keeps everything that is remembered of it. Only two parts of its visit state name something
of the old division: its place in a queue of hosts, and the partitions of hosts that asked for an
errand. Hosts keep their order in each queue. Hosts of several old partitions that come into one
queue are lined up partition by partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from lycosa.base.model.parcel_items import Errand
from lycosa.base.urls.identity import reversed_host
from lycosa.moves.reshard.host_owners import HostOwners, StateDamaged
from lycosa.moves.reshard.row_sink import RowSink
from lycosa.stages.frontier.front_queues import FRONT_KEY, Range, stored_ranges
from lycosa.stages.frontier.visit_state import VisitRecord, decode_visit
from lycosa.state.kv.table_records import (
    LINE_PREFIX,
    encode_record,
    host_key,
    host_name_key,
    place_of,
    prefix_end,
    waiting_key,
)


class HostRows:
    """Writes them to ``sink``, for a crawl with ``bands`` bands.

    ``held`` are hosts (``host8``) that may not be requested before a crawl time, whatever their
    visit states say.
    """

    def __init__(
        self, owners: HostOwners, sink: RowSink, bands: int, held: Mapping[bytes, float]
    ) -> None:
        self._owners, self._sink, self._bands, self._held = owners, sink, bands, held
        # by shard and address: the next number of each band
        self._next: dict[int, dict[str, Counter[int]]] = {number: {} for number in sink.shards}

    def line_up(self, partition: int) -> None:
        """Write the hosts that wait in a queue, in their order. Raises ``StateDamaged``."""
        table = self._owners.tables[partition]
        for prefix in (b"F", b"W"):
            for key, host8 in table.scan(prefix, prefix_end(prefix)):
                record = self._owners.find_record(partition, host8)
                address, band, seq = place_of(key)
                if record is None or (record.line, record.front) != (address, (band, seq)):
                    raise StateDamaged(
                        f"partition {partition}: host {host8.hex()} waits in a queue that its visit"
                        " state does not name: `lycosa audit` shows what else is wrong"
                    )
                self._put(partition, host8, record, band)

    def put(self, partition: int, host8: bytes, value: bytes) -> None:
        """Write a host, unless ``line_up`` wrote it."""
        record = decode_visit(value)
        if record.front is None:
            self._put(partition, host8, record, -1)

    def finish(self) -> None:
        """Write where each queue begins and ends."""
        for shard, lines in self._next.items():
            for address, numbers in lines.items():
                key = LINE_PREFIX + address.encode() if address else FRONT_KEY
                ranges = {band: Range(0, number, number) for band, number in numbers.items()}
                self._sink.put(shard, key, encode_record(stored_ranges(ranges, self._bands)))

    def _put(self, partition: int, host8: bytes, record: VisitRecord, band: int) -> None:
        shard = self._owners.shard_of_name(record.host)
        if shard not in self._next:
            return
        if band >= 0:
            numbers = self._next[shard].setdefault(record.line, Counter())
            record.front = band, numbers[band]
            self._sink.put(shard, waiting_key(record.line, band, numbers[band]), host8)
            numbers[band] += 1
        if record.errands:
            record.errands = tuple(map(self._readdressed, record.errands))
        until = self._held.get(host8, 0.0)
        if until > record.rests_until:
            record.rest_at, record.next_at = until, max(record.next_at, until)
        self._sink.put(shard, host_key(host8), encode_record(record))
        self._sink.put(shard, host_name_key(reversed_host(record.host)), host8)

    def _readdressed(self, errand: Errand) -> Errand:
        """An errand whose askers are named by their shards.

        An asker without a visit state does not wait for the answer, so its shard does not matter.
        """
        askers = tuple(
            msgspec.structs.replace(
                asker, partition=self._owners.find_shard(asker.partition, asker.host8) or 0
            )
            for asker in errand.askers
        )
        return Errand(errand.url, askers)
