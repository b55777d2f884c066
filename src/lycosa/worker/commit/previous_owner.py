"""How a shard's new owner begins: who sent the last requests, and until when hosts are held.

If the owner directly before ended with a final commit, nothing is in flight. If its process was
seen to die on this node, its connections ended with it, and the attempt log of this machine names
the hosts that it contacted; so the rules of one machine hold, and URLs in flight are suspects.
Otherwise it may send requests until its lease expires, and they may last ``fetch.total_s``. The
last lease that the log can have given began before the claim was accepted, so all hosts are held
from that moment for both times.

A process that dies while hosts are held leaves the rest of that time to the next one. ``hold.json``
in the node's folder of the shard says until when; a monotonic time means nothing after a reboot.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from lycosa.base.model.end import PreviousEnd
from lycosa.base.system.durable import replace_file
from lycosa.base.system.frames import UNREADABLE
from lycosa.state.commit import LEASE_S
from lycosa.state.shard.opened_shard import Shard
from lycosa.worker.job import ClusterJob


class Hold(msgspec.Struct, frozen=True):
    """The owner of ``term`` holds all hosts until ``until`` (monotonic since ``boot``; 0 = not)."""

    term: int
    boot: str
    until: float


def end_of_previous(shard: Shard, cluster: ClusterJob) -> PreviousEnd:
    """How the owner before this one ended.

    Only a crash that this node saw makes URLs suspects, and only if that process was the owner
    directly before.
    """
    if shard.was_left_orderly:
        return PreviousEnd.ORDERLY
    is_ours = cluster.previous_crashed and cluster.previous_term == shard.term - 1
    return PreviousEnd.CRASH if is_ours else PreviousEnd.LOST


def held_until(
    folder: Path, term: int, previous: PreviousEnd, claimed: float, total_s: float, boot: str
) -> float:
    """When hosts may be requested (monotonic), 0 if no host is held; ``folder`` is the shard's.

    ``claimed`` is a moment after the log accepted the claim; ``boot`` is the machine's ``boot_id``,
    empty if it has none. Records the result for the next owner.
    Raises ``OSError``.
    """
    until = 0.0
    if previous is not PreviousEnd.ORDERLY:
        until = claimed + LEASE_S + total_s
    if previous is PreviousEnd.CRASH:
        left = _read(folder)
        # Monotonic times compare only within one boot of one machine.
        if left is not None and left.term == term - 1 and left.boot == boot != "":
            until = left.until if left.until > claimed else 0.0
    # Also without a hold: after a crash of this owner the next one here then knows that none is
    # needed.
    replace_file(_path(folder), msgspec.json.encode(Hold(term, boot, until)))
    return until


def _path(folder: Path) -> Path:
    return folder / "hold.json"


def _read(folder: Path) -> Hold | None:
    try:
        return msgspec.json.decode(_path(folder).read_bytes(), type=Hold)
    except (OSError, *UNREADABLE):
        # Without the file the hold has its full length, which is the safe direction.
        return None
