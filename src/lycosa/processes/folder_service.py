"""A crawl folder as a service: coordinator and workers without an end.

Runs of the crawl begin and end, while callers and the HTTP process stay connected:

    running ── StopCrawl, a limit ──> stopped ── MoreAsks (seeds, resume) ──> running

A run waits when it has nothing to do, because more may be given to it. Each one is a session as any
other: it begins with recovery and ends with its last commit. None begins when a limit would end it
at once. What fails in one ends the service, with the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from lycosa.base.config.live_settings import with_live
from lycosa.base.config.sections import Config
from lycosa.base.messages.coordinator_messages import (
    Ask,
    CallerMessage,
    ClusterStatus,
    MoreAsks,
    Refused,
    StopCrawl,
    ToCoordinator,
)
from lycosa.base.model.end import End
from lycosa.base.ports import SeedFeed
from lycosa.base.system.memory_plan import memory_plan
from lycosa.cluster.serve.coordinator_links import PeerLink
from lycosa.processes.run_limits import RunLimits, lasting_limit
from lycosa.processes.session import Session, open_session
from lycosa.processes.socket_folder import SocketFolder
from lycosa.processes.supervisor import CrawlOutcome, KeepRenderer, RunRules, Supervisor
from lycosa.processes.upload_thread import begin_uploads
from lycosa.state.folder.folder_notes import save_pause, saved_pause
from lycosa.state.folder.lock import CrawlInUse

OnReady = Callable[[], Awaitable[None]]


class NoSeeds:
    """A feed without seeds: they come from callers."""

    def take_seeds(self, most: int) -> list[str]:
        """No seeds."""
        return []

    def note_committed(self) -> None:
        """Nothing is to be noted."""


class FolderService:
    """Serves one crawl folder; implements ``CalledCoordinator``.

    ``seeds`` are given in the first run. ``tell`` gets lines for the operator.
    """

    def __init__(
        self,
        folder: Path,
        config: Config,
        seeds: SeedFeed,
        tell: Callable[[str], None],
        on_locked: Callable[[], None] = lambda: None,
    ) -> None:
        self.folder, self._config, self._seeds = folder, config, seeds
        self._tell, self._on_locked = tell, on_locked
        self.callers: set[PeerLink] = set()
        self._supervisor: Supervisor | None = None
        self._last: ClusterStatus | None = None
        self._begin, self._running = asyncio.Event(), asyncio.Event()
        self._is_leaving = False
        self._changed: dict[str, str] = {}
        self.keep_renderer: KeepRenderer = lambda values: None
        self.crawl = ""
        """The crawl's UUID, once the first run has begun."""

    # -- its life

    async def run(self, sockets: SocketFolder, on_ready: OnReady) -> None:
        """Serve until ``stop``. ``on_ready`` is awaited once, in the first run."""
        self._begin.set()
        is_first = True
        while not self._is_leaving:
            await self._begin.wait()
            self._begin.clear()
            if self._is_leaving:
                return
            try:
                session = await asyncio.to_thread(self._opened)
            except CrawlInUse as error:
                if is_first:
                    raise
                self._tell(f"{error}; resume the crawl again when that program has ended")
                continue
            try:
                outcome = await self._run_session(
                    session, sockets.path, on_ready if is_first else None
                )
            finally:
                session.__exit__(None, None, None)
            is_first = False
            captures = f"{outcome.captured:,} capture{'s' * (outcome.captured != 1)}"
            self._tell(f"the run has ended ({outcome.end}), with {captures}")

    def stop(self) -> None:
        """End the run in order and then the service; a second call breaks the run off."""
        self._is_leaving = True
        self._begin.set()
        if self._supervisor is not None:
            self._supervisor.stop()

    def health(self) -> tuple[bool, str]:
        """Whether it can be called, and its state in one line."""
        if self._supervisor is not None:
            return True, f"the crawl {self.folder} runs"
        return self._last is not None, f"the crawl {self.folder} does not run"

    def _opened(self) -> Session:
        session = open_session(self.folder, self._config)
        session.on_locked = self._on_locked
        session.__enter__()
        self._on_locked = lambda: None
        return session

    async def _run_session(
        self,
        session: Session,
        sockets: Path,
        on_ready: OnReady | None,
    ) -> CrawlOutcome:
        if unshared := session.share_addresses():
            self._tell(unshared)
        if uncompared := session.uncompared:
            self._tell(uncompared)
        session.tell = self._tell
        uploads = begin_uploads(session, self._tell)
        seeds, self._seeds = self._seeds, NoSeeds()
        is_paused = self._is_paused(is_first=on_ready is not None)
        supervisor = Supervisor(
            session,
            memory_plan(session.config),
            seeds,
            on_note=self._tell,
            uploads=uploads,
            hosting=RunRules(sockets, True, self._changed, is_paused),
        )
        supervisor.callers = self.callers
        # set when the first run has begun
        supervisor.keep_renderer = lambda values: self.keep_renderer(values)  # noqa: PLW0108
        self.crawl, self._supervisor = session.manifest.crawl, supervisor
        limits = RunLimits(session.config.limits, session.folder, supervisor.reach_limit)
        if self._is_leaving:
            supervisor.stop()
        try:
            running = asyncio.ensure_future(supervisor.run())
            if on_ready is not None:
                await on_ready()
            self._running.set()
            with limits:
                return await running
        finally:
            self._running.clear()
            status = supervisor.status()
            self._last = msgspec.structs.replace(
                status, end=status.end or End.STOPPED.value, is_over=True
            )
            self._changed = dict(status.settings)
            self._config = with_live(self._config, self._changed)
            self._supervisor = None

    def _is_paused(self, is_first: bool) -> bool:
        """Whether a run begins with a pause: the first one keeps that of an earlier service.

        The later ones begin when the crawl is resumed.
        """
        paused = saved_pause(self.folder) if is_first else None
        if paused is None:
            save_pause(self.folder, None)
            return False
        self._tell(f"{paused}; resume it on the operator's page or with POST /crawl/resume")
        return True

    # -- callers

    @property
    def is_over(self) -> bool:
        """See ``CalledCoordinator``."""
        return self._is_leaving and self._supervisor is None

    def status(self) -> ClusterStatus:
        """See ``CalledCoordinator``: between two runs the state at the end of the last one."""
        if self._supervisor is not None:
            return self._supervisor.status()
        assert self._last is not None, "callers are served from the first run on"
        shards = [msgspec.structs.replace(each, state="ended") for each in self._last.shards]
        return msgspec.structs.replace(self._last, shards=shards)

    def objection(self, message: CallerMessage) -> Refused | None:
        """See ``CalledCoordinator``."""
        if self._is_leaving:
            return Refused("the service ends", is_final=False)
        if self._supervisor is not None:
            return self._supervisor.objection(message)
        if isinstance(message, Ask):
            return Refused("the crawl does not run; resume it first", is_final=False)
        if not isinstance(message, MoreAsks | StopCrawl):
            return Refused("the crawl does not run; resume it first")
        if isinstance(message, MoreAsks) and (reached := self._lasting_limit()):
            return Refused(
                f"{reached}: start the service with a higher limit to continue the crawl"
            )
        return None

    def _lasting_limit(self) -> str:
        """Which limit would end a further run at once; empty without one."""
        assert self._last is not None
        progress = self._last.progress
        return lasting_limit(
            self._config.limits, self.folder, progress.captures, progress.body_bytes
        )

    async def receive(self, sender: str, message: ToCoordinator) -> None:
        """See ``CalledCoordinator``: ``MoreAsks`` begins a run and returns when it has begun."""
        if self._supervisor is not None:
            await self._supervisor.receive(sender, message)
        elif isinstance(message, MoreAsks):
            self._begin.set()
            await self._running.wait()
