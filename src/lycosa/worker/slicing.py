"""Work of the loop that is too long for one step, done in slices: others have their turn between
two, and no commit is cut.

A commit must see the end of a lease and all outlinks of its page, or neither. So a commit waits for
the page that is being taken in, and a second page with very many links waits for the first; nothing
else does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from lycosa.attempts import StoringMark
from lycosa.ports import Clock


class Slices:
    """One per worker."""

    def __init__(self, clock: Clock, settling: StoringMark) -> None:
        self._clock = clock
        self._settling = settling
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Slices {'open' if self._lock.locked() else 'none open'}>"

    async def take(self, url: str, start: Callable[[], Iterator[None]], is_long: bool) -> None:
        """``run`` for what is long, ``run_at_once`` for anything else."""
        if is_long:
            await self.run(url, start)
        else:
            self.run_at_once(url, start)

    async def run(self, url: str, start: Callable[[], Iterator[None]]) -> None:
        """Calls ``start`` and takes all steps of what it gives, however this ends, since the work
        is not to be left half done: when it is cancelled the rest follows at once.
        """
        async with self._lock:
            self._settling.begin_storing(url)
            steps = start()
            try:
                for _ in steps:
                    self._settling.end_storing()
                    await self._clock.sleep(0)
                    self._settling.begin_storing(url)
            except asyncio.CancelledError:
                for _ in steps:
                    pass
                raise
            finally:
                self._settling.end_storing()

    def run_at_once(self, url: str, start: Callable[[], Iterator[None]]) -> None:
        """The same in one step, for what is short."""
        self._settling.begin_storing(url)
        for _ in start():
            pass
        self._settling.end_storing()

    async def wait_until_done(self) -> None:
        """Waits until nothing is half done; until something else is awaited that stays so."""
        await self._lock.acquire()
        self._lock.release()
