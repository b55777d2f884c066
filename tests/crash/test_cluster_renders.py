"""Renders of a real cluster, by machines that only render: one of them is lost, and then the one that
has the shards. In the end each page is rendered as it would have been.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from clusters import LONGEST_S, LYCOSA, SETTINGS, Program, RealCluster, await_death, real_cluster
from kafka_broker import Broker
from killing import kill_machine
from lycosa.synthetic import Response
from rendering import script, shell
from scripted_build import ENVIRONMENT
from serving import served

pytestmark = [pytest.mark.service, pytest.mark.long]
_PAGES = 6
_RENDERING = {**SETTINGS, "render.mode": "always", "render.page_s": "2"}


class Sites:
    """Pages that are empty without their scripts, on two hosts: each script needs one of the other
    host, and data of its own.
    """

    def __init__(self) -> None:
        self.port = 0
        self.asked: Counter[str] = Counter()
        self._news = threading.Condition()

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        host, _, path = url.removeprefix("http://").partition("/")
        with self._news:
            self.asked[f"{host.partition(':')[0]}/{path}"] += 1
            self._news.notify_all()
        name = path.partition(".")[0]
        if path == "":
            return shell("/all.js")
        if path == "all.js":
            return script(*(f"link /p{number}" for number in range(_PAGES)))
        if path == "shared.js":
            return script("text of the library")
        if path.endswith(".json"):
            return Response(200, [("Content-Type", "text/plain")], f"data of {name}".encode())
        if path.endswith(".js"):
            shared = f"load http://lib.test:{self.port}/shared.js script"
            return script(shared, f"load /{name}.json", f"text end of {name}")
        return Response(404, [], b"") if "robots" in path else shell(f"/{path}.js")

    def await_that(self, is_so: Callable[[], object], what: object) -> None:
        """Wait until something holds that requests, or the moments between them, change."""
        deadline = time.monotonic() + LONGEST_S
        with self._news:
            while not is_so():
                assert time.monotonic() < deadline, str(what)
                self._news.wait(0.1)

    def data_asked(self) -> int:
        """For how many pages the last round may begin."""
        return sum(1 for path in self.asked if path.endswith(".json"))


def rows(cluster: RealCluster, query: str) -> list[dict[str, Any]]:
    command = [*LYCOSA, "sql", "--cluster", "cluster.toml", "--json", query]
    done = subprocess.run(
        command, cwd=cluster.folder, timeout=LONGEST_S, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def renders_only(cluster: RealCluster, name: str) -> Program:
    program = cluster.run(
        *("node", "--cluster", "cluster.toml", "--name", name),
        *("--most-shards", "0", "--renders", "2"),
        environment=ENVIRONMENT,
    )
    program.await_line(f"node of {cluster.name} that only renders")
    return program


def has_shards(cluster: RealCluster, name: str) -> Program:
    program = cluster.node(name, "--most-shards", "64", "--renders", "0")
    program.await_line("shard [0-9] runs here")
    return program


@pytest.mark.parametrize("lost", ["renderers", "shards", "both"])
def test_pages_are_rendered_although_machines_are_lost(
    lost: str, tmp_path: Path, kafka: Broker
) -> None:
    sites = Sites()
    with served(sites) as port, real_cluster(tmp_path, kafka, _RENDERING) as cluster:
        sites.port = port
        cluster.serve()
        owner, renderer = has_shards(cluster, "a"), renders_only(cluster, "r")
        crawl, gone = cluster.crawl(f"http://app.test:{port}/"), list[int]()
        sites.await_that(sites.data_asked, cluster)
        if lost != "shards":
            gone += kill_machine(renderer.process.pid)
            renders_only(cluster, "s")
        if lost != "renderers":
            gone += kill_machine(owner.process.pid)
            has_shards(cluster, "b")
        await_death(gone)
        assert crawl.wait() == 0, str(cluster)
        judge(cluster, sites, lost)


def judge(cluster: RealCluster, sites: Sites, lost: str) -> None:
    """Each page has its render, what was stored was requested once, and the audit agrees."""
    found = rows(cluster, 'SELECT url, "end", text FROM renders')
    assert len(found) == 1 + _PAGES, found
    texts = {each["url"].rpartition("/")[2]: (each["end"], each["text"]) for each in found}
    for number in range(_PAGES):
        end, text = texts[f"p{number}"]
        assert end == "quiet"
        for part in ("the library", f"data of p{number}", f"end of p{number}"):
            assert part in text, texts
    # An owner that is killed has requested what it could not commit, which the next one requests.
    assert max(sites.asked.values()) <= (1 if lost == "renderers" else 2), sites.asked
    audited = cluster.run("audit", "--cluster", "cluster.toml")
    assert audited.wait() == 0, str(audited)
