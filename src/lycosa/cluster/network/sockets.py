"""The parcel exchange between the workers of one machine, over Unix sockets.

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
from collections.abc import Callable, Sequence
from pathlib import Path

from lycosa.base.model.parcel_items import PartitionKey
from lycosa.base.system.frame_stream import FrameStream
from lycosa.cluster.network.accepted import AcceptedConnection
from lycosa.cluster.network.connecting import connect
from lycosa.cluster.network.connection import ENCODER, MAX_MESSAGE_BYTES, Connection, Hello
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.network.endpoints import UNIX
from lycosa.cluster.network.frame_server import FrameServer
from lycosa.cluster.network.link import WorkerLink, ask_owners
from lycosa.state.exchange.exchange_errors import CallRefused, ExchangeError, NoAnswer
from lycosa.state.exchange.exchange_port import Handover, Parcel
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
        self._server = FrameServer(Credentials(), self._serve, MAX_MESSAGE_BYTES)

    async def open(self) -> None:
        """Listen for connections. Raises ``OSError``."""
        # The file may be left by a killed process, and is then replaced: the lock of the crawl
        # guarantees that no process uses it.
        await self._server.open(f"{UNIX}{self._address}")

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
        return await ask_owners(self.receivers, keys, self._route, self._ask)

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
            link = self._links[path] = WorkerLink(lambda: self._connected(path), self._window)
        return link

    async def close(self) -> None:
        self.receivers.close()
        await asyncio.gather(
            self._server.close(),
            *(link.close() for link in self._links.values()),
            return_exceptions=True,
        )

    def snapshot(self) -> dict[str, int]:
        """Unanswered parcels by the name of the destination's socket."""
        return {path.name: link.unanswered for path, link in self._links.items()}

    async def _connected(self, path: Path) -> Connection:
        """A connection to the worker with that socket. Raises ``OSError``."""
        hello = ENCODER.encode(Hello(self._crawl))
        stream = await connect(f"{UNIX}{path}", Credentials(), hello, max_bytes=MAX_MESSAGE_BYTES)
        return Connection(stream, path.name)

    async def _serve(self, stream: FrameStream, hello: bytes, peer: str) -> None:
        await AcceptedConnection(stream, self.receivers, self._crawl, self._window).serve(hello)
