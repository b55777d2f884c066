"""The actions that a node plan returns for its node to perform, and the events that the node
reports to the plan.
"""

from __future__ import annotations

import msgspec

from lycosa.base.messages.coordinator_messages import ShardState, ToCoordinator
from lycosa.base.messages.progress import ProcessMemory
from lycosa.base.messages.worker_messages import Failed, ToWorker


class StartWorker(msgspec.Struct, frozen=True):
    """Start a process for the shard, its ``process``-th since this node started.

    For every process after the first, recover the shard's part before. Once it is connected, send
    it ``NodePlan.greeting``.
    """

    shard: int
    assignment: int
    process: int
    is_careful: bool = False
    """The worker died repeatedly without a commit: see ``WorkerJob``."""


class TellWorker(msgspec.Struct, frozen=True):
    """Send a message to the shard's process."""

    shard: int
    message: ToWorker


class TellCoordinator(msgspec.Struct, frozen=True):
    """Send a message to all known coordinators."""

    message: ToCoordinator


class Reply(msgspec.Struct, frozen=True):
    """Send a message to the coordinator whose message was just handled."""

    message: ToCoordinator


class GiveUp(msgspec.Struct, frozen=True):
    """Give up the shard: its worker cannot continue."""

    shard: int
    failed: Failed


class Note(msgspec.Struct, frozen=True):
    """Show the operator one line."""

    text: str


NodeAct = StartWorker | TellWorker | TellCoordinator | Reply | GiveUp | Note


class Died(msgspec.Struct, frozen=True):
    """The process ended without a message; ``how`` is its signal or exit code, for messages."""

    how: str


class Machine(msgspec.Struct, frozen=True):
    """The state of a node's machine: wall clock, free bytes on the disk and in memory.

    ``memory`` is that of the node's own process, where it is measured.
    """

    wall: float
    free_disk: int
    free_memory: int
    memory: ProcessMemory | None = None


class ShardRun:
    """One shard on a node. ``assignment`` is the number under which the node has it."""

    __slots__ = (
        "asked",
        "assignment",
        "commits",
        "due",
        "end",
        "fruitless",
        "is_local",
        "known_since",
        "last_commits",
        "state",
        "term",
        "unable",
        "why",
    )

    def __init__(self) -> None:
        self.assignment = 0
        self.state = ShardState.STARTING
        self.term = -1
        # the serial of the first report that names it under this assignment; 0 = none yet
        self.known_since = 0
        self.fruitless = 0  # deaths in a row without a commit in between
        self.asked = 0  # the same for ends that are not deaths
        self.unable = 0  # the same for ends by a reason of this machine
        self.is_local = False  # whether the last end was one by such a reason
        self.commits = 0
        self.last_commits = -1  # the commits when a process last ended
        self.due = 0.0  # when it is restarted
        self.end = ""
        self.why = ""
