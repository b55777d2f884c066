"""Performs the steps of ``memory_relief`` when the crawl's memory is near its bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from lycosa.base.messages.progress import ProcessMemory
from lycosa.base.system.memory_plan import MemoryPlan
from lycosa.base.system.memory_relief import MemoryGuard, ReliefStep
from lycosa.base.system.process_memory import give_back
from lycosa.state.kv.rocks import SharedCache
from lycosa.worker.assemble import Assembled
from lycosa.worker.worker_ports import Ports
from lycosa.worker.worker_progress import memory_of

_SMALLER = 4  # divides the capacity of the workbench


class Recycled(Protocol):
    """The parse children as the reliever uses them."""

    @property
    def pids(self) -> dict[str, int | None]: ...
    def recycle(self) -> None: ...


class MemoryReliever:
    """One per worker.

    ``relieve`` is called with the memory of all processes of the crawl. It acts, and undoes its
    acts when the memory is far below the bound.
    """

    def __init__(
        self,
        plan: MemoryPlan,
        slots: int,
        assembled: Assembled,
        parser: Recycled,
        cache: SharedCache,
        ports: Ports,
    ) -> None:
        self._guard = MemoryGuard(plan.total, plan.share)
        self._plan, self._slots = plan, slots
        self._worker, self._assembled = assembled.worker, assembled
        self._parser, self._cache, self._clock, self._offload = (
            parser,
            cache,
            ports.clock,
            ports.offload,
        )
        self._capacity = assembled.worker.frontier.capacity
        self._steps: dict[ReliefStep, Callable[[], None]] = {
            ReliefStep.CACHES: self._drop_caches,
            ReliefStep.WORKBENCH: lambda: self._worker.frontier.resize(
                max(self._capacity // _SMALLER, slots)
            ),
            ReliefStep.PARSER: parser.recycle,
            ReliefStep.STOP: lambda: self._worker.fetch_at_most(0),
            ReliefStep.NARROW: lambda: self._worker.fetch_at_most(1),
        }

    @property
    def relief(self) -> ReliefStep:
        """The current step."""
        return self._guard.relief

    def memory(self) -> list[ProcessMemory]:
        """The memory of the worker and its parser."""
        return memory_of(self._parser.pids)

    async def relieve(self, total: int) -> None:
        """Act on the crawl's memory, if necessary."""
        before = self._guard.relief
        mine = sum(each.own_bytes for each in self.memory())
        relief = self._guard.choose_step(self._clock.monotonic(), total, mine, self._worker.running)
        if relief > before:
            for step in range(before + 1, relief + 1):
                if (act := self._steps.get(ReliefStep(step))) is not None:
                    act()
            await self._offload.run(give_back)
        elif before and not relief:
            self._undo()

    def _drop_caches(self) -> None:
        self._assembled.intake.drop_caches()
        self._assembled.robots.drop_caches()
        if self._assembled.tdm_files is not None:
            self._assembled.tdm_files.drop_caches()
        self._worker.frontier.drop_caches()
        self._cache.resize(self._plan.cache // 2)

    def _undo(self) -> None:
        self._cache.resize(self._plan.cache)
        self._worker.frontier.resize(self._capacity)
        self._worker.fetch_at_most(self._slots)
