"""Divides long work on the loop into slices.

Other tasks run between two slices, but no commit is cut. A commit must contain the end of a lease
and all outlinks of its page, or neither. So a commit waits for the page that is being taken in. A
second page with very many links waits for the first. Nothing else waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from lycosa.base.ports import Clock
from lycosa.state.attempts import StoringMark


class Slices:
    """One per worker."""

    def __init__(self, clock: Clock, settling: StoringMark) -> None:
        self._clock = clock
        self._settling = settling
        self._lock = asyncio.Lock()

    async def take(self, url: str, start: Callable[[], Iterator[None]], is_long: bool) -> None:
        """Use ``run`` for long work and ``run_at_once`` for anything else."""
        if is_long:
            await self.run(url, start)
        else:
            self.run_at_once(url, start)

    async def run(self, url: str, start: Callable[[], Iterator[None]]) -> None:
        """Call ``start`` and take all steps that it returns.

        The work is never left half done: on cancellation the remaining steps are taken at once.
        """
        # Held over all slices: a commit that is cut between two of them would have half of a page.
        async with self._lock:
            self._settling.begin_storing(url)
            steps = start()
            try:
                for _ in steps:
                    # Another visit's short work may run now and be what kills the process.
                    self._settling.end_storing()
                    await self._clock.sleep(0)
                    self._settling.begin_storing(url)
            except asyncio.CancelledError:
                # The lease has ended in memory already, so the next commit must have its links too.
                for _ in steps:
                    pass
                raise
            finally:
                self._settling.end_storing()

    async def run_whole(self, start: Callable[[], Iterator[None]]) -> None:
        """The same as ``run`` for work that is of no page, so no page is blamed for a crash."""
        async with self._lock:
            steps = start()
            try:
                for _ in steps:
                    await self._clock.sleep(0)
            except asyncio.CancelledError:
                for _ in steps:
                    pass
                raise

    def run_at_once(self, url: str, start: Callable[[], Iterator[None]]) -> None:
        """Do short work in one step."""
        self._settling.begin_storing(url)
        for _ in start():
            pass
        self._settling.end_storing()

    async def wait_until_done(self) -> None:
        """Wait until no work is half done. This holds until something else is awaited."""
        # Taken only to wait: after the release no other task runs until the caller awaits.
        await self._lock.acquire()
        self._lock.release()
