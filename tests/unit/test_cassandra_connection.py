"""Addresses of Cassandra are read without repeating a password, and a bad one is refused at once."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lycosa.cli.main import main
from lycosa.feeds.registry.cassandra_connection import (
    CassandraConnection,
    checked_keyspace,
    parsed_address,
)
from lycosa.feeds.registry.registry_port import DatabaseAway, RegistryError
from written_crawl import WrittenCrawl

SECRET = "geheim-4711"


def test_an_address_has_nodes_port_user_and_parameters() -> None:
    found = parsed_address(
        f"cassandra://crawler:{SECRET}%40@db1.example,db2.example:9142"
        "?datacenter=dc1&consistency=QUORUM"
    )
    assert (found.hosts, found.port) == (("db1.example", "db2.example"), 9142)
    assert (found.user, found.password) == ("crawler", f"{SECRET}@")
    assert (found.datacenter, found.consistency) == ("dc1", "quorum")
    assert str(found) == "cassandra://crawler@db1.example,db2.example:9142"
    assert SECRET not in repr(found)
    assert parsed_address("cassandra://db1.example").port == 9042


@pytest.mark.parametrize(
    ("dsn", "told"),
    [
        (f"postgresql://u:{SECRET}@db", "cassandra://USER@HOST"),
        (f"cassandra://u:{SECRET}@", "cassandra://USER@HOST"),
        (f"cassandra://u:{SECRET}@db:port", "cassandra://USER@HOST"),
        (f"cassandra://u:{SECRET}@db/shop", "--keyspace"),
        (f"cassandra://u:{SECRET}@db?dc=1", "'dc' is no parameter"),
        (f"cassandra://u:{SECRET}@db?consistency=one", "may not see what was written"),
        (f"cassandra://u:{SECRET}@db?ca=/no/such/file", "/no/such/file"),
        (f"cassandra://u:{SECRET}@db?cert=/no/such/file", "needs ca"),
    ],
)
def test_a_bad_address_is_refused_without_repeating_it(dsn: str, told: str) -> None:
    with pytest.raises(RegistryError) as caught:
        parsed_address(dsn)
    assert told in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["", "1a", "a-b", 'a"b', "x" * 49])
def test_a_keyspace_is_a_name_without_quotes(name: str) -> None:
    with pytest.raises(RegistryError, match="no name of a keyspace"):
        checked_keyspace(name)
    assert checked_keyspace("Shop_2") == "Shop_2"


def test_a_node_that_does_not_answer_is_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(DatabaseAway, match=f"127.0.0.1:{port}: No hosts available"):
        CassandraConnection(parsed_address(f"cassandra://u:{SECRET}@127.0.0.1:{port}"))


def test_the_command_names_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LYCOSA_CASSANDRA_DSN", raising=False)
    crawl = WrittenCrawl(tmp_path / "crawl")
    crawl.close()
    assert main(["project", "cassandra", str(crawl.folder)]) == 2
    assert "LYCOSA_CASSANDRA_DSN" in capsys.readouterr().err
    monkeypatch.setenv("LYCOSA_CASSANDRA_DSN", f"cassandra://u:{SECRET}@127.0.0.1:x")
    assert main(["project", "cassandra", str(crawl.folder), "--once"]) == 2
    told = capsys.readouterr().err
    assert "cassandra://USER@HOST" in told
    assert SECRET not in told
