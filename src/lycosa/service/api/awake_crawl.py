"""Keeps a crawl that has a coordinator callable while a command decides about it.

The owners of a cluster's crawl that is finished have ended, so it continues for the decision, and
then as long as there is work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from lycosa.base.messages.coordinator_messages import (
    CallerMessage,
    ClusterStatus,
    MoreAsks,
    NoMoreAsks,
)
from lycosa.base.model.end import End
from lycosa.cluster.serve.caller import CoordinatorFinder
from lycosa.service.api.decision_calls import Undecided
from lycosa.service.api.places import CoordinatedCrawl
from lycosa.service.api.watching import CoordinatorCaller

COMMAND_PATIENCE_S = 60.0
"""How long a command waits for a coordinator or an owner that does not answer."""
_AGAIN_S = 1.0


@asynccontextmanager
async def keep_awake(crawl: CoordinatedCrawl, tell: Callable[[str], None]) -> AsyncIterator[None]:
    """Follow the owners of a crawl while this context lasts, and close the connections at its end.

    ``tell`` gets lines about a coordinator that does not answer. Raises ``NoCoordinator``,
    ``RequestRefused``, and ``Undecided`` for a crawl that was stopped.
    """
    finder = CoordinatorFinder(crawl.coordinator, crawl.credentials, tell)

    async def ask(*requests: CallerMessage) -> ClusterStatus:
        async with await finder.connect(COMMAND_PATIENCE_S) as connection:
            for request in requests:
                await connection.request(request)
            status = await connection.status()
        crawl.follow(status)
        return status

    is_resumed = False
    try:
        status = await ask()
        if status.end and status.end != End.FINISHED.value:
            raise Undecided(f"the crawl has ended ({status.end}); resume it first")
        if status.end:
            is_resumed = True
            status = await ask(MoreAsks())
            deadline = time.monotonic() + COMMAND_PATIENCE_S
            # after the deadline the calls tell which owner is missing
            while any(each.state != "running" for each in status.shards):
                if time.monotonic() >= deadline:
                    break
                await asyncio.sleep(_AGAIN_S)
                status = await ask()
        # an owner may move to another machine while it is called
        watch = CoordinatorCaller(crawl, crawl.follow, lambda why: None)
        following = asyncio.create_task(watch.run())
        try:
            yield
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    finally:
        if is_resumed:
            await ask(NoMoreAsks())
        await crawl.close()
