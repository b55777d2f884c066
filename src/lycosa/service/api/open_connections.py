"""The open connections of the interface: how many, and which one is closed for another.

A connection without a complete request holds a place and does nothing, so it is the one that may be
closed: the oldest of the client that has most of those. A client that opens all connections thus
closes its own. Each step takes the same time for any number of connections, because a client may
open thousands within one turn of the event loop.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Callable


def client_at(address: str) -> str:
    """The client at an IP address: one IPv4 address, or a network of IPv6.

    A user of IPv6 has at least 2**64 addresses (RFC 6177), so its network is what can be counted.
    """
    if ":" not in address:
        return address
    try:
        found = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = found.ipv4_mapped
    return str(mapped or ipaddress.IPv6Address(int(found) >> 64 << 64))


class OpenConnection:
    """One connection of ``client``. ``close`` ends it at once."""

    def __init__(self, client: str, close: Callable[[], None]) -> None:
        self.client, self.close = client, close


class OpenConnections:
    """The connections of a process, at most ``most``."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[OpenConnection] = set()
        self._idle: dict[str, dict[OpenConnection, None]] = {}  # by client, the oldest first
        self._clients: defaultdict[int, dict[str, None]] = defaultdict(dict)  # by number of those
        self._highest = 0  # the highest such number

    def __repr__(self) -> str:
        return f"<OpenConnections {len(self)} of {self._most}, clients={len(self._idle)}>"

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, one: OpenConnection) -> bool:
        return one in self._open

    def admit(self, new: OpenConnection) -> bool:
        """Take in a connection without a request; another one is closed if there are too many.

        False when all others have requests: the new one is not taken in.
        """
        if len(self._open) >= self._most and not self._close_one():
            return False
        self._open.add(new)
        self.note_idle(new)
        return True

    def note_idle(self, one: OpenConnection) -> None:
        """There is no complete request now."""
        theirs = self._idle.get(one.client, {})
        if one in self._open and one not in theirs:
            self._count(one.client, len(theirs), len(theirs) + 1)
            self._idle.setdefault(one.client, theirs)[one] = None

    def note_request(self, one: OpenConnection) -> None:
        """A complete request has arrived, and is to be answered."""
        theirs = self._idle.get(one.client, {})
        if one in theirs:
            self._count(one.client, len(theirs), len(theirs) - 1)
            del theirs[one]
            if not theirs:
                del self._idle[one.client]

    def remove(self, one: OpenConnection) -> None:
        """The connection has ended; a repetition does nothing."""
        self.note_request(one)
        self._open.discard(one)

    def close_all(self) -> None:
        for one in list(self._open):
            self.remove(one)
            one.close()

    def _close_one(self) -> bool:
        if not self._highest:
            return False
        client = next(iter(self._clients[self._highest]))
        oldest = next(iter(self._idle[client]))
        # Removed here: its transport tells of the end in the next turn of the loop only, and until
        # then every other new connection would choose the same one again.
        self.remove(oldest)
        oldest.close()
        return True

    def _count(self, client: str, before: int, after: int) -> None:
        """Note how many connections without a request a client has, one more or one less."""
        if before:
            clients = self._clients[before]
            del clients[client]
            if not clients:
                del self._clients[before]
        if after:
            self._clients[after][client] = None
        if after > self._highest or self._highest not in self._clients:
            self._highest = after
