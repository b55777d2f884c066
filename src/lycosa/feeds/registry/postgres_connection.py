"""The connection to PostgreSQL: errors sorted by what to do about them, and no password in a text.

A database that is away, restarts, or ends a transaction for its own reasons is ``DatabaseAway``:
the projector connects again and continues at the position that the database has. Anything else,
such as a missing permission, does not pass by waiting and is a ``RegistryError``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import conninfo

from lycosa.feeds.registry.registry_port import DatabaseAway, RegistryError

PostgresConnection = psycopg.Connection[tuple[Any, ...]]
_CONNECT_S = 10
_KEEPALIVE = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
# words of a refusal that passes by itself
_PASSING = (
    *("starting up", "not yet accepting connections", "recovery mode", "shutting down"),
    *("too many clients", "remaining con"),
)


def parsed_dsn(dsn: str) -> dict[str, Any]:
    """The parameters of a connection string. Raises ``RegistryError``."""
    try:
        return conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        # its text repeats parts of the string, and so perhaps the password
        raise RegistryError(
            "the connection string of the database is not valid; write it as"
            " postgresql://USER@HOST:PORT/DATABASE"
        ) from None


def shown_dsn(parameters: dict[str, Any]) -> str:
    """Where the database is, without a password."""
    user = f"{parameters['user']}@" if parameters.get("user") else ""
    port = f":{parameters['port']}" if parameters.get("port") else ""
    host = parameters.get("host") or parameters.get("hostaddr") or "localhost"
    return f"postgresql://{user}{host}{port}/{parameters.get('dbname') or ''}"


def connect_database(parameters: dict[str, Any], schema: str) -> PostgresConnection:
    """A connection whose unqualified names mean tables of ``schema``.

    Raises ``DatabaseAway`` or ``RegistryError``.
    """
    given = {"connect_timeout": _CONNECT_S, "application_name": "lycosa project", **_KEEPALIVE}
    try:
        connection: PostgresConnection = psycopg.connect(**{**given, **parameters}, autocommit=True)
    except psycopg.OperationalError as error:
        text = " ".join(str(error).split())
        if "FATAL" in text and not any(each in text for each in _PASSING):
            raise RegistryError(f"{shown_dsn(parameters)}: {text}") from None
        raise DatabaseAway(f"{shown_dsn(parameters)} does not answer: {text}") from None
    with translated_errors(parameters):
        connection.execute(
            "SELECT set_config('search_path', quote_ident(%s), false),"
            " set_config('timezone', 'UTC', false)",
            [schema],
        )
    return connection


@contextmanager
def translated_errors(parameters: dict[str, Any]) -> Iterator[None]:
    """Turn errors of the driver into ``DatabaseAway`` and ``RegistryError``."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise DatabaseAway(f"{shown_dsn(parameters)}: {text}") from error
    except psycopg.Error as error:
        text = " ".join(str(error).split())
        raise RegistryError(f"{shown_dsn(parameters)}: {text}") from error
