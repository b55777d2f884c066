"""A whole crawl of hostile applications in a real browser. What the browser may not do is judged by
the log of the server, by a port that nothing may reach and by a file that nothing may read.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from browser_sandbox import has_browser, sandbox_options
from clusters import LATE_S, LYCOSA, Program
from hostile_apps import CLOSED, DECOY, SECRET, VICTIM, HostileApps
from judging import is_polite
from killing import child_of_module, group_of
from lycosa.base.config.sections import PolitenessSection
from lycosa.base.system.process_memory import group_bytes
from lycosa.synthetic import RequestLog
from serving import served_with_log

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.skipif(not has_browser(), reason="needs Chromium"),
]
_LONGEST_S = 900.0
_DELAY_S = 0.05
_MEMORY = 1_000_000_000
_OPTIONS = {
    "render.mode": "always",
    "render.memory_bytes": str(_MEMORY),
    "dns.pins": '["*=127.0.0.1"]',
    "fetch.allow_addresses": '["127.0.0.0/8"]',
    "politeness.delay_s": str(_DELAY_S),
    "politeness.adaptive_factor": "0",
    "politeness.address_delay_s": "0",
    "politeness.address_slots": "60",
    "agent.contact": "test@example.org",
}


class Watching:
    """Looks at the renderers of a crawl again and again: their processes, and the memory of all."""

    def __init__(self, program: Program) -> None:
        self.most_bytes = 0
        self.groups: set[int] = set()
        self._program, self._ended = program, threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watching:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.1):
            if renderer := child_of_module(self._program.process.pid, "renderer_process"):
                self.groups.add(renderer)
                self.most_bytes = max(self.most_bytes, group_bytes(renderer))


@contextmanager
def crawl_of(folder: Path, seeds: list[str]) -> Iterator[Program]:
    pairs = [part for each in _OPTIONS.items() for part in ("--set", "=".join(each))]
    program = Program(folder, "crawl", *seeds, "--dir", "c", *pairs, *sandbox_options())
    try:
        yield program
    finally:
        program.end()


def rows(folder: Path, query: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [*LYCOSA, "sql", str(folder / "c"), "--json", query], capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_hostile_applications_harm_nobody(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET)
    tmp_path.chmod(0o755)
    os.utime(secret, (1, 1))  # so old that reading it changes when it was read last
    raw = socket.create_server(("127.0.0.1", 0))
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with raw, datagrams:
        raw_port = raw.getsockname()[1]
        datagrams.bind(("127.0.0.1", raw_port))
        for each in (raw, datagrams):
            each.setblocking(False)
        apps = HostileApps(secret, raw_port)
        with served_with_log(apps) as (port, log):
            apps.port = port
            with crawl_of(tmp_path, apps.seeds()) as program, Watching(program) as watching:
                assert program.wait(_LONGEST_S) == 0, str(program)
        with pytest.raises(BlockingIOError):
            raw.accept()
        with pytest.raises(BlockingIOError):
            datagrams.recv(1)
    print(program)
    assert not [pid for group in watching.groups for pid in group_of(group)]
    assert secret.stat().st_atime == 1, "a page made the browser read a file"
    judge_log(log, apps)
    judge_renders(tmp_path)
    print(f"{watching.most_bytes / 1e6:.0f} MB at most, {len(watching.groups)} renderer processes")
    assert watching.most_bytes < 2 * _MEMORY
    audited = subprocess.run([*LYCOSA, "audit", str(tmp_path / "c")], capture_output=True)
    assert audited.returncode == 0, audited.stdout


def judge_log(log: RequestLog, apps: HostileApps) -> None:
    """What the server saw is what the crawl may request, when it may request that."""
    is_polite(log, PolitenessSection(delay_s=_DELAY_S, address_delay_s=0, address_slots=60), LATE_S)
    assert len(apps.agents) == 1 and "Chrome" not in min(apps.agents), apps.agents
    assert not apps.fields & {"cookie", "origin", "x-secret", "sec-fetch-mode", "sec-ch-ua"}
    assert 405 not in {each.status for each in log.exchanges}, "a method other than GET"
    paths: dict[str, Counter[str]] = {}
    for each in log.exchanges:
        if not each.path.startswith(("/robots.txt", "/.well-known/", "/sitemap")):
            paths.setdefault(each.host.partition(":")[0], Counter())[each.path] += 1
    counts = {host: len(found) for host, found in sorted(paths.items())}
    print(counts)
    strangers = Counter(host[0] for host in paths if host[1:].removesuffix(".example").isdigit())
    assert 40 <= strangers["s"] <= 50  # requests of a page for other sites
    assert strangers["f"] <= 50  # none, where the page is so busy that it cannot be read
    assert not strangers["d"], "data of other sites"
    own = [path for path in paths["own.example"] if path.startswith("/i/")]
    assert 190 <= len(own) <= 200
    assert 400 <= counts[VICTIM] <= 500
    assert counts["chain.example"] <= 1 + 8
    assert CLOSED not in paths
    assert not [path for path in paths["robots.example"] if path.startswith("/private/")]
    assert "/open.png" in paths["robots.example"]
    # Of a site elsewhere only what pages load without scripts: no data, media, documents or forms.
    assert paths[DECOY].keys() <= {"/pixel.png", "/m.js"}, paths[DECOY]
    again = {
        (host, path): count
        for host, found in paths.items()
        for path, count in found.items()
        if count > 1
    }
    assert not again, again


def judge_renders(folder: Path) -> None:
    """Every page has come to an end, and has nothing in it that it must not know."""
    found = rows(folder, 'SELECT url, "end", text, rounds FROM renders')
    ends = {each["url"].split("/")[2].partition(":")[0]: each["end"] for each in found}
    print(ends)
    told = " ".join(str(each["text"]) for each in found)
    assert SECRET not in told and "root:" not in told
    texts = {each["url"]: each for each in found if "//app.example" in each["url"]}
    app = next(each for url, each in texts.items() if url.endswith("/"))
    assert app["end"] == "quiet" and "a link to /found" in app["text"], app
    assert any(url.endswith("/found") for url in texts)
    html = "fetch_status = 200 AND content_mime_type = 'text/html'"
    pages = rows(folder, f"SELECT url FROM pages WHERE {html}")
    assert {each["url"] for each in pages} == {each["url"] for each in found}
    assert len(pages) == len(found)
