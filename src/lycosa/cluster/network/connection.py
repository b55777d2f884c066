"""One connection between two workers: its messages, and the side that asks.

Everything that gathers while a frame is written is sent in the next frame. Questions overtake
parcels, because a page waits for their answers, while a parcel waits for a commit anyway. Calls
wait for a commit too and follow questions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from lycosa.base.model.compatibility import PROTOCOL
from lycosa.base.model.parcel_items import PartitionKey
from lycosa.base.system.frame_stream import FrameStream
from lycosa.state.exchange.exchange_errors import (
    CallRefused,
    ExchangeError,
    NoAnswer,
    ParcelRefused,
)
from lycosa.state.exchange.exchange_port import Parcel

EXCHANGE_PROTOCOL = PROTOCOL
"""The number of these messages: that of the program."""

MAX_MESSAGE_BYTES = 64_000_000
_T = TypeVar("_T")


class Hello(msgspec.Struct, array_like=True, tag=0):
    """The first message on every connection. The crawl must be the receiver's."""

    crawl: str
    protocol: int = EXCHANGE_PROTOCOL


class Parcels(msgspec.Struct, array_like=True, tag=1):
    """Parcels, each with a number for its answer."""

    calls: list[tuple[int, Parcel]]


class Acknowledgements(msgspec.Struct, array_like=True, tag=2):
    """Answers to parcels.

    An empty text acknowledges; any other text is the reason of a refusal. The number 0 concerns the
    whole connection.
    """

    answers: list[tuple[int, str]]


class Questions(msgspec.Struct, array_like=True, tag=3):
    """Lists of keys with their partitions, each list with a number for its answer."""

    calls: list[tuple[int, list[PartitionKey]]]


class Replies(msgspec.Struct, array_like=True, tag=4):
    """The committed values under the keys of a question.

    A key whose partition is not owned here is left out.
    """

    replies: list[tuple[int, dict[bytes, bytes | None]]]


class Calls(msgspec.Struct, array_like=True, tag=5):
    """Calls to the owner of a partition, each with a number for its answer."""

    calls: list[tuple[int, int, bytes]]


class CallReplies(msgspec.Struct, array_like=True, tag=6):
    """Results of calls.

    Each is the reply, or ``None`` with the reason and whether the owner itself refused.
    """

    replies: list[tuple[int, bytes | None, str, bool]]


Message = Hello | Parcels | Acknowledgements | Questions | Replies | Calls | CallReplies
ENCODER = msgspec.msgpack.Encoder()
DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class BatchingSender:
    """Sends messages one at a time.

    Everything that gathers while a frame is written is sent in the next message.
    """

    def __init__(self, stream: FrameStream, message: Callable[[], bytes | None]) -> None:
        self._stream, self._message = stream, message
        self._wanted = asyncio.Event()

    def wake(self) -> None:
        self._wanted.set()

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            # Before the messages are made: what comes while one is sent wakes this again.
            self._wanted.clear()
            while (payload := self._message()) is not None:
                await self._stream.send(payload)


class Connection:
    """One established connection: sends parcels, questions and calls, receives their answers."""

    def __init__(self, stream: FrameStream, peer: str) -> None:
        self._stream, self._peer = stream, peer
        self._delivered: dict[int, asyncio.Future[None]] = {}
        self._waiting: list[tuple[int, Parcel]] = []
        self._asked: dict[int, asyncio.Future[dict[bytes, bytes | None]]] = {}
        self._questions: list[tuple[int, list[PartitionKey]]] = []
        self._called: dict[int, asyncio.Future[bytes]] = {}
        self._calls: list[tuple[int, int, bytes]] = []
        self._number = 0
        self._outgoing = BatchingSender(stream, self._message)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._outgoing.run()), loop.create_task(self._read())]
        for task in self._tasks:
            task.add_done_callback(self._ended)
        self.is_over = False
        self.why_over = ""

    @property
    def unanswered(self) -> int:
        """The number of parcels given to ``deliver_parcel`` that have no answer yet."""
        return len(self._delivered)

    async def deliver_parcel(self, parcel: Parcel) -> None:
        """Send a parcel; returns when the other side acknowledges it. Raises ``ExchangeError``."""
        number = self._next()
        self._waiting.append((number, parcel))
        await self._answer_to(number, self._delivered)

    async def look_up_keys(self, keys: list[PartitionKey]) -> dict[bytes, bytes | None]:
        """Send a question; returns the reply. Raises ``ExchangeError``."""
        return await self.start_look_up(keys)

    def start_look_up(self, keys: list[PartitionKey]) -> asyncio.Future[dict[bytes, bytes | None]]:
        """Send a question. The reply is the future's result; its error is an ``ExchangeError``."""
        number = self._next()
        self._questions.append((number, keys))
        answer: asyncio.Future[dict[bytes, bytes | None]]
        answer = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda _: self._asked.pop(number, None))
        self._asked[number] = answer
        self._outgoing.wake()
        return answer

    async def call_owner(self, destination: int, body: bytes) -> bytes:
        """Send a call; returns the owner's reply. Raises ``ExchangeError``."""
        number = self._next()
        self._calls.append((number, destination, body))
        return await self._answer_to(number, self._called)

    def _next(self) -> int:
        if self.is_over:
            raise ExchangeError(f"the connection to {self._peer} was lost")
        self._number += 1
        return self._number

    async def _answer_to(self, number: int, answers: dict[int, asyncio.Future[_T]]) -> _T:
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        answers[number] = answer
        self._outgoing.wake()
        try:
            return await answer
        finally:
            answers.pop(number, None)

    async def close(self) -> None:
        self._end("the exchange was closed")
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read(self) -> None:
        while (payload := await self._stream.receive()) is not None:
            message = DECODER.decode(payload)
            if isinstance(message, Acknowledgements):
                for call, refusal in message.answers:
                    self._answer(call, refusal)
            elif isinstance(message, Replies):
                for call, found in message.replies:
                    reply = self._asked.get(call)
                    if reply is not None and not reply.done():
                        reply.set_result(found)
            elif isinstance(message, CallReplies):
                for number, body, why, is_refused in message.replies:
                    # The caller may have stopped waiting, and its number is never used again.
                    called = self._called.get(number)
                    if called is None or called.done():
                        continue
                    if body is not None:
                        called.set_result(body)
                    else:
                        called.set_exception(CallRefused(why) if is_refused else NoAnswer(why))

    def _answer(self, call: int, refusal: str) -> None:
        # No parcel has this number: the other side refuses the whole connection.
        if call == 0:
            self._end(refusal)
            return
        answer = self._delivered.get(call)
        if answer is None or answer.done():
            return  # the sender stopped waiting
        if refusal:
            answer.set_exception(ParcelRefused(refusal))
        else:
            answer.set_result(None)

    def _message(self) -> bytes | None:
        """The next message, without entries whose senders stopped waiting."""
        if self._questions:
            questions, self._questions = (
                [question for question in self._questions if question[0] in self._asked],
                [],
            )
            if questions:
                return ENCODER.encode(Questions(questions))
        if self._calls:
            calls, self._calls = [call for call in self._calls if call[0] in self._called], []
            if calls:
                return ENCODER.encode(Calls(calls))
        parcels, self._waiting = (
            [(number, parcel) for number, parcel in self._waiting if number in self._delivered],
            [],
        )
        return ENCODER.encode(Parcels(parcels)) if parcels else None

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self._end(f"the connection to {self._peer} was lost" + (f": {error}" if error else ""))

    def _end(self, why: str) -> None:
        if self.is_over:
            return
        self.is_over, self.why_over = True, why
        self._stream.close()
        for task in self._tasks:
            task.cancel()
        waiting: list[asyncio.Future[Any]] = [
            *self._delivered.values(),
            *self._asked.values(),
            *self._called.values(),
        ]
        for answer in waiting:
            if not answer.done():
                answer.set_exception(ExchangeError(why))
