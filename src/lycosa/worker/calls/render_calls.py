"""Answers the calls of renderers: lends them pages, finds captures for them, takes their results.

What is lent lasts in memory, and what is found changes nothing, so both are answered without a
commit, and neither keeps a worker from its end. A result is answered after the commit that has it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from lycosa.base.calls import (
    MOST_CAPTURES,
    MOST_RENDERS,
    AskedCapture,
    CallRefusal,
    CapturesFound,
    FindCaptures,
    FoundCapture,
    GiveRender,
    RendersLent,
    RenderTaken,
    TakeRenders,
)
from lycosa.base.model.packed_render import UnreadableRender, unpack_rendered
from lycosa.base.ports import Offload
from lycosa.stages.frontier.partition import Partition
from lycosa.worker.render.desk import RenderDesk

FindStored = Callable[[Partition, Sequence[AskedCapture]], Awaitable[list[FoundCapture]]]
"""Finds captures of hosts of a partition, in the order of the question."""


class RenderCalls:
    """One per worker."""

    def __init__(self, desk: RenderDesk, find: FindStored, offload: Offload) -> None:
        self._desk, self._find, self._offload = desk, find, offload

    async def take_renders(
        self, partition: Partition, call: TakeRenders
    ) -> RendersLent | CallRefusal:
        """Lend pages of any partition of this worker."""
        if not 1 <= call.most <= MOST_RENDERS:
            return CallRefusal(f"{call.most} pages: ask for 1 to {MOST_RENDERS}")
        lent = self._desk.take(call.most)
        return RendersLent(lent, self._desk.next_in_s())

    async def find_captures(
        self, partition: Partition, call: FindCaptures
    ) -> CapturesFound | CallRefusal:
        """Find what pages need of the hosts of this partition."""
        if len(call.captures) > MOST_CAPTURES:
            return CallRefusal(f"{len(call.captures)} captures: a call may have {MOST_CAPTURES}")
        return CapturesFound(await self._find(partition, call.captures))

    async def give_render(
        self, partition: Partition, call: GiveRender
    ) -> RenderTaken | CallRefusal:
        """Take a result, or a page that was not rendered."""
        if not call.result:
            return RenderTaken(self._desk.hand_back(partition, call.row, call.lending))
        rendered, why = None, ""
        try:
            # up to 100 MB, which would hold up the loop
            rendered = await self._offload.run(lambda: unpack_rendered(call.result))
        except UnreadableRender as error:
            why = str(error)  # counts as a failed render: otherwise it would be lent endlessly
        return RenderTaken(
            await self._desk.give(partition, call.row, call.lending, rendered, call.renderer), why
        )
