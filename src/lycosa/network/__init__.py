"""Connections between the machines of a crawl: both sides prove themselves before anything else.

``FrameServer`` accepts them and ``connect`` makes them; both give a ``FrameStream``.
``NetworkInquiry`` asks and calls workers on other machines over them.
"""

from typing import TYPE_CHECKING

from lycosa.system.late_names import late_names

if TYPE_CHECKING:
    from lycosa.network.addresses import join_address, split_address
    from lycosa.network.connecting import connect
    from lycosa.network.credentials import Credentials, TlsFiles, credentials_of
    from lycosa.network.errors import RefusedConnection
    from lycosa.network.handshake import MAX_HELLO_BYTES
    from lycosa.network.inquiry import NetworkInquiry
    from lycosa.network.server import FrameServer
else:
    __getattr__ = late_names(
        __name__,
        {
            "addresses": "join_address split_address",
            "connecting": "connect",
            "credentials": "Credentials TlsFiles credentials_of",
            "errors": "RefusedConnection",
            "handshake": "MAX_HELLO_BYTES",
            "inquiry": "NetworkInquiry",
            "server": "FrameServer",
        },
    )

__all__ = [
    "MAX_HELLO_BYTES",
    "Credentials",
    "FrameServer",
    "NetworkInquiry",
    "RefusedConnection",
    "TlsFiles",
    "connect",
    "credentials_of",
    "join_address",
    "split_address",
]
