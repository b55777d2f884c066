"""Messages about a database never contain its password."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lycosa.cli.main import main
from lycosa.project import DatabaseAway, RegistryError
from lycosa.project.postgres_connection import connect_database, parsed_dsn, shown_dsn
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
