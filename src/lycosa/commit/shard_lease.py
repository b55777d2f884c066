"""A commit is the lease: until when a worker may count on owning its shard, and so may send
requests for it.

Another worker can take a shard over only in the log, and sends nothing until every lease that the
log can have given has run out. So a commit that is in the log lets its writer go on for
``LEASE_S``, counted from the moment *before* its append was begun: the moment at which the log took
it, and not the one at which its writer heard of that, is what a new owner counts from, and it is
later than that. An append that did not succeed, or of which that is not known, gives nothing.

Times are of ``Clock.monotonic``, which counts suspension: a machine that slept wakes without its
leases. The lease is asked before a slot of an address is taken, and again at the moment when a
request leaves, because a process may be stopped between the two.

The crawl of one machine needs no lease: while a worker lives it holds the lock of the folder, and
nothing else can be its owner.
"""

from __future__ import annotations

from math import inf

LEASE_S = 30.0
# of its length, so that an append may fail once and again before the lease has run out
_RENEWED_AFTER = 1 / 3


class ShardLease:
    """The lease of one worker on its shard; a new one is not held."""

    __slots__ = ("_has_ended", "_length_s", "_until")

    def __init__(self, length_s: float = LEASE_S) -> None:
        self._length_s = length_s
        self._until = -inf
        self._has_ended = False

    @property
    def is_limited(self) -> bool:
        """Whether it runs out: the shard may get another owner while this one lives."""
        return self._length_s < inf

    def renewed(self, began: float) -> None:
        """An append that was begun at ``began`` has succeeded."""
        if not self._has_ended:
            self._until = max(self._until, began + self._length_s)

    def end(self) -> None:
        """The shard has another owner, or may have one: the lease is never held again."""
        self._has_ended, self._until = True, -inf

    def holds(self, now: float) -> bool:
        """Whether a request may leave."""
        return now < self._until

    def left_s(self, now: float) -> float:
        """The seconds until it runs out, 0 when it has."""
        return max(self._until - now, 0.0)

    def is_due(self, now: float) -> bool:
        """Whether a commit is due for the sake of the lease, even if there is nothing to commit."""
        return self._until - now < self._length_s * (1 - _RENEWED_AFTER)

    def __repr__(self) -> str:
        return (
            f"<ShardLease of {self._length_s} s until"
            f" {self._until:.3f}{' ended' if self._has_ended else ''}>"
        )


def folder_lease() -> ShardLease:
    """For a worker that the lock of a crawl folder protects: it holds, and asks for no commit."""
    lease = ShardLease(inf)
    lease.renewed(0.0)
    return lease
