"""The exchange as a commit sees it: what it contains of it, and what follows it."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Cut(msgspec.Struct, frozen=True):
    """The part of the exchange that a commit contains.

    ``posted`` has the pairs of partitions with new parcels. ``inbox`` is the position up to which
    the inbox topic is taken (0 = there is no topic, or nothing was read).
    """

    posted: frozenset[tuple[int, int]] = frozenset()
    inbox: int = 0


class ParcelDelivery(Protocol):
    """The outboxes to the partitions of other workers, and the inbox topic."""

    def cut_parcels(self) -> Cut: ...
    def send_parcels(self, cut: Cut) -> None: ...
    def trim_inbox(self, position: int) -> None:
        """Let the topic drop what is up to a position: two snapshots contain it."""
        ...


class NoParcels:
    """The delivery of a worker that owns all partitions."""

    def cut_parcels(self) -> Cut:
        return Cut()

    def send_parcels(self, cut: Cut) -> None:
        return None

    def trim_inbox(self, position: int) -> None:
        return None
