"""Which shard will own a host, from what the tables of the old partitions say.

Most keys begin with the hash of a host, which does not give its owner: that follows from the site,
and the name of the host is in its visit state only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lycosa.base.urls.identity import partition_of
from lycosa.stages.frontier.visit_state import VisitRecord, decode_visit
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.kv.table_records import host_key

_KEPT = 200_000  # hosts in memory, about 150 bytes each


class StateDamaged(Exception):
    """The state of the crawl is not what commits left. `lycosa audit` shows more."""


class HostOwners:
    """The future owners of hosts, for ``shards`` shards.

    ``tables`` are the old partitions by number; ``site_of`` returns the site of a host.
    """

    def __init__(
        self, tables: Mapping[int, KeyValue], site_of: Callable[[str], str], shards: int
    ) -> None:
        self.tables, self.site_of, self.shards = tables, site_of, shards
        self._known: dict[tuple[int, bytes], int] = {}

    def shard_of_site(self, site: str) -> int:
        """The shard of a site."""
        return partition_of(site, self.shards)

    def shard_of_name(self, host: str) -> int:
        """The shard of a host with this name."""
        return partition_of(self.site_of(host), self.shards)

    def find_record(self, partition: int, host8: bytes) -> VisitRecord | None:
        """The visit state of a host of a partition."""
        value = self.tables[partition].get(host_key(host8))
        return decode_visit(value) if value is not None else None

    def find_shard(self, partition: int, host8: bytes) -> int | None:
        """The shard of a host of a partition; ``None`` if it has no visit state there."""
        key = partition, host8
        shard = self._known.get(key)
        if shard is None:
            record = self.find_record(partition, host8)
            if record is None:
                return None
            shard = self.shard_of_name(record.host)
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[key] = shard
        return shard

    def shard_of(self, partition: int, host8: bytes) -> int:
        """The same for a host that must have a visit state. Raises ``StateDamaged``."""
        shard = self.find_shard(partition, host8)
        if shard is None:
            raise StateDamaged(
                f"partition {partition} has rows of host {host8.hex()}, but no visit state of it:"
                " `lycosa audit` shows what else is wrong"
            )
        return shard
