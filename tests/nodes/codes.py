"""The operator changes user code while machines die, and machines join that do not allow it yet.

No process starts on a machine that does not allow all code in force there. In the end every owner
follows the code of the last version of the settings.
"""

from __future__ import annotations

import asyncio

from lycosa.base.messages.coordinator_messages import CALLER, ChangeCode
from lycosa.cluster.coordinator.overview import refusal_of
from nodes.history import NodesHistory
from nodes.plugin import Plugin

NAME, OLD, NEW = "shop:products", "a" * 64, "b" * 64
_AGAIN_S = 3.0


class Codes(Plugin):
    """Two changes. Between them each machine is given the new code at a time of its own."""

    LEAST_NODES = 2

    def __init__(self, history: NodesHistory) -> None:
        super().__init__(history)
        self.refused = 0

    async def operate(self) -> None:
        await self._allow_everywhere((OLD,))
        await self._change(OLD)
        await asyncio.sleep(self.history.chance.uniform(5.0, 60.0))
        # Machines that begin meanwhile come from an image that has the old code alone.
        changing = asyncio.ensure_future(self._change(NEW))
        for machine in self.world.living():
            await asyncio.sleep(self.history.chance.uniform(0.0, 10.0))
            machine.allow((OLD, NEW))
        await asyncio.sleep(self.history.chance.uniform(0.0, 60.0))
        await self._allow_everywhere((OLD, NEW))
        await changing

    async def _allow_everywhere(self, digests: tuple[str, ...]) -> None:
        self.world.allowed = digests
        for machine in self.world.living():
            machine.allow(digests)

    async def _change(self, digest: str) -> None:
        """As ``lycosa extension update`` does: repeated until all connected nodes have it."""
        self.history.tell(f"code {digest[:4]}")
        change = ChangeCode({NAME: digest})
        while True:
            coordinator = self.world.newest.coordinator
            present = coordinator.settings.code.get(NAME)
            if present is not None and present.digest == digest:
                return
            if refusal_of(change, coordinator.status("news", self.world.now())):
                self.refused += 1
            else:
                self.world.newest.receive(CALLER, change)
            await asyncio.sleep(_AGAIN_S)

    async def repair(self) -> None:
        for machine in self.world.living():
            machine.allow(self.world.allowed)

    def judge(self) -> None:
        saved = self.world.newest.coordinator.settings
        assert saved.code[NAME].digest == NEW and 1 < saved.code[NAME].since <= saved.version
        for name, shard, wanted, allowed in self.world.code_starts:
            assert wanted <= allowed, f"{name} started shard {shard} without {wanted - allowed}"
        for shard, process in self.world.owners.items():
            assert process.assembled is not None
            assert process.assembled.live.code.in_force == saved.code, shard
