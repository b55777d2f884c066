"""What calls a crawl on one machine: its private sockets, and the processes next to it.

These are the HTTP process, and the renderer if pages are rendered.

The folder of the sockets can be opened by its user only. A program that may open it may steer the
crawl.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from lycosa.base.config.render_section import RenderSection
from lycosa.base.messages.renderer_messages import RendererReport
from lycosa.base.system.kept_tasks import error_line
from lycosa.cluster.serve.caller_service import CalledCoordinator, CallerHandler, CallerSocket
from lycosa.processes.api_keeper import ApiKeeper, ApiListener
from lycosa.processes.rendering.renderer_job import RendererJob
from lycosa.processes.rendering.renderer_keeper import RendererKeeper
from lycosa.service.api.api_job import COORDINATOR_SOCKET, ApiJob, ApiSettings


async def _nothing() -> None:
    pass


class CalledCrawl:
    """A crawl that other programs can call, while this context lasts.

    ``crawl`` is its UUID and ``runner`` runs its coordinator. ``render`` has the settings of
    rendering at the start.
    """

    def __init__(
        self,
        crawl: str,
        runner: CalledCoordinator,
        sockets: Path,
        folder: Path,
        tell: Callable[[str], None],
        render: RenderSection,
    ) -> None:
        self._socket = CallerSocket(crawl, CallerHandler(runner, _nothing, self._tell_error))
        self._sockets, self._folder, self._tell = sockets, folder, tell
        self._keeper: ApiKeeper | None = None
        job = RendererJob(
            "this machine", render, folder=str(folder.resolve()), sockets=str(sockets)
        )
        self._renderer = RendererKeeper(job, tell)
        self._is_open = False

    async def open(
        self, settings: ApiSettings | None = None, listener: ApiListener | None = None
    ) -> None:
        """Listen for callers, and start the processes. Raises ``OSError``."""
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
        self._is_open = True
        self._renderer.follow({})

    def keep_renderer(self, values: Mapping[str, str]) -> RendererReport | None:
        """Run a renderer process if pages are rendered by these live settings.

        Returns what it said last; ``None`` if it is not wanted.
        """
        return self._renderer.report if self._is_open and self._renderer.follow(values) else None

    def _tell_error(self, error: BaseException) -> None:
        self._tell(f"the end of a caller was not handled ({error_line(error)})")

    def reload(self) -> None:
        """Let the HTTP process read its tokens and its certificate again."""
        if self._keeper is not None:
            self._keeper.reload()

    async def close(self) -> None:
        """End the processes and all conversations."""
        self._is_open = False
        await self._renderer.close()
        if self._keeper is not None:
            await self._keeper.close()
        await self._socket.close()
