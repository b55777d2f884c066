"""Answers the calls of renderers: lends them pages, finds captures for them, takes their results.

What is lent lasts in memory, and what is found changes nothing, so both are answered without a
commit, and neither keeps a worker from its end. A result is answered after the commit that has it.
"""

from __future__ import annotations

from collections.abc import Mapping

from lycosa.base.calls import (
    MOST_CAPTURES,
    MOST_RENDERS,
    CallRefusal,
    CapturesFound,
    FindCaptures,
    GiveRender,
    RendersLent,
    RenderTaken,
    TakeRenders,
)
from lycosa.base.messages.renderer_messages import RendererUse
from lycosa.base.model.packed_render import UnreadableRender, unpack_rendered
from lycosa.base.ports import Offload
from lycosa.stages.frontier.partition import Partition
from lycosa.worker.calls.capture_finder import CaptureFinder
from lycosa.worker.render.desk import RenderDesk

_MOST_RENDERERS, _MOST_HELD = 1000, 1000
"""Renderers, and pages of each, that are remembered."""


class _Holder:
    """What a renderer process was lent until when and has not given back, in that order."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.pages: dict[tuple[bytes, int], tuple[Partition, float]] = {}


class RenderCalls:
    """One per worker."""

    def __init__(
        self,
        desk: RenderDesk,
        captures: CaptureFinder,
        offload: Offload,
        partitions: Mapping[int, Partition],
    ) -> None:
        self._partitions = partitions
        self._desk, self._captures, self._offload = desk, captures, offload
        self._holders: dict[str, _Holder] = {}

    async def take_renders(
        self, partition: Partition, call: TakeRenders
    ) -> RendersLent | CallRefusal:
        """Lend pages of any partition of this worker."""
        if not 1 <= call.most <= MOST_RENDERS:
            return CallRefusal(f"{call.most} pages: ask for 1 to {MOST_RENDERS}")
        holder = self._holder(call.renderer, call.run)
        lent = self._desk.take(call.most)
        for each in lent:
            partition = self._partitions[each.partition]
            until = partition.renders.lent_until(each.row)
            holder.pages[each.row, each.lending] = partition, until
        use = RendererUse(
            call.renderer, len(holder.pages), call.at_once, call.browser, call.trouble
        )
        self._desk.note_renderer(use)
        while len(holder.pages) > _MOST_HELD:  # the desk lends them again when their time is over
            del holder.pages[next(iter(holder.pages))]
        return RendersLent(lent, self._desk.next_in_s())

    def _holder(self, renderer: str, run: str) -> _Holder:
        """What that process holds. If it is a new one, that of before was killed."""
        found = self._holders.get(renderer)
        if found is not None and found.run == run:
            return found
        if found is not None:
            for (row, lending), (partition, until) in found.pages.items():
                self._desk.lose(partition, row, lending, until)
        elif len(self._holders) >= _MOST_RENDERERS:
            del self._holders[next(iter(self._holders))]
        self._holders[renderer] = _Holder(run)
        return self._holders[renderer]

    async def find_captures(
        self, partition: Partition, call: FindCaptures
    ) -> CapturesFound | CallRefusal:
        """Find what pages need of the hosts of this partition."""
        if len(call.captures) > MOST_CAPTURES:
            return CallRefusal(f"{len(call.captures)} captures: a call may have {MOST_CAPTURES}")
        return CapturesFound(await self._captures.find_captures(partition, call.captures))

    async def give_render(
        self, partition: Partition, call: GiveRender
    ) -> RenderTaken | CallRefusal:
        """Take a result, or a page that was not rendered."""
        if (holder := self._holders.get(call.renderer)) is not None:
            holder.pages.pop((call.row, call.lending), None)
        if not call.result:
            return RenderTaken(self._desk.hand_back(partition, call.row, call.lending))
        rendered, why = None, ""
        try:
            # up to 100 MB, which would hold up the loop
            rendered = await self._offload.run(lambda: unpack_rendered(call.result))
        except UnreadableRender as error:
            why = str(error)  # counts as a failed render: otherwise it would be lent endlessly
        return RenderTaken(
            await self._desk.give(partition, call.row, call.lending, rendered, call.places), why
        )
