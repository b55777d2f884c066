"""The exchange between the workers of one machine.

Each worker has a Unix socket and one connection to each other worker. Messages are MessagePack in
frames. The side that connects first states its crawl and then sends parcels, in each frame as many
as gathered while the previous one was written. Answers come back in the same way, in any order.
Questions about keys overtake parcels, which wait for a commit; their time limit is short, because a
page waits for the answer. Calls to the owner of a partition use the same connections.

Three limits bound the data in flight: a window of unanswered parcels per connection, the same
window on the receiving side, which stops reading beyond it, and a time limit for each delivery.
When a connection breaks, its deliveries fail, because it is unknown whether they arrived. The next
delivery connects again, waiting longer after each failure.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lycosa.exchange.connection import (
    DECODER,
    ENCODER,
    MAX_MESSAGE_BYTES,
    Acknowledgements,
    BatchingSender,
    CallReplies,
    Calls,
    Connection,
    Hello,
    Parcels,
    Questions,
    Replies,
    open_connection,
)
from lycosa.exchange.errors import CallRefused, ExchangeError, NoAnswer
from lycosa.exchange.local import Receivers, awaited, handover, replied
from lycosa.exchange.port import Answering, Handover, LookUp, Parcel, Receiver
from lycosa.model.partition_key import PartitionKey
from lycosa.system.frame_stream import FrameStream
from lycosa.system.wire import UNREADABLE, FrameError

_MAX_ADDRESS_BYTES = 100  # sun_path holds 104 on macOS, 108 on Linux
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.02, 2.0


class SocketExchange:
    """``Post`` and ``Inquiry`` of one worker.

    ``address`` is its socket, and ``route`` gives the socket of the worker that owns a partition.
    ``crawl`` must be equal on both sides. It contains the crawl's id and the number of the run, so
    that a process left over from another run is rejected. All sockets must be in folders private to
    the user and have short paths: an address has at most 100 bytes. ``answer_s`` limits a question,
    ``call_s`` a call.
    """

    def __init__(
        self,
        address: Path,
        route: Callable[[int], Path],
        crawl: str,
        deadline_s: float = 30.0,
        window: int = 64,
        answer_s: float = 0.5,
        call_s: float = 30.0,
    ) -> None:
        if len(bytes(address)) > _MAX_ADDRESS_BYTES:
            raise ValueError(
                f"{address} is longer than the {_MAX_ADDRESS_BYTES} bytes of a socket's address"
            )
        self.receivers = Receivers()
        self._address, self._route, self._crawl = address, route, crawl
        self._deadline_s, self._window, self._answer_s, self._call_s = (
            deadline_s,
            window,
            answer_s,
            call_s,
        )
        self._links: dict[Path, _Link] = {}
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def register_partition(
        self,
        partition: int,
        receiver: Receiver,
        look_up: LookUp | None = None,
        answering: Answering | None = None,
    ) -> None:
        """Register the callbacks of a partition, as in ``Receivers``."""
        self.receivers.register_partition(partition, receiver, look_up, answering)

    async def open(self) -> None:
        """Listen for connections. Raises ``OSError``."""
        # left by a killed process; the lock of the crawl guarantees that no process uses it
        self._address.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self._address))
        listener.listen(128)
        listener.setblocking(False)
        self._listener = listener
        self._spawn(self._accept(listener))

    async def post_parcels(self, parcels: Sequence[Parcel]) -> Handover:
        return handover(
            await asyncio.gather(*map(self.deliver_parcel, parcels), return_exceptions=True)
        )

    async def deliver_parcel(self, parcel: Parcel) -> None:
        """Deliver a parcel; returns once its receiver has committed it. Raises ``ExchangeError``.

        A partition of this worker is reached without a socket.
        """
        if parcel.destination in self.receivers:
            await awaited(self.receivers.start_delivery(parcel), self._deadline_s)
            return
        path = self._route(parcel.destination)
        try:
            async with asyncio.timeout(self._deadline_s):
                await self._link(path).deliver_parcel(parcel)
        except TimeoutError:
            raise ExchangeError(
                f"no acknowledgement from {path.name} within {self._deadline_s} s"
            ) from None

    async def look_up_keys(self, keys: Sequence[PartitionKey]) -> dict[bytes, bytes | None]:
        """Ask each worker that owns some of the keys once, all at the same time."""
        by_path: dict[Path, list[PartitionKey]] = {}
        for key in keys:
            if key[0] not in self.receivers:
                by_path.setdefault(self._route(key[0]), []).append(key)
        found = self.receivers.answer_keys(keys)
        if len(by_path) == 1:  # the usual case with two workers: no task is needed
            path, wanted = by_path.popitem()
            return found | await self._ask(path, wanted)
        for answered in await asyncio.gather(
            *(self._ask(path, wanted) for path, wanted in by_path.items())
        ):
            found |= answered
        return found

    async def _ask(self, path: Path, keys: list[PartitionKey]) -> dict[bytes, bytes | None]:
        try:
            async with asyncio.timeout(self._answer_s):
                return await self._link(path).look_up_keys(keys)
        except (TimeoutError, ExchangeError, ConnectionError):
            return {}

    async def call_owner(self, destination: int, body: bytes) -> bytes:
        if destination in self.receivers:
            return await replied(self.receivers.call_owner(destination, body), self._call_s)
        path = self._route(destination)
        try:
            async with asyncio.timeout(self._call_s):
                return await self._link(path).call_owner(destination, body)
        except (CallRefused, NoAnswer):
            raise
        except (TimeoutError, ExchangeError, OSError) as error:
            why = str(error) or f"no answer within {self._call_s} s"
            raise NoAnswer(
                f"the call to partition {destination} was not answered by {path.name}: {why}"
            ) from error

    def _link(self, path: Path) -> _Link:
        link = self._links.get(path)
        if link is None:
            link = self._links[path] = _Link(path, self._crawl, self._window)
        return link

    async def close(self) -> None:
        self.receivers.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(
            *(link.close() for link in self._links.values()), *self._tasks, return_exceptions=True
        )
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            self._address.unlink(missing_ok=True)

    def snapshot(self) -> dict[str, int]:
        """Unanswered parcels by the name of the destination's socket."""
        return {path.name: link.unanswered for path, link in self._links.items()}

    def __repr__(self) -> str:
        return (
            f"SocketExchange({self._address.name}, unanswered={self.snapshot()},"
            f" {self.receivers!r})"
        )

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            sock, _ = await loop.sock_accept(listener)
            self._spawn(
                _Visitor(
                    FrameStream(sock, MAX_MESSAGE_BYTES), self.receivers, self._crawl, self._window
                ).serve()
            )

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Visitor:
    """A connection that another worker opened to this one."""

    def __init__(self, stream: FrameStream, receivers: Receivers, crawl: str, window: int) -> None:
        self._stream, self._receivers, self._crawl = stream, receivers, crawl
        self._slots = asyncio.Semaphore(window)
        self._answers: list[tuple[int, str]] = []
        self._replies: list[tuple[int, dict[bytes, bytes | None]]] = []
        self._call_replies: list[tuple[int, bytes | None, str, bool]] = []
        self._outgoing = BatchingSender(stream, self._message)

    async def serve(self) -> None:
        """Serve until the other side closes, or sends bytes that are not a message."""
        sending = asyncio.get_running_loop().create_task(self._outgoing.run())
        try:
            # the other side is gone or faulty; it treats its deliveries as failed
            with suppress(OSError, FrameError, *UNREADABLE):
                await self._read()
        finally:
            self._stream.close()  # before anything that suspends: this may be a second cancellation
            sending.cancel()
            # collects the error of a lost connection, which reading has seen too
            await asyncio.gather(sending, return_exceptions=True)

    async def _read(self) -> None:
        hello = await self._stream.receive()
        if hello is None:
            return
        greeting = DECODER.decode(hello)
        if not isinstance(greeting, Hello) or greeting.crawl != self._crawl:
            await self._stream.send(
                ENCODER.encode(
                    Acknowledgements([(0, f"this worker belongs to crawl and run {self._crawl}")])
                )
            )
            return
        while (payload := await self._stream.receive()) is not None:
            message = DECODER.decode(payload)
            # Questions are answered at once from committed data. Parcels and calls wait for a
            # commit, so each runs as a task and is answered when that ends.
            if isinstance(message, Questions):
                self._replies += [
                    (call, self._receivers.answer_keys(keys)) for call, keys in message.calls
                ]
                self._outgoing.wake()
            elif isinstance(message, Calls):
                for call, destination, body in message.calls:
                    task = self._receivers.call_owner(destination, body)
                    task.add_done_callback(lambda task, call=call: self._replied(call, task))  # type: ignore[misc]  # mypy does not infer lambdas with defaults
            elif isinstance(message, Parcels):
                for call, parcel in message.calls:
                    await self._slots.acquire()
                    self._receivers.start_delivery(parcel).add_done_callback(
                        lambda task, call=call: self._done(call, task)  # type: ignore[misc]
                    )

    def _done(self, call: int, task: asyncio.Task[None]) -> None:
        self._slots.release()
        if not task.cancelled():
            error = task.exception()
            self._answers.append((call, "" if error is None else str(error) or repr(error)))
            self._outgoing.wake()

    def _replied(self, call: int, task: asyncio.Task[bytes]) -> None:
        if not task.cancelled():
            error = task.exception()
            reply, why = (task.result(), "") if error is None else (None, str(error) or repr(error))
            self._call_replies.append((call, reply, why, isinstance(error, CallRefused)))
            self._outgoing.wake()

    def _message(self) -> bytes | None:
        if self._replies:
            replies, self._replies = self._replies, []
            return ENCODER.encode(Replies(replies))
        if self._call_replies:
            call_replies, self._call_replies = self._call_replies, []
            return ENCODER.encode(CallReplies(call_replies))
        answers, self._answers = self._answers, []
        return ENCODER.encode(Acknowledgements(answers)) if answers else None


class _Link:
    """The connection to another worker, opened when it is needed."""

    def __init__(self, path: Path, crawl: str, window: int) -> None:
        self._path, self._crawl = path, crawl
        self._slots = asyncio.Semaphore(window)
        self._opening = asyncio.Lock()
        self._failures = 0
        self._connection: Connection | None = None

    @property
    def unanswered(self) -> int:
        """The number of parcels that were sent or wait to be sent."""
        return self._connection.unanswered if self._connection else 0

    async def deliver_parcel(self, parcel: Parcel) -> None:
        async with self._slots:
            connection = await self._open()
            await connection.deliver_parcel(parcel)
            self._failures = 0

    async def look_up_keys(self, keys: list[PartitionKey]) -> dict[bytes, bytes | None]:
        connection = self._connection
        if connection is None or connection.is_over:
            connection = await self._open()
        found = await connection.look_up_keys(keys)
        self._failures = 0
        return found

    async def call_owner(self, destination: int, body: bytes) -> bytes:
        connection = await self._open()
        reply = await connection.call_owner(destination, body)
        self._failures = 0
        return reply

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _open(self) -> Connection:
        """The connection, opened again when it is broken; tries until the caller's time limit."""
        async with self._opening:
            while self._connection is None or self._connection.is_over:
                if self._failures:
                    await asyncio.sleep(
                        min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** min(self._failures, 10))
                    )
                self._failures += 1  # until a parcel is answered
                with suppress(OSError):  # the worker does not listen yet: the loop waits longer
                    self._connection = await open_connection(self._path, self._crawl)
            return self._connection
