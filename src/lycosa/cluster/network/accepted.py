"""One connection between two workers, on the side that was asked.

Questions are answered at once from committed data. Parcels and calls wait for a commit, so each
runs as a task and is answered when that ends.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from lycosa.base.model.compatibility import work_together
from lycosa.base.system.frame_stream import FrameStream
from lycosa.base.system.frames import UNREADABLE, FrameError
from lycosa.cluster.network.connection import (
    DECODER,
    ENCODER,
    EXCHANGE_PROTOCOL,
    Acknowledgements,
    BatchingSender,
    CallReplies,
    Calls,
    Hello,
    Message,
    Parcels,
    Questions,
    Replies,
)
from lycosa.state.exchange.exchange_errors import CallRefused
from lycosa.state.exchange.local import Receivers


class AcceptedConnection:
    """A connection that another worker opened to this one.

    At most ``window`` of its parcels wait for their commit; with 0 parcels are refused, because
    they come through a topic.
    """

    def __init__(self, stream: FrameStream, receivers: Receivers, crawl: str, window: int) -> None:
        self._stream, self._receivers, self._crawl = stream, receivers, crawl
        self._takes_parcels = window > 0
        self._slots = asyncio.Semaphore(window)
        self._answers: list[tuple[int, str]] = []
        self._replies: list[tuple[int, dict[bytes, bytes | None]]] = []
        self._call_replies: list[tuple[int, bytes | None, str, bool]] = []
        self._outgoing = BatchingSender(stream, self._message)

    async def serve(self, hello: bytes) -> None:
        """Serve until the other side closes, or sends bytes that are not a message.

        ``hello`` is its first message.
        """
        sending = asyncio.get_running_loop().create_task(self._outgoing.run())
        try:
            # the other side is gone or faulty; it treats its deliveries as failed
            with suppress(OSError, FrameError, *UNREADABLE):
                await self._read(hello)
        finally:
            self._stream.close()  # before anything that suspends: this may be a second cancellation
            sending.cancel()
            # collects the error of a lost connection, which reading has seen too
            await asyncio.gather(sending, return_exceptions=True)

    async def _read(self, hello: bytes) -> None:
        refusal = self._refusal(DECODER.decode(hello))
        if refusal:
            await self._stream.send(ENCODER.encode(Acknowledgements([(0, refusal)])))
            return
        while (payload := await self._stream.receive()) is not None:
            message = DECODER.decode(payload)
            if isinstance(message, Questions):
                self._replies += [
                    (call, self._receivers.answer_keys(keys)) for call, keys in message.calls
                ]
                self._outgoing.wake()
            elif isinstance(message, Calls):
                for call, destination, body in message.calls:
                    task = self._receivers.call_owner(destination, body)
                    task.add_done_callback(lambda task, call=call: self._replied(call, task))  # type: ignore[misc]  # mypy does not infer lambdas with defaults
            elif isinstance(message, Parcels) and not self._takes_parcels:
                self._answers += [
                    (call, "parcels for this worker go to its topic") for call, _ in message.calls
                ]
                self._outgoing.wake()
            elif isinstance(message, Parcels):
                for call, parcel in message.calls:
                    await self._slots.acquire()
                    self._receivers.start_delivery(parcel).add_done_callback(
                        lambda task, call=call: self._done(call, task)  # type: ignore[misc]
                    )

    def _refusal(self, greeting: Message) -> str:
        """Why this worker does not talk to the other one; empty when it does."""
        if not isinstance(greeting, Hello) or greeting.crawl != self._crawl:
            return f"this worker belongs to crawl and run {self._crawl}"
        if not work_together(greeting.protocol, EXCHANGE_PROTOCOL):
            return (
                f"this worker exchanges messages of protocol {EXCHANGE_PROTOCOL}, the other one of"
                f" protocol {greeting.protocol}: run the same release on all machines"
            )
        return ""

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
