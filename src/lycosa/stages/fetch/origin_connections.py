"""What is known about connections to an origin: how long one may be idle, and whether HTTP/2 works.

A request on a connection that the server has closed is lost, and costs both sides. libcurl checks
whether a kept connection is still open, except when it did so within the last second, and it checks
all of them once a second. So the socket is checked here before each use. Two cases remain: a close
that is still on its way, and servers that close when a request arrives. Therefore a connection is
not used near the end of the time that ``Keep-Alive: timeout`` announces, and an origin that closed
a connection instead of responding gets new connections for an hour.
"""

from __future__ import annotations

import re
import select
from collections import OrderedDict

import msgspec

MAX_IDLE_S = 118  # libcurl's default
FRESH_S = 3600.0
_TIMEOUT = re.compile(r"(?:^|[,;\s])timeout\s*=\s*\"?(\d{1,9})", re.IGNORECASE)
_CLOSED = getattr(select, "POLLRDHUP", 0)  # Linux and FreeBSD
_MARGIN_S = 1  # network latency, and the rounding of both sides


class Manner(msgspec.Struct, frozen=True, gc=False):
    """How to connect.

    ``idle_s`` is the longest idle time of a connection that may be used (0 = none is kept).
    ``http2`` says whether HTTP/2 may be offered. ``is_new`` demands a new connection.
    """

    idle_s: int = MAX_IDLE_S
    http2: bool = True
    is_new: bool = False


ORDINARY = Manner()


class _Known(msgspec.Struct, gc=False):
    idle_s: int = MAX_IDLE_S
    fresh_until: float = 0.0  # monotonic
    http1_until: float = 0.0
    socket: int = -1  # of the last connection made; libcurl may have closed it


class Connections:
    """The connections of one fetcher, by origin. Times are monotonic seconds.

    At most ``size`` origins are remembered; the oldest is forgotten first. When ``keeps`` is false,
    no connection is used twice.
    """

    def __init__(self, *, keeps: bool = True, size: int = 1024) -> None:
        self._ordinary = ORDINARY if keeps else Manner(0)
        self._size = size
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def manner(self, origin: str, now: float) -> Manner:
        """How to connect to ``origin`` now."""
        known = self._known.get(origin)
        if known is None:
            return self._ordinary
        idle_s = 0 if now < known.fresh_until else min(known.idle_s, self._ordinary.idle_s)
        return Manner(
            idle_s, now >= known.http1_until, idle_s > 0 and is_closed_by_peer(known.socket)
        )

    def note_opened(self, origin: str, socket: int) -> None:
        """Record a new connection with this file descriptor."""
        self._of(origin).socket = socket

    def note_announced(self, origin: str, keep_alive: str) -> None:
        """Record the ``Keep-Alive`` value of a response, empty when there was none."""
        match = _TIMEOUT.search(keep_alive)
        idle_s = min(MAX_IDLE_S, max(0, int(match[1]) - _MARGIN_S)) if match else MAX_IDLE_S
        known = self._known.get(origin)
        if known is not None:
            known.idle_s = idle_s
        elif idle_s < MAX_IDLE_S:
            self._of(origin).idle_s = idle_s

    def note_closed(self, origin: str, now: float) -> None:
        """Record that the server closed a kept connection instead of responding."""
        self._of(origin).fresh_until = now + FRESH_S

    def note_http1(self, origin: str, now: float) -> None:
        """Record that the server asked for HTTP/1.1 (HTTP_1_1_REQUIRED, RFC 9113 section 7)."""
        self._of(origin).http1_until = now + FRESH_S

    def __repr__(self) -> str:
        return f"Connections({len(self)} of {self._size} origins)"

    def _of(self, origin: str) -> _Known:
        known = self._known.setdefault(origin, _Known())
        self._known.move_to_end(origin)
        if len(self._known) > self._size:
            self._known.popitem(last=False)
        return known


def is_closed_by_peer(socket: int) -> bool:
    """Whether the peer has closed the connection with this file descriptor.

    False where the system cannot tell, and for a number that is no longer a socket. If the number
    belongs to another connection by now, the answer is about that one, and a wrong answer costs
    only a new connection.
    """
    if socket < 0 or not _CLOSED:
        return False
    poll = select.poll()
    poll.register(socket, _CLOSED)
    return any(events & _CLOSED for _, events in poll.poll(0))


def connection_origin(url: str) -> str:
    """Scheme, host and port of a URL. Of a string that is no URL it is some string, never an
    error: what cannot be requested is reported by libcurl.
    """
    return "/".join(url.split("/", 3)[:3])
