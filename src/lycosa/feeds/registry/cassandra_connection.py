"""The connection to Cassandra: many statements at a time, and errors sorted by what to do.

A database that is away, restarts, or has too few nodes for a quorum is ``DatabaseAway``: the
projector connects again and continues at the position that the database has. Anything else, such
as a missing permission, does not pass by waiting and is a ``RegistryError``.

The driver works on an event loop, and its caller does not: each call runs the loop until it has its
answers. All reads and writes need a majority of the copies, so what was written is seen by every
later read.
"""

from __future__ import annotations

import asyncio
import gc
import re
import warnings
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import acsylla
from acsylla import errors

from lycosa.feeds.registry.registry_port import DatabaseAway, RegistryError

CqlStatement = tuple[str, Sequence[Any]]
"""CQL, and the values of its marks; ``None`` is not bound, so the column is not written."""
_T = TypeVar("_T")
_PORT = 9042
_AT_ONCE, _PART = 256, 10_000
_CONNECT_S, _REQUEST_S = 10.0, 20.0
_PAGE_ROWS = 5000
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}")
_PARAMETERS = ("datacenter", "consistency", "ca", "cert", "key")
_LEVELS = {
    "local_quorum": (acsylla.Consistency.LOCAL_QUORUM, acsylla.Consistency.LOCAL_SERIAL),
    "quorum": (acsylla.Consistency.QUORUM, acsylla.Consistency.SERIAL),
}
_AWAY = (
    errors.CassErrorLibNoHostsAvailable,
    errors.CassErrorLibRequestTimedOut,
    errors.CassErrorLibUnableToConnect,
    errors.CassErrorLibHostResolution,
    errors.CassErrorLibWriteError,
    errors.CassErrorLibNoStreams,
    errors.CassErrorLibRequestQueueFull,
    errors.CassErrorServerUnavailable,
    errors.CassErrorServerOverloaded,
    errors.CassErrorServerIsBootstrapping,
    errors.CassErrorServerReadTimeout,
    errors.CassErrorServerReadFailure,
    errors.CassErrorServerWriteTimeout,
    errors.CassErrorServerWriteFailure,
    errors.CassErrorServerTruncateError,
    errors.CassErrorServerServerError,
    errors.CassErrorSslClosed,
)


# what a node says that has too much to do; all statements but conditional ones may be repeated
_RETRIED = (
    errors.CassErrorLibRequestTimedOut,
    errors.CassErrorLibRequestQueueFull,
    errors.CassErrorServerOverloaded,
    errors.CassErrorServerReadTimeout,
    errors.CassErrorServerWriteTimeout,
)
_PAUSES_S = (0.5, 2.0, 8.0)


class CassandraAddress(NamedTuple):
    """Nodes to begin with, and how to connect. ``ca``, ``cert`` and ``key`` are texts in PEM."""

    hosts: tuple[str, ...]
    port: int = _PORT
    user: str = ""
    password: str = ""
    datacenter: str = ""
    consistency: str = "local_quorum"
    ca: str = ""
    cert: str = ""
    key: str = ""

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        return f"cassandra://{user}{','.join(self.hosts)}:{self.port}"

    def __repr__(self) -> str:
        return f"CassandraAddress({self})"


def parsed_address(dsn: str) -> CassandraAddress:
    """The parts of ``cassandra://USER:PASSWORD@HOST,HOST:PORT?NAME=VALUE``.

    Raises ``RegistryError``, which does not repeat the text because it may have the password.
    """
    form = (
        "the address of the database is not valid; write it as"
        " cassandra://USER@HOST,HOST:PORT?datacenter=NAME"
    )
    try:
        parts = urlsplit(dsn)
        given = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        login, _, place = parts.netloc.rpartition("@")
        nodes, colon, port = place.partition(":")
        hosts = tuple(each for each in nodes.split(",") if each)
        number = int(port) if colon else _PORT
    except ValueError:
        raise RegistryError(form) from None
    if parts.scheme != "cassandra" or not hosts or parts.fragment:
        raise RegistryError(form)
    if parts.path.strip("/"):
        raise RegistryError("the address of the database has a path; use --keyspace NAME")
    if unknown := sorted(given.keys() - set(_PARAMETERS)):
        raise RegistryError(
            f"{unknown[0]!r} is no parameter of an address of Cassandra; there are"
            f" {', '.join(_PARAMETERS)}"
        )
    if given.get("consistency", "local_quorum").lower() not in _LEVELS:
        raise RegistryError(
            f"the consistency {given['consistency']!r} is not one of {', '.join(_LEVELS)}: with"
            " fewer copies a later read may not see what was written"
        )
    if (given.keys() & {"cert", "key"}) and "ca" not in given:
        raise RegistryError("a certificate needs ca=FILE in the address, who signed the nodes'")
    user, _, password = login.partition(":")
    texts = {name: _read_text(given[name]) for name in given.keys() & {"ca", "cert", "key"}}
    given |= {"consistency": given.get("consistency", "local_quorum").lower(), **texts}
    return CassandraAddress(hosts, number, unquote(user), unquote(password), **given)


def _read_text(file: str) -> str:
    try:
        return Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RegistryError(f"{file} in the address of the database: {error}") from None


def checked_keyspace(name: str) -> str:
    """A name that is safe in quotes. Raises ``RegistryError``."""
    if not _NAME.fullmatch(name):
        raise RegistryError(
            f"{name!r} is no name of a keyspace: a letter, then letters, digits and underscores,"
            " 48 at most"
        )
    return name


class DriverLoop:
    """The event loop of all connections of this process, while there is one.

    The driver wakes the loop that made the last connection, through sockets that it keeps for the
    process. So a second loop would leave the connections of the first one without answers.
    """

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._users = 0

    def acquire(self) -> asyncio.Runner:
        """The loop, for one connection."""
        self._users += 1
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner

    def release(self) -> None:
        """Close the loop after its last connection.

        The driver leaves it to the interpreter to close its sockets when nothing refers to them,
        which warns of that. After an error its objects refer to each other, so without a
        collection the descriptors would pile up.
        """
        self._users -= 1
        if self._users == 0 and self._runner is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                self._runner.close()
                self._runner = None
                gc.collect()


_LOOP = DriverLoop()


class CassandraConnection:
    """A connected session. Calls block and raise ``DatabaseAway`` and ``RegistryError``."""

    def __init__(self, address: CassandraAddress) -> None:
        self._address = address
        self._runner = _LOOP.acquire()
        self._prepared: dict[str, Any] = {}
        self._session: Any = None
        self._serial = _LEVELS[address.consistency][1]
        try:
            self._session = self._run(self._connect())
        except BaseException:
            # The loop is shared by all connections and ends with the last one that holds it.
            _LOOP.release()
            raise

    def rows(self, cql: str, values: Sequence[Any] = (), serial: bool = False) -> list[Any]:
        """The rows of a query, as tuples; ``serial`` sees every conditional write before it."""
        return self._run(self._rows(cql, values, serial))

    def run(self, cql: str) -> None:
        """Run a statement that changes the schema, and wait until all nodes have it."""
        self._run(self._session.execute(acsylla.create_statement(cql)))

    def write_all(self, statements: Iterable[CqlStatement]) -> None:
        """Run all statements in any order, many at a time."""
        rest = iter(statements)
        # the loop does not run while the statements are made, which may read files
        while part := list(islice(rest, _PART)):
            self._run(self._each(iter(part), None))

    def read_all(self, queries: Iterable[CqlStatement]) -> list[Any]:
        """The rows of all queries, many at a time, in any order."""
        found: list[Any] = []
        self._run(self._each(iter(list(queries)), found))
        return found

    def write_if(self, statements: Iterable[CqlStatement]) -> bool:
        """Run conditional statements of one partition: all of them, or none. Whether they were."""
        return self._run(self._conditional(list(statements)))

    def close(self) -> None:
        try:
            self._run(self._session.close())
        except DatabaseAway:
            pass  # it is not there to be told
        finally:
            self._prepared.clear()
            self._session = None
            _LOOP.release()

    async def _connect(self) -> Any:
        address, (level, serial) = self._address, _LEVELS[self._address.consistency]
        cluster = acsylla.create_cluster(
            list(address.hosts),
            port=address.port,
            username=address.user or None,
            password=address.password if address.user else None,
            connect_timeout=_CONNECT_S,
            request_timeout=_REQUEST_S,
            consistency=level,
            serial_consistency=serial,
            load_balance_dc_aware=address.datacenter or None,
            ssl_enabled=bool(address.ca),
            ssl_trusted_cert=address.ca or None,
            ssl_cert=address.cert or None,
            ssl_private_key=address.key or None,
            application_name="lycosa project",
            log_level="disabled",
        )
        return await cluster.create_session()

    async def _rows(self, cql: str, values: Sequence[Any], serial: bool = False) -> list[Any]:
        statement = await self._bound(cql, values)
        statement.set_page_size(_PAGE_ROWS)
        if serial:
            statement.set_consistency(self._serial)
        found: list[Any] = []
        while True:
            result = await self._session.execute(statement)
            found += [tuple(row.as_list()) for row in result]
            if not result.has_more_pages():
                return found
            statement.set_page_state(result.page_state())

    async def _bound(self, cql: str, values: Sequence[Any]) -> Any:
        prepared = self._prepared.get(cql)
        if prepared is None:
            prepared = self._prepared[cql] = await self._session.create_prepared(cql)
        statement = prepared.bind()
        for number, value in enumerate(values):
            if value is not None:
                statement.bind(number, value)
        return statement

    async def _each(self, statements: Iterator[CqlStatement], found: list[Any] | None) -> None:
        async def work() -> None:
            for cql, values in statements:
                rows = await self._patiently(cql, values)
                if found is not None:
                    found.extend(rows)

        tasks = [asyncio.create_task(work()) for _ in range(_AT_ONCE)]
        try:
            # The first error ends the step; what the others still write is written again by the
            # repetition.
            await asyncio.gather(*tasks)
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _patiently(self, cql: str, values: Sequence[Any]) -> list[Any]:
        """The rows of a statement, repeated if the database is too busy: a step has thousands of
        statements, and one that fails lets all of them be repeated.
        """
        for pause in _PAUSES_S:
            try:
                return await self._rows(cql, values)
            except _RETRIED:
                await asyncio.sleep(pause)
        return await self._rows(cql, values)

    async def _conditional(self, statements: Sequence[CqlStatement]) -> bool:
        batch = acsylla.create_batch_unlogged()
        for cql, values in statements:
            batch.add_statement(await self._bound(cql, values))
        result = await self._session.execute_batch(batch)
        return bool(result.first().as_dict()["[applied]"])

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run to the end; errors of the driver become ``DatabaseAway`` and ``RegistryError``.

        They do not refer to those of the driver, whose traceback would keep the sockets of a closed
        session open.
        """
        problem: DatabaseAway | RegistryError
        try:
            return self._runner.run(work)
        except _AWAY as error:
            problem = DatabaseAway(f"{self._address}: {' '.join(str(error).split())}")
        except errors.CassException as error:
            problem = RegistryError(f"{self._address}: {' '.join(str(error).split())}")
        raise problem
