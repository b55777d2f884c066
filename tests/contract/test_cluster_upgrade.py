"""A cluster whose programs have two numbers of protocol and formats, next to each other.

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
from lycosa.base.model.compatibility import PROTOCOL

pytestmark = [pytest.mark.service, pytest.mark.long]
NEXT = PROTOCOL + 1
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
