"""An installation without any extra: what needs one says so, and everything else works."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from browser_sandbox import has_browser, sandbox_options
from crawling import page
from lycosa.synthetic import Response
from plain_install import core_distributions, make_plain_python
from serving import served

KAFKA = (
    *("cluster.kafka", "cluster.serve", "cluster.shards", "feeds.cluster_", "moves"),
    *("inspect.audit.cluster_audit", "processes.cluster.cluster_place"),
    *("processes.log_comparison", "worker.commit.cluster_shard"),
)
INTERFACE = ("service.api", "service.page")
PLACES: dict[str, tuple[str, ...]] = {
    "confluent_kafka": KAFKA,
    **dict.fromkeys(("fastapi", "starlette", "pydantic", "h11", "jinja2"), INTERFACE),
    "acsylla": ("feeds.registry.cassandra_",),
    "mcp": ("service.agents.",),
    "kreuzberg": ("stages.parse.office_reader",),
    "obstore": ("state.objects.remote",),
    "opentelemetry": ("worker.visit.traces",),
    "psycopg": ("feeds.registry.postgres_", "feeds.exporters.postgres_target"),
    "pyiceberg": ("feeds.exporters.iceberg_target",),
    "redis": ("cluster.redis",),
}
"""The modules that may need a package of an extra, by the module of the package that they lack."""

_IMPORT_ALL = """
import importlib, json, pathlib, lycosa
root, lacking = pathlib.Path(lycosa.__file__).parent, {}
for file in sorted(root.rglob("*.py")):
    name = ".".join(("lycosa", *file.relative_to(root).with_suffix("").parts))
    if file.stem not in ("__init__", "__main__"):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            lacking[name] = error.name.partition(".")[0]
print(json.dumps(lacking))
"""

# In one process: most of the processor time of a command is its start.
_RUN_ALL = """
import json, sys
from lycosa.cli import main
for words in json.loads(sys.argv[1]):
    code = main(words)
    assert code == 0, (words, code)
    print("done", words[0])
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_plain_python(tmp_path_factory.mktemp("plain"))


def run(python: Path, script: str, *arguments: str) -> str:
    command = [str(python), "-P", "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=python.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_only_modules_of_an_extra_need_its_packages(plain: Path) -> None:
    assert not {"fastapi", "confluent-kafka", "pytest"} & core_distributions().keys()
    lacking: dict[str, str] = json.loads(run(plain, _IMPORT_ALL))
    assert lacking.keys() >= {"lycosa.service.api.app", "lycosa.state.objects.remote"}
    others = {
        name: package
        for name, package in lacking.items()
        if not name.removeprefix("lycosa.").startswith(PLACES.get(package, ("?",)))
    }
    assert others == {}


class Site:
    """A page that is empty until its script has run."""

    def respond(self, url: str, at: float, headers: Mapping[str, str]) -> Response:
        path = url.split("/", 3)[3]
        if path == "":
            text = '<!DOCTYPE html><title>t</title><div id=root></div><script src="/a.js"></script>'
            return Response(200, [("Content-Type", "text/html")], text.encode())
        if path == "a.js":
            body = b"root.innerHTML = '<a href=/found>by a script</a>'"
            return Response(200, [("Content-Type", "text/javascript")], body)
        return page(text="found") if path == "found" else Response(404, [], b"")


def test_a_crawl_and_what_reads_it_work_without_any_extra(plain: Path, tmp_path: Path) -> None:
    is_rendered, folder = has_browser(), str(tmp_path / "c")
    with served(Site()) as port:
        seed = f"http://app.test:{port}/"
        options = ["--resolve", "app.test=127.0.0.1", "--allow-address", "127.0.0.0/8"]
        options += ["--delay", "0.05s", "--contact", "a@b.example"]
        options += ["--set", "politeness.address_delay_s=0"]
        commands = [
            ["crawl", seed, "--dir", folder, "--render", "auto" if is_rendered else "never"],
            ["status", folder],
            ["explain", folder, seed],
            ["sql", folder, 'SELECT url, "end" FROM renders UNION SELECT url, title FROM pages'],
            ["export", folder, "pages", "--output", str(tmp_path / "pages.parquet")],
            ["audit", folder],
        ]
        commands[0] += [*options, *sandbox_options()]
        said = run(plain, _RUN_ALL, json.dumps(commands))
    assert said.count("done ") == len(commands)
    assert not is_rendered or (f"http://app.test:{port}/found" in said and "quiet" in said), said
