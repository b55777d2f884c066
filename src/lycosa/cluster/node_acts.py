"""What a node plan has done by the node that it is the plan of, and what it is told of the machine
and of processes.
"""

from __future__ import annotations

import msgspec

from lycosa.cluster.messages import ToCoordinator
from lycosa.cluster.worker_messages import Failed, ToWorker


class StartWorker(msgspec.Struct, frozen=True):
    """Start a process for the shard, its ``process``-th in this life of the node; after the first,
    recover its part before. It is told ``NodePlan.greeting``, asked when it is there.
    """

    shard: int
    assignment: int
    process: int
    is_careful: bool = False
    """It died again and again without a commit: see ``WorkerJob``."""


class TellWorker(msgspec.Struct, frozen=True):
    """Pass a message on to the shard's process."""

    shard: int
    message: ToWorker


class TellCoordinator(msgspec.Struct, frozen=True):
    """Send to the coordinators that are known."""

    message: ToCoordinator


class Reply(msgspec.Struct, frozen=True):
    """Send to the coordinator that just spoke."""

    message: ToCoordinator


class GiveUp(msgspec.Struct, frozen=True):
    """The shard's worker cannot go on."""

    shard: int
    failed: Failed


class Note(msgspec.Struct, frozen=True):
    """One line for the operator."""

    text: str


Act = StartWorker | TellWorker | TellCoordinator | Reply | GiveUp | Note


class Died(msgspec.Struct, frozen=True):
    """The process ended without a word; ``how`` is the signal or exit code, for people."""

    how: str


class Machine(msgspec.Struct, frozen=True):
    """What a node tells of its machine: wall clock, free bytes on the disk and in memory."""

    wall: float
    free_disk: int
    free_memory: int
