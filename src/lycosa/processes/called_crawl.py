"""What lets other programs call a crawl on one machine: its private sockets and its HTTP process.

The folder of the sockets can be opened by its user only. A program that may open it may steer the
crawl.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from lycosa.processes.api_keeper import ApiKeeper, ApiListener
from lycosa.serve.api_job import COORDINATOR_SOCKET, ApiJob, ApiSettings
from lycosa.serve.caller_desk import CalledCoordinator, CallerDesk, CallerSocket

_LONGEST_BASE = 70  # bytes; a socket's address has at most 100 on some systems


async def _nothing() -> None:
    pass


class CallSockets:
    """The private folder of one crawl's sockets, deleted with this object's end.

    Raises ``OSError`` when no folder for temporary files can be used.
    """

    def __init__(self) -> None:
        self.path = _private_folder()

    def __repr__(self) -> str:
        return f"<CallSockets {self.path}>"

    def __enter__(self) -> CallSockets:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def _private_folder() -> Path:
    """A new folder whose path is short enough for the address of a socket."""
    bases = [tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR", ""), "/tmp", "/var/tmp"]
    failure: OSError = OSError(errno.ENAMETOOLONG, "no short path for sockets", bases[0])
    for base in bases:
        if base and len(os.fsencode(base)) <= _LONGEST_BASE:
            try:
                return Path(tempfile.mkdtemp(prefix="lycosa-", dir=base))
            except OSError as error:
                failure = error
    raise failure


class CalledCrawl:
    """A crawl that other programs can call, while this context lasts.

    ``crawl`` is its UUID and ``runner`` runs its coordinator.
    """

    def __init__(
        self,
        crawl: str,
        runner: CalledCoordinator,
        sockets: Path,
        folder: Path,
        tell: Callable[[str], None],
    ) -> None:
        self._socket = CallerSocket(crawl, CallerDesk(runner, _nothing))
        self._sockets, self._folder, self._tell = sockets, folder, tell
        self._keeper: ApiKeeper | None = None

    def __repr__(self) -> str:
        return f"<CalledCrawl {self._folder} {self._socket!r} {self._keeper!r}>"

    async def open(
        self, settings: ApiSettings | None = None, listener: ApiListener | None = None
    ) -> None:
        """Listen for callers, and start the HTTP process. Raises ``OSError``."""
        await self._socket.open(f"unix:{self._sockets / COORDINATOR_SOCKET}")
        if settings is not None and listener is not None:
            job = ApiJob(
                settings=settings,
                listener=-1,
                folder=str(self._folder.resolve()),
                sockets=str(self._sockets),
            )
            self._keeper = ApiKeeper(job, listener, self._tell)
            self._keeper.start()

    async def close(self) -> None:
        """End the HTTP process and all conversations."""
        if self._keeper is not None:
            await self._keeper.close()
        await self._socket.close()
