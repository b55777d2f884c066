"""The operator stops the crawl and resumes it, while machines die and coordinators are replaced. In
the end it is as if it had never been stopped.
"""

from __future__ import annotations

import asyncio

from lycosa.base.messages.coordinator_messages import CALLER, StopCrawl
from nodes.history import TROUBLE_S
from nodes.plugin import Plugin

_AGAIN_S = 5.0


class Stops(Plugin):
    """Up to four stops, some of which abort what is in flight."""

    async def operate(self) -> None:
        world, history, loop = self.world, self.history, asyncio.get_running_loop()
        world.no_more_seeds()
        while loop.time() < TROUBLE_S:
            await asyncio.sleep(history.chance.uniform(15.0, 60.0))
            history.tell("stop")
            world.newest.receive(CALLER, StopCrawl("stopped", history.chance.random() < 0.3))
            await asyncio.sleep(history.chance.uniform(0.5, 40.0))
            history.resume()
        # a coordinator that was replaced after the last word may not have heard it
        while not self._has_finished():
            await asyncio.sleep(_AGAIN_S)
            if (end := world.newest.coordinator.crawl_end) is not None and end.value == "stopped":
                history.resume()

    def _has_finished(self) -> bool:
        coordinator = self.world.newest.coordinator
        end = coordinator.crawl_end
        return coordinator.is_over and end is not None and end.value == "finished"
