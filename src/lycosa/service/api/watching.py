"""The coordinator as this process calls it: one connection, its last state, and the rates.

The state is asked for once a second, whatever clients do, so that many clients cost the coordinator
no more than one.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from lycosa.base.messages.coordinator_messages import (
    Ask,
    CallerMessage,
    ClusterStatus,
    MoreAsks,
    NoMoreAsks,
)
from lycosa.base.messages.worker_messages import Seeds
from lycosa.cluster.network.endpoints import RefusedConnection
from lycosa.cluster.serve.caller import (
    CoordinatorConnection,
    CoordinatorFinder,
    LostCoordinator,
    NoCoordinator,
    RequestRefused,
)
from lycosa.service.api.answers import CoordinatorSilent, Rates, ServiceRefusal
from lycosa.service.api.places import CoordinatedCrawl

_EVERY_S = 1.0
_OLD_S = 10.0  # a state that is older is no answer
_REQUEST_S = 15.0
_NODE_ERRORS = (LostCoordinator, NoCoordinator, RefusedConnection, OSError)


class CoordinatorCaller:
    """Asks for the state and makes requests. ``heard`` is called with each state.

    ``note_wait`` is called once with the reason when there is no state for ten seconds, and with an
    empty text when there is one again.
    """

    def __init__(
        self,
        place: CoordinatedCrawl,
        heard: Callable[[ClusterStatus], None],
        note_wait: Callable[[str], None],
    ) -> None:
        self._place, self._heard, self._note_wait = place, heard, note_wait
        self._status: ClusterStatus | None = None
        self._at = time.monotonic()
        self._is_waiting = False
        self._why = "this interface has just started"
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Follow the coordinator until this is cancelled."""
        finder = self._finder()
        while True:
            try:
                async with asyncio.timeout(_REQUEST_S):
                    connection = await finder.connect(_REQUEST_S)
                async with connection:
                    while True:
                        await self._look(connection)
                        await asyncio.sleep(_EVERY_S)
            except (RequestRefused, *_NODE_ERRORS) as error:
                # Tried again for as long as this process runs: a coordinator that restarts is away
                # for seconds.
                self._why = str(error) or repr(error)
            if not self._is_waiting and time.monotonic() - self._at > _OLD_S:
                self._is_waiting = True
                self._note_wait(self._why)
            await asyncio.sleep(_EVERY_S)

    def status(self) -> ClusterStatus:
        """The last state. Raises ``CoordinatorSilent`` when it is old."""
        if self._status is None or time.monotonic() - self._at > _OLD_S:
            raise CoordinatorSilent(self._why)
        return self._status

    async def next_status(self) -> ClusterStatus:
        """The next state, for programs that follow the crawl."""
        # This event is for the next state; ``_look`` puts a new one in its place when it comes.
        changed = self._changed
        await changed.wait()
        return self.status()

    def rates(self) -> Rates:
        """Captures a second, as the coordinator measures them."""
        if self._status is None:
            return Rates()
        meter = self._status.progress.meter
        name = "lycosa_captures_per_second"
        return Rates(*(round(meter.number(name, span), 3) for span in ("minute", "run", "peak")))

    async def request(self, *messages: CallerMessage) -> None:
        """Make requests in this order; ``status`` is then one that has them.

        Raises ``ServiceRefusal`` and ``CoordinatorSilent``.
        """
        async with self._connected(_REQUEST_S) as connection:
            for message in messages:
                await connection.request(message)
            await self._look(connection)

    async def look(self) -> None:
        """Get the state now. Raises as ``request`` does."""
        await self.request()

    async def seed(
        self, raw: list[str], importance: float, by: str, wait_s: float
    ) -> list[tuple[str, str]]:
        """Give seeds; returns those that were refused, with reasons, after the owners' commits.

        Raises as ``request`` does.
        """
        seeds = Seeds(f"api {uuid.uuid4().hex}", raw, importance, by)
        async with self._connected(wait_s) as connection:
            await connection.request(MoreAsks())
            refused = await _answered(connection, Ask(seeds))
            await connection.request(NoMoreAsks())
            return refused

    @asynccontextmanager
    async def _connected(self, wait_s: float) -> AsyncIterator[CoordinatorConnection]:
        """A connection for at most ``wait_s`` seconds, with the service's errors for its own."""
        try:
            async with asyncio.timeout(wait_s):
                async with await self._finder().connect(wait_s) as connection:
                    yield connection
        except RequestRefused as error:
            raise ServiceRefusal(str(error)) from error
        except (TimeoutError, *_NODE_ERRORS) as error:
            raise CoordinatorSilent(str(error) or "no answer in time") from error

    def _finder(self) -> CoordinatorFinder:
        return CoordinatorFinder(self._place.coordinator, self._place.credentials, lambda _: None)

    async def _look(self, connection: CoordinatorConnection) -> None:
        """Ask for the state. An answer to an earlier question does not replace a later state."""
        asked_at = time.monotonic()
        status = await connection.status()
        if asked_at < self._at:
            return
        self._status, self._at, self._why = status, asked_at, ""
        self._heard(status)
        if self._is_waiting:
            self._is_waiting = False
            self._note_wait("")
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


async def _answered(connection: CoordinatorConnection, ask: Ask) -> list[tuple[str, str]]:
    await connection.send(ask)
    while True:
        await connection.await_answer(_REQUEST_S)
        for answered in connection.answered:
            if answered.call == ask.request.call:
                return answered.refused
        await connection.status()  # raises when the request was refused or the connection is lost
