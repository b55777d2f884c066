"""Answers the calls of renderers: lends them pages, finds captures for them, takes their results.

What is lent lasts in memory, and what is found changes nothing, so both are answered without a
commit, and neither keeps a worker from its end. A result is answered after the commit that has it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from lycosa.base.calls import (
    MOST_CAPTURES,
    MOST_RENDERS,
    AskedCapture,
    CallRefusal,
    CapturesFound,
    FindCaptures,
    FoundCapture,
    GiveRender,
    LentRender,
    RendersLent,
    RenderTaken,
    RenderVerdict,
    TakeRenders,
)
from lycosa.base.model.packed_render import UnreadableRender, unpack_rendered
from lycosa.base.model.rendered_page import Rendered, RenderEnd
from lycosa.base.ports import Offload
from lycosa.stages.frontier.partition import Partition

FindStored = Callable[[Partition, Sequence[AskedCapture]], Awaitable[list[FoundCapture]]]
"""Finds captures of hosts of a partition, in the order of the question."""


class LendingDesk(Protocol):
    """The pages of a worker that are to be rendered; see ``worker.render.desk``."""

    def take(self, most: int) -> list[LentRender]:
        """Lend the pages that are due, at most that many."""
        ...

    def next_in_s(self) -> float:
        """When another one is due; negative when that is unknown."""
        ...

    async def give(
        self, partition: Partition, row: bytes, lending: int, rendered: Rendered
    ) -> RenderVerdict:
        """Take the result of a page that was lent."""
        ...

    def hand_back(self, partition: Partition, row: bytes, lending: int) -> RenderVerdict:
        """Let a page that was not rendered be due at once."""
        ...


class RenderCalls:
    """One per worker."""

    def __init__(self, desk: LendingDesk, find: FindStored, offload: Offload) -> None:
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
        why = ""
        try:
            # up to 100 MB, which would hold up the loop
            rendered = await self._offload.run(lambda: unpack_rendered(call.result))
        except UnreadableRender as error:
            # Counts as a failed render: otherwise the page would be lent again endlessly.
            why = str(error)
            rendered = Rendered(RenderEnd.CRASHED, why)
        verdict = await self._desk.give(partition, call.row, call.lending, rendered)
        return RenderTaken(RenderVerdict.REFUSED if why else verdict, why)
