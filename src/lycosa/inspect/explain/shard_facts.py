"""Facts about the shard that owns a URL, for a crawl on many machines."""

from __future__ import annotations

from lycosa.base.system.durations import long_duration
from lycosa.inspect.explain.facts import Explanation, when
from lycosa.state.shard.view import ShardPosition


def add_shard(answer: Explanation, state: ShardPosition, now: float) -> None:
    """Add the shard, the terms of its owners, and the position and age of the state read.

    ``now`` is wall time in seconds.
    """
    last = state.last
    answer.add_fact("shard", state.shard)
    answer.add_fact("owner_term", state.owner_term)
    answer.add_fact(
        "commit",
        {"term": last.term, "sequence": last.sequence, "at": state.wall},
        f"{last.sequence} of term {last.term}, at {when(state.wall)},"
        f" {long_duration(max(now - state.wall, 0.0))} ago"
        if state.wall
        else "none yet",
    )
    answer.add_fact("inbox_position", state.inbox)
    answer.add_fact("settings_version", state.settings)
