"""Permits for captures: ``--max-pages`` holds exactly over any number of shards, their deaths and
takeovers.

A permit is an absolute number: shard s may have m captures in all. The sum of these numbers never
exceeds the limit, and no owner has more than its number. So a number grows only here, and shrinks
in two cases: its owner says that it gave permits back (it can only grow again by a later permit),
or a new owner has counted what is committed (what its predecessor had beyond that is lost, and by
the fence of the log stays lost). While a shard's number is unknown, nothing is granted.
"""

from __future__ import annotations

from collections.abc import Mapping

from lycosa.cluster.control import PermitSaved
from lycosa.cluster.worker_messages import WorkerStatus
from lycosa.config.sections import LimitSection

_LARGEST = 64


class PermitBook:
    """The permits of all shards. ``known`` are those that an earlier coordinator recorded."""

    def __init__(self, limits: LimitSection, shards: int, known: Mapping[int, PermitSaved]) -> None:
        self._limit = limits.max_pages
        self._bytes = limits.max_bytes
        self._shards = shards
        self._permits = dict(known)
        self._asking: list[int] = []

    def __repr__(self) -> str:
        return (
            f"<PermitBook limit={self._limit}"
            f" permits={ {s: p.captures for s, p in self._permits.items()} } asking={self._asking}>"
        )

    @property
    def left(self) -> int:
        """Captures that no shard has or may make yet."""
        if len(self._permits) < self._shards:
            return 0
        return max(self._limit - sum(permit.captures for permit in self._permits.values()), 0)

    def hear(self, shard: int, status: WorkerStatus) -> list[PermitSaved]:
        """An owner's word; gives the records that follow from it. One of an earlier term, or
        from before the last permit, says nothing.
        """
        saved = self._permits.get(shard)
        if saved is None or status.term > saved.term:
            serial = max(saved.serial if saved is not None else 0, status.serial) + 1
            return [
                self._set(PermitSaved(shard, status.term, serial, status.may)),
                *self._ask(shard, status.wants),
            ]
        if not self._limit or status.term < saved.term or status.serial != saved.serial:
            return []
        changed = []
        if status.may < saved.captures:
            changed = [self._set(PermitSaved(shard, saved.term, saved.serial + 1, status.may))]
        return changed + self._ask(shard, status.wants)

    def permit_for(self, shard: int) -> PermitSaved | None:
        """The permit to tell the owner, where there is a limit."""
        return self._permits.get(shard) if self._limit else None

    def is_reached(self, captures: int, body_bytes: int) -> bool:
        """Whether all that the limits allow was captured and committed."""
        return bool(self._limit and captures >= self._limit) or bool(
            self._bytes and body_bytes >= self._bytes
        )

    def _set(self, permit: PermitSaved) -> PermitSaved:
        self._permits[permit.shard] = permit
        return permit

    def _ask(self, shard: int, wants: bool) -> list[PermitSaved]:
        self._asking = [each for each in self._asking if each != shard or wants]
        if wants and shard not in self._asking:
            self._asking.append(shard)
        return self._grant()

    def _grant(self) -> list[PermitSaved]:
        """First come, first served; a shard that gets none keeps waiting."""
        granted = []
        while self._limit and self._asking and self.left:
            # Small shares towards the end, so that no shard holds permits that another could use.
            share = min(_LARGEST, max(self.left // (2 * self._shards), 1))
            saved = self._permits[self._asking.pop(0)]
            granted.append(
                self._set(
                    PermitSaved(saved.shard, saved.term, saved.serial + 1, saved.captures + share)
                )
            )
        return granted
