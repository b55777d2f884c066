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
        InboxDamaged,
        NoAnswer,
        ParcelGap,
        ParcelRefused,
        ParcelsLost,
        ParcelsStuck,
        PositionLost,
    )
    from lycosa.exchange.local import InProcessExchange
    from lycosa.exchange.outbox import PARCEL_URLS, Inbox, Outbox, urls_in_outboxes
    from lycosa.exchange.outbox_sender import OutboxSender
    from lycosa.exchange.port import (
        Answering,
        ExchangeEnds,
        Handover,
        Inbound,
        Inquiry,
        Lateness,
        LookUp,
        Parcel,
        Post,
        Receiver,
    )
    from lycosa.exchange.sockets import SocketExchange
    from lycosa.exchange.topic import Append, MemoryTopics, TopicPost
else:
    __getattr__ = late_names(
        __name__,
        {
            "agreement": "Disagreement ParcelNumbers disagreements",
            "errors": (
                "CallRefused ExchangeError InboxDamaged NoAnswer ParcelGap ParcelRefused"
                " ParcelsLost ParcelsStuck PositionLost"
            ),
            "local": "InProcessExchange",
            "outbox": "PARCEL_URLS Inbox Outbox urls_in_outboxes",
            "port": (
                "Answering ExchangeEnds Handover Inbound Inquiry Lateness LookUp"
                " Parcel Post Receiver"
            ),
            "outbox_sender": "OutboxSender",
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
    "InboxDamaged",
    "Inquiry",
    "Lateness",
    "LookUp",
    "MemoryTopics",
    "NoAnswer",
    "Outbox",
    "OutboxSender",
    "Parcel",
    "ParcelGap",
    "ParcelNumbers",
    "ParcelRefused",
    "ParcelsLost",
    "ParcelsStuck",
    "PositionLost",
    "Post",
    "Receiver",
    "SocketExchange",
    "TopicPost",
    "disagreements",
    "urls_in_outboxes",
]
