"""A crawl's registry in Cassandra: URLs by hash and by host, hosts, dead letters and the crawl log.

There are no transactions, so the order of writes and the timestamps (``cassandra_schema``) do their
work:

    hosts ──► URLs, dead letters ──► positions, if they are still those that were found

**Position.** It moves after a majority of the copies has every row up to it, by one conditional
write. A process or node that fails before that leaves rows of later commits, and the same or newer
rows are written again from the position on. So every commit up to the position is in the tables,
and some of the next ones may be.

**Repeated and late writes** carry the timestamp of their commit and change nothing. Two projectors
do the work twice; the one whose positions are not those in the table any more reads them again.

**A row depends on its record alone.** The status of a queued URL does not contain that of its host,
as in PostgreSQL; readers find it in ``hosts.url_status``. Otherwise two projectors that join
commits differently could write different rows with one timestamp.

**Dead letters** are separate rows. One is deleted when the URL is written with another state
and the table has it. That read sees what was written for the commits before, because both need a
majority. A state that is read whole, or a step of several commits, may pass over a failure that a
slow second projector has still to write. The crawl numbers its dead letters in a separate table,
so such a URL is known (``recovered``), and the deletion is written without that question.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from uuid import UUID

from lycosa.base.model.url_state import UrlState
from lycosa.feeds.projector_source import JournalPosition
from lycosa.feeds.registry.cassandra_connection import CassandraConnection, CqlStatement
from lycosa.feeds.registry.cassandra_schema import (
    COMPLETE,
    CRAWL_LOG,
    CRAWL_LOG_BY_URL,
    DEAD_LETTER_ROWS,
    HOSTS,
    JOURNALS,
    NAMES_BY_HASH,
    URLS,
    URLS_BY_HOST,
    CassandraTable,
    bucket_of,
    columns_of,
    write_time,
)
from lycosa.feeds.registry.registry_port import (
    CaptureStep,
    DeletedRow,
    PositionsMoved,
    RegistryStep,
    counted_rows,
)
from lycosa.feeds.registry.registry_rows import (
    ALL_HOST_COLUMNS,
    ALL_URL_COLUMNS,
    REGISTRY_LOG,
    HostSummary,
    Row,
)
from lycosa.state.commit import Mark

_MICROSECONDS = 1_000_000
_URL_NAMES, _HOST_NAMES = list(ALL_URL_COLUMNS), list(ALL_HOST_COLUMNS)
_STATUS, _IS_QUEUED = _URL_NAMES.index("status"), _URL_NAMES.index("is_queued")
_HOST = _URL_NAMES.index("host")
_by_host = columns_of(ALL_URL_COLUMNS, list(URLS_BY_HOST.columns)[2:])
_dead = columns_of(ALL_URL_COLUMNS, list(DEAD_LETTER_ROWS.columns)[2:])
_mark_of_url = columns_of(ALL_URL_COLUMNS, ("term", "sequence"))
_mark_of_host = columns_of(ALL_HOST_COLUMNS, ("term", "sequence"))
_name_of_host = columns_of(ALL_HOST_COLUMNS, NAMES_BY_HASH.columns)
_by_url = columns_of(REGISTRY_LOG, CRAWL_LOG_BY_URL.columns)
_FETCHED_AT = list(REGISTRY_LOG).index("fetched_at")


class CassandraTables:
    """The tables of a keyspace as ``RegistryTables``; the connection becomes its own."""

    def __init__(
        self, connection: CassandraConnection, keyspace: str, crawl: UUID, buckets: int, state: str
    ) -> None:
        self._connection, self._keyspace, self._crawl = connection, keyspace, crawl
        self._buckets = buckets
        self._replace = {
            each: each.replace(keyspace) for each in (URLS, URLS_BY_HOST, DEAD_LETTER_ROWS, HOSTS)
        }
        self._insert = {
            each: each.insert(keyspace)
            for each in (NAMES_BY_HASH, CRAWL_LOG, CRAWL_LOG_BY_URL, JOURNALS)
        }
        self.is_complete = state == COMPLETE
        self.positions = self._read_positions()
        rows = connection.rows(f'SELECT segment, rows, bytes, is_closed FROM "{keyspace}".journals')
        self.journals = {segment: JournalPosition(*position) for segment, *position in rows}

    def write(self, step: RegistryStep, forgotten: int | None = None) -> dict[bytes, str]:
        """See ``RegistryTables``. No host's status is in the rows of its URLs, so none turns."""
        self._connection.write_all(self._host_statements(step.hosts))
        urls = list(step.urls)
        self._connection.write_all(self._url_statements(urls))
        self._connection.write_all(list(self._outdated_dead_letters(urls)))
        self._connection.write_all(self._deletions(step.deleted))
        self._connection.write_all(self._recoveries(step.recovered))
        self._move(step, forgotten)
        return {}

    def write_captures(self, step: CaptureStep) -> int:
        """See ``RegistryTables``. A capture never changes, so its own time is its timestamp."""
        count = [0]
        self._connection.write_all(self._capture_statements(counted_rows(step.rows, count)))
        position = JournalPosition(step.before.rows + count[0], step.end, step.is_closed)
        # the timestamp grows with the position, so the furthest one wins
        at = position.rows * 2 + position.is_closed
        self._connection.write_all([(self._insert[JOURNALS], (step.segment, *position, at))])
        self.journals[step.segment] = position
        return count[0]

    def find_hosts(self, host8s: Collection[bytes]) -> dict[bytes, HostSummary]:
        """See ``RegistryTables``. Their status is not needed."""
        cql = f'SELECT host_hash, host, site FROM "{self._keyspace}".host_names WHERE host_hash = ?'
        found = self._connection.read_all((cql, (host8,)) for host8 in host8s)
        queued = UrlState.QUEUED.label
        return {host8: HostSummary(host, site, queued) for host8, host, site in found}

    def complete(self) -> None:
        """See ``RegistryTables``: readers find it in ``crawl.state``."""
        cql = f'UPDATE "{self._keyspace}".crawl SET state = ? WHERE id = 1 IF crawl = ?'
        if not self._connection.write_if([(cql, (COMPLETE, self._crawl))]):
            raise PositionsMoved
        self.is_complete = True

    def close(self) -> None:
        self._connection.close()

    def _read_positions(self) -> dict[int, Mark]:
        rows = self._connection.rows(
            f'SELECT partition, term, sequence FROM "{self._keyspace}".positions WHERE crawl = ?',
            (self._crawl,),
            serial=True,
        )
        return {number: Mark(term, sequence) for number, term, sequence in rows}

    def _host_statements(self, rows: Iterable[Row]) -> Iterator[CqlStatement]:
        for row in rows:
            at = write_time(*_mark_of_host(row))
            yield self._replace[HOSTS], (at, row[_HOST_NAMES.index("host")], *row, at + 1)
            # the names of a hash never change, so any timestamp does
            yield self._insert[NAMES_BY_HASH], (*_name_of_host(row), 1)

    def _url_statements(self, rows: Iterable[Row]) -> Iterator[CqlStatement]:
        for row in rows:
            at, key = write_time(*_mark_of_url(row)), row[0]
            if row[_IS_QUEUED]:
                row = (*row[:_STATUS], UrlState.QUEUED.label, *row[_STATUS + 1 :])
            where = (row[_HOST], bucket_of(key, self._buckets))
            yield self._replace[URLS], (at, *row[:2], *row, at + 1)
            yield (
                self._replace[URLS_BY_HOST],
                (at, *where, key, *where, *_by_host(row), at + 1),
            )
            if row[_STATUS] == UrlState.FAILED.label:
                yield (
                    self._replace[DEAD_LETTER_ROWS],
                    (at, *where, key, *where, *_dead(row), at + 1),
                )

    def _outdated_dead_letters(self, rows: Iterable[Row]) -> Iterator[CqlStatement]:
        """Delete the dead letters of URLs that are in another state now."""
        times: dict[tuple[str, int, bytes], int] = {}
        asked: dict[tuple[str, int], list[bytes]] = {}
        for row in rows:
            if row[_STATUS] != UrlState.FAILED.label:
                host, bucket = row[_HOST], bucket_of(row[0], self._buckets)
                times[host, bucket, row[0]] = write_time(*_mark_of_url(row))
                asked.setdefault((host, bucket), []).append(row[0])
        cql = (
            f'SELECT host, bucket, url_hash FROM "{self._keyspace}".dead_letters'
            " WHERE host = ? AND bucket = ? AND url_hash IN ?"
        )
        found = self._connection.read_all((cql, (*where, keys)) for where, keys in asked.items())
        for key in found:
            yield DEAD_LETTER_ROWS.delete(self._keyspace), (times[key] + 1, *key)

    def _deletions(self, deleted: Iterable[DeletedRow]) -> Iterator[CqlStatement]:
        for each in deleted:
            at, host8, url8 = write_time(*each.when.mark) + 1, each.key[1:9], each.key[9:]
            keys: Mapping[CassandraTable, Row] = {HOSTS: (each.host.host,), NAMES_BY_HASH: (host8,)}
            if url8:
                where = (each.host.host, bucket_of(url8, self._buckets), url8)
                keys = {URLS: (url8, host8), URLS_BY_HOST: where, DEAD_LETTER_ROWS: where}
            for table, key in keys.items():
                yield table.delete(self._keyspace), (at, *key)

    def _recoveries(self, recovered: Iterable[DeletedRow]) -> Iterator[CqlStatement]:
        """Delete dead letters that another projector may write later, whether they are there."""
        for each in recovered:
            at, url8 = write_time(*each.when.mark) + 1, each.key[9:]
            key = (each.host.host, bucket_of(url8, self._buckets), url8)
            yield DEAD_LETTER_ROWS.delete(self._keyspace), (at, *key)

    def _capture_statements(self, rows: Iterable[Row]) -> Iterator[CqlStatement]:
        for row in rows:
            fetched_at = row[_FETCHED_AT]
            at = int(fetched_at.timestamp() * _MICROSECONDS)
            yield self._insert[CRAWL_LOG], (fetched_at.date(), *row, at)
            yield self._insert[CRAWL_LOG_BY_URL], (*_by_url(row), at)

    def _move(self, step: RegistryStep, forgotten: int | None) -> None:
        """Move the positions, if they are those that were found or written. Or only compare."""
        statements = [
            self._position_statement(number, when.mark, when.wall)
            for number, when in step.positions.items()
        ]
        if forgotten is not None:
            known = self.positions[forgotten]
            cql = f'DELETE FROM "{self._keyspace}".positions WHERE {_POSITION} {_KNOWN}'
            statements.append((cql, (self._crawl, forgotten, *known)))
        if not statements:
            if self._read_positions() != self.positions:
                raise PositionsMoved
            return
        if not self._connection.write_if(statements):
            raise PositionsMoved
        self.positions |= {number: when.mark for number, when in step.positions.items()}
        if forgotten is not None:
            del self.positions[forgotten]

    def _position_statement(self, number: int, mark: Mark, wall: float) -> CqlStatement:
        table, known = f'"{self._keyspace}".positions', self.positions.get(number)
        write_time(*mark)  # a position that no row can have is an error too
        times = (datetime.fromtimestamp(wall, UTC) if wall else None, datetime.now(UTC))
        if known is None:
            names = "crawl, partition, term, sequence, committed_at, projected_at"
            return (
                f"INSERT INTO {table} ({names}) VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS",
                (self._crawl, number, *mark, *times),
            )
        names = "term = ?, sequence = ?, committed_at = ?, projected_at = ?"
        return (
            f"UPDATE {table} SET {names} WHERE {_POSITION} {_KNOWN}",
            (*mark, *times, self._crawl, number, *known),
        )


_POSITION, _KNOWN = "crawl = ? AND partition = ?", "IF term = ? AND sequence = ?"
