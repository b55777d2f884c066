"""How far the worker's inbox topic is read, and how far commits name what was read.

The topic is read from the position that the last commit names. Every commit names the position up
to which everything read is taken, so what a crash lost is read again. A worker that gets its
parcels over connections has no topic; its position stays 0.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from lycosa.state.exchange.exchange_port import Inbound, Parcel


class InboxTopic:
    """One per worker. ``after`` is the position that its last commit names.

    ``fail`` is called when the topic cannot be trimmed.
    """

    def __init__(
        self, inbound: Inbound | None, after: int, fail: Callable[[BaseException], None]
    ) -> None:
        self._inbound, self._fail = inbound, fail
        self._trimming = set[asyncio.Task[None]]()
        self.position = self._committed = after
        """Position of the topic up to which everything is read and taken."""

    def __repr__(self) -> str:
        return f"<InboxTopic position={self.position} uncommitted={self.uncommitted}>"

    @property
    def exists(self) -> bool:
        """Whether parcels come by a topic."""
        return self._inbound is not None

    @property
    def uncommitted(self) -> int:
        """Records that were read and that no commit on disk names."""
        return self.position - self._committed

    async def lag(self) -> int:
        """Number of records of the topic that are not taken yet; 0 without a topic."""
        if self._inbound is None:
            return 0
        return max(await self._inbound.last_position() - self.position, 0)

    async def read_parcels(self) -> Sequence[tuple[int, Parcel | None]]:
        """The next parcels. Raises ``PositionLost`` and ``InboxDamaged``."""
        assert self._inbound is not None
        return await self._inbound.read_parcels(self.position)

    def note_committed(self, position: int) -> None:
        """Note that the commit that names this position is on disk."""
        self._committed = position

    def trim(self, position: int) -> None:
        """Let the topic drop what is up to a position, without waiting for it."""
        if self._inbound is not None and position:
            task = asyncio.get_running_loop().create_task(self._inbound.trim(position))
            self._trimming.add(task)
            task.add_done_callback(self._trimmed)

    def _trimmed(self, task: asyncio.Task[None]) -> None:
        self._trimming.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    async def close(self) -> None:
        """Cancel what is in progress."""
        tasks = list(self._trimming)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
