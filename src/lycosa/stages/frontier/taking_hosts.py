"""Removes hosts from where they wait for their turn: because they may not be visited, or for an
answer from outside.
"""

from __future__ import annotations

from lycosa.stages.frontier.frontier import Frontier
from lycosa.stages.frontier.visit_state import VisitState


def withdraw_host(frontier: Frontier, host: VisitState) -> None:
    """Remove a host that may not be visited any more from where it waits.

    A host in a visit stays until its visit gives it back.
    """
    if not host.in_process:
        if host.on_workbench:
            frontier.workbench.remove_host(host)
        frontier.partitions[host.partition].settle_host(host)


def claim_host(frontier: Frontier, host: VisitState) -> bool:
    """Take a host that waits, before its time, for a visit that sends no request.

    Returns whether it could be taken: a host in a visit cannot. ``Frontier.give_back`` returns it.
    Its place in a front queue stays in the table, so that a restart finds the host.
    """
    if host.in_process:
        return False
    if host.on_workbench:
        frontier.workbench.remove_host(host)
    elif host.record.asleep_until:
        frontier.partitions[host.partition].places.recall_host(host)
    frontier.hold_back({host.name: 0.0})  # what it was held for after a restart is over
    host.on_workbench = host.pulled = True
    frontier.workbench.enter_address(host)
    frontier.in_process[host.host8] = host
    return True
