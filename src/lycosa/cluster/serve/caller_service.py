"""The coordinator's side of the conversation with callers: on a cluster, and on one machine.

A caller that leaves before it has made all its requests may come back for a minute. After that the
crawl no longer waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from lycosa.base.messages import coordinator_messages as messages
from lycosa.base.model.compatibility import PROTOCOL, work_together
from lycosa.base.system.frame_stream import FrameStream
from lycosa.base.system.frames import UNREADABLE
from lycosa.base.system.kept_tasks import KeptTasks
from lycosa.cluster.coordinator.overview import refusal_of
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.network.frame_server import FrameServer
from lycosa.cluster.serve.coordinator_links import PeerLink

LEFT_S = 60.0
"""A caller that left before it had asked everything may come back for so long."""
_MAX_OPEN = 64  # requests that are not answered; each is kept with its seeds
MAX_CALLER_BYTES = 32 * 1024 * 1024


class CalledCoordinator(Protocol):
    """The part that runs the coordinator. ``callers`` are those that are connected."""

    callers: set[PeerLink]

    @property
    def is_over(self) -> bool:
        """Whether this coordinator has ended."""
        ...

    def status(self) -> messages.ClusterStatus:
        """The state of everything."""
        ...

    def objection(self, message: messages.CallerMessage) -> messages.Refused | None:
        """Why the message is not accepted now, if it is not."""
        ...

    async def receive(self, sender: str, message: messages.ToCoordinator) -> None:
        """Handle a message, and send what follows from it."""
        ...


class CallerHandler:
    """The callers of one coordinator.

    ``on_more`` is awaited when a caller has more requests. ``on_error`` gets errors that leave the
    coordinator waiting for a caller that has left.
    """

    def __init__(
        self,
        runner: CalledCoordinator,
        on_more: Callable[[], Awaitable[None]],
        on_error: Callable[[BaseException], None],
        left_s: float = LEFT_S,
    ) -> None:
        self._runner, self._on_more, self._left_s = runner, on_more, left_s
        self._tasks = KeptTasks(on_error)

    @property
    def is_seeded(self) -> bool:
        """Whether a caller is connected that has more requests."""
        return any(caller.is_seeding for caller in self._runner.callers)

    async def serve_caller(self, link: PeerLink) -> None:
        """Serve one caller to its end. Raises as ``FrameStream.receive`` and decoders do."""
        runner = self._runner
        runner.callers.add(link)
        try:
            while (frame := await link.receive()) is not None:
                message = messages.decode_from_caller(frame)
                if isinstance(message, messages.StatusQuery):
                    link.send_message(runner.status())
                else:
                    await self._receive_from_caller(link, message)
        finally:
            runner.callers.discard(link)
            if link.is_seeding and not runner.is_over:
                self._tasks.begin(self._await_return())

    async def await_callers(self) -> None:
        """Wait for the callers of the coordinator before this one, as for one that left.

        A crawl without any URL waits for its first caller.
        """
        while self._runner.status().expects_asks:
            await asyncio.sleep(self._left_s)
            if self._runner.status().progress.discovered and not self.is_seeded:
                await self._runner.receive(messages.CALLER, messages.NoMoreAsks())

    async def close(self) -> None:
        """Wait for no caller any more."""
        await self._tasks.cancel()

    async def _receive_from_caller(self, link: PeerLink, message: messages.CallerMessage) -> None:
        runner = self._runner
        assert not isinstance(message, messages.StatusQuery)
        if reason := refusal_of(message, runner.status()):
            link.send_message(messages.Refused(reason))
            return
        if refused := runner.objection(message):
            link.send_message(refused)
            return
        if isinstance(message, messages.Ask) and runner.status().open_requests >= _MAX_OPEN:
            reason = f"{_MAX_OPEN} requests are not answered yet"
            link.send_message(messages.Refused(reason, is_final=False))
            return
        if isinstance(message, messages.Ask):
            link.calls.add(message.request.call)
            link.is_seeding = True
        elif isinstance(message, messages.MoreAsks):
            link.is_seeding = True
            await self._on_more()
        elif isinstance(message, messages.NoMoreAsks):
            link.is_seeding = False
        if not (isinstance(message, messages.NoMoreAsks) and self.is_seeded):
            await runner.receive(messages.CALLER, message)
        if not (isinstance(message, messages.Ask) or runner.is_over):
            link.send_message(messages.Accepted())

    async def _await_return(self) -> None:
        """Wait for a caller that left; then do not wait for its requests any more."""
        # A connection that was lost comes back within seconds; a crawl must not end between two
        # seeds of one file.
        await asyncio.sleep(self._left_s)
        if not self.is_seeded:
            await self._runner.receive(messages.CALLER, messages.NoMoreAsks())


def caller_refusal(hello: messages.CoordinatorHello, crawl: str) -> str:
    """Why a connection to the coordinator of ``crawl`` is refused; empty when it is not."""
    if hello.crawl != crawl:
        return f"this is the coordinator of the crawl {crawl!r}, not {hello.crawl!r}"
    if hello.role not in ("node", "caller"):
        return f"there is no role {hello.role!r}"
    if hello.role == "caller" and not work_together(hello.protocol, PROTOCOL):
        return (
            f"this coordinator uses protocol {PROTOCOL}, not {hello.protocol}: install the same"
            " version of lycosa on all machines"
        )
    return ""


class CallerSocket:
    """A Unix socket at which callers of the same user reach the coordinator of one machine.

    The socket is in a folder that is private to the user: a process that can open it may steer the
    crawl.
    """

    def __init__(self, crawl: str, caller_handler: CallerHandler) -> None:
        self._crawl, self._caller_handler = crawl, caller_handler
        self._server = FrameServer(Credentials(), self._serve, MAX_CALLER_BYTES)

    async def open(self, address: str) -> None:
        """Listen at ``unix:PATH``. Raises ``OSError``."""
        await self._server.open(address)

    async def close(self) -> None:
        await self._caller_handler.close()
        await self._server.close()

    async def _serve(self, stream: FrameStream, hello: bytes, peer: str) -> None:
        try:
            greeting = messages.decode_hello(hello)
            reason = caller_refusal(greeting, self._crawl)
        except UNREADABLE:
            reason = "the first message is not of a form that this program reads"
        if not reason and greeting.role != "caller":
            reason = "this crawl runs on one machine and has no other nodes"
        if reason:
            await stream.send(messages.encode_node_message(messages.Refused(reason)))
            return
        link = PeerLink(stream, greeting.name, peer)
        sending = asyncio.create_task(link.run())
        try:
            await self._caller_handler.serve_caller(link)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
