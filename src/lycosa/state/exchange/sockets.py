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
from pathlib import Path
from typing import Any

from lycosa.base.model.partition_key import PartitionKey
from lycosa.base.system.frame_stream import FrameStream
from lycosa.state.exchange.accepted import AcceptedConnection
from lycosa.state.exchange.connection import ENCODER, MAX_MESSAGE_BYTES, Connection, Hello
from lycosa.state.exchange.exchange_errors import CallRefused, ExchangeError, NoAnswer
from lycosa.state.exchange.exchange_port import Answering, Handover, LookUp, Parcel, Receiver
from lycosa.state.exchange.link import WorkerLink
from lycosa.state.exchange.local import Receivers, awaited, handover, replied

_MAX_ADDRESS_BYTES = 100  # sun_path holds 104 on macOS, 108 on Linux


class SocketExchange:
    """``Post`` and ``Inquiry`` of one worker.

    ``address`` is its socket, and ``route`` returns the socket of the worker that owns a partition.
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
        self._links: dict[Path, WorkerLink] = {}
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
            # It may arrive all the same. The sender sends the parcel again, and the receiver knows
            # it by its number.
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
            # An unknown key is a missed duplicate at worst; a page must not wait for another
            # worker.
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

    def _link(self, path: Path) -> WorkerLink:
        link = self._links.get(path)
        if link is None:
            link = self._links[path] = WorkerLink(
                lambda: _connected(path, self._crawl), self._window
            )
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
                AcceptedConnection(
                    FrameStream(sock, MAX_MESSAGE_BYTES), self.receivers, self._crawl, self._window
                ).serve()
            )

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _connected(path: Path, crawl: str) -> Connection:
    """A connection to the worker with that socket. Raises ``OSError``."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(sock, str(path))
    except BaseException:
        # Also at a cancellation: no object has the socket yet.
        sock.close()
        raise
    stream = FrameStream(sock, MAX_MESSAGE_BYTES)
    try:
        await stream.send(ENCODER.encode(Hello(crawl)))
    except BaseException:
        stream.close()
        raise
    return Connection(stream, path.name)
