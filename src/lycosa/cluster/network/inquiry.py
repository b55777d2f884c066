"""Questions and calls between workers on different machines, over TCP.

Each worker listens, and has one connection to each address at which it asked. A page waits for the
answer to a question, so the time that other workers can cost is bounded. A question waits for a
short time. When one was not answered by then, the worker that it was sent to is *late*: further
questions to it are not sent, and return without an answer at once, until it has answered what it
was asked and a rest has passed. The rest doubles with each time in a row, up to a limit. A worker
that cannot be reached is connected to in the background, with a growing wait between tries; only
the questions of the beginning wait for that, and only for the same short time.

Addresses are given from outside (``follow_routes``) and may change at any time. A partition without
an address is not asked; a call to it waits until it has one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from lycosa.base.model.parcel_items import PartitionKey
from lycosa.base.system.frame_stream import FrameStream
from lycosa.cluster.network.accepted import AcceptedConnection
from lycosa.cluster.network.connecting import connect
from lycosa.cluster.network.connection import ENCODER, MAX_MESSAGE_BYTES, Connection, Hello
from lycosa.cluster.network.credentials import Credentials
from lycosa.cluster.network.frame_server import FrameServer
from lycosa.cluster.network.link import WorkerLink, ask_owners
from lycosa.state.exchange.exchange_errors import CallRefused, ExchangeError, NoAnswer
from lycosa.state.exchange.local import Receivers, replied

_CONNECT_S = 5.0
_FIRST_REST_S, _LONGEST_REST_S = 0.5, 15.0
_Found = dict[bytes, bytes | None]


class NetworkInquiry:
    """``Inquiry`` of one worker of a crawl on many machines.

    ``crawl`` must be equal on both sides. ``answer_s`` limits a question, ``call_s`` a call;
    ``trouble`` names workers that answered nothing for ``silent_s``.
    """

    def __init__(
        self,
        credentials: Credentials,
        crawl: str,
        answer_s: float = 0.25,
        call_s: float = 30.0,
        silent_s: float = 30.0,
    ) -> None:
        self.receivers = Receivers()
        self._credentials, self._crawl = credentials, crawl
        self._answer_s, self._call_s, self._silent_s = answer_s, call_s, silent_s
        self._server = FrameServer(credentials, self._serve, MAX_MESSAGE_BYTES)
        self._routes: dict[int, str] = {}
        self._rerouted = asyncio.Event()
        self._peers: dict[str, _Peer] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def open(self, address: str) -> str:
        """Listen at ``HOST:PORT``; port 0 is any that is free. Returns the address with its port.

        Raises ``OSError``.
        """
        return await self._server.open(address)

    def follow_routes(self, addresses: Mapping[int, str]) -> None:
        """Replace the addresses (``HOST:PORT``) of the owners, by partition.

        Connections to addresses that are not among them are closed.
        """
        self._routes = dict(addresses)
        self._rerouted.set()
        self._rerouted = asyncio.Event()
        for address in self._peers.keys() - set(addresses.values()):
            task = asyncio.get_running_loop().create_task(self._peers.pop(address).close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def look_up_keys(self, keys: Sequence[PartitionKey]) -> _Found:
        return await ask_owners(self.receivers, keys, self._routes.get, self._ask)

    async def _ask(self, address: str, keys: list[PartitionKey]) -> _Found:
        return await self._peer(address).look_up_keys(keys)

    async def call_owner(self, destination: int, body: bytes) -> bytes:
        if destination in self.receivers:
            return await replied(self.receivers.call_owner(destination, body), self._call_s)
        address = ""
        try:
            async with asyncio.timeout(self._call_s):
                # The shard may be between two owners; the coordinator sends its new address within
                # seconds.
                while destination not in self._routes:
                    await self._rerouted.wait()
                address = self._routes[destination]
                return await self._peer(address).call_owner(destination, body)
        except (CallRefused, NoAnswer):
            raise
        except (TimeoutError, ExchangeError, OSError) as error:
            raise NoAnswer(
                f"the call to partition {destination} was not answered: {self._why(address, error)}"
            ) from error

    def _why(self, address: str, error: Exception) -> str:
        late = f"no answer within {self._call_s} s"
        if not address:
            return f"{late}: its owner has no address now"
        peer = self._peers.get(address)
        return str(error) or f"{late}: {(peer and peer.problem) or address}"

    @property
    def trouble(self) -> str:
        """Text about workers that have not answered for half a minute; empty when all do.

        They cost pages no time, but duplicates of pages that they know are stored in full.
        """
        silent = {address: peer for address, peer in self._peers.items() if peer.is_silent}
        if not silent:
            return ""
        address, peer = min(silent.items())
        state = peer.state
        first = state if address in state else f"{address}: {state}"
        return f"answers of other workers: {len(silent)} give none ({first})"

    def snapshot(self) -> dict[str, str]:
        """The state of each address that was asked."""
        return {address: peer.state for address, peer in self._peers.items()}

    def __repr__(self) -> str:
        return f"NetworkInquiry({self.snapshot()}, {self._server!r}, {self.receivers!r})"

    async def close(self) -> None:
        self.receivers.close()
        self._routes = {}
        peers = list(self._peers.values())
        self._peers.clear()
        await asyncio.gather(
            self._server.close(),
            *(peer.close() for peer in peers),
            *self._closing,
            return_exceptions=True,
        )

    def _peer(self, address: str) -> _Peer:
        peer = self._peers.get(address)
        if peer is None:
            link = WorkerLink(lambda: self._connected(address), window=1)
            peer = self._peers[address] = _Peer(link, self._answer_s, self._silent_s)
        return peer

    async def _connected(self, address: str) -> Connection:
        hello = ENCODER.encode(Hello(self._crawl))
        stream = await connect(address, self._credentials, hello, _CONNECT_S, MAX_MESSAGE_BYTES)
        return Connection(stream, address)

    async def _serve(self, stream: FrameStream, hello: bytes, peer: str) -> None:
        await AcceptedConnection(stream, self.receivers, self._crawl, window=0).serve(hello)


class _Peer:
    """The worker at one address, and how late it is."""

    def __init__(self, link: WorkerLink, answer_s: float, silent_s: float) -> None:
        self._link, self._answer_s, self._silent_s = link, answer_s, silent_s
        self._opening: asyncio.Task[Connection] | None = None
        self._opened_by = 0.0  # until then questions wait for the connection
        self._late = 0  # questions that were not answered in time, and not since
        self._in_a_row = 0
        self._rest_until = 0.0
        self._silent_since: float | None = None
        self._is_closed = False

    @property
    def problem(self) -> str:
        return self._link.problem

    @property
    def state(self) -> str:
        if self._link.connection is None:
            return f"not connected: {self.problem}" if self.problem else "connecting"
        return "late" if self._is_late() else "connected"

    @property
    def is_silent(self) -> bool:
        """Whether no question was answered for long."""
        since = self._silent_since
        return since is not None and asyncio.get_running_loop().time() - since > self._silent_s

    async def look_up_keys(self, keys: list[PartitionKey]) -> _Found:
        """The values, none when there is no answer in time. Never raises."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        found = await self._ask(keys, began + self._answer_s)
        if found is None:
            self._silent_since = self._silent_since or began
            return {}
        self._silent_since, self._in_a_row = None, 0
        self._link.note_answer()
        return found

    async def _ask(self, keys: list[PartitionKey], deadline: float) -> _Found | None:
        """The reply, ``None`` when there is none by then."""
        connection = self._link.connection or await self._connected()
        if connection is None or self._is_late():
            return None
        try:
            answer = connection.start_look_up(keys)
        except ExchangeError:
            return None
        answer.add_done_callback(_retrieve)
        remaining = deadline - asyncio.get_running_loop().time()
        # Not ``wait_for``: the question stays open after the time, so that ``_note_late`` sees how
        # late it is answered.
        await asyncio.wait([answer], timeout=max(0.0, remaining))
        if not answer.done():
            self._note_late(answer)
            return None
        return None if answer.cancelled() or answer.exception() else answer.result()

    async def call_owner(self, destination: int, body: bytes) -> bytes:
        """The owner's reply. Raises ``ExchangeError``."""
        return await self._link.call_owner(destination, body)

    async def close(self) -> None:
        self._is_closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        await self._link.close()

    async def _connected(self) -> Connection | None:
        """The connection, ``None`` when there is none in time; it is made in the background."""
        loop = asyncio.get_running_loop()
        if self._is_closed:
            return None
        if self._opening is None or self._opening.done():
            # A worker that could not be reached lately costs a page no time.
            self._opened_by = loop.time() + (0 if self._link.is_failing else self._answer_s)
            self._opening = loop.create_task(self._link.open())
            self._opening.add_done_callback(_retrieve)
        timeout = self._opened_by - loop.time()
        if timeout > 0:
            # The opening continues after the time; a later question finds its connection.
            await asyncio.wait([self._opening], timeout=timeout)
        return self._link.connection

    def _is_late(self) -> bool:
        return self._late > 0 or asyncio.get_running_loop().time() < self._rest_until

    def _note_late(self, answer: asyncio.Future[_Found]) -> None:
        if not self._is_late():
            rest = min(_LONGEST_REST_S, _FIRST_REST_S * 2 ** min(self._in_a_row, 10))
            self._rest_until = asyncio.get_running_loop().time() + rest
            self._in_a_row += 1
        self._late += 1
        answer.add_done_callback(self._note_answered)

    def _note_answered(self, answer: asyncio.Future[_Found]) -> None:
        self._late -= 1


def _retrieve(ended: asyncio.Future[_Found] | asyncio.Task[Connection]) -> None:
    """Retrieve the error, so that asyncio does not report it when the asker is gone."""
    if not ended.cancelled():
        ended.exception()
