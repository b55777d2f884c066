"""A real crawl with its HTTP interface: ``lycosa serve`` or ``crawl`` in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

PATIENCE_S = 60.0
_URL = re.compile(r"(?:page are|served) at (https?://\S+)")


class ApiCrawl:
    """A running program; ``url`` is where its interface is, ``lines`` what it has said."""

    def __init__(
        self, folder: Path, arguments: Sequence[str], environment: dict[str, str] | None = None
    ) -> None:
        self.folder = folder.parent
        self.lines: list[str] = []
        self.url = ""
        self._found = threading.Event()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lycosa", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def __repr__(self) -> str:
        return f"<ApiCrawl {self.url} pid={self.process.pid}>"

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())
            if not self.url and (found := _URL.search(line)):
                self.url = found[1].rstrip("/")
                self._found.set()
        self._found.set()

    def await_address(self) -> None:
        """Wait until it has printed its address."""
        assert self._found.wait(PATIENCE_S) and self.url, self.lines

    def await_ready(self) -> None:
        """Wait until the interface answers."""
        self.await_address()
        self.await_answer("/api/v1/frontier/stats", lambda answer: answer.status_code != 503)

    def await_answer(self, path: str, is_right, headers=None) -> httpx.Response:
        """Ask until the answer is right."""
        deadline, answer = time.monotonic() + PATIENCE_S, None
        pause = threading.Event()
        while time.monotonic() < deadline:
            try:
                answer = httpx.get(self.url + path, timeout=60, headers=headers, verify=False)
                if is_right(answer):
                    return answer
            except httpx.TransportError:
                pass  # it is being started again
            pause.wait(0.2)
        raise AssertionError(f"{path}: {answer and answer.text[:2000]}; {self.lines}")

    def api_pid(self) -> int:
        """The process that serves HTTP now; 0 while there is none."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for pid in children.read_text().split():
            try:
                if b"lycosa.service.api" in Path(f"/proc/{pid}/cmdline").read_bytes() or (
                    b"lycosa.service.page.page_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
                ):
                    return int(pid)
            except OSError:
                continue
        return 0

    def stop(self) -> int:
        """End it in order; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """End it at once."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        self._reading.join(PATIENCE_S)
        if self.process.stderr is not None:
            self.process.stderr.close()


LOOPBACK = (
    "--set",
    "dns.pins=*=127.0.0.1",
    "--set",
    "fetch.allow_addresses=127.0.0.0/8",
    "--set",
    "scope.rule=any",
    "--set",
    "politeness.address_table=crawl",
)


@contextmanager
def served_folder(
    folder: Path,
    seeds: Sequence[str],
    *arguments: str,
    environment: dict[str, str] | None = None,
    is_ready: bool = True,
) -> Iterator[ApiCrawl]:
    """``lycosa serve`` of a folder on the synthetic web, killed in the end.

    Unless it ``is_ready``, it has only printed its address.
    """
    given = [each for seed in seeds for each in ("--seed", seed)]
    crawl = ApiCrawl(
        folder,
        ["serve", str(folder), *given, *LOOPBACK, "--api", "127.0.0.1:0", *arguments],
        environment,
    )
    try:
        (crawl.await_ready if is_ready else crawl.await_address)()
        yield crawl
    finally:
        crawl.kill()
