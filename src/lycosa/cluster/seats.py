"""The seats of a crawl's shards: what a coordinator knows of each shard's owner."""

from __future__ import annotations

from collections.abc import Iterator

from lycosa.cluster.placement import Placement
from lycosa.cluster.requests import Owner
from lycosa.cluster.worker_messages import Progress, ToldWorker, WorkerStatus, is_over


class Seat:
    """What is known of one shard's owner. ``told`` has the last message of each kind that it was
    sent, and when.
    """

    __slots__ = ("owner", "progress", "status", "told")

    def __init__(self) -> None:
        self.owner: Owner | None = None
        self.status: WorkerStatus | None = None
        self.progress = Progress()
        self.told: dict[type[ToldWorker], tuple[object, float]] = {}

    def take(self, owner: Owner, status: WorkerStatus) -> None:
        """Another owner has the seat: what the one before was told does not count."""
        self.owner, self.status = owner, status
        self.told.clear()


class Seats:
    """By shard. Who owns a shard is judged by ``placement``."""

    def __init__(self, shards: int, placement: Placement) -> None:
        self._seats = [Seat() for _ in range(shards)]
        self._placement = placement

    def __getitem__(self, shard: int) -> Seat:
        return self._seats[shard]

    def __iter__(self) -> Iterator[Seat]:
        return iter(self._seats)

    def __len__(self) -> int:
        return len(self._seats)

    def owner(self, shard: int) -> Owner | None:
        """The shard's current owner, as far as it is known."""
        place, seat = self._placement.places[shard], self._seats[shard]
        is_current = place.node and not place.leaving and not place.is_over
        return (
            seat.owner
            if is_current and seat.owner is not None and seat.owner[0] == place.assignment
            else None
        )

    def owners(self) -> dict[int, Owner] | None:
        """All owners by shard, or ``None`` while a shard has none."""
        owners = {
            shard: owner
            for shard in range(len(self._seats))
            if (owner := self.owner(shard)) is not None
        }
        return owners if len(owners) == len(self._seats) else None

    def captures(self) -> int:
        """Captures of the whole crawl, as far as owners told of them."""
        return sum(
            max(seat.progress.captures, seat.status.counted if seat.status else 0)
            for seat in self._seats
        )

    def are_idle(self) -> bool:
        """Whether all owners were idle when they last said something."""
        return is_over([seat.progress for seat in self._seats], self.captures())
