"""Tables of a registry in Cassandra: timestamps that order commits, bounded partitions, and which
replication can be written.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from lycosa.feeds.registry.cassandra_place import replication_problem
from lycosa.feeds.registry.cassandra_schema import (
    CONTENT_TABLES,
    CRAWL_LOG,
    URLS,
    bucket_of,
    creating_statements,
    write_time,
)
from lycosa.feeds.registry.registry_port import RegistryError
from lycosa.state.commit import Mark

DOCUMENT = (Path(__file__).parents[2] / "docs" / "registry.md").read_text("utf-8")
NTS = "org.apache.cassandra.locator.NetworkTopologyStrategy"
SIMPLE = "org.apache.cassandra.locator.SimpleStrategy"


def test_timestamps_order_commits_as_their_marks_do() -> None:
    marks = [
        Mark(0, 0),
        Mark(0, 1),
        Mark(0, (1 << 36) - 1),
        Mark(1, 0),
        Mark(7, 5),
        Mark((1 << 25) - 1, (1 << 36) - 1),
    ]
    times = [write_time(*mark) for mark in marks]
    assert times == sorted(times)
    assert all(after > before + 1 for before, after in pairwise(times))
    assert times[-1] + 1 < 1 << 63


@pytest.mark.parametrize("mark", [Mark(1 << 25, 0), Mark(0, 1 << 36)])
def test_a_mark_beyond_the_timestamps_is_an_error(mark: Mark) -> None:
    with pytest.raises(RegistryError, match="beyond"):
        write_time(*mark)


def test_buckets_share_the_urls_of_a_host_evenly() -> None:
    counts = [0] * 16
    for first in range(256):
        counts[bucket_of(bytes([first]) * 8, 16)] += 1
    assert set(counts) == {16}


def test_a_row_is_deleted_and_written_in_one_statement() -> None:
    statement = URLS.replace("shop")
    assert statement.startswith('BEGIN UNLOGGED BATCH DELETE FROM "shop".urls USING TIMESTAMP ?')
    assert statement.count("?") == 1 + 2 + len(URLS.columns) + 1


def test_every_table_is_created_and_documented() -> None:
    made = " ".join(creating_statements("shop"))
    assert all(f'"shop".{each.name} (' in made for each in CONTENT_TABLES)
    assert "PRIMARY KEY ((host, day), fetched_at, record_id)" in made
    assert [each.name for each in CONTENT_TABLES if f"`{each.name}`" not in DOCUMENT] == []
    assert CRAWL_LOG.columns["day"] == "date"


@pytest.mark.parametrize(
    ("replication", "nodes", "local", "problem"),
    [
        ({"class": NTS, "dc1": "3"}, {"dc1": 3}, "dc1", ""),
        ({"class": NTS, "dc1": "3"}, {"dc1": 2}, "dc1", ""),
        ({"class": NTS, "dc1": "3"}, {"dc1": 1}, "dc1", "there are 1 nodes"),
        ({"class": NTS, "dc1": "3"}, {"dc2": 5}, "dc2", "no copies in data center dc2"),
        ({"class": NTS, "dc1": "3", "dc2": "3"}, {"dc1": 3, "dc2": 3}, "", ""),
        ({"class": NTS, "dc1": "3", "dc2": "3"}, {"dc1": 3}, "", "keeps 6 copies"),
        ({"class": NTS, "dc1": "5/2"}, {"dc1": 2}, "dc1", "keeps 5 copies"),
        ({"class": SIMPLE, "replication_factor": "3"}, {"dc1": 1}, "dc1", "keeps 3 copies"),
        ({"class": SIMPLE, "replication_factor": "1"}, {"dc1": 1}, "dc1", ""),
    ],
)
def test_a_keyspace_whose_majority_cannot_be_written_is_found(
    replication: dict[str, str], nodes: dict[str, int], local: str, problem: str
) -> None:
    told = replication_problem(replication, nodes, local)
    assert (problem in told) if problem else told == ""
