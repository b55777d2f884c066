"""Puts a host aside as a step of its visit says: parked, given up, or made to wait."""

from __future__ import annotations

from lycosa.frontier.crawl_clock import CrawlClock
from lycosa.frontier.frontier import Frontier
from lycosa.frontier.partition import Partition
from lycosa.frontier.visit_state import VisitState
from lycosa.reasons import Reason
from lycosa.schedule.steps import Park, Postpone, Retire, Snooze


def set_aside(
    host: VisitState,
    step: Park | Snooze | Retire | Postpone,
    frontier: Frontier,
    clock: CrawlClock,
) -> None:
    """The host waits, or is not visited any more."""
    partition = frontier.partitions[host.partition]
    if isinstance(step, Snooze):
        snooze(partition, host, step.until, (step.reason, step.detail), clock)
    elif isinstance(step, Park):
        partition.aside.park(host, step.until, step.reason, step.detail)
    elif isinstance(step, Retire):
        partition.aside.retire(host, step.reason, step.detail)
    else:
        until = clock.monotonic() + step.wait_s
        frontier.workbench.postpone_address(host.record.address, until)
        # The host's own time too: a group that it leaves empty forgets the address's.
        host.postpone(until)


def snooze(
    partition: Partition,
    host: VisitState,
    until: float,
    why: tuple[Reason, str],
    clock: CrawlClock,
) -> None:
    """The host's own URLs wait until a crawl time, with the reason and its detail."""
    partition.aside.snooze(host, until, *why)
    time = (
        clock.time()
    )  # first: what is late between the two reads makes the wait longer, not shorter
    host.next_time = max(host.next_time, clock.monotonic() + until - time)
