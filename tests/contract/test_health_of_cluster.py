"""The health files of a real coordinator and a real node, from start to end."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from clusters import LONGEST_S, SETTINGS, Program, RealCluster, real_cluster
from kafka_broker import Broker

pytestmark = [pytest.mark.service]


def health(cluster: RealCluster, file: str) -> tuple[int, dict[str, Any]]:
    asked = cluster.run("health", file, "--ready", "--json")
    code = asked.wait()
    found: dict[str, Any] = json.loads("\n".join(asked.lines))
    return code, found


def await_state(cluster: RealCluster, file: str, state: str) -> None:
    """Wait until the file has a state; it is written every five seconds."""
    pause = threading.Event()
    for _ in range(int(LONGEST_S)):
        code, found = health(cluster, file)
        if code == 0 and state in found["state"]:
            return
        pause.wait(1.0)
    raise AssertionError(f"{found}, expected {state!r}")


def test_coordinator_and_node_are_ready_when_they_do_their_work(
    tmp_path: Path, kafka: Broker
) -> None:
    with real_cluster(tmp_path, kafka, SETTINGS, shards=1) as cluster:
        code, found = health(cluster, "serve.json")
        assert (code, found["runs"]) == (1, False)
        node = cluster.node("a", "--health", "node.json")
        node.await_line("no connection to a coordinator")
        code, found = health(cluster, "node.json")
        assert (code, found["runs"], found["ready"]) == (1, True, False)
        serving: Program = cluster.run(
            "serve", "--cluster", "cluster.toml", "--health", "serve.json"
        )
        serving.await_line("coordinator [0-9]+ of the crawl")
        node.await_line("shard 0 runs here")
        await_state(cluster, "node.json", "connected to coordinator 1; 1 workers")
        await_state(cluster, "serve.json", "coordinator 1 of the crawl")
        for program, file in ((node, "node.json"), (serving, "serve.json")):
            program.process.send_signal(signal.SIGTERM)
            assert program.wait() == 0
            assert not (tmp_path / file).exists()
