"""The ports of the exchange: ``Post`` hands parcels over to the partition that owns what is in
them, ``Inquiry`` asks it a question.

Between two partitions parcels are numbered without a gap. The sender keeps each in its outbox until
it is handed over durably. That can mean two things. Over a socket, the receiver has *committed* the
parcel. In a topic, the topic holds it, behind every parcel in front of it, and the receiver reads
it there (``Inbound``). The receiver remembers the number of the last parcel from each sender. So
every parcel takes effect exactly once, in order, whatever is lost, repeated or restarted in
between.

An inquiry has an answer in time or none, and nothing keeps it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from lycosa.exchange.errors import ExchangeError
from lycosa.model.discovered import Discovered
from lycosa.model.errand import Answer, Errand


class Parcel(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one partition has for another: discovered URLs, rows of content-seen (key, value),
    errands, answers to errands, or URLs whose places joined the scope. ``sequence`` counts the
    parcels of this pair from 1; ``acknowledged`` is the last one of which the source knows that it
    was handed over.
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


Receiver = Callable[[Parcel], Awaitable[None]]
"""Takes a parcel for a partition and returns when the commit that took it is on disk, for a
repeated parcel too.

Receivers are started in the order of arrival, and a receiver must have judged the number
(``Inbox.is_new``, ``Inbox.accept``) before its first real wait. It is never cancelled because the
sender stopped waiting. What it raises goes to the sender as ``ExchangeError``.
"""


LookUp = Callable[[bytes], bytes | None]
"""What is committed under a key of one partition. Called on the loop, for a handful of keys a
page.
"""

Answering = Callable[[bytes], Awaitable[bytes]]
"""Answers a call: gives the reply when the commit that holds the call's effect is in the log, for a
repeated call too. What it raises goes to the caller as ``CallRefused``. It is never cancelled
because the caller stopped waiting.
"""

Key = tuple[int, bytes]
"""A key with the partition that owns it."""


class Handover(msgspec.Struct, frozen=True):
    """How many parcels, from the front, are handed over durably; and why the next one is not
    (``None``: all are).
    """

    count: int
    failure: ExchangeError | None = None


class Post(Protocol):
    """Hands parcels over durably."""

    async def post(self, parcels: Sequence[Parcel]) -> Handover:
        """Parcels of one pair of partitions, in order. One counts only when it and all in front of
        it are handed over, in that order.

        The sender posts again from the first that does not count, those behind it included,
        whatever became of them. Never raises ``ExchangeError``.
        """
        ...

    async def close(self) -> None:
        """Ends what is under way."""
        ...


class Inquiry(Protocol):
    """Asks the owner of a partition."""

    async def ask(self, keys: Sequence[Key]) -> dict[bytes, bytes | None]:
        """What is committed under these keys; ``None`` when nothing. Never raises: what nobody
        answers within a short time is absent.
        """
        ...

    async def call(self, destination: int, body: bytes) -> bytes:
        """What the owner replies, once the effect of the call is in its log. Calls are idempotent
        by their content.

        Raises ``NoAnswer`` when there is no reply in time, after which the caller repeats the call,
        and ``CallRefused``.
        """
        ...

    async def close(self) -> None:
        """Ends what is under way."""
        ...


class Inbound(Protocol):
    """The topic of one partition's parcels, read by its owner."""

    async def read(self, after: int) -> list[tuple[int, Parcel]]:
        """The next parcels behind a position, each with its own; waits until there is one, for as
        long as the topic is away.

        Positions rise and begin at 1. A parcel may be there several times, and before the one in
        front of it: the reader steps over what it has taken and over what is not next. Raises
        ``PositionLost``.
        """
        ...

    async def end(self) -> int:
        """The position of the last parcel that is there by now, 0 when there is none; waits
        while the topic is away.
        """
        ...


class Lateness(msgspec.Struct, frozen=True):
    """A destination for which fewer than ``fewer_than`` URLs wait may be posted up to ``seconds``
    late, so that a topic gets fewer and larger requests. Errands and their answers are never late.
    """

    fewer_than: int = 100
    seconds: float = 10.0


class ExchangeEnds(msgspec.Struct, frozen=True):
    """What one worker of several is given. ``inbound`` is its inbox topic, ``None`` when parcels
    are brought to it.
    """

    post: Post
    inquiry: Inquiry
    inbound: Inbound | None = None
    lateness: Lateness | None = None
