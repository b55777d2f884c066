"""Histories in which the clock of the coordinator is wrong for a while, and those of the nodes are
not. Nobody loses a shard for it, and in the end it is as if all clocks had been right.
"""

from __future__ import annotations

import asyncio

from nodes.history import NodesHistory
from nodes.machine import Machine
from nodes.world import World

_NEAR = 0.4  # of what a clock may differ: two nodes still agree with each other


class ClocksWorld(World):
    """Machines whose clocks agree."""

    def add_machine(self) -> Machine:
        machine = super().add_machine()
        machine.clock_off_s *= _NEAR
        return machine


class ClocksHistory(NodesHistory):
    """Three machines or more, of which each may be lost; the coordinator's clock jumps."""

    WORLD = ClocksWorld
    LEAST_NODES = 3

    async def _trouble(self) -> None:
        jumping = self.world.spawn(self._jump())
        await super()._trouble()
        jumping.cancel()
        self.world.coordinator_off_s = 0.0

    async def _jump(self) -> None:
        while True:
            await asyncio.sleep(self.chance.uniform(10.0, 40.0))
            self.world.coordinator_off_s = self.chance.choice((-600.0, -8.0, 8.0, 600.0, 0.0))
            self._tell(f"jump of the coordinator's clock to {self.world.coordinator_off_s:+.0f}")

    def _step(self) -> None:
        super()._step()
        for machine in self.world.living():
            machine.clock_off_s = max(min(machine.clock_off_s, 1.9 * _NEAR), -1.9 * _NEAR)

    def judge(self) -> None:
        super().judge()
        assert self.world.faults["jump"], "the coordinator's clock was always right"
        accused = [line for line in self.world.told if "its clock is" in line and "at most" in line]
        assert not accused, ("a node was accused of a wrong clock", accused[:3])
