"""The exchange inside one process, and the table of receivers that every exchange of a process needs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from lycosa.exchange.port import ExchangeError, Key, LookUp, Parcel, ParcelRefused, Receiver


class Receivers:
    """Who takes the parcels of which partition. Each parcel is taken by a task of its own, which nobody cancels but ``close``."""

    def __init__(self) -> None:
        self._receivers: dict[int, Receiver] = {}
        self._look_ups: dict[int, LookUp] = {}
        self._running: set[asyncio.Task[None]] = set()

    def register(self, partition: int, receiver: Receiver, look_up: LookUp | None = None) -> None:
        """Parcels for this partition go to ``receiver`` from now on, questions about its keys to ``look_up``."""
        self._receivers[partition] = receiver
        if look_up is not None:
            self._look_ups[partition] = look_up

    def unregister(self, partition: int) -> None:
        """The partition is not owned here any more."""
        self._receivers.pop(partition, None)
        self._look_ups.pop(partition, None)

    def answer(self, keys: Sequence[Key]) -> dict[bytes, bytes | None]:
        """The values of those keys whose partition answers here."""
        return {key: look_up(key) for partition, key in keys if (look_up := self._look_ups.get(partition)) is not None}

    def __contains__(self, partition: int) -> bool:
        return partition in self._receivers

    def start(self, parcel: Parcel) -> asyncio.Task[None]:
        """Hands a parcel over. The task ends when it is committed, or with ``ExchangeError``. Tasks begin in the order of these calls."""
        task = asyncio.get_running_loop().create_task(self._take(parcel))
        self._running.add(task)
        task.add_done_callback(self._forget)
        return task

    def close(self) -> None:
        """Cancels what is under way."""
        for task in self._running:
            task.cancel()

    def __repr__(self) -> str:
        return f"Receivers(partitions={sorted(self._receivers)}, running={len(self._running)})"

    async def _take(self, parcel: Parcel) -> None:
        receiver = self._receivers.get(parcel.destination)
        if receiver is None:
            raise ParcelRefused(f"partition {parcel.destination} has no owner here")
        try:
            await receiver(parcel)
        except ExchangeError:
            raise
        except Exception as error:
            raise ParcelRefused(f"partition {parcel.destination} refused parcel {parcel.sequence}: {error!r}") from error

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # seen, even if the sender stopped waiting for it


class InProcessExchange:
    """Partitions of one process, and of a crawl in virtual time. ``deadline_s`` bounds each delivery; ``None`` waits for ever."""

    def __init__(self, deadline_s: float | None = None) -> None:
        self.receivers = Receivers()
        self._deadline_s = deadline_s

    def register(self, partition: int, receiver: Receiver, look_up: LookUp | None = None) -> None:
        """Parcels for this partition go to ``receiver`` from now on, questions about its keys to ``look_up``."""
        self.receivers.register(partition, receiver, look_up)

    async def deliver(self, parcel: Parcel) -> None:
        """See ``Exchange``."""
        await awaited(self.receivers.start(parcel), self._deadline_s)

    async def ask(self, keys: Sequence[Key]) -> dict[bytes, bytes | None]:
        """See ``Exchange``."""
        return self.receivers.answer(keys)

    async def close(self) -> None:
        """See ``Exchange``."""
        self.receivers.close()

    def __repr__(self) -> str:
        return f"InProcessExchange({self.receivers!r})"


async def awaited(task: asyncio.Task[None], deadline_s: float | None) -> None:
    """The task's result; when time is over, or the caller is cancelled, the task goes on. Raises ``ExchangeError``."""
    done, _ = await asyncio.wait({task}, timeout=deadline_s)
    if not done:
        raise ExchangeError(f"no acknowledgement within {deadline_s} s")
    if task.cancelled():
        raise ExchangeError("the exchange was closed")
    task.result()
