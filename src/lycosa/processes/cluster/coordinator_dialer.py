"""A node's connection to one address at which a coordinator may listen.

It is made again whenever it is lost, at growing intervals, for as long as the node runs. Messages
may be lost (``messages.coordinator_messages``), so what cannot be sent now is dropped: the next
report contains it. A coordinator answers every report, so silence means that the connection is
dead, also when no error says so.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable

import msgspec

from lycosa.base.messages.coordinator_messages import (
    CoordinatorHello,
    Refused,
    ToNode,
    decode_to_node,
)
from lycosa.base.system.frame_stream import FrameStream
from lycosa.base.system.frames import FrameError
from lycosa.cluster.network.connecting import connect
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.network.endpoints import RefusedConnection

_SILENT_S = 10.0  # a node reports every second, and each report is answered
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 5.0
_MAX_UNSENT = 1000
_encode_hello = msgspec.msgpack.Encoder().encode


class CoordinatorDialer:
    """Keeps the connection while ``run`` runs.

    ``on_message`` gets the messages of the coordinator, ``show_note`` lines for the operator: when
    a connection is made, and once when it is lost or cannot be made.
    """

    def __init__(
        self,
        address: str,
        credentials: Credentials,
        hello: CoordinatorHello,
        on_message: Callable[[CoordinatorDialer, ToNode], None],
        show_note: Callable[[str], None],
    ) -> None:
        self.address = address
        self.is_connected = False
        self._credentials = credentials
        self._hello = _encode_hello(hello)
        self._on_message = on_message
        self._show_note = show_note
        self._unsent: deque[bytes] = deque(maxlen=_MAX_UNSENT)
        self._has_unsent = asyncio.Event()
        # The last reason shown; empty while there is a connection that was shown.
        self._told: str | None = None
        self._refusal = ""
        self._heard = 0.0

    def __repr__(self) -> str:
        return (
            f"<CoordinatorDialer {self.address} connected={self.is_connected}"
            f" unsent={len(self._unsent)}>"
        )

    def send(self, frame: bytes) -> None:
        """Send a message, or drop it when there is no connection.

        Of messages that a slow coordinator has not read, the oldest are dropped.
        """
        if self.is_connected:
            self._unsent.append(frame)
            self._has_unsent.set()

    async def run(self) -> None:
        """Connect, exchange messages, and connect again, until it is cancelled."""
        failures = 0
        while True:
            began = time.monotonic()
            self._note(*await self._connect_once())
            is_useful = time.monotonic() - began > _LONGEST_PAUSE_S
            failures = 0 if is_useful else failures + 1
            pause = min(_FIRST_PAUSE_S * 2.0 ** min(failures, 10), _LONGEST_PAUSE_S)
            # Not all nodes at once: they lose a coordinator in the same instant.
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))

    def _note(self, why: str, is_refusal: bool) -> None:
        """Show why there is no connection: once, and again when the coordinator refuses it."""
        if not self._told or (is_refusal and why != self._told):
            self._told = why
            self._show_note(f"no connection to a coordinator at {why}; trying again until there is")

    async def _connect_once(self) -> tuple[str, bool]:
        """One connection from beginning to end.

        Returns why it ended, with the address, and whether one side refused the other.
        """
        try:
            stream = await connect(self.address, self._credentials, self._hello)
        except OSError as error:
            # no coordinator listens there now, or one that is not ours; it is tried again
            return str(error), isinstance(error, RefusedConnection)
        self.is_connected, self._heard = True, time.monotonic()
        tasks = [
            asyncio.create_task(work)
            for work in (self._receive(stream), self._send(stream), self._watch())
        ]
        try:
            # each of the three ends only when the connection is of no more use
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            why = next(iter(done)).result()
            return f"{self.address}: {why}", self._refusal == why
        finally:
            self.is_connected = False
            self._unsent.clear()
            for task in tasks:
                task.cancel()
            stream.close()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _receive(self, stream: FrameStream) -> str:
        try:
            while (frame := await stream.receive()) is not None:
                message = decode_to_node(frame)
                if isinstance(message, Refused):
                    self._refusal = f"it refuses this node: {message.reason}"
                    return self._refusal
                self._heard = time.monotonic()
                if self._told != "":
                    self._told = ""
                    self._show_note(
                        f"connected to coordinator {message.coordinator} at {self.address}"
                    )
                self._on_message(self, message)
        except msgspec.DecodeError as error:
            return f"it sent a message that is not understood ({error}); is its version another?"
        except (OSError, FrameError) as error:
            return f"the connection was lost ({error})"
        return "it closed the connection"

    async def _send(self, stream: FrameStream) -> str:
        try:
            while True:
                await self._has_unsent.wait()
                self._has_unsent.clear()
                while self._unsent:
                    await stream.send(self._unsent.popleft())
        except OSError as error:
            return f"the connection was lost ({error})"

    async def _watch(self) -> str:
        """End when the coordinator has been silent for too long."""
        # Counted in looks, so that the time in which this node itself was stopped does not count.
        silent, heard = 0, self._heard
        while silent < _SILENT_S:
            await asyncio.sleep(1.0)
            silent = silent + 1 if heard == self._heard else 0
            heard = self._heard
        return f"it has sent nothing for {_SILENT_S:.0f} s"
