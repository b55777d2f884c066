"""The clock of the coordinator is wrong for a while, and those of the nodes are not. Nobody loses a
shard for it, and in the end it is as if all clocks had been right.
"""

from __future__ import annotations

import asyncio

from nodes.plugin import Plugin


class Clocks(Plugin):
    """Three machines or more, of which each may be lost; the coordinator's clock jumps."""

    LEAST_NODES = 3
    CLOCKS_DIFFER_S = 0.4 * Plugin.CLOCKS_DIFFER_S  # two nodes still agree with each other

    async def disturb(self) -> None:
        history, world = self.history, self.world
        while True:
            await asyncio.sleep(history.chance.uniform(10.0, 40.0))
            world.coordinator_off_s = history.chance.choice((-600.0, -8.0, 8.0, 600.0, 0.0))
            history.tell(f"jump of the coordinator's clock to {world.coordinator_off_s:+.0f}")

    async def repair(self) -> None:
        self.world.coordinator_off_s = 0.0

    def judge(self) -> None:
        world = self.world
        assert world.faults["jump"], "the coordinator's clock was always right"
        accused = [line for line in world.told if "its clock is" in line and "at most" in line]
        assert not accused, ("a node was accused of a wrong clock", accused[:3])
