"""Connections between the machines of a crawl: both sides prove themselves before anything else.

``FrameServer`` accepts them and ``connect`` makes them; both give a ``FrameStream``.
"""

from lycosa.network.addresses import split_address
from lycosa.network.connecting import connect
from lycosa.network.credentials import Credentials, credentials_of
from lycosa.network.errors import RefusedConnection
from lycosa.network.handshake import MAX_HELLO_BYTES
from lycosa.network.server import FrameServer

__all__ = [
    "MAX_HELLO_BYTES",
    "Credentials",
    "FrameServer",
    "RefusedConnection",
    "connect",
    "credentials_of",
    "split_address",
]
