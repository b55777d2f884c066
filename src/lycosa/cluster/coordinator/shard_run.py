"""What a node plan knows of one shard: its state, its ends in a row, and when it is restarted."""

from __future__ import annotations

from lycosa.base.messages.coordinator_messages import ShardState


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
