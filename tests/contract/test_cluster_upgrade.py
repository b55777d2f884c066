"""A cluster whose programs have two numbers of protocol and formats, next to each other, and one
that a program of formats 1 made.

Programs of the next number are this one, told that it is the next: it writes nothing yet that
programs of its own number could not read.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from clusters import SETTINGS, Program, RealCluster, real_cluster
from kafka_broker import Broker
from lycosa.base.config.cluster_file import read_cluster_file
from lycosa.base.model.compatibility import PROTOCOL
from lycosa.cluster.shards.opened_cluster import OpenedCluster
from lycosa.cluster.shards.stored_crawl import FORMATS_NAME
from lycosa.state.store.journal_rows import JournalRow
from lycosa.synthetic import SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from lycosa.synthetic.synthetic_hosts import host_name
from serving import served_with_log

pytestmark = [pytest.mark.service, pytest.mark.long]
NEXT = PROTOCOL + 1
# one host links to no other, so that a crawl of one seed leaves the others
PLAN = WebPlan(hosts=3, pages=5, seed=5, latency_s=0.0, page_bytes=4000, cross_links=0.0, gzip=0.0)
SERVE = f"run(Path('cluster.toml'), None, None, protocol={NEXT})"
NODE = (
    f"run(Path('cluster.toml'), None, 'b', ('127.0.0.1', 0), NodeLog('b', False), protocol={NEXT})"
)


def run_next(cluster: RealCluster, module: str, call: str) -> Program:
    """A program of the next number."""
    code = f"from pathlib import Path; from lycosa.cli.{module} import *; {call}"
    return cluster.run(module, f"of number {NEXT}", command=[sys.executable, "-P", "-c", code])


def end(program: Program) -> None:
    program.process.send_signal(signal.SIGTERM)
    assert program.wait() == 0, str(program)


def test_a_cluster_is_upgraded_node_by_node(tmp_path: Path, kafka: Broker) -> None:
    with real_cluster(tmp_path, kafka, SETTINGS, 2) as cluster:
        serving = run_next(cluster, "serve", SERVE)
        serving.await_line("coordinator 1 of the crawl")
        old = cluster.node("a")
        old.await_line("shard 0 runs here|shard 1 runs here")
        refused = cluster.run("cluster", "upgrade", "cluster.toml")
        assert refused.wait() == 2
        assert f"cannot read formats of number {NEXT}: a (up to {PROTOCOL})" in str(refused)
        assert cluster.status()["formats"] == PROTOCOL
        new = run_next(cluster, "node", NODE)
        new.await_line("connected to coordinator")
        end(old)
        new.await_line("shard . runs here in term 2")
        raised = cluster.run("cluster", "upgrade", "cluster.toml", "--json")
        assert raised.wait() == 0, str(raised)
        found = json.loads("\n".join(raised.lines))
        assert (found["before"], found["formats"]) == (PROTOCOL, NEXT)
        assert found["nodes"]["b"] == NEXT
        # programs of the older number are told so, by the store and by the coordinator
        for arguments in (
            ("node", "--cluster", "cluster.toml", "--name", "c"),
            ("serve", "--cluster", "cluster.toml"),
            ("status", "--cluster", "cluster.toml"),
        ):
            late = cluster.run(*arguments)
            assert late.wait() == 2, str(late)
            assert f"formats of number {NEXT}, and this program reads up to {PROTOCOL}" in str(late)
        end(serving)
        again = run_next(cluster, "serve", SERVE)
        again.await_line("coordinator 2 of the crawl")
        new.await_line("connected to coordinator 2")
        done = cluster.run("cluster", "upgrade", "cluster.toml")
        assert done.wait() == 0 and "nothing was changed" in str(done)
        end(new)


def stored_rows(cluster: RealCluster, name: str) -> list[JournalRow]:
    """The rows of all committed captures."""
    opened = OpenedCluster(read_cluster_file(cluster.file), cluster.folder / name)
    try:
        opened.view.open_shards()
        return [
            row for segment in opened.view.list_segments() for row in opened.view.read_rows(segment)
        ]
    finally:
        opened.close()


def test_a_cluster_of_formats_1_continues_and_has_late_fields_once_it_is_upgraded(
    tmp_path: Path, kafka: Broker
) -> None:
    """Each page is longer than what is parsed, which gives a remark with a detail."""
    settings = {**SETTINGS, "parse.max_bytes": "1024"}
    with (
        served_with_log(SyntheticWeb(PLAN)) as (port, _),
        real_cluster(tmp_path, kafka, settings, 2) as cluster,
    ):
        (tmp_path / "objects" / FORMATS_NAME).unlink()  # programs of number 1 wrote none
        seeds = [f"http://{host_name(number)}:{port}/" for number in range(3)]
        cluster.serve()
        cluster.node("a")
        assert cluster.crawl(seeds[0]).wait() == 0
        assert cluster.status()["formats"] == 1
        before = stored_rows(cluster, "before")
        assert any(row.parse_reason for row in before)
        assert all(row.remarks == () for row in before)
        raised = cluster.run("cluster", "upgrade", "cluster.toml", "--json")
        assert raised.wait() == 0, str(raised)
        found = json.loads("\n".join(raised.lines))
        assert (found["before"], found["formats"]) == (1, 2)
        # a worker writes the newer formats from its next start on, which another seed brings
        assert cluster.crawl(seeds[1], seeds[2]).wait() == 0
        after = stored_rows(cluster, "after")
        new = [row for row in after if row.record_id not in {each.record_id for each in before}]
        late = {row.remarks[0].detail for row in new if row.remarks}
        assert len(after) > len(before) and late == {"more than 1024 bytes"}
        audit = cluster.run("audit", "--cluster", "cluster.toml")
        assert audit.wait() == 0, str(audit)
        assert cluster.status()["formats"] == 2


def test_a_new_cluster_begins_with_the_formats_of_the_program_that_made_it(
    tmp_path: Path, kafka: Broker
) -> None:
    with real_cluster(tmp_path, kafka, SETTINGS, 2) as cluster:
        first = cluster.serve()
        assert cluster.status()["formats"] == PROTOCOL
        end(first)
        # recorded, so that later coordinators know it
        (tmp_path / "objects" / FORMATS_NAME).unlink()
        cluster.serve()
        assert cluster.status()["formats"] == PROTOCOL
