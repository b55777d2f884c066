"""Permits for captures, which make ``--max-pages`` exact.

The limit holds over any number of shards, their deaths and takeovers. A permit is an absolute
number: shard s may have m captures in all. The sum of these numbers never exceeds the limit, and no
owner has more captures than its number. So only this module increases a number, and a number
decreases in two cases. Either its owner reports that it gave permits back (and needs a later permit
to use more again), or a new owner has counted the committed captures (those that its predecessor
had beyond them are lost, and the fence of the log keeps them from appearing later). While a shard's
number is unknown, nothing is granted.
"""

from __future__ import annotations

from collections.abc import Mapping

from lycosa.base.config.sections import LimitSection
from lycosa.base.messages.control_records import PermitSaved
from lycosa.base.messages.worker_messages import WorkerStatus

_LARGEST = 64
_UNLIMITED = 1 << 62


class PermitBook:
    """The permits of all shards. ``known`` are those that an earlier coordinator recorded."""

    def __init__(self, limits: LimitSection, shards: int, known: Mapping[int, PermitSaved]) -> None:
        self.follow_limits(limits)
        self._shards = shards
        self._permits = dict(known)
        self._asking: list[int] = []

    def __repr__(self) -> str:
        return (
            f"<PermitBook limit={self._limit}"
            f" permits={ {s: p.captures for s, p in self._permits.items()} } asking={self._asking}>"
        )

    def follow_limits(self, limits: LimitSection) -> None:
        """Follow changed limits; what was granted stays granted."""
        # A worker that was started under a limit asks for permits until it ends.
        self._limit = limits.max_pages or _UNLIMITED
        self._is_limited = bool(limits.max_pages)
        self._bytes = limits.max_bytes

    @property
    def has_limits(self) -> bool:
        """Whether the crawl has a limit that can be reached."""
        return self._is_limited or bool(self._bytes)

    @property
    def left(self) -> int:
        """The captures within the limit that no shard has or may make."""
        # A shard that has not reported may have made captures under a permit of an earlier
        # coordinator.
        if len(self._permits) < self._shards:
            return 0
        return max(self._limit - sum(permit.captures for permit in self._permits.values()), 0)

    def record_status(self, shard: int, status: WorkerStatus) -> list[PermitSaved]:
        """Handle an owner's status; returns the records that follow from it.

        A status of an earlier term, or from before the last permit, is ignored.
        """
        saved = self._permits.get(shard)
        # A new owner: what it says that it may make is what the log of the shard has, whatever was
        # granted to the one before.
        if saved is None or status.term > saved.term:
            serial = max(saved.serial if saved is not None else 0, status.serial) + 1
            return [
                self._set(PermitSaved(shard, status.term, serial, status.may)),
                *self._ask(shard, status.wants),
            ]
        if status.term < saved.term or status.serial != saved.serial:
            return []
        changed = []
        # The owner gives back what it does not need; others may have it.
        if status.may < saved.captures:
            changed = [self._set(PermitSaved(shard, saved.term, saved.serial + 1, status.may))]
        return changed + self._ask(shard, status.wants)

    def permit_for(self, shard: int) -> PermitSaved | None:
        """The permit to send to the owner."""
        return self._permits.get(shard)

    def is_reached(self, captures: int, body_bytes: int, renders: int = 0) -> bool:
        """Whether the committed captures have reached a limit.

        The limit on captures waits for pages that are rendered, ``renders`` of them.
        """
        is_full = self._is_limited and captures >= self._limit and not renders
        return is_full or bool(self._bytes and body_bytes >= self._bytes)

    def _set(self, permit: PermitSaved) -> PermitSaved:
        self._permits[permit.shard] = permit
        return permit

    def _ask(self, shard: int, wants: bool) -> list[PermitSaved]:
        self._asking = [each for each in self._asking if each != shard or wants]
        if wants and shard not in self._asking:
            self._asking.append(shard)
        return self._grant()

    def _grant(self) -> list[PermitSaved]:
        """Grant permits in the order of requests; a shard that gets none keeps waiting."""
        granted = []
        while self._asking and self.left:
            # Small shares near the limit, so that no shard holds permits that another could use.
            share = min(_LARGEST, max(self.left // (2 * self._shards), 1))
            saved = self._permits[self._asking.pop(0)]
            granted.append(
                self._set(
                    PermitSaved(saved.shard, saved.term, saved.serial + 1, saved.captures + share)
                )
            )
        return granted
