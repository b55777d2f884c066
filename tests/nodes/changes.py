"""The operator changes settings while machines die.

The delay of hosts only grows. Each commit of a shard names a version that is at least as new as
that of the commit before, whoever made it; a shard whose last commit names a version sends no
request before its owner knows that version; and in the end all shards have the last one.
"""

from __future__ import annotations

import asyncio
import re
from itertools import pairwise

from lycosa.base.messages.coordinator_messages import CALLER, ChangeSettings
from nodes.history import TROUBLE_S, NodesHistory
from nodes.plugin import Plugin

_DELAYS = ("3", "4", "5")
_AGAIN_S = 5.0
_MOVE = re.compile(r"([0-9.]+) \S+ owns shard ")
_TOLD_S = 60.0  # after the last change and the last fault every owner has heard of it by then


class Changes(Plugin):
    """Three changes, some of them while a coordinator is replaced."""

    def __init__(self, history: NodesHistory) -> None:
        super().__init__(history)
        self._changed_at = 0.0

    async def operate(self) -> None:
        for version, delay in enumerate(_DELAYS, 1):
            await asyncio.sleep(self.history.chance.uniform(10.0, 80.0))
            self.history.tell(f"delay of {delay} s")
            change = ChangeSettings({"politeness.delay_s": delay})
            # a coordinator that is over, or has a successor, changes nothing: the operator repeats it
            while self.world.newest.coordinator.settings.version < version:
                self.world.newest.receive(CALLER, change)
                self._changed_at = asyncio.get_running_loop().time()
                await asyncio.sleep(_AGAIN_S)

    def judge(self) -> None:
        world = self.world
        assert world.newest.coordinator.settings.version == len(_DELAYS)
        for shard in range(world.shards):
            versions = [commit.settings for commit in world.logs.commits(shard)]
            assert versions == sorted(versions), (shard, versions)
            assert versions[-1] == len(_DELAYS), (shard, versions)
        quiet = max(self._changed_at, TROUBLE_S) + _TOLD_S
        # An owner on another machine reads by its own clock how long a host is to rest.
        moves = [float(found[1]) for line in world.told if (found := _MOVE.match(line))]
        apart_s = 2 * world.clocks_differ_s
        for host in world.log.hosts():
            exchanges = world.log.of_host(host)
            for before, after in pairwise(sorted(exchanges, key=lambda each: each.start)):
                rest_s = after.start - before.end
                is_moved = any(before.start <= move <= after.start for move in moves)
                least_s = float(_DELAYS[-1]) - (apart_s if is_moved else 0.0) - 1e-6
                assert before.end < quiet or rest_s >= least_s, (host, rest_s)
