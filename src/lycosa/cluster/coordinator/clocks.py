"""Decides which clock is right when the clocks of a cluster disagree.

The coordinator compares each node's clock with its own. That is a difference and says of neither
clock that it is wrong. With several nodes the majority decides: a clock with which more than half
of all clocks agree, the coordinator's among them, is taken for right. Otherwise one coordinator
with a wrong clock would take the shards of all nodes, although these agree with each other.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

ClockSpan = tuple[float, float]
"""The minimum and the maximum by which a wall clock may be ahead of some other clock, in seconds.

That one is the coordinator's monotonic clock, so that a coordinator whose wall clock is set does
not seem to have set those of the nodes.
"""


def majority_clock(own: float, nodes: Sequence[ClockSpan], tolerance_s: float) -> float | None:
    """The clock with which more than half agree, or ``None`` when there is no majority.

    With two clocks that differ no one knows which one is right. ``own`` is the coordinator's, which
    is the result if it is one of the majority. Clocks agree that differ by at most ``tolerance_s``.
    """
    clocks: list[ClockSpan] = [(own, own), *nodes]
    # A clock with which most agree is in the middle of all, unless the tolerance just excludes one.
    for clock in (own, statistics.median_low(least for least, _ in clocks)):
        agreeing = sum(agrees(span, clock, tolerance_s) for span in clocks)
        if 2 * agreeing > len(clocks):
            return clock
    return None


def agrees(span: ClockSpan, clock: float, tolerance_s: float) -> bool:
    """Whether a clock within ``span`` may differ from ``clock`` by at most ``tolerance_s``."""
    least, greatest = span
    return least - clock <= tolerance_s and clock - greatest <= tolerance_s
