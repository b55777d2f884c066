"""A keyspace of Cassandra that has the registry of one crawl: whose it is, and its tables.

The operator creates the keyspace, because how many copies there are and where is the operator's
decision. It is checked whether a majority of the copies can exist at all; otherwise every write
would wait without end.

A keyspace has no transactions for tables either. The row of ``crawl`` says what was begun: tables
are created only in the state ``creating``, and a rebuild that was interrupted is not taken for a
registry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from lycosa.feeds.registry.cassandra_connection import (
    CassandraConnection,
    checked_keyspace,
    parsed_address,
)
from lycosa.feeds.registry.cassandra_schema import (
    CONTENT_TABLES,
    CRAWL,
    CREATING,
    DROPPING,
    FILLING,
    added_column,
    creating_statements,
)
from lycosa.feeds.registry.cassandra_tables import CassandraTables
from lycosa.feeds.registry.registry_port import REGISTRY_FORMAT, RegistryError, check_owner
from lycosa.feeds.registry.registry_rows import added_since
from lycosa.state.shard.view import CrawlOrigin

_BUCKETS = 16


class CassandraPlace:
    """A keyspace as a ``RegistryPlace``. Raises ``RegistryError``.

    A new registry stores the URLs of a host in ``buckets`` parts.
    """

    def __init__(self, dsn: str, keyspace: str, buckets: int = _BUCKETS) -> None:
        self._address, self._keyspace = parsed_address(dsn), checked_keyspace(keyspace)
        self._buckets = buckets

    @property
    def name(self) -> str:
        return f"{self._address}, keyspace {self._keyspace}"

    def open(self, origin: CrawlOrigin, is_rebuilt: bool) -> CassandraTables:
        """See ``RegistryPlace``. The keyspace must exist."""
        # with a data center that does not exist every query would wait
        checking = CassandraConnection(self._address._replace(datacenter=""))
        try:
            self._check_keyspace(checking)
        finally:
            checking.close()
        connection = CassandraConnection(self._address)
        try:
            crawl = UUID(origin.manifest.crawl)
            buckets, state = self._prepare(connection, origin, is_rebuilt)
            return CassandraTables(connection, self._keyspace, crawl, buckets, state)
        except BaseException:
            connection.close()
            raise

    def _check_keyspace(self, connection: CassandraConnection) -> None:
        ((center,),) = connection.rows("SELECT data_center FROM system.local")
        peers = connection.rows("SELECT data_center FROM system.peers")
        nodes = Counter([center, *(name for (name,) in peers)])
        local = self._address.datacenter or center
        # The driver would find no node, and only report that none answers.
        if local not in nodes:
            raise RegistryError(
                f"{self._address} has no data center {local}; there is {', '.join(sorted(nodes))}"
            )
        found = connection.rows(
            "SELECT replication, durable_writes FROM system_schema.keyspaces"
            " WHERE keyspace_name = ?",
            (self._keyspace,),
        )
        if not found:
            raise RegistryError(
                f"{self._address} has no keyspace {self._keyspace}; create it, with as many copies"
                f" as you want: CREATE KEYSPACE {self._keyspace} WITH replication ="
                f" {{'class': 'NetworkTopologyStrategy', '{local}': 3}}"
            )
        ((replication, is_durable),) = found
        if not is_durable:
            raise RegistryError(
                f"{self.name} has durable_writes = false, so a node that ends loses rows below the"
                " position of the registry; set it to true"
            )
        is_local = self._address.consistency == "local_quorum"
        if problem := replication_problem(dict(replication), nodes, local if is_local else ""):
            raise RegistryError(f"{self.name}: {problem}")

    def _prepare(
        self, connection: CassandraConnection, origin: CrawlOrigin, is_rebuilt: bool
    ) -> tuple[int, str]:
        """Check whose registry the keyspace has, and create the tables that it lacks.

        Returns the number of buckets, and the state.
        """
        tables = self._tables(connection)
        if CRAWL.name not in tables:
            if taken := sorted(tables & {each.name for each in CONTENT_TABLES}):
                raise RegistryError(
                    f"{self.name} has a table {taken[0]} that is not a registry's; choose another"
                    " keyspace with --keyspace"
                )
            connection.run(CRAWL.create(self._keyspace))
        number, crawl, name, buckets, state = self._crawl_row(connection, origin)
        owner, another = (number, str(crawl), name), "keyspace with --keyspace"
        check_owner(self.name, origin, owner, another, is_rebuilt)
        if is_rebuilt:
            self._drop(connection)
            buckets, state = self._buckets, CREATING
        # Rows of the old registry may still be there. Filling it would mix two crawls.
        if state == DROPPING:
            raise RegistryError(
                f"the rebuild of {self.name} was interrupted, or another process does it now; give"
                " --rebuild again if none does"
            )
        if state == CREATING:
            # Each of them may be repeated, because a process may end after any of them.
            for statement in creating_statements(self._keyspace):
                connection.run(statement)
            self._change(connection, "state = ?", (FILLING,), CREATING)
            return buckets, FILLING
        if missing := [each.name for each in CONTENT_TABLES if each.name not in tables]:
            raise RegistryError(
                f"{self.name} lacks the table {missing[0]}; fill the registry again with --rebuild"
            )
        if number != REGISTRY_FORMAT and not is_rebuilt:
            self._add_columns(connection, number, state)
        return buckets, state

    def _add_columns(self, connection: CassandraConnection, number: int, state: str) -> None:
        """Add the columns that a registry of an older format lacks. It may be repeated."""
        found = connection.rows(
            "SELECT table_name, column_name FROM system_schema.columns WHERE keyspace_name = ?",
            (self._keyspace,),
        )
        there = {(table, column) for table, column in found}
        for table, name, kind in added_since(number):
            if (table, name) not in there:
                connection.run(added_column(self._keyspace, table, name, kind))
        self._change(connection, "format = ?", (REGISTRY_FORMAT,), state)

    def _crawl_row(self, connection: CassandraConnection, origin: CrawlOrigin) -> tuple[Any, ...]:
        """The row of the registry, which is made if there is none."""
        manifest = origin.manifest
        connection.write_if(
            [
                (
                    f'INSERT INTO "{self._keyspace}".crawl (id, format, crawl, name, partitions,'
                    " buckets, state, created_at) VALUES (1, ?, ?, ?, ?, ?, ?,"
                    " toTimestamp(now())) IF NOT EXISTS",
                    (
                        *(REGISTRY_FORMAT, UUID(manifest.crawl), origin.name),
                        *(manifest.identity.partitions, self._buckets, CREATING),
                    ),
                )
            ]
        )
        (row,) = connection.rows(
            f'SELECT format, crawl, name, buckets, state FROM "{self._keyspace}".crawl'
            " WHERE id = 1",
            serial=True,
        )
        found: tuple[Any, ...] = row
        return found

    def _drop(self, connection: CassandraConnection) -> None:
        self._change(connection, "state = ?", (DROPPING,), None)
        for table in CONTENT_TABLES:
            connection.run(f'DROP TABLE IF EXISTS "{self._keyspace}".{table.name}')
        values = (CREATING, REGISTRY_FORMAT, self._buckets)
        self._change(connection, "state = ?, format = ?, buckets = ?", values, DROPPING)

    def _change(
        self, connection: CassandraConnection, what: str, values: tuple[Any, ...], old: str | None
    ) -> None:
        """Change the row of the registry, if it is in the state ``old`` (``None`` = any)."""
        condition = "IF EXISTS" if old is None else "IF state = ?"
        cql = f'UPDATE "{self._keyspace}".crawl SET {what} WHERE id = 1 {condition}'
        connection.write_if([(cql, values if old is None else (*values, old))])

    def _tables(self, connection: CassandraConnection) -> set[str]:
        rows = connection.rows(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?", (self._keyspace,)
        )
        return {name for (name,) in rows}


def replication_problem(
    replication: Mapping[str, str], nodes: Mapping[str, int], local: str
) -> str:
    """Why a majority of the copies cannot be written, empty when it can.

    ``nodes`` counts those of each data center. ``local`` is the data center whose majority is
    needed, or empty for one of all copies.
    """
    kind = replication.get("class", "").rpartition(".")[2]
    copies = {
        name: int(number.partition("/")[0])
        for name, number in replication.items()
        if name != "class"
    }
    if kind == "SimpleStrategy":
        where, wanted, there = "", copies.get("replication_factor", 0), sum(nodes.values())
    elif kind != "NetworkTopologyStrategy":
        return ""
    elif local:
        where, wanted, there = f" in data center {local}", copies.get(local, 0), nodes.get(local, 0)
    else:
        where, wanted, there = "", sum(copies.values()), sum(nodes.values())
    if not wanted:
        has = ", ".join(f"{name}: {number}" for name, number in sorted(copies.items()))
        return f"it keeps no copies{where} (replication {has}); change it with ALTER KEYSPACE"
    if there < wanted // 2 + 1:
        return (
            f"it keeps {wanted} copies{where} and there are {there} nodes, so no majority can be"
            " written; change the replication with ALTER KEYSPACE, or add nodes"
        )
    return ""
