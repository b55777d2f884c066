"""The owner of each shard, as the coordinator knows it: its last status, and what it was sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from lycosa.base.messages.control_records import PermitSaved
from lycosa.base.messages.progress import ContinuedProgress, Progress, total
from lycosa.base.messages.worker_messages import (
    LiveSettings,
    NoMoreCalls,
    Permit,
    Routes,
    ToldWorker,
    WorkerStatus,
    is_over,
)
from lycosa.base.model.end import End
from lycosa.base.model.url_state import UrlState
from lycosa.base.system.meter import Number
from lycosa.cluster.coordinator.owner_requests import Owner
from lycosa.cluster.coordinator.placement import COUNT_BITS, Placement


class ShardOwner:
    """The state of one shard's owner.

    ``told`` has the last message of each kind that was sent to it, and the time.
    """

    __slots__ = ("heard", "owner", "status", "told")

    def __init__(self) -> None:
        self.owner: Owner | None = None
        self.status: WorkerStatus | None = None
        self.heard = ContinuedProgress()
        self.told: dict[type[ToldWorker], tuple[object, float]] = {}

    @property
    def progress(self) -> Progress:
        """The owner's last report, with what earlier owners' processes counted."""
        return self.heard.latest

    def take(self, owner: Owner, status: WorkerStatus) -> None:
        """Note another owner; messages to the earlier one no longer count."""
        self.owner, self.status = owner, status
        self.heard.begin_process()
        self.told.clear()

    def leave(self) -> None:
        """Forget the owner, until its next status."""
        self.owner = self.status = None
        self.told.clear()


class ShardOwners:
    """The owners by shard. ``placement`` decides which node runs a shard."""

    def __init__(self, shards: int, placement: Placement) -> None:
        self._shard_owners = [ShardOwner() for _ in range(shards)]
        self._placement = placement
        self._rates = CrawlRates()

    def __getitem__(self, shard: int) -> ShardOwner:
        return self._shard_owners[shard]

    def __iter__(self) -> Iterator[ShardOwner]:
        return iter(self._shard_owners)

    def __len__(self) -> int:
        return len(self._shard_owners)

    def clear(self) -> None:
        for entry in self._shard_owners:
            entry.leave()

    def have_finished(self) -> bool:
        """Whether all workers, which were told that no more follows, ended as finished."""
        return all(
            entry.status is not None
            and not entry.status.expects_more
            and entry.owner is not None
            and entry.owner[0] == place.assignment
            and place.is_over
            and place.report is not None
            and place.report.end == End.FINISHED.value
            for entry, place in zip(self._shard_owners, self._placement.places, strict=True)
        )

    def owner(self, shard: int) -> Owner | None:
        """The shard's current owner, if it is known."""
        place, entry = self._placement.places[shard], self._shard_owners[shard]
        is_current = place.node and not place.leaving and not place.is_over
        return (
            entry.owner
            if is_current and entry.owner is not None and entry.owner[0] == place.assignment
            else None
        )

    def owners(self) -> dict[int, Owner] | None:
        """All owners by shard, or ``None`` while a shard has none."""
        owners = {
            shard: owner
            for shard in range(len(self._shard_owners))
            if (owner := self.owner(shard)) is not None
        }
        return owners if len(owners) == len(self._shard_owners) else None

    def addresses(self) -> dict[int, str]:
        """The addresses of all current owners that have one, by shard."""
        return {
            shard: entry.status.address
            for shard, entry in enumerate(self._shard_owners)
            if entry.status is not None and entry.status.address and self.owner(shard) is not None
        }

    def progress(self) -> list[Progress]:
        """The last progress of each shard; one without an owner does not wait for anything."""
        return [
            entry.progress
            if self.owner(shard) is not None
            else msgspec.structs.replace(
                entry.progress, waits_for="", undelivered="", relief=""
            ).with_numbers({"lycosa_fetches_in_progress": 0})
            for shard, entry in enumerate(self._shard_owners)
        ]

    def note_rates(self, now: float) -> None:
        """Note the counts of the crawl, about once a second."""
        if self._rates.is_due(now):
            known = [entry.progress for entry in self._shard_owners if entry.progress.has_counts]
            self._rates.note(now, total(known), len(known))

    def rates(self) -> dict[str, dict[str, Number]]:
        """The rates of the crawl by metric and window."""
        return self._rates.tables()

    def captures(self) -> int:
        """The captures of the whole crawl, as reported by the owners."""
        return sum(
            max(entry.progress.captures, entry.status.counted if entry.status else 0)
            for entry in self._shard_owners
        )

    def committed(self) -> tuple[int, int, int]:
        """The committed captures that limits count, the bytes of all bodies, and the number of
        pages whose renders are awaited.
        """
        reports = [entry.progress for entry in self._shard_owners]
        captures = sum(each.captures - each.wanted for each in reports)
        size = sum(each.body_bytes for each in reports)
        return captures, size, sum(each.renders_awaited for each in reports)

    def are_idle(self) -> bool:
        """Whether all owners were idle in their last report."""
        return is_over([entry.progress for entry in self._shard_owners], self.captures())


def lacking(
    status: WorkerStatus,
    permit: PermitSaved | None,
    settings: LiveSettings,
    routes: Routes,
    may_end: bool,
) -> list[ToldWorker]:
    """What an owner lacks by its status.

    ``may_end``: no caller will ask it for anything more.
    """
    found: list[ToldWorker] = []
    if permit is not None and permit.term == status.term and status.serial < permit.serial:
        found.append(Permit(permit.serial, permit.captures))
    if status.settings < settings.version:
        found.append(settings)
    if status.routes < routes.version:
        found.append(routes)
    if status.expects_more and may_end:
        found.append(NoMoreCalls())
    return found


class RouteTable:
    """The addresses at which owners answer each other, with a version that increases over all
    coordinators.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._count = 0
        self.routes = Routes(0, {})

    def update(self, addresses: dict[int, str]) -> None:
        """Note the addresses of the current owners, by shard."""
        if addresses != self.routes.addresses:
            self._count += 1
            self.routes = Routes((self._number << COUNT_BITS) + self._count, addresses)


# How fast the crawl is: captures, bytes, URLs found and URLs done, a second.
#
# The counts are noted about once a second. Each rate is given over the last minute, over the run,
# and as its peak, which is the highest minute. Captures come in bursts, because a commit finishes
# hundreds, so no shorter time is meaningful.


_EVERY_S = 1.0
_MINUTE_S = 60.0
_SHORTEST_S = 5.0  # a peak over a shorter time is noise
_METRICS = (
    "lycosa_captures_per_second",
    "lycosa_received_bytes_per_second",
    "lycosa_urls_discovered_per_second",
    "lycosa_urls_settled_per_second",
)
_OPEN = (UrlState.QUEUED.label, UrlState.PARKED.label)


class CrawlRates:
    """The rates of one run. ``now`` is monotonic, in seconds."""

    def __init__(self) -> None:
        self._noted: deque[tuple[float, tuple[int, ...]]] = deque()
        self._first: tuple[float, tuple[int, ...]] | None = None
        self._shards = 0
        self._peaks = [0.0] * len(_METRICS)

    def is_due(self, now: float) -> bool:
        """Whether a second has passed since the counts were noted."""
        return not self._noted or now - self._noted[-1][0] >= _EVERY_S

    def note(self, now: float, progress: Progress, shards: int = 1) -> None:
        """Note the counts of the crawl, which are the sums of so many shards.

        A coordinator that has just started hears of one shard after the other. What a shard counted
        before is nothing that was done since, so the rates begin again with each.
        """
        if not progress.discovered:
            return  # no worker has reported yet
        states = progress.states
        settled = progress.discovered - sum(states.get(name, 0) for name in _OPEN)
        counts = (progress.captures, progress.body_bytes, progress.discovered, settled)
        if self._first is None or shards != self._shards or self._fall(counts):
            self._first, self._shards = (now, counts), shards
            self._noted.clear()
        self._noted.append((now, counts))
        while len(self._noted) > 2 and now - self._noted[0][0] > _MINUTE_S:
            self._noted.popleft()
        if now - self._noted[0][0] >= _SHORTEST_S:
            minute = self._since(self._noted[0])
            self._peaks = [max(each, rate) for each, rate in zip(self._peaks, minute, strict=True)]

    def _fall(self, counts: tuple[int, ...]) -> bool:
        """Whether a worker lost what it had not committed, or has not reported again."""
        return any(new < old for new, old in zip(counts[:3], self._noted[-1][1][:3], strict=True))

    def tables(self) -> dict[str, dict[str, Number]]:
        """The rates by metric and window; nothing before two reports."""
        if self._first is None or len(self._noted) < 2:
            return {}
        minute, run = self._since(self._noted[0]), self._since(self._first)
        return {
            name: {
                "minute": round(minute[at], 3),
                "run": round(run[at], 3),
                "peak": round(max(self._peaks[at], 0.0), 3),
            }
            for at, name in enumerate(_METRICS)
        }

    def _since(self, start: tuple[float, tuple[int, ...]]) -> list[float]:
        then, before = start
        now, counts = self._noted[-1]
        span = max(now - then, 0.001)
        return [(new - old) / span for new, old in zip(counts, before, strict=True)]
