"""A crawl's registry in PostgreSQL: URLs, hosts and the crawl log, each as of a known commit.

**Position.** Rows and the position up to which they were written change in one transaction. So the
registry is always the state after some commit of each partition, whichever process is killed.

**Repeated and late batches** change nothing. Every transaction first locks the row of the crawl and
compares the positions with those that its rows were made for; rows are replaced only by rows of a
later commit. So two projectors of one registry do the work twice, and no harm.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from lycosa.commit import Mark
from lycosa.frontier.visit_state import decode_visit
from lycosa.kv.records import decode_url
from lycosa.project.changes import Changes
from lycosa.project.database import (
    PostgresConnection,
    RegistryError,
    connect_database,
    parsed_dsn,
    shown_dsn,
    translated_errors,
)
from lycosa.project.postgres_schema import (
    ALL_HOST_COLUMNS,
    ALL_URL_COLUMNS,
    HOST_KEY,
    REGISTRY_FORMAT,
    URL_KEY,
    index_statements,
    month_statement,
    stage_statements,
    table_statements,
    upsert_statement,
)
from lycosa.project.rows import (
    REGISTRY_LOG,
    HostSummary,
    Row,
    RowTime,
    lost_host,
    registry_capture,
    registry_host,
    registry_url,
    summary_of_host,
)
from lycosa.project.source import UNREAD, CaptureLines, JournalPosition
from lycosa.shard.view import CrawlOrigin

_CACHED_HOSTS = 50_000
_UPSERT_URLS = upsert_statement("urls", ALL_URL_COLUMNS, URL_KEY)
_UPSERT_HOSTS = upsert_statement("hosts", ALL_HOST_COLUMNS, HOST_KEY)


class PositionsMoved(Exception):
    """Another projector has written to the registry."""


class Registry:
    """The registry of one crawl in one schema. Calls block.

    Every call may raise ``DatabaseAway``, after which ``open`` connects again, and
    ``RegistryError``.
    """

    def __init__(self, dsn: str, schema: str, origin: CrawlOrigin) -> None:
        self._parameters = parsed_dsn(dsn)
        self._schema, self._origin = schema, origin
        self._sites = origin.sites()
        self._connection: PostgresConnection | None = None
        self._hosts: OrderedDict[bytes, HostSummary] = OrderedDict()
        self.positions: dict[int, Mark] = {}
        """The last commit of each partition that the registry has whole."""
        self._loading: dict[int, RowTime] = {}
        self.turned: dict[bytes, str] = {}
        """Hosts that got another status while the URLs of their partition are read whole."""
        self.journals: dict[str, JournalPosition] = {}
        """How much of each segment's journal the crawl log has."""
        self.is_indexed = False

    @property
    def followed(self) -> dict[int, Mark]:
        """The last commit of each partition that is whole, or whose URLs are being read."""
        return self.positions | {number: when.mark for number, when in self._loading.items()}

    @property
    def place(self) -> str:
        """Where the registry is, for messages."""
        return f"{shown_dsn(self._parameters)}, schema {self._schema}"

    def open(self, is_rebuilt: bool = False) -> None:
        """Connect, create what is missing, and read the positions.

        ``is_rebuilt`` deletes the tables first. Raises ``RegistryError`` when the schema has
        another crawl's registry.
        """
        self.close()
        self._connection = connect_database(self._parameters, self._schema)
        with self._transaction(False) as connection:
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
            self._prepare(connection, is_rebuilt)
        with translated_errors(self._parameters):
            self._connection.execute(stage_statements())
        self._read_positions()

    def close(self) -> None:
        """Close the connection. What was not committed is lost."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._hosts.clear()
        self._loading.clear()

    def write_changes(self, changes: Changes) -> None:
        """Write the changes of some commits and the new positions.

        Raises ``PositionsMoved``.
        """
        hosts = {
            key: (each, decode_visit(each.value))
            for key, each in changes.hosts.items()
            if each.value is not None
        }
        wanted = {key[1:] for key in hosts} | {key[1:9] for key in changes.urls}
        with self._transaction() as connection:
            old = self._known_hosts(connection, wanted)
            new = {
                key[1:]: summary_of_host(record, self._sites) for key, (_, record) in hosts.items()
            }
            facts = old | new
            host_rows = (
                registry_host(each.partition, key, record, facts[key[1:]], each.when)
                for key, (each, record) in hosts.items()
            )
            self._upsert(connection, host_rows, _url_rows(changes, facts))
            for key, (each, _) in hosts.items():
                before, after = old.get(key[1:]), new[key[1:]]
                if before is not None and before.state != after.state:
                    _turn_host(connection, key[1:], after, each.when)
                    if each.partition in self._loading:
                        self.turned[key[1:]] = after.state
            _delete(connection, changes)
            loading = changes.positions.keys() & self._loading.keys()
            moved = {n: when for n, when in changes.positions.items() if n not in loading}
            self._move(connection, moved)
        self._cache(facts, changes)
        self.positions |= {number: when.mark for number, when in moved.items()}
        self._loading |= {number: changes.positions[number] for number in loading}

    def write_part(self, hosts: Iterable[Row], urls: Iterable[Row]) -> None:
        """Write rows of a state that is read whole; the position does not change yet."""
        with self._transaction() as connection:
            self._upsert(connection, hosts, urls)

    def begin_urls(self, partition: int, when: RowTime) -> None:
        """Note that all hosts of a partition are there, as of a commit, and its URLs are written
        next. From now on later commits of the partition may be written in between.
        """
        self._loading = {partition: when}
        self.turned.clear()

    def finish_urls(self, partition: int) -> None:
        """Set the position of a partition whose URLs were all written.

        Nothing is deleted: a crawl never forgets a URL or a host.
        """
        when = self._loading[partition]
        with self._transaction() as connection:
            self._move(connection, {partition: when})
        del self._loading[partition]
        self.positions[partition] = when.mark

    def forget_position(self, partition: int) -> None:
        """Note that a partition must be read whole."""
        if self._loading.pop(partition, None) is not None:
            return
        with self._transaction() as connection:
            connection.execute("DELETE FROM positions WHERE partition = %s", [partition])
        del self.positions[partition]

    def write_captures(self, new: CaptureLines) -> int:
        """Add the captures of new lines to the crawl log. Returns the number of lines."""
        before = self.journals.get(new.segment, UNREAD)
        with self._transaction() as connection:
            count = _copy(connection, "crawl_log", REGISTRY_LOG, map(registry_capture, new.lines))
            for (month,) in connection.execute(
                "SELECT DISTINCT date_trunc('month', fetched_at) FROM stage_crawl_log"
            ).fetchall():
                connection.execute(month_statement(month))
            names = ", ".join(REGISTRY_LOG)
            connection.execute(
                f"INSERT INTO crawl_log ({names}) SELECT {names} FROM stage_crawl_log"
                " ON CONFLICT (fetched_at, record_id) DO NOTHING"
            )
            position = JournalPosition(before.rows + count, new.end, new.is_closed)
            connection.execute(
                "INSERT INTO journals VALUES (%s, %s, %s, %s) ON CONFLICT (segment) DO UPDATE"
                " SET rows = excluded.rows, bytes = excluded.bytes, is_closed = excluded.is_closed",
                [new.segment, *position],
            )
        self.journals[new.segment] = position
        return count

    def create_indexes(self) -> None:
        """Create the secondary indexes after the first filling, and collect statistics."""
        with self._transaction() as connection:
            connection.execute(index_statements())
            connection.execute("UPDATE crawl SET is_indexed = true")
        with translated_errors(self._parameters):
            self._opened.execute("ANALYZE urls; ANALYZE hosts; ANALYZE crawl_log")
        self.is_indexed = True

    @property
    def _opened(self) -> PostgresConnection:
        assert self._connection is not None, "the registry is not open"
        return self._connection

    @contextmanager
    def _transaction(self, is_checked: bool = True) -> Iterator[PostgresConnection]:
        """One transaction; unless not ``is_checked``, it excludes those of other projectors."""
        with translated_errors(self._parameters), self._opened.transaction():
            if is_checked:
                self._opened.execute("SELECT FROM crawl FOR UPDATE")
                if _positions(self._opened) != self.positions:
                    raise PositionsMoved
            yield self._opened

    def _prepare(self, connection: PostgresConnection, is_rebuilt: bool) -> None:
        """Check whose registry the schema has, and create the tables if it has none."""
        manifest, found = self._origin.manifest, _crawl_row(connection)
        if found is not None and str(found[1]) != manifest.crawl:
            raise RegistryError(
                f"{self.place} has the registry of another crawl, {found[2]} ({found[1]}); choose"
                " another schema with --schema"
            )
        if found is not None and is_rebuilt:
            connection.execute(
                "DROP VIEW dead_letters; DROP TABLE urls, hosts, crawl_log, positions, journals,"
                " crawl"
            )
            found = None
        if found is None:
            connection.execute(table_statements())
            connection.execute(
                "INSERT INTO crawl (format, crawl, name, partitions) VALUES (%s, %s, %s, %s)",
                [
                    REGISTRY_FORMAT,
                    UUID(manifest.crawl),
                    self._origin.name,
                    manifest.identity.partitions,
                ],
            )
        elif found[0] != REGISTRY_FORMAT:
            raise RegistryError(
                f"{self.place} has a registry of format {found[0]}, and this version writes"
                f" {REGISTRY_FORMAT}; use the newer version, or --rebuild"
            )
        self.is_indexed = found is not None and found[3]

    def _read_positions(self) -> None:
        with translated_errors(self._parameters):
            self.positions = _positions(self._opened)
            rows = self._opened.execute("SELECT segment, rows, bytes, is_closed FROM journals")
            self.journals = {segment: JournalPosition(*position) for segment, *position in rows}

    def _upsert(
        self, connection: PostgresConnection, hosts: Iterable[Row], urls: Iterable[Row]
    ) -> None:
        _copy(connection, "hosts", ALL_HOST_COLUMNS, hosts)
        connection.execute(_UPSERT_HOSTS)
        _copy(connection, "urls", ALL_URL_COLUMNS, urls)
        connection.execute(_UPSERT_URLS)

    def _move(self, connection: PostgresConnection, positions: Mapping[int, RowTime]) -> None:
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO positions AS t VALUES (%s, %s, %s, to_timestamp(%s), now())"
                " ON CONFLICT (partition) DO UPDATE SET term = excluded.term,"
                " sequence = excluded.sequence, committed_at = excluded.committed_at,"
                " projected_at = excluded.projected_at"
                " WHERE (t.term, t.sequence) < (excluded.term, excluded.sequence)",
                [(number, *when.mark, when.wall) for number, when in positions.items()],
            )

    def _known_hosts(
        self, connection: PostgresConnection, wanted: Iterable[bytes]
    ) -> dict[bytes, HostSummary]:
        """The facts of these hosts as the registry has them; it may not know all."""
        known = {host8: self._hosts[host8] for host8 in wanted if host8 in self._hosts}
        if unknown := [host8 for host8 in wanted if host8 not in known]:
            found = connection.execute(
                "SELECT host_hash, host, site, url_status FROM hosts WHERE host_hash = ANY(%s)",
                [unknown],
            ).fetchall()
            known |= {host8: HostSummary(*facts) for host8, *facts in found}
        return known

    def _cache(self, facts: Mapping[bytes, HostSummary], changes: Changes) -> None:
        for host8, each in facts.items():
            self._hosts[host8] = each
            self._hosts.move_to_end(host8)
        for key, written in changes.hosts.items():
            if written.value is None:
                self._hosts.pop(key[1:], None)
        while len(self._hosts) > _CACHED_HOSTS:
            self._hosts.popitem(last=False)

    def __repr__(self) -> str:
        return f"Registry({self.place}, positions={self.positions})"


def _url_rows(changes: Changes, facts: Mapping[bytes, HostSummary]) -> Iterator[Row]:
    for key, each in changes.urls.items():
        if each.value is not None:
            host = facts.get(key[1:9]) or lost_host()
            yield registry_url(each.partition, key, decode_url(each.value), host, each.when)


def _turn_host(
    connection: PostgresConnection, host8: bytes, facts: HostSummary, when: RowTime
) -> None:
    """Change the status of a host's queued URLs: it was parked or retired, or is no more."""
    connection.execute(
        "UPDATE urls SET status = %s, term = %s, sequence = %s, changed_at = to_timestamp(%s)"
        " WHERE host = %s AND host_hash = %s AND is_queued AND status <> %s"
        " AND (term, sequence) <= (%s, %s)",
        [facts.state, *when.mark, when.wall, facts.host, host8, facts.state, *when.mark],
    )


def _delete(connection: PostgresConnection, changes: Changes) -> None:
    for key, each in changes.urls.items():
        if each.value is None:
            connection.execute(
                "DELETE FROM urls WHERE url_hash = %s AND host_hash = %s", [key[9:], key[1:9]]
            )
    for key, each in changes.hosts.items():
        if each.value is None:
            connection.execute("DELETE FROM hosts WHERE host_hash = %s", [key[1:]])


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
) -> int:
    """Write rows to a staging table; returns their number."""
    statement: Any = f"COPY stage_{table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
    count = 0
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(list(columns.values()))
        for row in rows:
            copy.write_row(row)
            count += 1
    return count
