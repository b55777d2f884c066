"""A real S3 server on loopback, versitygw over a folder, as an ordinary process with a port of its
own, ended by its process id; and a proxy before it that fails as it is told to.
"""

from __future__ import annotations

import atexit
import functools
import http.client
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType

import pytest

from free_ports import free_port
from lycosa.inspect.running import is_running
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.objects.store_opening import open_store

_VERSION = "v1.8.0"
_CODES = {403: "AccessDenied", 404: "NoSuchKey", 409: "ConditionalRequestConflict"}
KEY, SECRET, BUCKET = "test-key", "test-secret-kept-in-the-environment", "crawl"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}


def s3_program() -> Path | None:
    """Where script/services put the server, or ``None``."""
    cache = os.environ.get("SERVICES_CACHE") or (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lycosa-services"
    )
    found = Path(cache) / f"versitygw-{_VERSION}"
    return found if found.exists() else None


needs_s3 = pytest.mark.skipif(
    s3_program() is None, reason="there is no S3 server (versitygw): `script/services s3` builds it"
)


class S3Server:
    """A context manager. ``folder`` holds the buckets; there is one, named ``crawl``."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self._options = folder, options
        self.port = free_port(("127.0.0.1",))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def bucket(self) -> Path:
        return self.folder / "data" / BUCKET

    def __enter__(self) -> S3Server:
        self.bucket.mkdir(parents=True, exist_ok=True)
        self.start()
        return self

    def start(self) -> None:
        program = s3_program()
        assert program is not None
        command = [str(program), "--port", f"127.0.0.1:{self.port}", "--region", "us-east-1"]
        command += [*self._options, "--quiet", "--keep-alive", "posix", str(self.folder / "data")]
        with (self.folder / "s3.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        while self._process.poll() is None:
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
                threading.Event().wait(0.02)
        raise RuntimeError((self.folder / "s3.log").read_text())

    def flip_byte(self, key: str) -> None:
        """Damage a stored object as a bad disk does: its size stays."""
        data = bytearray((self.bucket / key).read_bytes())
        data[len(data) // 2] ^= 1
        (self.bucket / key).write_bytes(data)

    def cut_object(self, key: str, size_bytes: int) -> None:
        """Cut bytes off the end of a stored object."""
        data = (self.bucket / key).read_bytes()
        (self.bucket / key).write_bytes(data[:-size_bytes])

    def lose_object(self, key: str) -> None:
        """Delete a stored object behind the server's back."""
        (self.bucket / key).unlink()

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()


@functools.cache
def shared_server() -> S3Server:
    """One for all tests of this process that need no server of their own."""
    folder = Path(tempfile.mkdtemp(prefix="lycosa-s3-"))
    server = S3Server(folder).__enter__()
    atexit.register(lambda: (server.end(), shutil.rmtree(folder, ignore_errors=True)))
    return server


def s3_store(prefix: str, endpoint: str = "") -> ObjectStore:
    """A store on that server. Its client reads the credentials now, so they are not left in the
    environment, which other tests need to be without.
    """
    before = dict(os.environ)
    os.environ.update(CREDENTIALS)
    try:
        options = (f"endpoint={endpoint or shared_server().endpoint}",)
        return open_store(f"s3://{BUCKET}/{prefix}", options)
    finally:
        os.environ.clear()
        os.environ.update(before)


def wait_until_free(folder: Path) -> None:
    """The workers of a crawl that was killed end by themselves, and hold its lock until then."""
    while is_running(folder):
        threading.Event().wait(0.05)


class _Quiet(ThreadingHTTPServer):
    """Clients of a test are killed while they speak."""

    def handle_error(self, *_: object) -> None:
        """The test sees what came of it."""


class FaultyProxy:
    """Hands requests to an S3 server. ``decide`` is called with the number of the request (from 1),
    its method and path, and gives a status to answer instead, 0 for none, or -1 to break the
    connection after the server did what it was asked. 409 is the answer of S3 to a conditional put
    while another request for the key is in flight: nothing is stored.
    """

    def __init__(self, server: S3Server, decide: Callable[[int, str, str], int]) -> None:
        self.seen: list[tuple[str, str, int]] = []
        lock, seen = threading.Lock(), self.seen

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                with lock:
                    verdict = decide(len(seen) + 1, self.command, self.path)
                    seen.append((self.command, self.path, verdict))
                if verdict > 0:
                    code = _CODES.get(verdict, "SlowDown")
                    self._answer(verdict, f"<Error><Code>{code}</Code></Error>".encode(), {})
                    return
                there = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
                try:
                    there.request(self.command, self.path, body, dict(self.headers))
                    answer = there.getresponse()
                    data = answer.read()
                    if verdict < 0:
                        self.close_connection = True
                        return
                    self._answer(answer.status, data, dict(answer.headers))
                except OSError:
                    self._answer(502, b"", {})
                finally:
                    there.close()

            def _answer(self, status: int, data: bytes, headers: dict[str, str]) -> None:
                self.send_response_only(status)
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                        self.send_header(name, value)
                length = headers.get("Content-Length") if self.command == "HEAD" else None
                self.send_header("Content-Length", length or str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any

            def log_message(self, *_: object) -> None:
                """The test keeps what was seen."""

        self._server = _Quiet(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FaultyProxy:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join(60)
        self._server.server_close()
