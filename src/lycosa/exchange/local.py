"""The exchange inside one process, and the table of receivers that every exchange of a process
needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from lycosa.exchange.errors import CallRefused, ExchangeError, NoAnswer, ParcelRefused
from lycosa.exchange.port import Answering, Handover, Key, LookUp, Parcel, Receiver

T = TypeVar("T")


class Receivers:
    """Who takes the parcels of which partition, and answers for it. Each parcel and each call has a
    task of its own, which nobody cancels but ``close``.
    """

    def __init__(self) -> None:
        self._receivers: dict[int, Receiver] = {}
        self._look_ups: dict[int, LookUp] = {}
        self._answering: dict[int, Answering] = {}
        self._running: set[asyncio.Task[Any]] = set()

    def register(
        self,
        partition: int,
        receiver: Receiver,
        look_up: LookUp | None = None,
        answering: Answering | None = None,
    ) -> None:
        """Parcels for this partition go to ``receiver`` from now on, questions about its keys to
        ``look_up``, calls to ``answering``.
        """
        self.unregister(partition)
        self._receivers[partition] = receiver
        if look_up is not None:
            self._look_ups[partition] = look_up
        if answering is not None:
            self._answering[partition] = answering

    def unregister(self, partition: int) -> None:
        """The partition is not owned here any more."""
        self._receivers.pop(partition, None)
        self._look_ups.pop(partition, None)
        self._answering.pop(partition, None)

    def answer(self, keys: Sequence[Key]) -> dict[bytes, bytes | None]:
        """The values of those keys whose partition answers here."""
        return {
            key: look_up(key)
            for partition, key in keys
            if (look_up := self._look_ups.get(partition)) is not None
        }

    def __contains__(self, partition: int) -> bool:
        return partition in self._receivers

    def start(self, parcel: Parcel) -> asyncio.Task[None]:
        """Hands a parcel over. The task ends when it is committed, or with ``ExchangeError``.
        Tasks begin in the order of these calls.
        """
        return self._begin(self._take(parcel))

    def call(self, partition: int, body: bytes) -> asyncio.Task[bytes]:
        """Calls the owner. The task ends with its reply, or with ``CallRefused``."""
        return self._begin(self._reply(partition, body))

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
            raise ParcelRefused(
                f"partition {parcel.destination} refused parcel {parcel.sequence}: {error!r}"
            ) from error

    async def _reply(self, partition: int, body: bytes) -> bytes:
        if partition not in self._receivers:
            raise NoAnswer(f"partition {partition} has no owner here")
        answering = self._answering.get(partition)
        if answering is None:
            raise CallRefused(f"partition {partition} answers no calls")
        try:
            return await answering(body)
        except ExchangeError:
            raise
        except Exception as error:
            raise CallRefused(f"partition {partition} refused a call: {error!r}") from error

    def _begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # seen, even if the sender stopped waiting for it


class InProcessExchange:
    """``Post`` and ``Inquiry`` between partitions of one process, and of a crawl in virtual time.
    ``deadline_s`` bounds each delivery, ``call_s`` each call; ``None`` waits for ever.
    """

    def __init__(self, deadline_s: float | None = None, call_s: float | None = 30.0) -> None:
        self.receivers = Receivers()
        self._deadline_s, self._call_s = deadline_s, call_s

    def register(
        self,
        partition: int,
        receiver: Receiver,
        look_up: LookUp | None = None,
        answering: Answering | None = None,
    ) -> None:
        """See ``Receivers``."""
        self.receivers.register(partition, receiver, look_up, answering)

    async def post(self, parcels: Sequence[Parcel]) -> Handover:
        """See ``Post``."""
        return handover(await asyncio.gather(*map(self.deliver, parcels), return_exceptions=True))

    async def deliver(self, parcel: Parcel) -> None:
        """Returns once the receiver has committed the parcel. Raises ``ExchangeError``."""
        await awaited(self.receivers.start(parcel), self._deadline_s)

    async def ask(self, keys: Sequence[Key]) -> dict[bytes, bytes | None]:
        """See ``Inquiry``."""
        return self.receivers.answer(keys)

    async def call(self, destination: int, body: bytes) -> bytes:
        """See ``Inquiry``."""
        return await replied(self.receivers.call(destination, body), self._call_s)

    async def close(self) -> None:
        """See ``Post`` and ``Inquiry``."""
        self.receivers.close()

    def __repr__(self) -> str:
        return f"InProcessExchange({self.receivers!r})"


def handover(results: Sequence[BaseException | None]) -> Handover:
    """What deliveries that were begun in order came to. An error that is not of the exchange is
    raised.
    """
    failure: ExchangeError | None = None
    count = 0
    for result in results:
        if isinstance(result, ExchangeError):
            failure = failure or result
        elif result is not None:
            raise result
        elif failure is None:
            count += 1
    return Handover(count, failure)


async def awaited(task: asyncio.Future[T], deadline_s: float | None) -> T:
    """The task's result; when time is over, or the caller is cancelled, the task goes on. Raises
    ``ExchangeError``.
    """
    done, _ = await asyncio.wait({task}, timeout=deadline_s)
    if not done:
        raise ExchangeError(f"no acknowledgement within {deadline_s} s")
    if task.cancelled():
        raise ExchangeError("the exchange was closed")
    return task.result()


async def replied(task: asyncio.Task[bytes], deadline_s: float | None) -> bytes:
    """The reply to a call; raises ``CallRefused``, or ``NoAnswer`` for everything else that
    happens to it.
    """
    try:
        return await awaited(task, deadline_s)
    except (CallRefused, NoAnswer):
        raise
    except ExchangeError as error:
        raise NoAnswer(f"the call was not answered: {error}") from error
