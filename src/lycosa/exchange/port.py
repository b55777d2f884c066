"""The exchange port: carries discovered URLs to the partition that owns them.

Between two partitions parcels are numbered without a gap. The sender keeps each in its outbox until it is acknowledged, and an
acknowledgement means that the receiver has *committed* it; the receiver remembers the number of the last parcel from each sender. So every
parcel takes effect exactly once, in order, whatever is lost, repeated or restarted in between.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from lycosa.model.discovered import Discovered


class Parcel(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Discovered URLs from one partition for another; ``sequence`` counts the parcels of this pair from 1."""

    source: int
    destination: int
    sequence: int
    discovered: list[Discovered]


Receiver = Callable[[Parcel], Awaitable[None]]
"""Takes a parcel for a partition and returns when the commit that took it is on disk, for a repeated parcel too.

Receivers are started in the order of arrival, and a receiver must have judged the number (``Inbox.is_new``, ``Inbox.accept``) before its
first real wait. It is never cancelled because the sender stopped waiting. What it raises goes to the sender as ``ExchangeError``.
"""


class ExchangeError(Exception):
    """A parcel was not acknowledged: no owner, connection lost, time over, or the receiver refused. It may still have arrived."""


class Exchange(Protocol):
    """Delivers parcels."""

    async def deliver(self, parcel: Parcel) -> None:
        """Returns once the receiver has committed the parcel. Raises ``ExchangeError``; the sender keeps it and tries again."""
        ...

    async def close(self) -> None:
        """Ends all deliveries under way with ``ExchangeError``."""
        ...
