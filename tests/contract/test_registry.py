"""A registry in a real database equals the crawl: when it is filled, follows, meets repeated and
late batches, a trimmed log, hostile texts, another projector and another crawl.

Every test runs on each database; those on Cassandra are long, because it creates tables slowly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from crawling import Pages, crawl_folder, moved, page, robots
from lycosa.base.model.url_state import History, UrlState
from lycosa.base.reasons import Reason
from lycosa.cli.main import main
from lycosa.feeds.folder_source import FolderSource
from lycosa.feeds.registry.cassandra_schema import CRAWL_LOG, HOSTS
from lycosa.feeds.registry.projector import ProjectionReport, Projector
from lycosa.feeds.registry.registry import Registry
from lycosa.feeds.registry.registry_port import REGISTRY_FORMAT, PositionsMoved, RegistryError
from lycosa.feeds.registry.registry_rows import added_since
from lycosa.stages.frontier.visit_state import HostState
from lycosa.state.commit import Commit
from registry_databases import CassandraDatabase, PostgresDatabase, RegistryDatabase
from registry_judging import differences
from written_crawl import WrittenCrawl, host_write, url_write

pytestmark = pytest.mark.service

A, B = "https://a.example/", "https://b.example/"


@pytest.fixture(
    params=["postgres", pytest.param("cassandra", marks=[pytest.mark.long, pytest.mark.cassandra])]
)
def database(request: pytest.FixtureRequest) -> RegistryDatabase:
    server = request.getfixturevalue(request.param)
    made = {"postgres": PostgresDatabase, "cassandra": CassandraDatabase}[request.param](server)
    assert isinstance(made, PostgresDatabase | CassandraDatabase)
    return made


@pytest.fixture
def schema(database: RegistryDatabase) -> str:
    return database.new_schema()


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[WrittenCrawl]:
    made = WrittenCrawl(tmp_path / "crawl")
    yield made
    made.close()


@pytest.fixture
def follow(
    database: RegistryDatabase, schema: str, crawl: WrittenCrawl
) -> Iterator[Callable[[], ProjectionReport]]:
    """Brings the registry up to date; the same projector as before goes on."""
    source = FolderSource(crawl.folder)
    registry = Registry(database.place(schema), source.origin)
    projector = Projector(source, registry, lambda report: None, lambda seconds: True)
    yield lambda: projector.follow(is_once=True)
    registry.close()


def project(database: RegistryDatabase, folder: Path, schema: str, **options: bool) -> int:
    source = FolderSource(folder)
    registry = Registry(database.place(schema), source.origin)
    try:
        projector = Projector(source, registry, lambda report: None, lambda seconds: True)
        return projector.follow(is_once=True, **options).read_whole
    finally:
        registry.close()


def statuses(database: RegistryDatabase, schema: str) -> dict[str, str]:
    return dict(database.state_rows("urls", "path, status", schema))


def statuses_by_url(database: RegistryDatabase, schema: str) -> dict[str, str]:
    return dict(database.state_rows("urls", "url, status", schema))


def test_the_registry_equals_a_crawl_that_goes_on(
    database: RegistryDatabase, schema: str, tmp_path: Path
) -> None:
    web = Pages(
        {
            "https://www.example.org/robots.txt": robots("User-agent: *", "Disallow: /private"),
            "https://www.example.org/": page("/a", "/b", "/private", "https://far.example.com/"),
            "https://www.example.org/a": moved("/b"),
            "https://www.example.org/b": page("/missing", text="words " * 50),
        }
    )
    crawl_folder(tmp_path, web, ["https://www.example.org/"], stop_after_s=3.0)
    assert project(database, tmp_path, schema) == 3
    assert differences(database, tmp_path, schema) == []
    crawl_folder(tmp_path, web, ["https://www.example.org/"], start=100.0)
    assert project(database, tmp_path, schema) == 0
    assert differences(database, tmp_path, schema) == []
    assert {"fetched", "redirected", "failed", "refused"} <= set(
        statuses(database, schema).values()
    )


def test_commits_are_followed_and_repeated_ones_change_nothing(
    database: RegistryDatabase,
    schema: str,
    crawl: WrittenCrawl,
    follow: Callable[[], ProjectionReport],
) -> None:
    crawl.commit(host_write("a.example"), url_write(f"{A}1"), url_write(f"{A}2"))
    follow()
    crawl.commit(url_write(f"{A}1", UrlState.FETCHED, history=History(3, 99, 200, changes=1)))
    crawl.commit(host_write("b.example"), url_write(f"{B}3"), partition=1, worker=1)
    report = follow()
    assert (report.commits, report.read_whole) == (2, 2)
    assert differences(database, crawl.folder, schema) == []
    assert dict(database.state_rows("urls", "path, change_rate", schema))["/1"] == 0.5
    before = sorted(database.state_rows("urls", "url, status, term, sequence, changed_at", schema))
    database.move_positions(schema, 1)
    project(database, crawl.folder, schema)  # reads all commits after the first again
    assert before == sorted(
        database.state_rows("urls", "url, status, term, sequence, changed_at", schema)
    )


def test_queued_urls_have_the_status_of_their_host(
    database: RegistryDatabase,
    schema: str,
    crawl: WrittenCrawl,
    follow: Callable[[], ProjectionReport],
) -> None:
    crawl.commit(
        host_write("a.example"),
        url_write(f"{A}queued"),
        url_write(f"{A}parked", UrlState.PARKED),
        url_write(f"{A}fetched", UrlState.FETCHED),
    )
    follow()
    for state, shown in (
        (HostState.PARKED, "parked"),
        (HostState.READY, "queued"),
        (HostState.RETIRED, "retired"),
    ):
        crawl.commit(host_write("a.example", state))
        follow()
        assert statuses(database, schema) == {
            "/queued": shown,
            "/parked": "parked",
            "/fetched": "fetched",
        }
        assert differences(database, crawl.folder, schema) == []


def test_a_registry_behind_a_trimmed_log_reads_the_state_whole(
    database: RegistryDatabase,
    schema: str,
    crawl: WrittenCrawl,
    follow: Callable[[], ProjectionReport],
) -> None:
    crawl.commit(host_write("a.example"), url_write(f"{A}1"))
    crawl.commit(host_write("b.example"), url_write(f"{B}1"), partition=1)
    follow()
    for number in range(2, 6):
        crawl.commit(url_write(f"{A}{number}"))
    crawl.trim()
    assert follow().read_whole == 3  # the two of the start, and this one again
    assert differences(database, crawl.folder, schema) == []
    crawl.commit(url_write(f"{A}9"))
    assert follow().read_whole == 3
    assert differences(database, crawl.folder, schema) == []


class GrowingSource(FolderSource):
    """A crawl that commits whenever its log is read."""

    def __init__(self, folder: Path, news: list[Callable[[], object]]) -> None:
        super().__init__(folder)
        self._news = news

    def commits(self) -> Iterator[Commit]:
        if self._news:
            self._news.pop(0)()
        return super().commits()


@pytest.mark.parametrize("trims", [False, True])
def test_commits_made_while_the_state_is_read_are_followed_in_between(
    database: RegistryDatabase, schema: str, crawl: WrittenCrawl, trims: bool
) -> None:
    hosts = [f"h{number}.example" for number in range(4)]
    pages = [f"https://{host}/{number}" for host in hosts for number in range(3)]
    writes = [*map(host_write, hosts), *map(url_write, pages)]
    crawl.wall = time.time() + 3600  # all of it is later than the start of the projector
    crawl.commit(*writes)

    def park() -> None:
        for host in hosts:
            crawl.commit(host_write(host, HostState.PARKED))
        if trims:
            crawl.trim()

    def fetch() -> None:
        crawl.commit(*(url_write(each, UrlState.FETCHED) for each in pages[::2]))
        crawl.commit(
            host_write(hosts[0]), host_write("new.example"), url_write("https://new.example/")
        )
        if trims:
            crawl.trim()

    source = GrowingSource(crawl.folder, [park, fetch, fetch])
    registry = Registry(database.place(schema), source.origin)
    projector = Projector(source, registry, lambda report: None, lambda seconds: True, batch_rows=2)
    report = projector.follow(is_once=True)
    registry.close()
    assert differences(database, crawl.folder, schema) == []
    assert set(statuses_by_url(database, schema).values()) == {"fetched", "parked", "queued"}
    assert report.read_whole == 2


def test_a_partition_that_changed_its_worker_is_followed_in_order(
    database: RegistryDatabase,
    schema: str,
    crawl: WrittenCrawl,
    follow: Callable[[], ProjectionReport],
) -> None:
    crawl.commit(host_write("a.example"), url_write(f"{A}1"), worker=1)
    follow()
    crawl.commit(url_write(f"{A}1", tries=1), worker=1)
    crawl.commit(url_write(f"{A}1", tries=2), worker=0, term=2)
    follow()
    assert database.state_rows("urls", "retry_count", schema) == [(2,)]
    assert differences(database, crawl.folder, schema) == []


def test_rows_of_an_earlier_commit_do_not_replace_later_ones(
    database: RegistryDatabase, schema: str, crawl: WrittenCrawl
) -> None:
    crawl.commit(host_write("a.example"), url_write(f"{A}1"))
    source = FolderSource(crawl.folder)
    late = Registry(database.place(schema), source.origin)
    late.open()
    crawl.commit(url_write(f"{A}1", UrlState.FAILED, Reason.HTTP_SERVER_ERROR))
    project(database, crawl.folder, schema)
    with pytest.raises(PositionsMoved):
        late.write_part((), ())
    late.close()
    assert statuses(database, schema) == {"/1": "failed"}
    (dead,) = database.state_rows("dead_letters", "url, error", schema)
    assert dead == (f"{A}1", "http_server_error")


def test_two_projectors_of_one_registry_do_no_harm(
    database: RegistryDatabase, schema: str, crawl: WrittenCrawl
) -> None:
    sources = [FolderSource(crawl.folder) for _ in range(2)]
    registries = [Registry(database.place(schema), source.origin) for source in sources]
    projectors = [
        Projector(source, registry, lambda report: None, lambda seconds: False)
        for source, registry in zip(sources, registries, strict=True)
    ]
    for number in range(6):
        crawl.commit(host_write("a.example", waiting=number), url_write(f"{A}{number}"))
        projectors[number % 2].follow(is_once=True)
        assert differences(database, crawl.folder, schema) == []
    for registry in registries:
        registry.close()


def test_characters_that_a_database_refuses_and_long_urls_are_stored(
    database: RegistryDatabase,
    schema: str,
    crawl: WrittenCrawl,
    follow: Callable[[], ProjectionReport],
) -> None:
    long = f"{A}{'x' * 60_000}"
    history = History(1, 99, 200, etag='"a\0b"', simhash=(1 << 64) - 2)
    crawl.commit(
        host_write("a.example"),
        url_write(f"{A}1", UrlState.FETCHED, detail="\0", history=history),
        url_write(long),
    )
    follow()
    crawl.commit(url_write(long, tries=1))
    follow()
    columns = "path, etag, last_modified, simhash, detail, retry_count"
    rows = {path: rest for path, *rest in database.state_rows("urls", columns, schema)}
    assert rows.pop("/1") == ['"a\ufffdb"', None, -2, "\ufffd", 0]
    assert rows == {long.removeprefix("https://a.example"): [None, None, None, None, 1]}


def test_waits_are_shown_by_the_wall_clock(
    database: RegistryDatabase,
    schema: str,
    crawl: WrittenCrawl,
    follow: Callable[[], ProjectionReport],
) -> None:
    due = int(crawl.wall) + 9000
    crawl.commit(host_write("a.example"), url_write(f"{A}1", due_at=due), ahead_s=3600)
    follow()
    ((at,),) = database.state_rows("urls", "next_crawl", schema)
    assert at.timestamp() == due - 3600


def test_another_crawl_and_a_newer_format_are_refused(
    database: RegistryDatabase, schema: str, crawl: WrittenCrawl, tmp_path: Path
) -> None:
    project(database, crawl.folder, schema)
    other = WrittenCrawl(tmp_path / "other")
    other.close()
    with pytest.raises(RegistryError, match=f"another crawl.*{database.option}"):
        project(database, other.folder, schema)
    with pytest.raises(RegistryError, match="another crawl"):
        project(database, other.folder, schema, is_rebuilt=True)
    only = {"postgres": "", "cassandra": " WHERE id = 1 IF EXISTS"}[database.name]
    database.execute(f"UPDATE crawl SET format = 99{only}", schema)
    with pytest.raises(RegistryError, match="format 99"):
        project(database, crawl.folder, schema)


def test_what_a_site_states_is_in_the_registry_also_in_one_of_an_older_format(
    database: RegistryDatabase, schema: str, tmp_path: Path
) -> None:
    signal = robots("User-agent: *", "Content-Signal: search=yes, ai-train=no")
    site = "https://www.example.org"
    web = Pages({f"{site}/robots.txt": signal, f"{site}/": page("/a"), f"{site}/a": page()})
    crawl_folder(tmp_path, web, [f"{site}/"], stop_after_s=1.2)
    project(database, tmp_path, schema)
    for statement in older_format(database, schema):
        database.execute(statement, schema)
    only = {"postgres": "", "cassandra": " WHERE id = 1 IF EXISTS"}[database.name]
    database.execute(f"UPDATE crawl SET format = 1{only}", schema)
    crawl_folder(tmp_path, web, [], start=100.0)
    project(database, tmp_path, schema)
    assert database.state_rows("crawl", "format", schema) == [(REGISTRY_FORMAT,)]
    columns = "url, use_search, use_ai_train, use_ai_input"
    found = {url: uses for url, *uses in database.state_rows("crawl_log", columns, schema)}
    assert found[f"{site}/a"] == [True, False, None]
    if database.name == "postgres":
        assert found[f"{site}/"] == [None, None, None], "it was there before the columns"
    ((preferences,),) = database.state_rows("hosts", "preferences", schema)
    assert preferences == "search=yes: 2, ai-train=no: 2"
    assert project(database, tmp_path, schema, is_rebuilt=True) == 3
    found = {url: uses for url, *uses in database.state_rows("crawl_log", columns, schema)}
    assert found[f"{site}/"] == [True, False, None]


def older_format(database: RegistryDatabase, schema: str) -> Iterator[str]:
    """The statements that make a registry one of format 1.

    Cassandra would also drop what is written later into a column that was dropped, because the
    timestamps of a registry are no times. So its tables are made again there.
    """
    made = {each.name: each.create(schema) for each in (HOSTS, CRAWL_LOG)}
    for table, name, kind in added_since(1):
        if database.name == "postgres":
            yield f"ALTER TABLE {table} DROP {name}"
        else:
            of_type = {"bool": "boolean"}.get(kind, kind)
            assert f", {name} {of_type}" in made[table]
            made[table] = made[table].replace(f", {name} {of_type}", "")
    if database.name == "cassandra":
        for table, statement in made.items():
            yield f"DROP TABLE {table}"
            yield statement


def test_a_crawl_restored_from_an_older_copy_is_reported_and_rebuilt(
    database: RegistryDatabase, schema: str, crawl: WrittenCrawl, tmp_path: Path
) -> None:
    crawl.commit(host_write("a.example"), url_write(f"{A}1"))
    project(database, crawl.folder, schema)
    database.move_positions(schema, 7)
    with pytest.raises(RegistryError, match=r"older copy.*--rebuild"):
        project(database, crawl.folder, schema)
    assert project(database, crawl.folder, schema, is_rebuilt=True) == 2
    assert differences(database, crawl.folder, schema) == []


def test_the_command_prints_what_it_did(
    database: RegistryDatabase,
    schema: str,
    crawl: WrittenCrawl,
    capsys: pytest.CaptureFixture[str],
) -> None:
    crawl.commit(host_write("a.example"), url_write(f"{A}1"))
    given = ["project", database.name, str(crawl.folder), database.option, schema]
    given += ["--dsn", database.dsn]
    assert main([*given, "--once", "--json"]) == 0
    report = msgspec.json.decode(capsys.readouterr().out)
    assert (report["rows"], report["read_whole"], report["lag"]["commits"]) == (2, 2, 0)
    assert main([*given, "--once"]) == 0
    assert "nothing behind" in capsys.readouterr().out


def test_a_rebuild_deletes_no_tables_that_are_not_a_registrys(
    database: RegistryDatabase, schema: str, crawl: WrittenCrawl
) -> None:
    if database.name == "postgres":
        database.execute(f'CREATE SCHEMA "{schema}"', "public")
    database.execute("CREATE TABLE urls (mine text PRIMARY KEY)", schema)
    with pytest.raises(RegistryError, match=r"already exists|not a registry's"):
        project(database, crawl.folder, schema, is_rebuilt=True)
    assert database.state_rows("urls", "mine", schema) == []
