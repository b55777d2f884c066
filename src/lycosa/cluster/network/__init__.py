"""Connections between the processes of a crawl: both sides authenticate before any other message.

``FrameServer`` accepts them and ``connect`` makes them; both give a ``FrameStream``.
``SocketExchange`` is the exchange between the workers of one machine over them, ``NetworkInquiry``
asks and calls workers on other machines.
"""

from typing import TYPE_CHECKING

from lycosa.base.system.lazy_imports import lazy_names

if TYPE_CHECKING:
    from lycosa.cluster.network.connecting import connect
    from lycosa.cluster.network.credentials import Credentials, TlsFiles, credentials_of
    from lycosa.cluster.network.endpoints import RefusedConnection, join_address, split_address
    from lycosa.cluster.network.frame_server import FrameServer
    from lycosa.cluster.network.handshake import MAX_HELLO_BYTES
    from lycosa.cluster.network.inquiry import NetworkInquiry
    from lycosa.cluster.network.sockets import SocketExchange
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "endpoints": "RefusedConnection join_address split_address",
            "connecting": "connect",
            "credentials": "Credentials TlsFiles credentials_of",
            "handshake": "MAX_HELLO_BYTES",
            "inquiry": "NetworkInquiry",
            "frame_server": "FrameServer",
            "sockets": "SocketExchange",
        },
    )

__all__ = [
    "MAX_HELLO_BYTES",
    "Credentials",
    "FrameServer",
    "NetworkInquiry",
    "RefusedConnection",
    "SocketExchange",
    "TlsFiles",
    "connect",
    "credentials_of",
    "join_address",
    "split_address",
]
