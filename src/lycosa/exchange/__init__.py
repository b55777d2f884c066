"""The exchange: delivers parcels to the partition that owns them, and sends it questions.

``Post`` delivers parcels; ``Inquiry`` asks and calls.
"""

from typing import TYPE_CHECKING

from lycosa.system.late_names import late_names

if TYPE_CHECKING:
    from lycosa.exchange.agreement import Disagreement, ParcelNumbers, disagreements
    from lycosa.exchange.errors import (
        CallRefused,
        ExchangeError,
        NoAnswer,
        ParcelGap,
        ParcelRefused,
        ParcelsLost,
        ParcelsStuck,
        PositionLost,
    )
    from lycosa.exchange.local import InProcessExchange
    from lycosa.exchange.outbox import PARCEL_URLS, Inbox, Outbox, waiting_urls
    from lycosa.exchange.port import (
        Answering,
        ExchangeEnds,
        Handover,
        Inbound,
        Inquiry,
        Key,
        Lateness,
        LookUp,
        Parcel,
        Post,
        Receiver,
    )
    from lycosa.exchange.sender import Sender
    from lycosa.exchange.sockets import SocketExchange
    from lycosa.exchange.topic import Append, MemoryTopics, TopicPost
else:
    __getattr__ = late_names(
        __name__,
        {
            "agreement": "Disagreement ParcelNumbers disagreements",
            "errors": (
                "CallRefused ExchangeError NoAnswer ParcelGap ParcelRefused ParcelsLost"
                " ParcelsStuck PositionLost"
            ),
            "local": "InProcessExchange",
            "outbox": "PARCEL_URLS Inbox Outbox waiting_urls",
            "port": (
                "Answering ExchangeEnds Handover Inbound Inquiry Key Lateness LookUp Parcel Post"
                " Receiver"
            ),
            "sender": "Sender",
            "sockets": "SocketExchange",
            "topic": "Append MemoryTopics TopicPost",
        },
    )

__all__ = [
    "PARCEL_URLS",
    "Answering",
    "Append",
    "CallRefused",
    "Disagreement",
    "ExchangeEnds",
    "ExchangeError",
    "Handover",
    "InProcessExchange",
    "Inbound",
    "Inbox",
    "Inquiry",
    "Key",
    "Lateness",
    "LookUp",
    "MemoryTopics",
    "NoAnswer",
    "Outbox",
    "Parcel",
    "ParcelGap",
    "ParcelNumbers",
    "ParcelRefused",
    "ParcelsLost",
    "ParcelsStuck",
    "PositionLost",
    "Post",
    "Receiver",
    "Sender",
    "SocketExchange",
    "TopicPost",
    "disagreements",
    "waiting_urls",
]
