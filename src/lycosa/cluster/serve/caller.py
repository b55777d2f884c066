"""A caller's side of the conversation with a coordinator: the commands of an operator.

Which of the addresses in ``cluster.toml`` has the coordinator is found by trying them all at once:
the machine of an earlier one may not even refuse a connection. A coordinator may end at any time,
and another one may take over; a caller then connects again.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from types import TracebackType

import msgspec

from lycosa.base.config.cluster_file import ClusterFile
from lycosa.base.messages.coordinator_messages import (
    NOT_READY,
    Accepted,
    Answered,
    CallerMessage,
    ClusterStatus,
    CoordinatorHello,
    Refused,
    StatusQuery,
    ToCaller,
    decode_to_caller,
    encode_node_message,
)
from lycosa.base.system.frame_stream import FrameStream
from lycosa.base.system.frames import UNREADABLE, FrameError
from lycosa.cluster.network.connecting import connect
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.network.endpoints import RefusedConnection

_AGAIN_S = 1.0
_ANSWER_S = 30.0  # a request whose record waits for Kafka is not answered; it may be repeated
_TELL_S = 10.0  # between two lines about the same failure


class NoCoordinator(Exception):
    """No coordinator answered; the text has what each address said."""


class LostCoordinator(ConnectionError):
    """The coordinator ended, or the connection to it."""


class RequestRefused(Exception):
    """The coordinator refuses the request; the text says why."""


class CoordinatorPlace(msgspec.Struct, frozen=True):
    """Where the coordinator of the crawl ``name`` may be; ``remedy`` says how to start one."""

    name: str
    coordinators: tuple[str, ...]
    remedy: str


class CoordinatorConnection:
    """A connection to the coordinator; ``answered`` has its answers to ``Ask`` as they arrive.

    One request at a time.
    """

    def __init__(self, stream: FrameStream, address: str) -> None:
        self.address = address
        self.answered: list[Answered] = []
        self._stream = stream

    async def __aenter__(self) -> CoordinatorConnection:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()

    async def status(self) -> ClusterStatus:
        """The state of everything. Raises ``LostCoordinator`` and ``RequestRefused``."""
        answer = await self._asked(StatusQuery())
        assert isinstance(answer, ClusterStatus)
        return answer

    async def request(self, message: CallerMessage) -> None:
        """Make a request that is accepted or refused; raises as ``status`` does."""
        await self._asked(message)

    async def send(self, message: CallerMessage) -> None:
        """Send an ``Ask``; its answer appears in ``answered``. Raises ``LostCoordinator``."""
        try:
            await self._stream.send(encode_node_message(message))
        except OSError as error:
            raise self._lost(error) from error

    async def await_answer(self, longest_s: float) -> None:
        """Wait for another entry in ``answered``, at most for that time."""
        try:
            async with asyncio.timeout(longest_s):
                await self._receive()
        except TimeoutError:
            pass  # the caller asks for the state, and then waits again

    async def _asked(self, message: CallerMessage) -> ToCaller:
        await self.send(message)
        try:
            async with asyncio.timeout(_ANSWER_S):
                while (answer := await self._receive()) is None:
                    pass
        except TimeoutError:
            # The coordinator is there and does not answer. It may carry out the request later:
            # requests are repeated with the same effect.
            raise LostCoordinator(
                f"{self.address}: no answer within {_ANSWER_S:.0f} s; the coordinator may be"
                " waiting for Kafka"
            ) from None
        if isinstance(answer, Refused):
            if answer.is_final:
                raise RequestRefused(answer.reason)
            raise LostCoordinator(f"{self.address}: {answer.reason}")
        return answer

    async def _receive(self) -> Accepted | Refused | ClusterStatus | None:
        """The next message; ``None`` when it was an answer to an ``Ask``."""
        try:
            frame = await self._stream.receive()
            if frame is None:
                raise LostCoordinator(f"{self.address}: the coordinator closed the connection")
            message: ToCaller = decode_to_caller(frame)
        except (OSError, FrameError, *UNREADABLE) as error:
            raise self._lost(error) from error
        if isinstance(message, Answered):
            self.answered.append(message)
            return None
        return message

    def _lost(self, error: Exception) -> LostCoordinator:
        if isinstance(error, LostCoordinator):
            return error
        return LostCoordinator(f"{self.address}: {error}")


def why_none_answers(place: CoordinatorPlace, failures: Sequence[OSError]) -> str:
    """What to tell when no address of the coordinator gave an answer, with what to do about it."""
    said = "; ".join(map(str, failures))
    if NOT_READY in said:
        return f"the coordinator of {place.name} is starting ({said}): wait some seconds"
    return f"no coordinator of {place.name} answers ({said}); {place.remedy}"


class CoordinatorFinder:
    """Finds the coordinator of a crawl. ``tell`` gets lines about failures."""

    def __init__(
        self,
        given: ClusterFile | CoordinatorPlace,
        credentials: Credentials,
        tell: Callable[[str], None],
    ) -> None:
        if isinstance(given, ClusterFile):
            remedy = f"start one with `lycosa serve --cluster {given.path}`"
            given = CoordinatorPlace(given.name, tuple(given.coordinators), remedy)
        self._given, self._credentials, self._tell = given, credentials, tell
        self._told, self._tell_at = "", 0.0
        self._has_connected = False

    async def connect(self, patience_s: float = float("inf")) -> CoordinatorConnection:
        """A connection to the coordinator; tried again until ``patience_s`` is over.

        Raises ``NoCoordinator``, ``RequestRefused`` when a coordinator refuses the caller, and
        ``RefusedConnection`` when the first attempt fails for another reason that only an operator
        can change.
        """
        deadline = time.monotonic() + patience_s
        while True:
            connection, failures = await self._first_connected()
            if connection is not None:
                self._has_connected = True
                return connection
            for failure in failures:
                # A wrong token or name stays wrong. Later it may be a coordinator that is being
                # replaced.
                if isinstance(failure, RefusedConnection) and not self._has_connected:
                    raise failure
            text = why_none_answers(self._given, failures)
            if time.monotonic() + _AGAIN_S > deadline:
                raise NoCoordinator(text)
            self._complain(f"{text}; trying again")
            await asyncio.sleep(_AGAIN_S)

    async def _first_connected(self) -> tuple[CoordinatorConnection | None, list[OSError]]:
        """The connection that is there first, or why there is none, by address.

        Raises ``RequestRefused`` when a coordinator refuses, and no other one answers.
        """
        # All at once: only one of the addresses has the coordinator, and a dead one takes its time.
        tasks = [
            asyncio.ensure_future(self._connected(address)) for address in self._given.coordinators
        ]
        found: CoordinatorConnection | None = None
        try:
            waiting = set(tasks)
            while waiting and found is None:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                found = next((task.result() for task in done if task.exception() is None), None)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            for end in ends:
                if isinstance(end, CoordinatorConnection) and end is not found:
                    end.close()
        if found is not None:
            return found, []
        for end in ends:
            if isinstance(end, BaseException) and not isinstance(end, OSError):
                raise end
        return None, [end for end in ends if isinstance(end, OSError)]

    async def _connected(self, address: str) -> CoordinatorConnection:
        hello = CoordinatorHello("caller", socket.gethostname(), self._given.name)
        stream = await connect(address, self._credentials, encode_node_message(hello))
        connection = CoordinatorConnection(stream, address)
        try:
            await connection.status()  # it may be a coordinator that has ended, or refuses
        except BaseException:
            stream.close()
            raise
        return connection

    def _complain(self, text: str) -> None:
        now = time.monotonic()
        if text != self._told or now >= self._tell_at:
            self._tell(text)
            self._told, self._tell_at = text, now + _TELL_S


async def call_coordinator(
    given: ClusterFile | CoordinatorPlace,
    credentials: Credentials,
    messages: Sequence[CallerMessage],
    tell: Callable[[str], None],
    patience_s: float,
) -> ClusterStatus:
    """Make requests in this order; returns the state after them.

    Raises ``NoCoordinator`` and ``RequestRefused``. When the coordinator is lost before it answers,
    the requests are made again. Without requests, the state comes within ``patience_s`` or not at
    all: a coordinator that accepts connections and does not answer must not stop a probe.
    """
    try:
        async with asyncio.timeout(None if messages else patience_s):
            return await _called(given, credentials, messages, tell, patience_s)
    except TimeoutError:
        where = ", ".join(given.coordinators)
        raise NoCoordinator(
            f"the coordinator of {given.name} ({where}) gave no answer within {patience_s:g} s; it"
            " is stopped or overloaded, or something else listens there"
        ) from None


async def _called(
    given: ClusterFile | CoordinatorPlace,
    credentials: Credentials,
    messages: Sequence[CallerMessage],
    tell: Callable[[str], None],
    patience_s: float,
) -> ClusterStatus:
    finder = CoordinatorFinder(given, credentials, tell)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            async with await finder.connect(deadline - time.monotonic()) as connection:
                for message in messages:
                    await connection.request(message)
                return await connection.status()
        except LostCoordinator as error:
            # All requests are made again, in their order: each has the same effect when it is
            # repeated.
            if time.monotonic() >= deadline:
                raise NoCoordinator(str(error)) from error
            tell(f"{error}; trying again")
