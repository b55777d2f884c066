"""The exchange port: carries discovered URLs, what was stored, errands and their answers to the partition that owns them.

Between two partitions parcels are numbered without a gap. The sender keeps each in its outbox until it is acknowledged, and an
acknowledgement means that the receiver has *committed* it; the receiver remembers the number of the last parcel from each sender. So every
parcel takes effect exactly once, in order, whatever is lost, repeated or restarted in between.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from lycosa.model.discovered import Discovered
from lycosa.model.errand import Answer, Errand


class Parcel(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one partition has for another: discovered URLs, rows of content-seen (key, value), errands, or answers to errands.
    ``sequence`` counts the parcels of this pair from 1; ``acknowledged`` is the last one of which the source knows that it was taken and
    committed."""

    source: int
    destination: int
    sequence: int
    discovered: list[Discovered]
    contents: list[tuple[bytes, bytes]] = []
    acknowledged: int = 0
    errands: list[Errand] = []
    answers: list[Answer] = []


Receiver = Callable[[Parcel], Awaitable[None]]
"""Takes a parcel for a partition and returns when the commit that took it is on disk, for a repeated parcel too.

Receivers are started in the order of arrival, and a receiver must have judged the number (``Inbox.is_new``, ``Inbox.accept``) before its
first real wait. It is never cancelled because the sender stopped waiting. What it raises goes to the sender as ``ExchangeError``.
"""


LookUp = Callable[[bytes], bytes | None]
"""What is committed under a key of one partition. Called on the loop, for a handful of keys a page."""

Key = tuple[int, bytes]
"""A key with the partition that owns it."""


class ExchangeError(Exception):
    """A parcel was not acknowledged: no owner, connection lost, time over, or the receiver refused. It may still have arrived."""


class ParcelRefused(ExchangeError):
    """The receiver answered, and did not take the parcel."""


class ParcelGap(ParcelRefused):
    """A parcel arrived before the one in front of it; the sender starts again from the last one acknowledged."""


class ParcelsLost(ParcelRefused):
    """Parcels that the source knows to be committed are not: the receiver would wait for them for ever."""

    def __init__(self, source: int, destination: int, taken: int, acknowledged: int) -> None:
        super().__init__(
            f"partition {destination} has taken {taken} parcels from partition {source}, of which {acknowledged} were acknowledged: "
            "commits of the receiving worker are lost. The crawl was ended; the next start with the same command says what is missing"
        )


class ParcelsStuck(ExchangeError):
    """Parcels were refused again and again, for so long that waiting on makes no sense."""

    def __init__(self, source: int, destination: int, sequence: int, seconds: float, why: str) -> None:
        super().__init__(
            f"parcel {sequence} from partition {source} was refused by partition {destination} for {seconds:.0f} s ({why}). The crawl was "
            "ended, and nothing is lost: give the same command again"
        )


class Exchange(Protocol):
    """Delivers parcels, and answers questions about keys."""

    async def deliver(self, parcel: Parcel) -> None:
        """Returns once the receiver has committed the parcel. Raises ``ExchangeError``; the sender keeps it and tries again."""
        ...

    async def ask(self, keys: Sequence[Key]) -> dict[bytes, bytes | None]:
        """What is committed under these keys; ``None`` when nothing. Never raises: what nobody answers within a short time is absent."""
        ...

    async def close(self) -> None:
        """Ends all deliveries under way with ``ExchangeError``."""
        ...
