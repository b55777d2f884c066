"""Takes hosts out of their turn: because they may not be visited, or for an answer from outside."""

from __future__ import annotations

from lycosa.frontier.frontier import Frontier
from lycosa.frontier.visit_state import VisitState


def withdraw_host(frontier: Frontier, host: VisitState) -> None:
    """Remove a host that may not be visited any more from where it waits.

    A host in a visit stays until its visit gives it back.
    """
    if not host.in_process:
        if host.benched:
            frontier.workbench.remove_host(host)
        frontier.partitions[host.partition].settle_host(host)
