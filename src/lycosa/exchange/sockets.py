"""The exchange between the workers of one machine: a Unix socket per worker, one connection to each other worker.

Messages are MessagePack in frames. The sender of a connection says which crawl it belongs to, then sends parcels, as many per frame as have
gathered while the last frame was written; answers come back the same way, in any order. Three things bound what is under
way: a window of unanswered parcels per connection, the same window on the receiving side, which stops reading beyond it, and a
deadline on each delivery. A connection that breaks fails its deliveries, since nobody knows whether they arrived, and the next
delivery connects again, waiting longer after each failure.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from lycosa.exchange.local import Receivers, awaited
from lycosa.exchange.port import ExchangeError, Parcel, Receiver
from lycosa.wire import FrameError, FrameStream

_MAX_FRAME_BYTES = 64_000_000
_MAX_ADDRESS_BYTES = 100  # sun_path holds 104 on macOS, 108 on Linux
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.02, 2.0


class _Hello(msgspec.Struct, array_like=True, tag=0):
    """First on every connection. ``crawl`` must be the receiver's own."""

    crawl: str


class _Parcels(msgspec.Struct, array_like=True, tag=1):
    """Parcels, each with a number by which it is answered."""

    calls: list[tuple[int, Parcel]]


class _Answers(msgspec.Struct, array_like=True, tag=2):
    """Answers; an empty text acknowledges, any other says why not. The number 0 speaks of the whole connection."""

    answers: list[tuple[int, str]]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[_Hello | _Parcels | _Answers] = msgspec.msgpack.Decoder(_Hello | _Parcels | _Answers)


class SocketExchange:
    """One worker's end. ``address`` is its own socket, ``route`` gives the socket of the worker that owns a partition.

    ``crawl`` must be equal on both sides: the crawl's id and the number of the run, so that nobody left over from another one is
    heard. Both folders of sockets must be private to the user, and short: an address has at most 100 bytes.
    """

    def __init__(self, address: Path, route: Callable[[int], Path], crawl: str, deadline_s: float = 30.0, window: int = 64) -> None:
        if len(bytes(address)) > _MAX_ADDRESS_BYTES:
            raise ValueError(f"{address} is longer than the {_MAX_ADDRESS_BYTES} bytes of a socket's address")
        self.receivers = Receivers()
        self._address, self._route, self._crawl = address, route, crawl
        self._deadline_s, self._window = deadline_s, window
        self._links: dict[Path, _Link] = {}
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def register(self, partition: int, receiver: Receiver) -> None:
        """Parcels for this partition go to ``receiver`` from now on."""
        self.receivers.register(partition, receiver)

    async def open(self) -> None:
        """Listens from now on. Raises ``OSError``."""
        self._address.unlink(missing_ok=True)  # left by a kill; the crawl's lock says that nobody uses it
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self._address))
        listener.listen(128)
        listener.setblocking(False)
        self._listener = listener
        self._spawn(self._accept(listener))

    async def deliver(self, parcel: Parcel) -> None:
        """See ``Exchange``. A partition of this worker is reached without a socket."""
        if parcel.destination in self.receivers:
            await awaited(self.receivers.start(parcel), self._deadline_s)
            return
        path = self._route(parcel.destination)
        link = self._links.get(path)
        if link is None:
            link = self._links[path] = _Link(path, self._crawl, self._window)
        try:
            async with asyncio.timeout(self._deadline_s):
                await link.deliver(parcel)
        except TimeoutError:
            raise ExchangeError(f"no acknowledgement from {path.name} within {self._deadline_s} s") from None

    async def close(self) -> None:
        """See ``Exchange``."""
        self.receivers.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(link.close() for link in self._links.values()), *self._tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            self._address.unlink(missing_ok=True)

    def snapshot(self) -> dict[str, int]:
        """Unanswered parcels by the name of the socket that they go to."""
        return {path.name: link.unanswered for path, link in self._links.items()}

    def __repr__(self) -> str:
        return f"SocketExchange({self._address.name}, unanswered={self.snapshot()}, {self.receivers!r})"

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            sock, _ = await loop.sock_accept(listener)
            self._spawn(_Visitor(FrameStream(sock, _MAX_FRAME_BYTES), self.receivers, self._crawl, self._window).serve())

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Outgoing:
    """Sends what gathers, one message at a time: everything that came while the last frame was written goes into the next."""

    def __init__(self, stream: FrameStream, message: Callable[[], bytes | None]) -> None:
        self._stream, self._message = stream, message
        self._wanted = asyncio.Event()

    def wake(self) -> None:
        self._wanted.set()

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while (payload := self._message()) is not None:
                await self._stream.send(payload)


class _Visitor:
    """A connection that another worker opened to us."""

    def __init__(self, stream: FrameStream, receivers: Receivers, crawl: str, window: int) -> None:
        self._stream, self._receivers, self._crawl = stream, receivers, crawl
        self._slots = asyncio.Semaphore(window)
        self._answers: list[tuple[int, str]] = []
        self._outgoing = _Outgoing(stream, self._message)

    async def serve(self) -> None:
        """Until the other side closes, or sends what is not a message."""
        sending = asyncio.get_running_loop().create_task(self._outgoing.run())
        try:
            with suppress(OSError, FrameError, msgspec.DecodeError):  # the other side went away or wrong; it fails its own deliveries
                await self._read()
        finally:
            self._stream.close()  # before anything that waits: this may be the second cancellation
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)  # a lost connection, which reading has seen too

    async def _read(self) -> None:
        hello = await self._stream.receive()
        if hello is None:
            return
        greeting = _DECODER.decode(hello)
        if not isinstance(greeting, _Hello) or greeting.crawl != self._crawl:
            await self._stream.send(_ENCODER.encode(_Answers([(0, f"this worker is of crawl and run {self._crawl}")])))
            return
        while (payload := await self._stream.receive()) is not None:
            message = _DECODER.decode(payload)
            if isinstance(message, _Parcels):
                for call, parcel in message.calls:
                    await self._slots.acquire()
                    self._receivers.start(parcel).add_done_callback(lambda task, call=call: self._done(call, task))  # type: ignore[misc]  # mypy does not infer lambdas with defaults

    def _done(self, call: int, task: asyncio.Task[None]) -> None:
        self._slots.release()
        if not task.cancelled():
            error = task.exception()
            self._answers.append((call, "" if error is None else str(error) or repr(error)))
            self._outgoing.wake()

    def _message(self) -> bytes | None:
        answers, self._answers = self._answers, []
        return _ENCODER.encode(_Answers(answers)) if answers else None


class _Link:
    """Our connection to another worker, opened when needed."""

    def __init__(self, path: Path, crawl: str, window: int) -> None:
        self._path, self._crawl = path, crawl
        self._slots = asyncio.Semaphore(window)
        self._opening = asyncio.Lock()
        self._failures = 0
        self._connection: _Connection | None = None

    @property
    def unanswered(self) -> int:
        """Parcels that were sent, or wait to be."""
        return self._connection.unanswered if self._connection else 0

    async def deliver(self, parcel: Parcel) -> None:
        async with self._slots:
            connection = await self._open()
            await connection.call(parcel)
            self._failures = 0

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _open(self) -> _Connection:
        """The connection, made anew when it broke; tries until the caller's deadline."""
        async with self._opening:
            while self._connection is None or self._connection.is_over:
                if self._failures:
                    await asyncio.sleep(min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** min(self._failures, 10)))
                self._failures += 1  # until a parcel is answered
                with suppress(OSError):  # no such worker yet: the loop waits longer
                    self._connection = await _connect(self._path, self._crawl)
            return self._connection


async def _connect(path: Path, crawl: str) -> _Connection:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(sock, str(path))
    except BaseException:
        sock.close()
        raise
    stream = FrameStream(sock, _MAX_FRAME_BYTES)
    await stream.send(_ENCODER.encode(_Hello(crawl)))
    return _Connection(stream, path.name)


class _Connection:
    """One established connection: parcels out, answers in."""

    def __init__(self, stream: FrameStream, peer: str) -> None:
        self._stream, self._peer = stream, peer
        self._calls: dict[int, asyncio.Future[None]] = {}
        self._waiting: list[tuple[int, Parcel]] = []
        self._number = 0
        self._outgoing = _Outgoing(stream, self._message)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._outgoing.run()), loop.create_task(self._read())]
        for task in self._tasks:
            task.add_done_callback(self._ended)
        self.is_over = False

    @property
    def unanswered(self) -> int:
        return len(self._calls)

    async def call(self, parcel: Parcel) -> None:
        """Returns when the other side acknowledges. Raises ``ExchangeError``."""
        if self.is_over:
            raise ExchangeError(f"the connection to {self._peer} was lost")
        self._number += 1
        call, answer = self._number, asyncio.get_running_loop().create_future()
        self._calls[call] = answer
        self._waiting.append((call, parcel))
        self._outgoing.wake()
        try:
            await answer
        finally:
            self._calls.pop(call, None)

    async def close(self) -> None:
        self._end("the exchange was closed")
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read(self) -> None:
        while (payload := await self._stream.receive()) is not None:
            message = _DECODER.decode(payload)
            if isinstance(message, _Answers):
                for call, refusal in message.answers:
                    self._answer(call, refusal)

    def _answer(self, call: int, refusal: str) -> None:
        if call == 0:
            self._end(refusal)
            return
        answer = self._calls.get(call)
        if answer is None or answer.done():
            return  # nobody waits any more
        if refusal:
            answer.set_exception(ExchangeError(refusal))
        else:
            answer.set_result(None)

    def _message(self) -> bytes | None:
        """What waits, without the parcels whose senders gave up."""
        calls, self._waiting = [(call, parcel) for call, parcel in self._waiting if call in self._calls], []
        return _ENCODER.encode(_Parcels(calls)) if calls else None

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self._end(f"the connection to {self._peer} was lost" + (f": {error}" if error else ""))

    def _end(self, why: str) -> None:
        if self.is_over:
            return
        self.is_over = True
        self._stream.close()
        for task in self._tasks:
            task.cancel()
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(ExchangeError(why))
