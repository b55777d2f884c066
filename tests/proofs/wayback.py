"""pywb over a crawl folder as it is, cdxj-indexer over its WARC files, wacz over exports. They are under the GPL
and the AGPL and never dependencies: the proofs install them into an environment of their own, or
use the one named by ``PROVE_PYWB``, and say so when there is none.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from free_ports import free_port


def pywb_programs(work: Path, may_install: bool) -> Path | None:
    """The folder with their programs, or ``None``."""
    given = os.environ.get("PROVE_PYWB")
    if given or not may_install:
        return Path(given) / "bin" if given else None
    environment = work / "pywb-environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    installed = subprocess.run(
        [
            str(environment / "bin" / "pip"),
            "install",
            "-q",
            "pywb",
            "cdxj-indexer",
            "wacz",
            "setuptools<81",
        ],
        check=False,
        capture_output=True,
    )
    return environment / "bin" if installed.returncode == 0 else None


class Replayed(NamedTuple):
    """What pywb shows: status and body, still content-encoded."""

    status: int
    body: bytes


class Wayback:
    """A context manager: pywb with the outputs of one crawl as its only collection."""

    def __init__(self, crawl: Path, programs: Path, work: Path) -> None:
        self._crawl, self._programs, self._work = crawl.resolve(), programs, work
        self._port = free_port(["127.0.0.1"])

    def __enter__(self) -> Wayback:
        self._work.mkdir()
        settings = {
            "collections": {
                "crawl": {"index_paths": f"{self._crawl}/cdxj/", "archive_paths": f"{self._crawl}/"}
            }
        }
        (self._work / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML
        command = [str(self._programs / "wayback"), "-p", str(self._port), "-b", "127.0.0.1"]
        with (self._work / "log").open("wb") as log:
            self._process = subprocess.Popen(command, cwd=self._work, stdout=log, stderr=log)
        self._wait_until_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(10)

    def replay(self, url: str, timestamp: str = "") -> Replayed:
        """What it shows for a URL nearest to a time of 14 digits, or the newest, without
        rewriting.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        try:
            connection.request(
                "GET",
                f"/crawl/{timestamp}id_/{url}",
                headers={"Accept-Encoding": "gzip, br, zstd, deflate"},
            )
            answer = connection.getresponse()
            return Replayed(answer.status, answer.read())
        except (
            http.client.IncompleteRead
        ) as cut:  # of a body that was cut, under the header block that announced a whole one
            return Replayed(answer.status, cut.partial)
        finally:
            connection.close()

    def _wait_until_open(self) -> None:
        for _ in range(150):  # it needs some seconds to start
            try:
                http.client.HTTPConnection("127.0.0.1", self._port, timeout=20).connect()
                return
            except ConnectionError:
                pass
            try:
                self._process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
            break
        raise AssertionError(f"pywb did not start: {(self._work / 'log').read_text()[-2000:]}")
