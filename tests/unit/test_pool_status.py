"""What an operator sees of the address pool."""

from __future__ import annotations

from lycosa.base.messages.progress import Progress, total
from lycosa.base.model.progress_parts import PoolState, PoolUse
from lycosa.cli.cluster_status import pool_line


def _of(*uses: PoolUse | None) -> PoolUse | None:
    return total([Progress(pool=use) for use in uses]).pool


def test_the_worst_use_of_all_workers_is_shown_with_its_first_moment() -> None:
    shared = PoolUse(PoolState.SHARED, 30.0)
    away = [PoolUse(PoolState.AWAY, since, "refused") for since in (20.0, 10.0)]
    assert _of(shared, *away) == PoolUse(PoolState.AWAY, 10.0, "refused (2 of 3 workers)")
    assert _of(shared, shared) == shared
    assert _of(None, shared) == shared
    assert _of(None, None) is None


def test_a_line_says_whether_redis_is_used_since_when_and_why_not() -> None:
    assert pool_line(None) == ""
    assert pool_line(PoolUse(PoolState.SHARED, 0.0)).startswith("used: all machines share")
    line = pool_line(PoolUse(PoolState.AWAY, 0.0, "10.0.0.8:6379 gave no answer in time"))
    assert line.startswith("away: each machine uses its part of the limits, since 19")
    assert line.endswith("; 10.0.0.8:6379 gave no answer in time")
