"""Renders of a real cluster: by a machine that only renders, also when it is killed."""

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

from clusters import LONGEST_S, LYCOSA, SETTINGS, RealCluster, real_cluster
from kafka_broker import Broker
from lycosa.synthetic import Response
from rendering import script, shell
from scripted_build import ENVIRONMENT
from serving import served

pytestmark = [pytest.mark.service, pytest.mark.long]
_PAGES = 6


class Sites:
    """Pages that are empty without their scripts, on two hosts; each script needs data of the other
    host's file and of its own.
    """

    def __init__(self, port_of: Callable[[], int]) -> None:
        self._port_of, self._news = port_of, threading.Condition()
        self.asked: Counter[str] = Counter()

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
        if path.endswith(".js") and path.startswith("p"):
            shared = f"load http://lib.test:{self._port_of()}/shared.js script"
            return script(shared, f"load /{name}.json", f"text end of {name}")
        if path == "shared.js":
            return script("text of the library")
        if path.endswith(".json"):
            return Response(200, [("Content-Type", "text/plain")], f"data of {name}".encode())
        return shell(f"/{path}.js") if path.startswith("p") else Response(404, [], b"")

    def await_that(self, is_so: Callable[[], object], what: object) -> None:
        deadline = time.monotonic() + LONGEST_S
        with self._news:
            while not is_so():
                assert time.monotonic() < deadline, str(what)
                self._news.wait(0.1)


def rows(cluster: RealCluster, query: str) -> list[dict[str, Any]]:
    command = [*LYCOSA, "sql", "--cluster", "cluster.toml", "--json", query]
    done = subprocess.run(
        command, cwd=cluster.folder, timeout=LONGEST_S, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def renders_only(cluster: RealCluster, name: str) -> None:
    program = cluster.run(
        *("node", "--cluster", "cluster.toml", "--name", name),
        *("--most-shards", "0", "--renders", "2"),
        environment=ENVIRONMENT,
    )
    program.await_line(f"node of {cluster.name}")


def test_a_machine_that_only_renders_renders_the_pages_of_a_cluster(
    tmp_path: Path, kafka: Broker
) -> None:
    settings = {**SETTINGS, "render.mode": "always"}
    ports: list[int] = []
    sites = Sites(lambda: ports[0])
    with served(sites) as port, real_cluster(tmp_path, kafka, settings, 3) as cluster:
        ports.append(port)
        serving = cluster.serve()
        cluster.node("a", "--most-shards", "64", "--renders", "0")
        renders_only(cluster, "r")
        crawl = cluster.crawl(f"http://app.test:{port}/")
        sites.await_that(lambda: sites.asked["app.test/p0.json"], cluster)
        cluster.programs[-2].process.kill()
        renders_only(cluster, "s")
        assert crawl.wait() == 0, str(cluster)
        found = rows(cluster, 'SELECT url, "end", text FROM renders')
        assert len(found) == 1 + _PAGES
        texts = {each["url"].rpartition("/")[2]: (each["end"], each["text"]) for each in found}
        for number in range(_PAGES):
            end, text = texts[f"p{number}"]
            assert end == "quiet"
            assert f"data of p{number}" in text and f"end of p{number}" in text
        assert sites.asked["lib.test/shared.js"] == 1
        audited = cluster.run("audit", "--cluster", "cluster.toml")
        assert audited.wait() == 0, str(audited)
        serving.end()
