"""The queries of docs/registry.md run on a registry, and those that name a host, a site, a time or
a prefix use the indexes that are there for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawling import Pages, crawl_folder, page
from lycosa.feeds.folder_source import FolderSource
from lycosa.feeds.registry.postgres_tables import PostgresPlace
from lycosa.feeds.registry.projector import Projector
from lycosa.feeds.registry.registry import Registry
from postgres_server import PostgresServer

pytestmark = pytest.mark.service
DOCUMENT = Path(__file__).parents[2] / "docs" / "registry.md"
SCHEMA = "queries"


def queries() -> list[str]:
    blocks = re.findall(r"```sql\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    return [each.strip() for block in blocks for each in block.split(";") if each.strip()]


@pytest.fixture(scope="module")
def registry(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PostgresServer]:
    folder = tmp_path_factory.mktemp("crawl")
    web = Pages(
        {
            "https://www.example.org/": page("/a", "/b", "/missing"),
            "https://www.example.org/a": page("/b"),
        }
    )
    crawl_folder(folder, web, ["https://www.example.org/"])
    source = FolderSource(folder)
    # a test that another process hands over makes the fixture again, in the same server
    postgres.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
    made = Registry(PostgresPlace(postgres.dsn, SCHEMA), source.origin)
    Projector(source, made, lambda report: None, lambda seconds: True).follow(is_once=True)
    yield postgres
    made.close()


@pytest.mark.parametrize("query", queries())
def test_a_query_of_the_document_runs(registry: PostgresServer, query: str) -> None:
    registry.rows(query, SCHEMA)


def test_queries_of_the_document_find_what_the_crawl_has(registry: PostgresServer) -> None:
    found = {query.split(" FROM ")[0]: registry.rows(query, SCHEMA) for query in queries()}
    assert dict(found["SELECT status, count(*)"])["fetched"] == 2
    assert [row[0] for row in found["SELECT url, status"]] == ["https://www.example.org/a"]
    assert {row[0] for row in found["SELECT url, error, detail, retry_count"]} == {
        "https://www.example.org/b",
        "https://www.example.org/missing",
    }


@pytest.mark.parametrize(
    ("condition", "index"),
    [
        ("host = 'x' AND next_crawl IS NOT NULL ORDER BY next_crawl", "host_next_crawl"),
        ("status = 'queued' AND next_crawl < now() ORDER BY next_crawl", "status_next_crawl"),
        ("changed_at > now()", "changed_at"),
        ("site = 'x' AND status = 'queued'", "site_status"),
        ("left(url, 400) LIKE 'https://x/%'", "left"),
        ("host = 'x' AND error = 'dns_failed'", "host_error"),
    ],
)
def test_a_condition_uses_its_index(registry: PostgresServer, condition: str, index: str) -> None:
    with_index = (
        "SELECT set_config('enable_seqscan', 'off', false);"
        f" EXPLAIN SELECT url FROM {SCHEMA}.urls WHERE {condition}"
    )
    plan = "\n".join(row[0] for row in registry.last_rows(with_index))
    assert f"urls_00_{index}" in plan
    assert "Seq Scan" not in plan
