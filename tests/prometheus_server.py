"""A real Prometheus for tests, and promtool."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

_SERVICES = Path(__file__).parents[1] / "script" / "services"
_PATIENCE_S = 60.0


def promtool() -> str:
    """The program; skips the test when it is not there."""
    cache = os.environ.get("SERVICES_CACHE") or (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lycosa-services"
    )
    program = shutil.which("promtool") or str(Path(cache, "prometheus", "usr", "bin", "promtool"))
    if not Path(program).exists():
        pytest.skip("promtool is not there (script/services)")
    return program


class PrometheusServer:
    """One server that scrapes ``target`` (HOST:PORT) once a second and evaluates ``rules``."""

    def __init__(self, folder: Path, target: str, rules: Path) -> None:
        self._folder = folder
        run = subprocess.run(
            [_SERVICES, "start", "prometheus", folder],
            env={**os.environ, "PROMETHEUS_TARGETS": target, "PROMETHEUS_RULES": str(rules)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        values = dict(line.split("=", 1) for line in run.stdout.split())
        self.address = values["PROMETHEUS"]

    def stop(self) -> None:
        subprocess.run([_SERVICES, "stop", "prometheus", self._folder], check=True)

    def get(self, path: str, **parameters: str) -> Any:
        """The ``data`` of an answer of its HTTP interface. Raises ``HTTPError``."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}?{query}") as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        return found["data"]

    def query(self, text: str) -> list[dict[str, Any]]:
        """The series that answer an instant query."""
        found = self.get("query", query=text)
        series: list[dict[str, Any]] = found["result"]
        return series

    def await_series(self, text: str, is_right: Callable[[list[Any]], bool] = bool) -> list[Any]:
        """Ask until the answer is right, by default not empty."""
        deadline, pause = time.monotonic() + _PATIENCE_S, threading.Event()
        while not is_right(found := self.query(text)):
            assert time.monotonic() < deadline, (text, found)
            pause.wait(0.25)
        return found


@contextmanager
def scraping(target: str, rules: Path) -> Iterator[PrometheusServer]:
    """A server of its own; skips the test when none can be started here."""
    run = subprocess.run(
        [_SERVICES, "lacks", "prometheus"], stdout=subprocess.PIPE, text=True, check=True
    )
    if lacks := run.stdout.strip():
        pytest.skip(f"Prometheus cannot be started, missing: {lacks} (script/services)")
    with TemporaryDirectory(prefix="lycosa-prometheus-") as folder:
        server = PrometheusServer(Path(folder), target, rules)
        try:
            yield server
        finally:
            server.stop()
