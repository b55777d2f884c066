"""Connections to PostgreSQL: what is waited for, and messages that never contain the password."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lycosa.cli.main import main
from lycosa.feeds.registry.postgres_connection import connect_database, parsed_dsn, shown_dsn
from lycosa.feeds.registry.registry_port import DatabaseAway, RegistryError
from written_crawl import WrittenCrawl

SECRET = "geheim-4711"


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://crawler:{SECRET}@db.example:5433/crawls",
        f"host=db.example port=5433 user=crawler dbname=crawls password={SECRET}",
        f"postgresql://crawler@db.example:5433/crawls?password={SECRET}",
    ],
)
def test_the_place_is_shown_without_the_password(dsn: str) -> None:
    assert shown_dsn(parsed_dsn(dsn)) == "postgresql://crawler@db.example:5433/crawls"


@pytest.mark.parametrize("dsn", [f"password={SECRET} port", f"postgresql://u:{SECRET}@[::1/x"])
def test_a_bad_connection_string_is_refused_without_repeating_it(dsn: str) -> None:
    with pytest.raises(RegistryError) as caught:
        parsed_dsn(dsn)
    assert SECRET not in str(caught.value)
    assert "postgresql://USER@HOST" in str(caught.value)


def test_a_database_that_does_not_answer_is_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    parameters = parsed_dsn(f"postgresql://crawler:{SECRET}@127.0.0.1:{port}/crawls")
    with pytest.raises(DatabaseAway, match="does not answer") as caught:
        connect_database(parameters, "lycosa")
    assert SECRET not in str(caught.value)


def test_the_command_names_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LYCOSA_POSTGRES_DSN", "PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE"):
        monkeypatch.delenv(name, raising=False)
    assert main(["project", "postgres", str(tmp_path)]) == 2
    assert "LYCOSA_POSTGRES_DSN" in capsys.readouterr().err
    monkeypatch.setenv("LYCOSA_POSTGRES_DSN", "postgresql://127.0.0.1:1/x")
    assert main(["project", "postgres", str(tmp_path), "--once"]) == 2
    assert "is not a crawl" in capsys.readouterr().err
    crawl = WrittenCrawl(tmp_path / "crawl")
    crawl.close()
    assert main(["project", "postgres", str(crawl.folder), "--once", "--dsn", "a b"]) == 2
    assert "connection string" in capsys.readouterr().err


@contextmanager
def refusing(words: str, code: str) -> Iterator[int]:
    """A server of PostgreSQL's protocol that refuses one connection in these words."""

    def refuse() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1 << 16)  # the startup message
            fields = (("S", "FATAL"), ("V", "FATAL"), ("C", code), ("M", words))
            body = b"".join(f"{key}{value}\0".encode() for key, value in fields) + b"\0"
            connection.sendall(b"E" + struct.pack(">I", len(body) + 4) + body)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        ("the database system is starting up", "57P03", DatabaseAway),
        ("the database system is not yet accepting connections", "57P03", DatabaseAway),
        ("the database system is in recovery mode", "57P03", DatabaseAway),
        ("the database system is shutting down", "57P03", DatabaseAway),
        ("sorry, too many clients already", "53300", DatabaseAway),
        ('password authentication failed for user "crawl"', "28P01", RegistryError),
        ('database "registry" does not exist', "3D000", RegistryError),
    ],
)
def test_a_refusal_that_passes_by_itself_is_waited_for(
    words: str, code: str, error: type[Exception]
) -> None:
    with refusing(words, code) as port:
        dsn = f"postgresql://crawl@127.0.0.1:{port}/registry?sslmode=disable&gssencmode=disable"
        with pytest.raises(error, match=words):
            connect_database(parsed_dsn(dsn), "lycosa")
