"""The ports of the exchange.

``Post`` delivers parcels to the partition that owns their content; ``Inquiry`` asks it.

Between two partitions parcels are numbered without a gap. The sender keeps each parcel in its
outbox until it is handed over durably, which has one of two meanings. Over a socket, the receiver
has *committed* the parcel. In a topic, the topic holds it after all parcels before it, and the
receiver reads it there (``Inbound``). The receiver stores the number of the last parcel from each
sender. So every parcel takes effect exactly once and in order, whatever is lost, repeated or
restarted in between.

An inquiry gets an answer in time or none, and is never stored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from lycosa.base.model.discovered import Discovered
from lycosa.base.model.parcel_items import (
    Answer,
    Errand,
    Fingerprint,
    PartitionKey,
    PostedWant,
    SettledWant,
    Verdict,
)
from lycosa.state.exchange.exchange_errors import ExchangeError


class Parcel(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one partition sends to another.

    The content is discovered URLs, rows of content-seen (key, value), fingerprints and verdicts,
    errands, answers to errands, what pages need to be rendered and what became of that, or URLs
    whose places joined the scope. ``sequence`` counts the parcels of this pair from 1.
    ``acknowledged`` is the last one that the source knows to be handed over.
    """

    source: int
    destination: int
    sequence: int
    discovered: list[Discovered]
    contents: list[tuple[bytes, bytes]] = []
    acknowledged: int = 0
    errands: list[Errand] = []
    answers: list[Answer] = []
    places: list[str] = []
    fingerprints: list[Fingerprint] = []
    verdicts: list[Verdict] = []
    wants: list[PostedWant] = []
    settled: list[SettledWant] = []


Receiver = Callable[[Parcel], Awaitable[None]]
"""Takes a parcel for a partition; returns when the commit that took it is on disk.

That holds for a repeated parcel too. Receivers are started in the order of arrival, and a receiver
must have judged the number (``Inbox.is_new``, ``Inbox.accept_parcel``) before it first suspends. It
is never cancelled because the sender stopped waiting. Its errors reach the sender as
``ExchangeError``.
"""


LookUp = Callable[[bytes], bytes | None]
"""The committed value under a key of one partition.

Called on the loop, for a handful of keys per page.
"""

Answering = Callable[[bytes], Awaitable[bytes]]
"""Answers a call: returns the reply when the commit with the call's effect is in the log.

That holds for a repeated call too. Its errors reach the caller as ``CallRefused``. It is never
cancelled because the caller stopped waiting.
"""


class Handover(msgspec.Struct, frozen=True):
    """How many parcels, from the first, are handed over durably.

    ``failure`` is the reason why the next one is not (``None``: all are).
    """

    count: int
    failure: ExchangeError | None = None


class Post(Protocol):
    """Delivers parcels durably."""

    async def post_parcels(self, parcels: Sequence[Parcel]) -> Handover:
        """Deliver parcels of one pair of partitions, in order.

        A parcel counts only when it and all before it are handed over in that order. The sender
        posts again from the first that does not count, including those after it, whatever happened
        to them. Never raises ``ExchangeError``.
        """
        ...

    async def close(self) -> None:
        """Cancel everything in progress."""
        ...


class Inquiry(Protocol):
    """Asks the owner of a partition."""

    async def look_up_keys(self, keys: Sequence[PartitionKey]) -> dict[bytes, bytes | None]:
        """The committed values under these keys; ``None`` for no value.

        Never raises. A key without an answer within a short time is absent.
        """
        ...

    async def call_owner(self, destination: int, body: bytes) -> bytes:
        """The owner's reply, once the effect of the call is in its log.

        Calls are idempotent by their content. Raises ``CallRefused``, and ``NoAnswer`` when there
        is no reply in time, after which the caller repeats the call.
        """
        ...

    async def close(self) -> None:
        """Cancel everything in progress."""
        ...


class Inbound(Protocol):
    """The topic with one partition's parcels, read by its owner."""

    async def read_parcels(self, after: int) -> Sequence[tuple[int, Parcel | None]]:
        """The next parcels after a position, each with its position; ``None`` stands for a foreign
        record (``model.foreign_record``), which the reader steps over.

        Waits until there is one, also while the topic is unreachable. Positions begin at 1 and
        never decrease. A position says that all records in front of it are read, so the parcels of
        one record have the position before it, except for the last one. A parcel may occur several
        times, and before the one in front of it: the reader skips parcels that it has taken and
        those that are not next. Raises ``PositionLost`` and ``InboxDamaged``.
        """
        ...

    async def last_position(self) -> int:
        """The position of the last parcel in the topic, 0 when there is none.

        Waits while the topic is unreachable.
        """
        ...

    async def trim(self, position: int) -> None:
        """Let the topic drop the records up to a position; no owner reads them again.

        What it does not drop now, a later call drops.
        """
        ...


class Lateness(msgspec.Struct, frozen=True):
    """How long a small number of URLs may be delayed.

    Parcels for a destination with fewer than ``fewer_than`` waiting URLs may be posted up to
    ``seconds`` late, so that a topic gets fewer and larger requests. Errands and their answers are
    never delayed, and nothing is while the worker has no work: no more URLs would come.
    """

    fewer_than: int = 100
    seconds: float = 10.0


class ExchangeEnds(msgspec.Struct, frozen=True):
    """The ends of the exchange that one of several workers uses.

    ``inbound`` is its inbox topic, ``None`` when parcels are delivered to it. Without a ``post``,
    parcels stay in their outboxes, from which a later owner sends them.
    """

    post: Post | None
    inquiry: Inquiry
    inbound: Inbound | None = None
    lateness: Lateness | None = None
