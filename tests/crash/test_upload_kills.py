"""Crawls that upload and remove their segments, killed again and again, to a store that fails one
put in ten: nothing is lost, here or there.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from random import Random

import pytest

from lycosa.synthetic import SyntheticWeb, WebPlan
from s3_server import BUCKET, CREDENTIALS, FaultyProxy, S3Server, needs_s3, wait_until_free
from serving import served

HOSTS, PAGES = 4, 40
WEB = SyntheticWeb(WebPlan(hosts=HOSTS, pages=PAGES, distribution="fixed"))
KINDS = ("warc", "cdxj", "pages", "links", "text")
OPTIONS = [
    *("--delay", "0.02s", "--scope", "any", "--workers", "2", "--contact", "test@example.org"),
    *("--resolve", "*=127.0.0.1", "--allow-address", "127.0.0.0/8", "--upload-remove"),
    *("--set", "politeness.adaptive_factor=0", "--set", "politeness.address_delay_s=0"),
    *("--set", "store.segment_bytes=100kB", "--set", "frontier.finish_wait_s=1"),
    *("--set", "parse.language=false", "--upload", f"s3://{BUCKET}/x"),
]


@needs_s3
@pytest.mark.service
# `test_upload_crawl.py` continues an upload that was killed in every run of the tests
@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_a_crawl_that_is_killed_again_and_again_uploads_everything_once(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    puts, is_time = 0, threading.Event()

    def decide(_: int, method: str, path: str) -> int:
        nonlocal puts
        is_segment = method == "PUT" and "crawl.json" not in path
        puts += is_segment
        if puts >= deadly:
            is_time.set()
        return random.choice([503, -1]) if is_segment and random.random() < 0.1 else 0

    folder, kills, deadly = tmp_path / "crawl", 0, 0
    environment = {**os.environ, **CREDENTIALS}
    with (
        S3Server(tmp_path / "s3") as server,
        served(WEB) as port,
        FaultyProxy(server, decide) as proxy,
    ):
        command = [sys.executable, "-m", "lycosa", "crawl", "--dir", str(folder)]
        command += [WEB.seed_url(port=port), *OPTIONS]
        command += ["--set", f"upload.options=endpoint={proxy.endpoint}"]
        for _ in range(3):
            deadly = puts + random.randint(1, 6)
            is_time.clear()
            with subprocess.Popen(
                command,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as running:
                while running.poll() is None and not is_time.wait(0.1):
                    pass
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(random.uniform(0.0, 0.3))  # any moment, not that of an upload
                running.kill()
            kills += running.returncode == -signal.SIGKILL
            wait_until_free(folder)
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        program = [sys.executable, "-m", "lycosa"]
        audit = subprocess.run(
            [*program, "audit", str(folder)], env=environment, capture_output=True, text=True
        )
        assert audit.returncode == 0, audit.stdout
        query = "SELECT count(*) AS n, count(DISTINCT url) AS urls FROM pages"
        asked = subprocess.run(
            [*program, "sql", str(folder), query, "--json"], capture_output=True, text=True
        )
        (row,) = json.loads(asked.stdout)
        assert row["n"] == row["urls"] == HOSTS * PAGES
    assert kills > 1
    stored = {
        kind: {path.name.partition(".")[0] for path in (server.bucket / "x" / kind).iterdir()}
        for kind in KINDS
    }
    assert len(stored["warc"]) > 3
    assert all(stored[kind] == stored["warc"] for kind in KINDS)
    assert [path for kind in KINDS for path in (folder / kind).glob("*")] == []
