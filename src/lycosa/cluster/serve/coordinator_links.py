"""Connections to a coordinator: those of nodes, by name, and those of callers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from lycosa.base.messages.coordinator_messages import ToCaller, ToNode, encode_node_message
from lycosa.base.system.frame_stream import FrameStream

_MAX_UNSENT = 1000  # messages; a peer that leaves more unread is disconnected
_ALIVE_S = 5.0  # a node reports every second


class PeerLink:
    """One connection. Messages to it are queued, so that no slow peer delays the others.

    ``run`` sends them; it ends with the connection.
    """

    def __init__(self, stream: FrameStream, name: str, peer: str) -> None:
        self.name, self.peer = name, peer
        self.heard = asyncio.get_running_loop().time()
        self.calls: set[str] = set()
        self.is_seeding = False
        self._stream = stream
        self._unsent: asyncio.Queue[bytes] = asyncio.Queue(_MAX_UNSENT)

    def __repr__(self) -> str:
        return f"<PeerLink {self.name} {self.peer} unsent={self._unsent.qsize()}>"

    def send_message(self, message: ToNode | ToCaller) -> None:
        """Send a message soon; a peer that does not read is disconnected."""
        try:
            self._unsent.put_nowait(encode_node_message(message))
        except asyncio.QueueFull:
            # A peer that does not read would hold memory without a bound. Messages are repeated on
            # its next connection.
            self._stream.close()

    def send_last(self, message: ToCaller) -> None:
        """Send a message at once and disconnect."""
        self._stream.write(encode_node_message(message))
        self._stream.close()

    def close(self) -> None:
        self._stream.close()

    async def receive(self) -> bytes | None:
        """The next frame; ``None`` at the end. Raises as ``FrameStream.receive`` does."""
        frame = await self._stream.receive()
        self.heard = asyncio.get_running_loop().time()
        return frame

    async def run(self) -> None:
        """Send what is queued, until the connection ends."""
        while True:
            await self._stream.send(await self._unsent.get())


class NodeLinks:
    """The connections of nodes: one for each name."""

    def __init__(self) -> None:
        self._links: dict[str, PeerLink] = {}

    def __repr__(self) -> str:
        return f"<NodeLinks {list(self._links.values())}>"

    def __iter__(self) -> Iterator[PeerLink]:
        return iter(list(self._links.values()))

    def refusal(self, name: str) -> str:
        """Why another connection of that name is refused; empty when it is not.

        A node whose connection broke connects again while its old one looks open, and is then
        silent on the old one.
        """
        link = self._links.get(name)
        if link is None or asyncio.get_running_loop().time() - link.heard > _ALIVE_S:
            return ""
        return (
            f"a node {name!r} is connected from {link.peer}; give each node its own name (--name)"
        )

    def add(self, link: PeerLink) -> None:
        """Use this connection for the node from now on."""
        if (old := self._links.get(link.name)) is not None:
            old.close()
        self._links[link.name] = link

    def remove(self, link: PeerLink) -> None:
        """Forget a connection that ended, unless the node has another one."""
        if self._links.get(link.name) is link:
            del self._links[link.name]

    def send_message(self, name: str, message: ToNode) -> None:
        """Send to a node; a message to one that is not connected is lost."""
        if (link := self._links.get(name)) is not None:
            link.send_message(message)
