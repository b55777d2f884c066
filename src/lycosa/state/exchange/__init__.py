"""The parcel exchange: outboxes with numbered parcels, and the ports that deliver parcels and
questions to the partition that owns a URL.

``Post`` delivers parcels; ``Inquiry`` asks and calls.
"""

from typing import TYPE_CHECKING

from lycosa.base.system.lazy_imports import lazy_names

if TYPE_CHECKING:
    from lycosa.state.exchange.agreement import Disagreement, ParcelNumbers, disagreements
    from lycosa.state.exchange.exchange_errors import (
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
    from lycosa.state.exchange.exchange_port import (
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
    from lycosa.state.exchange.local import InProcessExchange
    from lycosa.state.exchange.outbox import (
        PARCEL_URLS,
        Inbox,
        Outbox,
        OwnerItem,
        urls_in_outboxes,
    )
    from lycosa.state.exchange.outbox_sender import OutboxSender
    from lycosa.state.exchange.topic import Append, MemoryTopics, TopicPost
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "agreement": "Disagreement ParcelNumbers disagreements",
            "exchange_errors": (
                "CallRefused ExchangeError InboxDamaged NoAnswer ParcelGap ParcelRefused"
                " ParcelsLost ParcelsStuck PositionLost"
            ),
            "local": "InProcessExchange",
            "outbox": "PARCEL_URLS Inbox Outbox OwnerItem urls_in_outboxes",
            "exchange_port": (
                "Answering ExchangeEnds Handover Inbound Inquiry Lateness LookUp"
                " Parcel Post Receiver"
            ),
            "outbox_sender": "OutboxSender",
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
    "OwnerItem",
    "Parcel",
    "ParcelGap",
    "ParcelNumbers",
    "ParcelRefused",
    "ParcelsLost",
    "ParcelsStuck",
    "PositionLost",
    "Post",
    "Receiver",
    "TopicPost",
    "disagreements",
    "urls_in_outboxes",
]
