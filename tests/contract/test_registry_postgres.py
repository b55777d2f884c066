"""What only a registry in PostgreSQL does: months as partitions, roles, and a time of the last change
that survives reading the state whole.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawling import Pages, crawl_folder, page
from lycosa.cli.main import main
from lycosa.feeds.folder_source import FolderSource
from lycosa.feeds.registry.postgres_tables import PostgresPlace
from lycosa.feeds.registry.projector import Projector
from lycosa.feeds.registry.registry import Registry
from lycosa.feeds.registry.registry_port import RegistryError
from postgres_server import PostgresServer
from registry_databases import PostgresDatabase
from registry_judging import differences
from written_crawl import WrittenCrawl, host_write, url_write

pytestmark = pytest.mark.service
A = "https://a.example/"


@pytest.fixture
def schema() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[WrittenCrawl]:
    made = WrittenCrawl(tmp_path / "crawl")
    yield made
    made.close()


def project(postgres: PostgresServer, folder: Path, schema: str) -> int:
    source = FolderSource(folder)
    registry = Registry(PostgresPlace(postgres.dsn, schema), source.origin)
    try:
        projector = Projector(source, registry, lambda report: None, lambda seconds: True)
        return projector.follow(is_once=True).read_whole
    finally:
        registry.close()


def test_a_row_that_is_read_again_unchanged_keeps_the_time_of_its_last_change(
    postgres: PostgresServer, schema: str, crawl: WrittenCrawl
) -> None:
    crawl.commit(host_write("a.example"), url_write(f"{A}1"))
    project(postgres, crawl.folder, schema)
    changed = "SELECT changed_at FROM urls WHERE path = '/1' AND host = 'a.example'"
    before = postgres.rows(changed, schema)
    for number in range(2, 6):
        crawl.commit(url_write(f"{A}{number}"))
    crawl.trim()
    assert project(postgres, crawl.folder, schema) == 1
    assert postgres.rows(changed, schema) == before


def test_the_crawl_log_is_partitioned_by_month(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    web = Pages({"https://www.example.org/": page("/a")})
    crawl_folder(tmp_path, web, ["https://www.example.org/"])
    project(postgres, tmp_path, schema)
    months = postgres.rows(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'crawl_log'::regclass",
        schema,
    )
    (when,) = postgres.rows("SELECT min(fetched_at) FROM crawl_log", schema)
    assert [name.strip('"') for (name,) in months] == [f"crawl_log_{when[0]:%Y_%m}"]


def test_a_role_that_owns_its_schema_needs_no_other_right(
    postgres: PostgresServer, schema: str, crawl: WrittenCrawl
) -> None:
    role = f"r{schema[2:]}"
    postgres.execute(f'CREATE ROLE "{role}" LOGIN')
    source = FolderSource(crawl.folder)
    registry = Registry(
        PostgresPlace(postgres.dsn.replace("crawl@", f"{role}@"), schema), source.origin
    )
    projector = Projector(source, registry, lambda report: None, lambda seconds: True)
    with pytest.raises(RegistryError, match="permission denied"):
        projector.follow(is_once=True)
    postgres.execute(f'CREATE SCHEMA "{schema}" AUTHORIZATION "{role}"')
    crawl.commit(host_write("a.example"), url_write(f"{A}1"))
    projector.follow(is_once=True)
    registry.close()
    assert differences(PostgresDatabase(postgres), crawl.folder, schema) == []


def test_a_database_that_refuses_is_an_error_at_once(
    postgres: PostgresServer, crawl: WrittenCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = postgres.dsn.replace("crawl@", "crawl:geheim@").replace("/postgres", "/missing")
    assert main(["project", "postgres", str(crawl.folder), "--dsn", wrong, "--once"]) == 2
    told = capsys.readouterr().err
    assert 'database "missing" does not exist' in told
    assert "geheim" not in told
