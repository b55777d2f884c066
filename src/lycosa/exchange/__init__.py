"""The exchange: moves discovered URLs to the partition that owns them."""

from typing import TYPE_CHECKING

from lycosa.system.late_names import late_names

if TYPE_CHECKING:
    from lycosa.exchange.agreement import Disagreement, ParcelNumbers, disagreements
    from lycosa.exchange.local import InProcessExchange
    from lycosa.exchange.outbox import PARCEL_URLS, Inbox, Outbox, waiting_urls
    from lycosa.exchange.port import (
        Exchange,
        ExchangeError,
        Key,
        LookUp,
        Parcel,
        ParcelGap,
        ParcelRefused,
        ParcelsLost,
        ParcelsStuck,
        Receiver,
    )
    from lycosa.exchange.sender import Sender
    from lycosa.exchange.sockets import SocketExchange
else:
    __getattr__ = late_names(
        __name__,
        {
            "agreement": "Disagreement ParcelNumbers disagreements",
            "local": "InProcessExchange",
            "outbox": "PARCEL_URLS Inbox Outbox waiting_urls",
            "port": "Exchange ExchangeError Key LookUp Parcel ParcelGap ParcelRefused ParcelsLost ParcelsStuck Receiver",
            "sender": "Sender",
            "sockets": "SocketExchange",
        },
    )

__all__ = [
    "PARCEL_URLS",
    "Disagreement",
    "Exchange",
    "ExchangeError",
    "InProcessExchange",
    "Inbox",
    "Key",
    "LookUp",
    "Outbox",
    "Parcel",
    "ParcelGap",
    "ParcelNumbers",
    "ParcelRefused",
    "ParcelsLost",
    "ParcelsStuck",
    "Receiver",
    "Sender",
    "SocketExchange",
    "disagreements",
    "waiting_urls",
]
