"""The exchange: moves discovered URLs to the partition that owns them."""

from lycosa.exchange.local import InProcessExchange
from lycosa.exchange.outbox import PARCEL_URLS, Inbox, Outbox, ParcelGap, waiting_urls
from lycosa.exchange.port import Exchange, ExchangeError, Key, LookUp, Parcel, Receiver
from lycosa.exchange.sender import Sender
from lycosa.exchange.sockets import SocketExchange

__all__ = [
    "PARCEL_URLS",
    "Exchange",
    "ExchangeError",
    "InProcessExchange",
    "Inbox",
    "Key",
    "LookUp",
    "Outbox",
    "Parcel",
    "ParcelGap",
    "Receiver",
    "Sender",
    "SocketExchange",
    "waiting_urls",
]
