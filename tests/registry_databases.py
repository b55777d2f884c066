"""The databases that may have a registry, as far as the tests of all of them need to know."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import cassandra_server
import postgres_server
from cassandra_server import CassandraServer
from lycosa.feeds.registry.cassandra_place import CassandraPlace
from lycosa.feeds.registry.postgres_tables import PostgresPlace
from lycosa.feeds.registry.registry_port import RegistryPlace
from postgres_server import PostgresServer

Rows = list[tuple[Any, ...]]
Server = TypeVar("Server", PostgresServer, CassandraServer)


class RegistryDatabase(Protocol):
    """A running database. ``schema`` is the schema or keyspace of one registry."""

    name: str
    """As in ``lycosa project NAME``."""
    option: str
    """The option that chooses a schema."""
    variable: str
    pid: int
    dsn: str

    def new_schema(self, name: str = "") -> str: ...

    def place(self, schema: str) -> RegistryPlace: ...

    def state_rows(self, table: str, columns: str, schema: str) -> Rows: ...

    def execute(self, statement: str, schema: str) -> None: ...

    def disagreements(self, schema: str) -> list[str]: ...

    def move_positions(self, schema: str, sequence: int) -> None: ...

    def kill(self) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


class _ServerDatabase(Generic[Server]):
    """A server with the schemas or keyspaces of tests."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.kill, self.start, self.stop = server.kill, server.start, server.stop

    @property
    def dsn(self) -> str:
        return self.server.dsn

    @property
    def pid(self) -> int:
        return self.server.pid


class PostgresDatabase(_ServerDatabase[PostgresServer]):
    """Schemas of a PostgreSQL server."""

    name, option, variable = "postgres", "--schema", "LYCOSA_POSTGRES_DSN"

    def new_schema(self, name: str = "") -> str:
        return name or f"t-{uuid.uuid4().hex[:12]}"

    def place(self, schema: str) -> PostgresPlace:
        return PostgresPlace(self.server.dsn, schema)

    def state_rows(self, table: str, columns: str, schema: str) -> Rows:
        return self.server.rows(f"SELECT {columns} FROM {table}", schema)

    def execute(self, statement: str, schema: str) -> None:
        self.server.execute(f'SET search_path TO "{schema}"; {statement}')

    def disagreements(self, schema: str) -> list[str]:
        return []

    def move_positions(self, schema: str, sequence: int) -> None:
        self.execute(f"UPDATE positions SET sequence = {sequence}", schema)


class CassandraDatabase(_ServerDatabase[CassandraServer]):
    """Keyspaces of a node of Cassandra."""

    name, option, variable = "cassandra", "--keyspace", "LYCOSA_CASSANDRA_DSN"

    def new_schema(self, name: str = "") -> str:
        return self.server.create_keyspace(name or f"t_{uuid.uuid4().hex[:12]}")

    def place(self, schema: str) -> CassandraPlace:
        return CassandraPlace(self.server.dsn, schema)

    def state_rows(self, table: str, columns: str, schema: str) -> Rows:
        """Queued URLs get the status of their host, as docs/registry.md tells readers to do."""
        names = columns.split(", ")
        if table != "urls" or "status" not in names:
            return self.server.rows(f"SELECT {columns} FROM {table}", schema)
        of_hosts = dict(self.server.rows("SELECT host, url_status FROM hosts", schema))
        rows = self.server.rows(f"SELECT host, is_queued, {columns} FROM urls", schema)
        at = names.index("status")
        return [
            (*row[:at], of_hosts[host] if is_queued else row[at], *row[at + 1 :])
            for host, is_queued, *row in rows
        ]

    def execute(self, statement: str, schema: str) -> None:
        self.server.execute(statement, schema)

    def disagreements(self, schema: str) -> list[str]:
        """What the tables that repeat others have otherwise."""
        urls = self._by_url("urls", "*", schema)
        dead = {key: row for key, row in urls.items() if row["status"] == "failed"}
        wrong = [
            *_differing("urls_by_host", urls, self._by_url("urls_by_host", "*", schema)),
            *_differing("dead_letters", dead, self._by_url("dead_letters", "*", schema)),
        ]
        by_url, log = (
            sorted(self.server.rows(f"SELECT url_hash, fetched_at, record_id FROM {each}", schema))
            for each in ("crawl_log_by_url", "crawl_log")
        )
        if by_url != log:
            wrong.append(f"crawl_log has {len(log)} captures, crawl_log_by_url {len(by_url)}")
        names = set(self.server.rows("SELECT host_hash, host, site FROM host_names", schema))
        if names != set(self.server.rows("SELECT host_hash, host, site FROM hosts", schema)):
            wrong.append("host_names is not hosts")
        return wrong

    def move_positions(self, schema: str, sequence: int) -> None:
        for crawl, number in self.server.rows("SELECT crawl, partition FROM positions", schema):
            self.execute(
                f"UPDATE positions SET sequence = {sequence} WHERE crawl = {crawl}"
                f" AND partition = {number} IF EXISTS",
                schema,
            )

    def _by_url(self, table: str, columns: str, schema: str) -> dict[tuple[Any, ...], Any]:
        found = self.server.named_rows(f"SELECT {columns} FROM {table}", schema)
        return {(row["host"], row["url_hash"]): row for row in found}


def _differing(
    table: str, wanted: Mapping[Any, dict[str, Any]], there: Mapping[Any, dict[str, Any]]
) -> Iterator[str]:
    if wanted.keys() != there.keys():
        yield f"{table}: {len(there.keys() - wanted.keys())} rows too many, {len(wanted.keys() - there.keys())} missing"
    for key in wanted.keys() & there.keys():
        for name in there[key].keys() - {"bucket"}:
            if there[key][name] != wanted[key][name]:
                yield f"{table}: {key}: {name} is {there[key][name]!r}, in urls {wanted[key][name]!r}"


def lacking(name: str) -> str:
    """What is missing here to start this database; empty when nothing is."""
    return {"postgres": postgres_server, "cassandra": cassandra_server}[name].lacking()


def database_of(name: str, folder: Path) -> RegistryDatabase:
    """A database of its own, with its data in a folder."""
    if name == "cassandra":
        return CassandraDatabase(CassandraServer(folder))
    return PostgresDatabase(PostgresServer(folder))
