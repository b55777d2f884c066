"""A registry after kills: of the database below a projector, and of all parts of a real crawl (the
short form of ``script/prove registry``).
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lycosa.feeds.folder_source import FolderSource
from lycosa.feeds.registry.projector import ProjectionReport, Projector
from lycosa.feeds.registry.registry import Registry
from nginx_site import nginx_program
from proofs import registry
from registry_databases import database_of, lacking
from registry_judging import differences
from written_crawl import WrittenCrawl, host_write, url_write

pytestmark = pytest.mark.service
DATABASES = pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            each, marks=[*marks, pytest.mark.skipif(bool(lacks), reason=f"missing: {lacks}")]
        )
        for each, marks in {
            "postgres": [],
            "cassandra": [pytest.mark.cassandra, pytest.mark.long],
        }.items()
        for lacks in [lacking(each)]
    ],
)


@DATABASES
def test_a_projector_waits_for_a_killed_database_and_continues(tmp_path: Path, name: str) -> None:
    crawl = WrittenCrawl(tmp_path / "crawl")
    crawl.commit(host_write("a.example"), url_write("https://a.example/1"))
    source = FolderSource(crawl.folder)
    told: list[ProjectionReport] = []
    database = database_of(name, tmp_path / "database")
    try:
        made = Registry(database.place(database.new_schema("lycosa")), source.origin)
        killed: list[int] = []

        def wait(seconds: float) -> bool:
            """Called when there is nothing to do, and while the database is away."""
            if not killed:
                killed.append(database.pid)
                database.kill()
                crawl.commit(url_write("https://a.example/2"))
            elif told[-1].waits_for:
                database.start()
            else:
                return not source.count_waiting()
            return False

        Projector(source, made, told.append, wait).follow()
        made.close()
        assert any(each.waits_for for each in told)
        assert differences(database, crawl.folder) == []
    finally:
        database.stop()
        crawl.close()


# each part alone is killed in every run of the tests: the database above, crawls in `test_kill9.py`
@pytest.mark.long
@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="finds the processes of a crawl in /proc"
)
@pytest.mark.skipif(nginx_program() is None, reason="nginx is not installed")
@DATABASES
def test_a_registry_equals_a_crawl_during_which_everything_is_killed(
    tmp_path: Path, name: str
) -> None:
    print("\n".join(registry.prove(tmp_path, short=True, database=name)))
