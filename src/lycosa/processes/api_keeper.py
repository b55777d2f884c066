"""Keeps the process of the HTTP interface running next to a crawl, which never waits for it.

The listening socket belongs to this process, so clients find the same port after the other one was
started again, and an address in use is reported before the crawl starts. The other process tells
every second that it lives, and which sessions were ended, so that the next one knows them. One that
is silent for too long is killed; one that died is started again after a pause. It ends when this
process does, because its end of the socket pair closes.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from lycosa.base.config.sources import SettingsError
from lycosa.base.system.environment import TOKENS_VARIABLE, beside_crawl
from lycosa.cluster.network.endpoints import RefusedConnection, split_address
from lycosa.processes.kept_process import how_it_ended, keep_running
from lycosa.processes.worker_handle import WorkerSilence, reap
from lycosa.service.api.api_job import ApiJob, encode_api_job, session_expiry

_MODULE = "lycosa.service.page.page_process"
_LOOK_S = 1.0
_SILENT_LOOKS = 15  # in a row
_BACKLOG = 512
_END_S = 3.0
_MAX_LINE = 1000
_MAX_ENDED = 1000


class ApiListener:
    """A socket that listens at an address; ``url`` is where a browser finds it."""

    def __init__(self, address: str, has_tls: bool) -> None:
        try:
            host, port = split_address(address)
            family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        except (RefusedConnection, OSError) as error:
            raise SettingsError([f"--api {address}: {error}; give HOST:PORT"]) from error
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(where)
            self.socket.listen(_BACKLOG)
        except OSError as error:
            self.socket.close()
            raise SettingsError(
                [f"--api {address}: cannot listen there: {error.strerror}; give another HOST:PORT"]
            ) from error
        self.host, self.port = host, self.socket.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if has_tls else 'http'}://{shown}:{self.port}/"
        self.is_loopback = ipaddress.ip_address(str(where[0]).partition("%")[0]).is_loopback

    def close(self) -> None:
        self.socket.close()


class ApiKeeper:
    """Runs the process for ``job``; ``tell`` gets lines for the operator."""

    def __init__(self, job: ApiJob, listener: ApiListener, tell: Callable[[str], None]) -> None:
        number = listener.socket.fileno()
        service = secrets.token_hex(16)
        self._job = msgspec.structs.replace(job, listener=number, service=service)
        self._ours: socket.socket | None = None
        self._listener, self._tell = listener, tell
        self._keeping: asyncio.Task[None] | None = None
        self.pid = 0

    def start(self) -> None:
        """Start the process, and again whenever it ends."""
        self._keeping = asyncio.get_running_loop().create_task(
            keep_running("the process of the API", self._run_once, self._tell)
        )

    def reload(self) -> None:
        """Let the process read its tokens and its certificate again."""
        if self._ours is not None:
            with suppress(OSError):  # it ends, and the next one reads them anyway
                self._ours.send(b"r")

    async def close(self) -> None:
        """End the process and stop listening."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        self._listener.close()

    async def _run_once(self) -> str:
        """Run one process to its end; how it ended. It is killed when this is cancelled."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = self._spawn(theirs)
            theirs.close()
            self.pid = process.pid
            try:
                ours.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_sendall(ours, encode_api_job(self._job) + b"\n")
                self._ours = ours
                why = await self._listen(ours)
            except OSError as error:
                # the process died before it had its job; the keeper starts another one
                why = f"was lost ({error.strerror or error})"
            except BaseException:
                ours.close()  # it ends, with the last lines of its log
                with suppress(TimeoutError):
                    async with asyncio.timeout(_END_S):
                        await reap(process)
                process.kill()  # it has nothing else to lose
                raise
            finally:
                self._ours = None
                ours.close()
                await reap(process)
                self.pid = 0
            return why or how_it_ended(process.returncode or 0)

    def _spawn(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        # -P: nothing is imported from the current folder, which is the user's.
        return subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE, str(theirs.fileno())],
            pass_fds=[theirs.fileno(), self._listener.socket.fileno()],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _environment(self) -> dict[str, str]:
        """Strangers may reach the process, so of the secrets it has only the tokens."""
        tokens = {name: os.environ[name] for name in (TOKENS_VARIABLE,) if name in os.environ}
        return beside_crawl(os.environ, bool(self._job.cluster_file)) | tokens

    async def _listen(self, ours: socket.socket) -> str:
        """Wait for the end of the process; empty text, or why it is killed."""
        loop, silence = asyncio.get_running_loop(), WorkerSilence(_SILENT_LOOKS)
        heard = b""
        while True:
            # silence is the signal here: nothing came in this interval, so it is counted below
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    piece = await loop.sock_recv(ours, 1024)
                    if not piece:
                        return ""
                    silence.note_heard()
                    *lines, heard = (heard + piece).split(b"\n")
                    self._note_ended([line.decode() for line in lines if line])
                    heard = heard[:_MAX_LINE]
                    continue
            if silence.is_too_long():
                os.kill(self.pid, 9)
                return f"did not answer for {_SILENT_LOOKS * _LOOK_S:.0f} s and was killed"

    def _note_ended(self, sessions: list[str]) -> None:
        """Remember sessions that were ended, for the process after this one."""
        if sessions:
            now = time.time()
            ended = [each for each in self._job.ended if session_expiry(each) > now]
            ended = [*ended, *sessions][-_MAX_ENDED:]
            self._job = msgspec.structs.replace(self._job, ended=ended)
