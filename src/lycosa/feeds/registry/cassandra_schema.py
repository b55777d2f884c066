"""The tables of a registry in Cassandra, and the statements that write them.

A table answers one kind of question, so URLs are stored twice: by hash, and by host. Partitions are
bounded: the URLs of a host are in ``buckets`` parts by their hash, its fetches in one part a day.

**Timestamps.** Cassandra keeps, for each column of a row, the value with the greatest timestamp.
Every row is written with a timestamp made of the mark of its commit, so a repeated or late write of
an older commit changes nothing, whichever process sends it, whatever the clocks say.

**A row replaces the one before it whole.** Writing a null would leave a tombstone in each empty
column, and a query that meets 100,000 of them fails. So a null is not written at all: the row is
deleted with the timestamp before, in the same atomic write. Such a deletion counts for nothing in
queries, because the row is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter

from lycosa.feeds.registry.registry_port import RegistryError
from lycosa.feeds.registry.registry_rows import ALL_HOST_COLUMNS, ALL_URL_COLUMNS, REGISTRY_LOG
from lycosa.state.commit import Mark

CREATING, FILLING, COMPLETE, DROPPING = "creating", "filling", "complete", "dropping"
"""The values of ``crawl.state``. Only in the first may tables be missing; the last is the state
while a rebuild deletes them."""

SEQUENCE_BITS, TERM_BITS = 36, 25
_PHASE_BITS = 2  # the deletion of the row before, then the row
_TYPES = {
    "bytea": "blob",
    "text": "text",
    "int2": "smallint",
    "int4": "int",
    "int8": "bigint",
    "float4": "float",
    "float8": "double",
    "bool": "boolean",
    "timestamptz": "timestamp",
    "uuid": "uuid",
    "date": "date",
}
_BY_HOST = (
    *("url_hash", "url", "status", "is_queued", "depth", "priority", "last_crawled", "next_crawl"),
    *("http_status", "fetch_count", "retry_count", "error", "term", "sequence"),
)
_DEAD = (
    *("url_hash", "host_hash", "url", "site", "error", "detail", "http_status", "retry_count"),
    *("depth", "first_seen", "last_crawled", "changed_at"),
)
_BY_URL = (
    *("url_hash", "fetched_at", "record_id", "url", "kind", "fetch_number", "http_status", "error"),
    *("content_hash", "revisit", "body_bytes", "warc_segment", "warc_offset", "warc_length"),
)
_BUCKETED = {"host": "text", "bucket": "int2"}
_ALL = ALL_URL_COLUMNS | REGISTRY_LOG


class CassandraTable:
    """A table: its columns, its key, and which part of the key says where the row is stored."""

    def __init__(self, name: str, columns: dict[str, str], place: str, order: str = "") -> None:
        self.name, self.columns = name, columns
        self.key = [*place.split(), *order.split()]
        self._primary = f"(({', '.join(place.split())}){''.join(f', {o}' for o in order.split())})"

    def create(self, keyspace: str, options: str = "") -> str:
        """The statement that creates it, if it is missing."""
        columns = ", ".join(f"{name} {_TYPES[kind]}" for name, kind in self.columns.items())
        return (
            f'CREATE TABLE IF NOT EXISTS "{keyspace}".{self.name}'
            f" ({columns}, PRIMARY KEY {self._primary}){options}"
        )

    def replace(self, keyspace: str) -> str:
        """Write a row whole. Values: timestamp, key, all columns, timestamp + 1."""
        marks = ", ".join("?" * len(self.columns))
        return (
            f'BEGIN UNLOGGED BATCH DELETE FROM "{keyspace}".{self.name} USING TIMESTAMP ?'
            f' WHERE {self._where()}; INSERT INTO "{keyspace}".{self.name}'
            f" ({', '.join(self.columns)}) VALUES ({marks}) USING TIMESTAMP ?; APPLY BATCH"
        )

    def insert(self, keyspace: str) -> str:
        """Write a row that never changes. Values: all columns, timestamp."""
        marks = ", ".join("?" * len(self.columns))
        return (
            f'INSERT INTO "{keyspace}".{self.name} ({", ".join(self.columns)})'
            f" VALUES ({marks}) USING TIMESTAMP ?"
        )

    def delete(self, keyspace: str) -> str:
        """Delete a row. Values: timestamp, key."""
        return f'DELETE FROM "{keyspace}".{self.name} USING TIMESTAMP ? WHERE {self._where()}'

    def _where(self) -> str:
        return " AND ".join(f"{name} = ?" for name in self.key)


URLS = CassandraTable("urls", ALL_URL_COLUMNS, "url_hash", "host_hash")
URLS_BY_HOST = CassandraTable(
    "urls_by_host", _BUCKETED | {name: _ALL[name] for name in _BY_HOST}, "host bucket", "url_hash"
)
DEAD_LETTER_ROWS = CassandraTable(
    "dead_letters", _BUCKETED | {name: _ALL[name] for name in _DEAD}, "host bucket", "url_hash"
)
HOSTS = CassandraTable("hosts", ALL_HOST_COLUMNS, "host")
NAMES_BY_HASH = CassandraTable(
    "host_names", {"host_hash": "bytea", "host": "text", "site": "text"}, "host_hash"
)
CRAWL_LOG = CassandraTable(
    "crawl_log", {"day": "date"} | REGISTRY_LOG, "host day", "fetched_at record_id"
)
CRAWL_LOG_BY_URL = CassandraTable(
    "crawl_log_by_url", {name: _ALL[name] for name in _BY_URL}, "url_hash", "fetched_at record_id"
)
JOURNALS = CassandraTable(
    "journals", {"segment": "text", "rows": "int8", "bytes": "int8", "is_closed": "bool"}, "segment"
)
POSITIONS = CassandraTable(
    "positions",
    {"crawl": "uuid", "partition": "int4", "term": "int4", "sequence": "int8"}
    | {"committed_at": "timestamptz", "projected_at": "timestamptz"},
    "crawl",
    "partition",
)
CRAWL = CassandraTable(
    "crawl",
    {"id": "int4", "format": "int4", "crawl": "uuid", "name": "text", "partitions": "int4"}
    | {"buckets": "int4", "state": "text", "created_at": "timestamptz"},
    "id",
)
# positions first: without them the others may be in any state
CONTENT_TABLES = (
    *(POSITIONS, JOURNALS, URLS, URLS_BY_HOST, DEAD_LETTER_ROWS, HOSTS, NAMES_BY_HASH),
    *(CRAWL_LOG, CRAWL_LOG_BY_URL),
)

_NEWEST_FIRST = " WITH CLUSTERING ORDER BY (fetched_at DESC, record_id ASC)"
# rows of a time are together in files, so that old ones can expire with their files
_BY_TIME = (
    " AND compaction = {'class': 'TimeWindowCompactionStrategy',"
    " 'compaction_window_unit': 'DAYS', 'compaction_window_size': 7}"
)
_OPTIONS = {"crawl_log": _NEWEST_FIRST + _BY_TIME, "crawl_log_by_url": _NEWEST_FIRST}


def creating_statements(keyspace: str) -> Iterator[str]:
    """The statements that create the tables except ``crawl``, those that are missing."""
    for table in CONTENT_TABLES:
        yield table.create(keyspace, _OPTIONS.get(table.name, ""))


def added_column(keyspace: str, table: str, name: str, kind: str) -> str:
    """The statement that adds a column to a table of an older format."""
    return f'ALTER TABLE "{keyspace}".{table} ADD {name} {_TYPES[kind]}'


def write_time(term: int, sequence: int) -> int:
    """The timestamp of what a commit wrote; the row itself has the next one.

    Raises ``RegistryError`` beyond 33 million owners or 68 billion commits of a shard.
    """
    if term >> TERM_BITS or sequence >> SEQUENCE_BITS:
        raise RegistryError(f"commit {Mark(term, sequence)} is beyond the timestamps of Cassandra")
    return (term << SEQUENCE_BITS | sequence) << _PHASE_BITS


def bucket_of(url_hash: bytes, buckets: int) -> int:
    """The part of its host's URLs that a URL is in: the first byte of its hash modulo ``buckets``.

    A reader of the table can compute it as well.
    """
    return url_hash[0] % buckets


def columns_of(source: Iterable[str], wanted: Iterable[str]) -> itemgetter[tuple[int, ...]]:
    """What takes the wanted columns from a row that has those of ``source``."""
    names = list(source)
    return itemgetter(*(names.index(name) for name in wanted))
