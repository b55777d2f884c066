"""The shard lease: how long a worker may count on owning its shard and so send requests.

Each commit renews the lease. Another worker can take a shard over only through the log, and sends
nothing until every lease that the log can have given has expired. So a commit in the log lets its
writer continue for ``LEASE_S``, counted from the moment *before* the append began. The new owner
counts from the moment when the log accepted the commit, which is later. An append that failed, or
whose outcome is unknown, renews nothing.

Times are of ``Clock.monotonic``, which includes suspension: a machine that was suspended wakes
without its leases. The lease is checked before a slot of an address is taken, and again when a
request is sent, because a process may be stopped between the two.

The crawl of one machine needs no lease: while a worker lives, it holds the lock of the folder, so
there can be no other owner.
"""

from __future__ import annotations

from math import inf

LEASE_S = 30.0
# of its length, so that an append may fail twice before the lease expires
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
        """Whether the lease can expire: the shard may get another owner while this one lives."""
        return self._length_s < inf

    def renew(self, began: float) -> None:
        """Renew the lease after the successful append that began at ``began``."""
        if not self._has_ended:
            self._until = max(self._until, began + self._length_s)

    def give_up(self) -> None:
        """End the lease for good, because the shard has or may have another owner."""
        self._has_ended, self._until = True, -inf

    def holds(self, now: float) -> bool:
        """Whether a request may be sent."""
        return now < self._until

    def left_s(self, now: float) -> float:
        """The seconds until the lease expires, 0 if it has."""
        return max(self._until - now, 0.0)

    def is_due(self, now: float) -> bool:
        """Whether a commit is due to renew the lease, even without anything to commit."""
        return self._until - now < self._length_s * (1 - _RENEWED_AFTER)


def folder_lease() -> ShardLease:
    """The lease of a worker that the lock of a crawl folder protects: always held, never due."""
    lease = ShardLease(inf)
    lease.renew(0.0)
    return lease
