"""The exchange within one process, and the table of receivers that every exchange needs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from lycosa.base.model.parcel_items import PartitionKey
from lycosa.state.exchange.exchange_errors import (
    CallRefused,
    ExchangeError,
    NoAnswer,
    ParcelRefused,
)
from lycosa.state.exchange.exchange_port import Answering, Handover, LookUp, Parcel, Receiver

_T = TypeVar("_T")


class Receivers:
    """The receivers of the partitions in this process.

    Each parcel and each call runs in a separate task, which only ``close`` cancels.
    """

    def __init__(self) -> None:
        self._receivers: dict[int, Receiver] = {}
        self._look_ups: dict[int, LookUp] = {}
        self._answering: dict[int, Answering] = {}
        self._running: set[asyncio.Task[Any]] = set()

    def register_partition(
        self,
        partition: int,
        receiver: Receiver,
        look_up: LookUp | None = None,
        answering: Answering | None = None,
    ) -> None:
        """Register the callbacks of a partition.

        ``receiver`` gets its parcels, ``look_up`` questions about its keys, ``answering`` calls.
        """
        self._receivers[partition] = receiver
        self._look_ups.pop(partition, None)
        self._answering.pop(partition, None)
        if look_up is not None:
            self._look_ups[partition] = look_up
        if answering is not None:
            self._answering[partition] = answering

    def answer_keys(self, keys: Sequence[PartitionKey]) -> dict[bytes, bytes | None]:
        """The values of those keys whose partition answers here."""
        return {
            key: look_up(key)
            for partition, key in keys
            if (look_up := self._look_ups.get(partition)) is not None
        }

    def __contains__(self, partition: int) -> bool:
        return partition in self._receivers

    def start_delivery(self, parcel: Parcel) -> asyncio.Task[None]:
        """Deliver a parcel.

        The task ends when the parcel is committed, or with ``ExchangeError``. Tasks begin in the
        order of these calls.
        """
        return self._begin(self._take(parcel))

    def call_owner(self, partition: int, body: bytes) -> asyncio.Task[bytes]:
        """Call the owner. The task ends with its reply, or with ``CallRefused``."""
        return self._begin(self._reply(partition, body))

    def close(self) -> None:
        """Cancel all deliveries and calls in progress."""
        for task in self._running:
            task.cancel()

    async def _take(self, parcel: Parcel) -> None:
        receiver = self._receivers.get(parcel.destination)
        if receiver is None:
            raise ParcelRefused(f"partition {parcel.destination} has no owner here")
        try:
            await receiver(parcel)
        except ExchangeError:
            raise
        except Exception as error:
            # A fault of the receiver is its answer to this parcel; the connection and other parcels
            # continue.
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
            # As for a parcel: the caller learns of the fault, and other calls continue.
            raise CallRefused(f"partition {partition} refused a call: {error!r}") from error

    def _begin(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not warn when no caller waits


class InProcessExchange:
    """``Post`` and ``Inquiry`` between partitions of one process, also in virtual time.

    ``deadline_s`` limits each delivery, ``call_s`` each call; ``None`` waits without a limit.
    """

    def __init__(self, deadline_s: float | None = None, call_s: float | None = 30.0) -> None:
        self.receivers = Receivers()
        self._deadline_s, self._call_s = deadline_s, call_s

    async def post_parcels(self, parcels: Sequence[Parcel]) -> Handover:
        return handover(
            await asyncio.gather(*map(self.deliver_parcel, parcels), return_exceptions=True)
        )

    async def deliver_parcel(self, parcel: Parcel) -> None:
        """Deliver a parcel; returns once it is committed. Raises ``ExchangeError``."""
        await awaited(self.receivers.start_delivery(parcel), self._deadline_s)

    async def look_up_keys(self, keys: Sequence[PartitionKey]) -> dict[bytes, bytes | None]:
        return self.receivers.answer_keys(keys)

    async def call_owner(self, destination: int, body: bytes) -> bytes:
        return await replied(self.receivers.call_owner(destination, body), self._call_s)

    async def close(self) -> None:
        self.receivers.close()


def handover(results: Sequence[BaseException | None]) -> Handover:
    """The result of deliveries that were begun in order.

    An error that is not of the exchange is raised.
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


async def awaited(task: asyncio.Future[_T], deadline_s: float | None) -> _T:
    """The task's result. The task continues after a timeout or when the caller is cancelled.

    Raises ``ExchangeError``.
    """
    # ``wait`` does not cancel the task, as ``wait_for`` would: the parcel may be in a commit
    # already.
    done, _ = await asyncio.wait({task}, timeout=deadline_s)
    if not done:
        raise ExchangeError(f"no acknowledgement within {deadline_s} s")
    if task.cancelled():
        raise ExchangeError("the exchange was closed")
    return task.result()


async def replied(task: asyncio.Task[bytes], deadline_s: float | None) -> bytes:
    """The reply to a call.

    Raises ``CallRefused``, or ``NoAnswer`` for every other failure.
    """
    try:
        return await awaited(task, deadline_s)
    except (CallRefused, NoAnswer):
        raise
    except ExchangeError as error:
        raise NoAnswer(f"the call was not answered: {error}") from error
