"""Pages behind a login that a machine without the login renders, on a real cluster: credentials go to
their host only, what the page loads elsewhere is asked for without them, and renders are private. The
rendering begins with a setting that is changed while the crawl runs.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from clusters import SETTINGS, RealCluster, real_cluster
from kafka_broker import Broker
from lycosa.cli.main import cli
from lycosa.synthetic import Response
from private_site import BASIC, LOGIN, SECRETS, plain
from rendering import script, shell
from scripted_build import ENVIRONMENT
from serving import served

pytestmark = [pytest.mark.service, pytest.mark.long]
_PAGES = 4


class _Sites:
    """``app.test`` wants the login for everything; its pages need a script of ``lib.test``."""

    def __init__(self) -> None:
        self.port = 0
        self.refused: Counter[str] = Counter()
        self.shown: Counter[str] = Counter()  # hosts that got the login

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        host, _, path = url.removeprefix("http://").partition("/")
        name = host.partition(":")[0]
        sent = {key.lower(): value for key, value in headers.items()}.get("authorization", "")
        self.shown[name] += bool(sent)
        if name == "app.test" and sent != BASIC:
            self.refused[path] += 1
            return Response(401, [], b"")
        if path == "":
            links = "".join(f"<a href=/p{number}>n</a>" for number in range(_PAGES))
            return Response(200, [("Content-Type", "text/html")], f"<h1>all</h1>{links}".encode())
        if path == "shared.js":
            return script("text of the library")
        if path.endswith(".json"):
            return Response(200, [("Content-Type", "text/plain")], b"marker-in data")
        if path.endswith(".js"):
            shared = f"load http://lib.test:{self.port}/shared.js script"
            return script(shared, f"load /{path[:-3]}.json", "text marker-in end")
        return Response(404, [], b"") if "robots" in path else shell(f"/{path}.js")


def lycosa(cluster: RealCluster, *arguments: str) -> bytes:
    """What a command prints, run in this process."""
    before = Path.cwd()
    os.chdir(cluster.folder)
    try:
        done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    finally:
        os.chdir(before)
    assert done.exit_code == 0, done.output
    assert not any(each in done.output_bytes for each in SECRETS), arguments
    return done.stdout_bytes


def test_a_machine_without_the_login_renders_pages_behind_it(tmp_path: Path, kafka: Broker) -> None:
    sites, read = _Sites(), ("--cluster", "cluster.toml")
    (tmp_path / "login").write_text(LOGIN)
    (tmp_path / "login").chmod(0o600)
    with (
        served(sites) as port,
        real_cluster(tmp_path, kafka, SETTINGS, 2, is_made=False) as cluster,
    ):
        sites.port = port
        rule = f"host:app.test:{port} basic env:APP_LOGIN"
        settings = {**SETTINGS, "requests.rules": json.dumps([rule]), "render.page_s": "2"}
        pairs = [part for each in settings.items() for part in ("--set", "=".join(each))]
        lycosa(cluster, "cluster", "init", "cluster.toml", *pairs, "--set", "render.mode=never")
        cluster.serve()
        owner = cluster.run(
            *("node", *read, "--name", "a", "--renders", "0"), environment={"APP_LOGIN": LOGIN}
        )
        owner.await_line("shard [0-9] runs here")
        renderer = cluster.run(
            *("node", *read, "--name", "r", "--most-shards", "0", "--renders", "2"),
            environment=ENVIRONMENT,
        )
        renderer.await_line("has nothing to do until")
        lycosa(cluster, "cluster", "set", "cluster.toml", "render.mode=always")
        assert cluster.crawl(f"http://app.test:{port}/").wait() == 0, str(cluster)
        query = "SELECT url, text FROM renders"
        found = json.loads(lycosa(cluster, "sql", *read, "--json", query))
        assert len(found) == 1 + _PAGES, found
        assert sum("marker-in" in each["text"] for each in found) == _PAGES
        assert sites.shown["app.test"] and not sites.shown["lib.test"] and not sites.refused
        assert not lycosa(cluster, "export", *read, "renders").strip()
        assert b"marker-in" in lycosa(cluster, "export", *read, "renders", "--private")
        assert b"marker-in" not in lycosa(cluster, "export", *read, "text")
        lycosa(cluster, "audit", *read)
        for path in [each for each in tmp_path.rglob("*") if each.is_file()]:
            if path.name != "login":
                parts = plain(path.read_bytes())
                assert not any(secret in part for part in parts for secret in SECRETS), path
        assert not any(each.decode() in str(cluster) for each in SECRETS)
