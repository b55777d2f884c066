"""Sets a host aside as a step of its visit says: parked, retired, snoozed or postponed."""

from __future__ import annotations

from lycosa.base.reasons import Reason
from lycosa.stages.frontier.crawl_clock import CrawlClock
from lycosa.stages.frontier.frontier import Frontier
from lycosa.stages.frontier.partition import Partition
from lycosa.stages.frontier.visit_state import VisitState
from lycosa.stages.schedule.steps import Park, Postpone, Retire, Snooze


def set_aside(
    host: VisitState,
    step: Park | Snooze | Retire | Postpone,
    frontier: Frontier,
    clock: CrawlClock,
) -> None:
    """Perform the step."""
    partition = frontier.partitions[host.partition]
    if isinstance(step, Snooze):
        snooze(partition, host, step.until, (step.reason, step.detail), clock)
    elif isinstance(step, Park):
        partition.set_aside_hosts.park(host, step.until, step.reason, step.detail)
    elif isinstance(step, Retire):
        partition.set_aside_hosts.retire(host, step.reason, step.detail)
    else:
        until = clock.monotonic() + step.wait_s
        if not step.is_host_busy:
            frontier.workbench.postpone_address(host.record.address, until)
        # The host's own time too, because an address without hosts in the workbench is forgotten.
        host.postpone(until)


def snooze(
    partition: Partition,
    host: VisitState,
    until: float,
    why: tuple[Reason, str],
    clock: CrawlClock,
) -> None:
    """Let the host's own URLs wait until a crawl time, for a reason with its detail."""
    partition.set_aside_hosts.snooze(host, until, *why)
    time = (
        clock.time()
    )  # read first: a delay between the two clocks makes the wait longer, not shorter
    host.next_time = max(host.next_time, clock.monotonic() + until - time)
