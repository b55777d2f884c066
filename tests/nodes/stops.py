"""Histories in which the operator stops the crawl and continues it, while machines die and
coordinators are replaced. In the end it is as if it had never been stopped.
"""

from __future__ import annotations

import asyncio

from lycosa.base.messages.coordinator_messages import CALLER, StopCrawl
from nodes.history import TROUBLE_S, NodesHistory

_AGAIN_S = 5.0


class StopsHistory(NodesHistory):
    """Up to four stops, some of which abort what is in flight."""

    async def _seed(self) -> None:
        world, loop = self.world, asyncio.get_running_loop()
        await world.give_seeds(self.seeds)
        world.no_more_seeds()
        while loop.time() < TROUBLE_S:
            await asyncio.sleep(self.chance.uniform(15.0, 60.0))
            self._tell("stop")
            world.newest.hear(CALLER, StopCrawl("stopped", self.chance.random() < 0.3))
            await asyncio.sleep(self.chance.uniform(0.5, 40.0))
            self._continue()
        # a coordinator that was replaced after the last word may not have heard it
        while not self._has_finished():
            await asyncio.sleep(_AGAIN_S)
            if (end := world.newest.coordinator.crawl_end) is not None and end.value == "stopped":
                self._continue()

    def _has_finished(self) -> bool:
        coordinator = self.world.newest.coordinator
        end = coordinator.crawl_end
        return coordinator.is_over and end is not None and end.value == "finished"
