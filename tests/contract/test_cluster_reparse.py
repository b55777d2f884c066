"""A seed that the parser of a cluster's node could not read: the crawl says so, and an operator has
it parsed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from clusters import SETTINGS, WatchedLog, real_cluster
from crawling import page
from kafka_broker import Broker
from lycosa.cli.output import ExitCode
from lycosa.synthetic import Response
from serving import served_with_log

pytestmark = [pytest.mark.service, pytest.mark.long]


class Linked:
    """Every page links to one other."""

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        return page("/next", text=f"the page {url}")


def test_the_owner_parses_it_again_and_the_crawl_continues(tmp_path: Path, kafka: Broker) -> None:
    log = WatchedLog()
    with (
        served_with_log(Linked(), log=log) as (port, _),
        real_cluster(tmp_path, kafka, SETTINGS) as cluster,
    ):
        seed = f"http://seed.example:{port}/hook-segfault"
        cluster.serve()
        node = cluster.run(
            *("node", "--cluster", "cluster.toml", "--name", "a"),
            environment={"LYCOSA_TEST_HOOKS": "1"},
        )
        node.await_line(f"node of {cluster.name}")
        crawl = cluster.crawl(seed)
        assert crawl.wait() == ExitCode.INTERRUPTED, str(crawl)
        assert f"  {seed}: parse_killed, the parser crashed" in str(crawl)
        assert "lycosa reparse --cluster cluster.toml --killed" in str(crawl)
        assert not _asked(log, "/next")
        node.end()
        cluster.node("b")  # whose parser survives the page
        again = cluster.run("reparse", "--cluster", "cluster.toml", "--killed", "--by", "ann")
        assert again.wait() == 0, str(again)
        assert "1 document: the workers of the crawl parse them now" in str(again)
        log.await_that(lambda: _asked(log, "/next") == 1)
        done = cluster.crawl()
        assert done.wait() == 0, str(done)
        assert "NOT READ" not in str(done)
        assert _asked(log, "/hook-segfault") == 1


def _asked(log: WatchedLog, path: str) -> int:
    return sum(each.path == path for each in log.exchanges)
