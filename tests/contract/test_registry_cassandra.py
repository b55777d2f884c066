"""What only a registry in Cassandra does: tables that repeat each other agree, late writes of older
commits lose, and a keyspace that cannot hold a registry is refused with what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cassandra_server import CassandraServer
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.reasons import Reason
from lycosa.cli.main import main
from lycosa.feeds.folder_source import FolderSource
from lycosa.feeds.registry.cassandra_place import CassandraPlace
from lycosa.feeds.registry.changed_rows import Changes
from lycosa.feeds.registry.projector import Projector
from lycosa.feeds.registry.registry import Registry
from lycosa.feeds.registry.registry_port import PositionsMoved, RegistryError, RegistryStep
from lycosa.feeds.registry.registry_rows import row_time
from lycosa.stages.frontier.visit_state import HostState
from lycosa.state.commit import Mark
from registry_databases import CassandraDatabase
from registry_judging import differences
from written_crawl import WrittenCrawl, host_write, letter_write, url_write

pytestmark = [pytest.mark.service, pytest.mark.cassandra]
A, B = "https://a.example/", "https://b.example/"
DOCUMENT = Path(__file__).parents[2] / "docs" / "registry.md"


@pytest.fixture
def database(cassandra: CassandraServer) -> CassandraDatabase:
    return CassandraDatabase(cassandra)


@pytest.fixture
def keyspace(database: CassandraDatabase) -> str:
    return database.new_schema()


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[WrittenCrawl]:
    made = WrittenCrawl(tmp_path / "crawl")
    yield made
    made.close()


def project(database: CassandraDatabase, crawl: WrittenCrawl, keyspace: str) -> int:
    source = FolderSource(crawl.folder)
    registry = Registry(database.place(keyspace), source.origin)
    try:
        projector = Projector(source, registry, lambda report: None, lambda seconds: True)
        return projector.follow(is_once=True).read_whole
    finally:
        registry.close()


def test_a_registry_equals_a_crawl_in_its_short_form(
    database: CassandraDatabase, keyspace: str, crawl: WrittenCrawl
) -> None:
    source = FolderSource(crawl.folder)
    registry = Registry(database.place(keyspace), source.origin)
    projector = Projector(source, registry, lambda report: None, lambda seconds: True)
    failed = url_write(f"{A}2", UrlState.FAILED, Reason.HTTP_SERVER_ERROR, tries=3)
    crawl.commit(host_write("a.example"), url_write(f"{A}1"), failed)
    try:
        projector.follow(is_once=True)
        assert differences(database, crawl.folder, keyspace) == []
        crawl.commit(host_write("a.example", HostState.PARKED), url_write(f"{A}2"))
        crawl.commit(url_write(f"{A}1", UrlState.FETCHED, history=History(1, 99, 200, etag="x")))
        crawl.commit(host_write("b.example"), url_write(f"{B}3"), partition=1, worker=1)
        projector.follow(is_once=True)
        assert differences(database, crawl.folder, keyspace) == []
        crawl.commit(url_write(f"{A}1", UrlState.REFUSED, Reason.ROBOTS_DISALLOWED))
        for number in range(4, 8):
            crawl.commit(url_write(f"{A}{number}"))
        crawl.trim()
        assert projector.follow(is_once=True).read_whole == 3
        assert differences(database, crawl.folder, keyspace) == []
    finally:
        registry.close()


@pytest.mark.long
@pytest.mark.parametrize("has_positions", [False, True])
def test_a_late_write_of_an_older_commit_changes_no_column(
    database: CassandraDatabase, keyspace: str, crawl: WrittenCrawl, has_positions: bool
) -> None:
    """A killed projector's writes may arrive after those of its successor, in any table. Its
    successor reads the state whole, or joins the commits.
    """
    old = crawl.commit(
        host_write("a.example", detail="old"),
        url_write(f"{A}1", UrlState.FAILED, Reason.HTTP_SERVER_ERROR, detail="old"),
        letter_write(f"{A}1", 1),
        url_write(f"{A}2"),
    )
    source = FolderSource(crawl.folder)
    late = Registry(database.place(keyspace), source.origin)
    late.open()
    if has_positions:  # else the state is read whole, in which the failure is not any more
        crawl.commit(host_write("c.example"), partition=1, worker=1)
        project(database, crawl, keyspace)
        database.execute("TRUNCATE dead_letters", keyspace)
        database.move_positions(keyspace, 0)
    crawl.commit(
        host_write("a.example"),
        url_write(f"{A}1"),
        url_write(f"{A}2", UrlState.FAILED, Reason.DNS_FAILED),
    )
    project(database, crawl, keyspace)
    changes = Changes({0: Mark(0, 0)})
    changes.add_commit(old)
    with pytest.raises(PositionsMoved):
        late.write_changes(changes)
    late.close()
    assert differences(database, crawl.folder, keyspace) == []


@pytest.mark.long
def test_a_deleted_row_does_not_come_back_by_a_late_write(
    database: CassandraDatabase, keyspace: str, crawl: WrittenCrawl
) -> None:
    (key,) = (url := url_write(f"{A}1"))
    old = crawl.commit(host_write("a.example"), url, url_write(f"{A}2"))
    project(database, crawl, keyspace)
    new = crawl.commit({key: None})
    source = FolderSource(crawl.folder)
    late = Registry(database.place(keyspace), source.origin)
    late.open()
    project(database, crawl, keyspace)
    for commit in (old, new, old):
        changes = Changes({0: commit.before.get(0, Mark(0, 0))})
        changes.add_commit(commit)
        with pytest.raises(PositionsMoved):
            late.write_changes(changes)
    late.close()
    for table in ("urls", "urls_by_host"):
        assert database.state_rows(table, "url", keyspace) == [(f"{A}2",)]


@pytest.mark.long
def test_no_column_has_a_tombstone(
    database: CassandraDatabase, keyspace: str, crawl: WrittenCrawl
) -> None:
    """A scan of 2,000 rows with twelve empty columns each would meet 24,000 of them, and the server
    of the tests refuses a query beyond 5,000.
    """
    crawl.commit(host_write("a.example"), *(url_write(f"{A}{number}") for number in range(2000)))
    for tries in range(3):
        crawl.commit(*(url_write(f"{A}{number}", tries=tries) for number in range(2000)))
        project(database, crawl, keyspace)
    for table in ("urls", "urls_by_host", "hosts"):
        assert len(database.server.rows(f"SELECT * FROM {table}", keyspace)) in (1, 2000)


@pytest.mark.long
def test_a_keyspace_that_cannot_hold_a_registry_is_refused(
    database: CassandraDatabase, crawl: WrittenCrawl, capsys: pytest.CaptureFixture[str]
) -> None:
    server = database.server
    for keyspace, told in {
        "missing_keyspace": "has no keyspace missing_keyspace; create it",
        server.create_keyspace("three_copies", 3): "no majority can be written",
        server.create_keyspace("volatile", more=" AND durable_writes = false"): "durable_writes",
    }.items():
        given = ["--dsn", database.dsn, "--keyspace", keyspace, "--once"]
        assert main(["project", "cassandra", str(crawl.folder), *given]) == 2
        assert told in capsys.readouterr().err
    wrong = ["--dsn", f"{database.dsn}?datacenter=elsewhere", "--keyspace", "three_copies"]
    assert main(["project", "cassandra", str(crawl.folder), *wrong, "--once"]) == 2
    assert "no data center elsewhere; there is datacenter1" in capsys.readouterr().err


@pytest.mark.long
def test_an_interrupted_rebuild_is_not_taken_for_a_registry(
    database: CassandraDatabase, keyspace: str, crawl: WrittenCrawl
) -> None:
    crawl.commit(host_write("a.example"), url_write(f"{A}1"))
    project(database, crawl, keyspace)
    database.execute("UPDATE crawl SET state = 'dropping' WHERE id = 1 IF EXISTS", keyspace)
    database.execute("DROP TABLE positions", keyspace)
    with pytest.raises(RegistryError, match=r"interrupted.*--rebuild"):
        project(database, crawl, keyspace)
    database.execute("UPDATE crawl SET state = 'complete' WHERE id = 1 IF EXISTS", keyspace)
    with pytest.raises(RegistryError, match="lacks the table positions"):
        project(database, crawl, keyspace)
    source = FolderSource(crawl.folder)
    registry = Registry(database.place(keyspace), source.origin)
    try:
        Projector(source, registry, lambda report: None, lambda seconds: True).follow(True, True)
    finally:
        registry.close()
    assert differences(database, crawl.folder, keyspace) == []


@pytest.mark.long
def test_tables_whose_creation_was_interrupted_are_created(
    database: CassandraDatabase, keyspace: str, crawl: WrittenCrawl
) -> None:
    crawl.commit(host_write("a.example"), url_write(f"{A}1"))
    place = database.place(keyspace)
    place.open(FolderSource(crawl.folder).origin, False).close()
    database.execute("UPDATE crawl SET state = 'creating' WHERE id = 1 IF EXISTS", keyspace)
    database.execute("DROP TABLE crawl_log_by_url", keyspace)
    project(database, crawl, keyspace)
    assert differences(database, crawl.folder, keyspace) == []


@pytest.mark.long
def test_buckets_are_those_of_the_creation(
    database: CassandraDatabase, keyspace: str, crawl: WrittenCrawl
) -> None:
    origin = FolderSource(crawl.folder).origin
    CassandraPlace(database.dsn, keyspace, 4).open(origin, False).close()
    crawl.commit(host_write("a.example"), *(url_write(f"{A}{number}") for number in range(60)))
    project(database, crawl, keyspace)
    rows = database.state_rows("urls_by_host", "bucket", keyspace)
    assert {bucket for (bucket,) in rows} == {0, 1, 2, 3}
    assert database.state_rows("crawl", "buckets, state", keyspace) == [(4, "complete")]


@pytest.mark.long
def test_a_commit_beyond_the_timestamps_stops_the_projector(
    database: CassandraDatabase, keyspace: str, crawl: WrittenCrawl
) -> None:
    tables = database.place(keyspace).open(FolderSource(crawl.folder).origin, False)
    try:
        with pytest.raises(RegistryError, match="beyond the timestamps"):
            tables.write(RegistryStep(positions={0: row_time(Mark(1 << 25, 0), 1.0, 0.0)}))
    finally:
        tables.close()


@pytest.mark.long
def test_the_queries_of_the_document_run_and_find_rows(
    database: CassandraDatabase, keyspace: str, crawl: WrittenCrawl
) -> None:
    site = "https://www.example.org/"
    crawl.commit(
        host_write("www.example.org"),
        url_write(site, UrlState.FETCHED),
        url_write(f"{site}lost", UrlState.FAILED, Reason.HTTP_CLIENT_ERROR),
    )
    project(database, crawl, keyspace)
    blocks = re.findall(r"```cql\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    queries = [each.strip() for block in blocks for each in block.split(";") if each.strip()]
    found = {each: database.server.rows(each, keyspace) for each in queries}
    assert len(found) == len(queries) == 8
    assert len(found["SELECT partition, committed_at, projected_at FROM positions"]) == 2
    by_host = next(rows for query, rows in found.items() if "urls_by_host" in query)
    assert {url for url, *_ in by_host} == {site, f"{site}lost"}
    dead = next(rows for query, rows in found.items() if "dead_letters" in query)
    assert dead == [(f"{site}lost", "http_client_error", 0)]
    urls = next(rows for query, rows in found.items() if "is_queued, http_status" in query)
    assert [url for url, *_ in urls] == [site]
