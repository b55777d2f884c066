"""The connections to other workers, opened when they are needed and again when they were lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from lycosa.base.model.parcel_items import PartitionKey
from lycosa.cluster.network.connection import Connection
from lycosa.state.exchange.exchange_errors import ExchangeError
from lycosa.state.exchange.exchange_port import Parcel
from lycosa.state.exchange.local import Receivers

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.02, 2.0
_Address = TypeVar("_Address", str, Path)


async def ask_owners(
    receivers: Receivers,
    keys: Sequence[PartitionKey],
    route: Callable[[int], _Address | None],
    ask: Callable[[_Address, list[PartitionKey]], Awaitable[dict[bytes, bytes | None]]],
) -> dict[bytes, bytes | None]:
    """Ask each worker that owns some of the keys once, all at the same time.

    Partitions of this worker answer at once. ``route`` gives the address of a partition's owner;
    without one it is not asked.
    """
    by_address: dict[_Address, list[PartitionKey]] = {}
    for key in keys:
        if key[0] not in receivers and (address := route(key[0])) is not None:
            by_address.setdefault(address, []).append(key)
    found = receivers.answer_keys(keys)
    if len(by_address) == 1:  # the usual case: no task is needed
        return found | await ask(*by_address.popitem())
    for answered in await asyncio.gather(*(ask(*each) for each in by_address.items())):
        found |= answered
    return found


class WorkerLink:
    """The connection to another worker.

    ``connect`` makes it, and raises ``OSError`` when it cannot. After each failure the link waits
    longer before it connects again.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]], window: int) -> None:
        self._connect = connect
        self._slots = asyncio.Semaphore(window)
        self._opening = asyncio.Lock()
        self._failures = 0
        self._connection: Connection | None = None
        self._is_closed = False
        self._problem = ""

    @property
    def unanswered(self) -> int:
        """The number of parcels that were sent or wait to be sent."""
        return self._connection.unanswered if self._connection else 0

    async def deliver_parcel(self, parcel: Parcel) -> None:
        async with self._slots:
            connection = await self.open()
            await connection.deliver_parcel(parcel)
            self.note_answer()

    async def look_up_keys(self, keys: list[PartitionKey]) -> dict[bytes, bytes | None]:
        connection = self.connection or await self.open()
        found = await connection.look_up_keys(keys)
        self.note_answer()
        return found

    async def call_owner(self, destination: int, body: bytes) -> bytes:
        connection = self.connection or await self.open()
        reply = await connection.call_owner(destination, body)
        self.note_answer()
        return reply

    @property
    def connection(self) -> Connection | None:
        """The connection, ``None`` while there is none."""
        connection = self._connection
        return None if connection is None or connection.is_over else connection

    @property
    def problem(self) -> str:
        """Why there is no connection; empty when no try has failed."""
        return self._problem or (self._connection.why_over if self._connection else "")

    @property
    def is_failing(self) -> bool:
        """Whether no message was answered since the last try to connect."""
        return self._failures > 0

    def note_answer(self) -> None:
        """The other worker answered: the next connection is made without a wait."""
        self._failures, self._problem = 0, ""

    async def open(self) -> Connection:
        """The connection, opened again when it is broken; tries until the caller's time limit.

        Raises ``ExchangeError`` when the link is closed.
        """
        # One opening for all that wait; the others find its connection.
        async with self._opening:
            while (connection := self.connection) is None:
                # Before the try and not after it, so that the last error is reported without the
                # pause.
                if self._failures:
                    await asyncio.sleep(
                        min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** min(self._failures, 10))
                    )
                if self._is_closed:
                    raise ExchangeError("the exchange was closed, or the worker has moved")
                self._failures += 1  # until a message is answered
                try:
                    self._connection = await self._connect()
                except OSError as error:  # it does not listen yet: the loop waits longer
                    self._problem = str(error) or repr(error)
                if self._is_closed:
                    await self.close()  # meanwhile
            return connection

    async def close(self) -> None:
        self._is_closed = True
        if self._connection is not None:
            await self._connection.close()
