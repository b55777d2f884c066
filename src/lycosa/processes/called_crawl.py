"""What lets other programs call a crawl on one machine: its private sockets and its HTTP process.

The folder of the sockets can be opened by its user only. A program that may open it may steer the
crawl.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lycosa.base.system.kept_tasks import error_line
from lycosa.cluster.serve.caller_service import CalledCoordinator, CallerHandler, CallerSocket
from lycosa.processes.api_keeper import ApiKeeper, ApiListener
from lycosa.service.api.api_job import COORDINATOR_SOCKET, ApiJob, ApiSettings


async def _nothing() -> None:
    pass


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
        self._socket = CallerSocket(crawl, CallerHandler(runner, _nothing, self._tell_error))
        self._sockets, self._folder, self._tell = sockets, folder, tell
        self._keeper: ApiKeeper | None = None

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

    def _tell_error(self, error: BaseException) -> None:
        self._tell(f"the end of a caller was not handled ({error_line(error)})")

    def reload(self) -> None:
        """Let the HTTP process read its tokens and its certificate again."""
        if self._keeper is not None:
            self._keeper.reload()

    async def close(self) -> None:
        """End the HTTP process and all conversations."""
        if self._keeper is not None:
            await self._keeper.close()
        await self._socket.close()
