"""A crawl's registry in PostgreSQL: URLs, hosts and the crawl log, each as of a known commit.

**Position.** Rows and the position up to which they were written change in one transaction. So the
registry is always the state after some commit of each partition, whichever process is killed.

**Repeated and late batches** change nothing. Every transaction first locks the row of the crawl and
compares the positions with those that its rows were made for; rows are replaced only by rows of a
later commit. So two projectors of one registry do the work twice, and no harm.

**Queued URLs have the status of their host.** When a batch gives a host another status, its queued
URLs are changed in the same transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from lycosa.feeds.projector_source import JournalPosition
from lycosa.feeds.registry.postgres_connection import (
    PostgresConnection,
    connect_database,
    parsed_dsn,
    shown_dsn,
    translated_errors,
)
from lycosa.feeds.registry.postgres_schema import (
    HOST_KEY,
    URL_KEY,
    added_column_statement,
    index_statements,
    month_statement,
    stage_statements,
    table_statements,
    upsert_statement,
)
from lycosa.feeds.registry.registry_port import (
    REGISTRY_FORMAT,
    CaptureStep,
    DeletedRow,
    PositionsMoved,
    RegistryStep,
    check_owner,
    counted_rows,
)
from lycosa.feeds.registry.registry_rows import (
    ALL_HOST_COLUMNS,
    ALL_URL_COLUMNS,
    REGISTRY_LOG,
    HostSummary,
    Row,
    RowTime,
    added_since,
)
from lycosa.state.commit import Mark
from lycosa.state.shard.view import CrawlOrigin

_UPSERT_URLS = upsert_statement("urls", ALL_URL_COLUMNS, URL_KEY)
_UPSERT_HOSTS = upsert_statement("hosts", ALL_HOST_COLUMNS, HOST_KEY)
_Parameters = dict[str, Any]


class PostgresPlace:
    """A schema of a database as a ``RegistryPlace``. Raises ``RegistryError``."""

    def __init__(self, dsn: str, schema: str) -> None:
        self._parameters, self._schema = parsed_dsn(dsn), schema

    @property
    def name(self) -> str:
        return f"{shown_dsn(self._parameters)}, schema {self._schema}"

    def open(self, origin: CrawlOrigin, is_rebuilt: bool) -> PostgresTables:
        connection = connect_database(self._parameters, self._schema)
        try:
            with translated_errors(self._parameters):
                with connection.transaction():
                    self._create_schema(connection)
                    is_indexed = self._prepare(connection, origin, is_rebuilt)
                connection.execute(stage_statements())
                return PostgresTables(connection, self._parameters, is_indexed)
        except BaseException:
            connection.close()
            raise

    def _create_schema(self, connection: PostgresConnection) -> None:
        # creating a schema or table at the same time as another projector would fail
        connection.execute(
            "SELECT pg_advisory_xact_lock(hashtext('lycosa ' || %s))", [self._schema]
        )
        name, is_there = connection.execute(
            "SELECT quote_ident(%s), to_regnamespace(quote_ident(%s)) IS NOT NULL",
            [self._schema, self._schema],
        ).fetchone() or ("", False)
        # even IF NOT EXISTS would need the right to create schemas
        if not is_there:
            connection.execute(f"CREATE SCHEMA {name}")

    def _prepare(
        self, connection: PostgresConnection, origin: CrawlOrigin, is_rebuilt: bool
    ) -> bool:
        """Check whose registry the schema has, and create the tables if it has none.

        Returns whether they have their indexes.
        """
        manifest, found = origin.manifest, _crawl_row(connection)
        if found is not None:
            owner = (found[0], str(found[1]), found[2])
            check_owner(self.name, origin, owner, "schema with --schema", is_rebuilt)
            if not is_rebuilt:
                _add_columns(connection, found[0])
                return bool(found[3])
            connection.execute(
                "DROP VIEW dead_letters; DROP TABLE urls, hosts, crawl_log, positions, journals,"
                " crawl"
            )
        connection.execute(table_statements())
        connection.execute(
            "INSERT INTO crawl (format, crawl, name, partitions) VALUES (%s, %s, %s, %s)",
            [REGISTRY_FORMAT, UUID(manifest.crawl), origin.name, manifest.identity.partitions],
        )
        return False


def _add_columns(connection: PostgresConnection, number: int) -> None:
    """Add the columns that a registry of an older format lacks; PostgreSQL rewrites no row."""
    if number == REGISTRY_FORMAT:
        return
    for table, name, kind in added_since(number):
        connection.execute(added_column_statement(table, name, kind))
    connection.execute("UPDATE crawl SET format = %s", [REGISTRY_FORMAT])


class PostgresTables:
    """The tables of a schema as ``RegistryTables``; the connection becomes its own."""

    def __init__(
        self, connection: PostgresConnection, parameters: _Parameters, is_indexed: bool
    ) -> None:
        self._connection, self._parameters = connection, parameters
        self.is_complete = is_indexed
        self.positions = _positions(connection)
        rows = connection.execute("SELECT segment, rows, bytes, is_closed FROM journals")
        self.journals = {segment: JournalPosition(*position) for segment, *position in rows}

    def write(self, step: RegistryStep, forgotten: int | None = None) -> dict[bytes, str]:
        """See ``RegistryTables``: one transaction."""
        with self._transaction() as connection:
            _copy(connection, "hosts", ALL_HOST_COLUMNS, step.hosts)
            turned = [] if step.is_whole else _turned_hosts(connection)
            connection.execute(_UPSERT_HOSTS)
            _copy(connection, "urls", ALL_URL_COLUMNS, step.urls)
            connection.execute(_UPSERT_URLS)
            for each in turned:
                _turn_host(connection, each)
            _delete(connection, step.deleted)
            _move(connection, step.positions)
            if forgotten is not None:
                connection.execute("DELETE FROM positions WHERE partition = %s", [forgotten])
        self.positions |= {number: when.mark for number, when in step.positions.items()}
        if forgotten is not None:
            self.positions.pop(forgotten, None)
        return {host8: status for host8, _, status, *_ in turned}

    def write_captures(self, step: CaptureStep) -> int:
        count = [0]
        with self._transaction() as connection:
            _copy(connection, "crawl_log", REGISTRY_LOG, counted_rows(step.rows, count))
            for (month,) in connection.execute(
                "SELECT DISTINCT date_trunc('month', fetched_at) FROM stage_crawl_log"
            ).fetchall():
                connection.execute(month_statement(month))
            names = ", ".join(REGISTRY_LOG)
            connection.execute(
                f"INSERT INTO crawl_log ({names}) SELECT {names} FROM stage_crawl_log"
                " ON CONFLICT (fetched_at, record_id) DO NOTHING"
            )
            position = JournalPosition(step.before.rows + count[0], step.end, step.is_closed)
            connection.execute(
                "INSERT INTO journals VALUES (%s, %s, %s, %s) ON CONFLICT (segment) DO UPDATE"
                " SET rows = excluded.rows, bytes = excluded.bytes, is_closed = excluded.is_closed",
                [step.segment, *position],
            )
        self.journals[step.segment] = position
        return count[0]

    def find_hosts(self, host8s: Collection[bytes]) -> dict[bytes, HostSummary]:
        with translated_errors(self._parameters):
            found = self._connection.execute(
                "SELECT host_hash, host, site, url_status FROM hosts WHERE host_hash = ANY(%s)",
                [list(host8s)],
            ).fetchall()
        return {host8: HostSummary(*facts) for host8, *facts in found}

    def complete(self) -> None:
        """See ``RegistryTables``: creates the secondary indexes, and collects statistics."""
        with self._transaction() as connection:
            connection.execute(index_statements())
            connection.execute("UPDATE crawl SET is_indexed = true")
        with translated_errors(self._parameters):
            self._connection.execute("ANALYZE urls; ANALYZE hosts; ANALYZE crawl_log")
        self.is_complete = True

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[PostgresConnection]:
        """One transaction that excludes those of other projectors."""
        with translated_errors(self._parameters), self._connection.transaction():
            self._connection.execute("SELECT FROM crawl FOR UPDATE")
            if _positions(self._connection) != self.positions:
                raise PositionsMoved
            yield self._connection


def _turned_hosts(connection: PostgresConnection) -> list[tuple[Any, ...]]:
    """The staged hosts that give their queued URLs another status."""
    return connection.execute(
        "SELECT s.host_hash, s.host, s.url_status, s.term, s.sequence, s.changed_at"
        " FROM stage_hosts s JOIN hosts h USING (host_hash)"
        " WHERE h.url_status <> s.url_status AND (h.term, h.sequence) < (s.term, s.sequence)"
    ).fetchall()


def _turn_host(connection: PostgresConnection, turned: tuple[Any, ...]) -> None:
    """Change the status of a host's queued URLs: it was parked or retired, or is no more."""
    host8, host, status, term, sequence, at = turned
    connection.execute(
        "UPDATE urls SET status = %s, term = %s, sequence = %s, changed_at = %s"
        " WHERE host = %s AND host_hash = %s AND is_queued AND status <> %s"
        " AND (term, sequence) <= (%s, %s)",
        [status, term, sequence, at, host, host8, status, term, sequence],
    )


def _delete(connection: PostgresConnection, deleted: Iterable[DeletedRow]) -> None:
    for each in deleted:
        host8, url8 = each.key[1:9], each.key[9:]
        table, also = ("urls", " AND url_hash = %s") if url8 else ("hosts", "")
        connection.execute(
            f"DELETE FROM {table} WHERE host_hash = %s{also}", [host8, url8] if url8 else [host8]
        )


def _move(connection: PostgresConnection, positions: Mapping[int, RowTime]) -> None:
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO positions AS t VALUES (%s, %s, %s, to_timestamp(%s), now())"
            " ON CONFLICT (partition) DO UPDATE SET term = excluded.term,"
            " sequence = excluded.sequence, committed_at = excluded.committed_at,"
            " projected_at = excluded.projected_at"
            " WHERE (t.term, t.sequence) < (excluded.term, excluded.sequence)",
            [(number, *when.mark, when.wall) for number, when in positions.items()],
        )


def _crawl_row(connection: PostgresConnection) -> tuple[Any, ...] | None:
    """Format, crawl, its name, and whether all indexes exist; ``None`` in a schema without it."""
    table = connection.execute("SELECT to_regclass('crawl')").fetchone()
    if table is None or table[0] is None:
        return None
    return connection.execute("SELECT format, crawl, name, is_indexed FROM crawl").fetchone()


def _positions(connection: PostgresConnection) -> dict[int, Mark]:
    rows = connection.execute("SELECT partition, term, sequence FROM positions").fetchall()
    return {number: Mark(term, sequence) for number, term, sequence in rows}


def _copy(
    connection: PostgresConnection, table: str, columns: Mapping[str, str], rows: Iterable[Row]
) -> None:
    """Write rows to a staging table."""
    statement: Any = f"COPY stage_{table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(list(columns.values()))
        for row in rows:
            copy.write_row(row)
