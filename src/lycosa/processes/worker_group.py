"""The worker processes of one node: run to their end, written to, and watched for their memory.

The node decides what a worker's job is and what its end means. This part starts processes, also
while the system has none to give for a moment, and manages the memory of the machine: it sends the
sum over all processes to the workers, and each worker decides what to do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from lycosa.base.config.units import show_mb
from lycosa.base.messages.progress import ProcessMemory, Progress, total
from lycosa.base.messages.worker_messages import Ended, Failed, Memory, ToWorker
from lycosa.base.model.parsed import ParserHealth
from lycosa.base.model.progress_parts import PoolState
from lycosa.base.system.kept_tasks import KeptTasks, error_line
from lycosa.base.system.memory_relief import FAR
from lycosa.base.system.process_memory import cpu_s, held_by
from lycosa.base.system.shortage import pause_s
from lycosa.cluster.coordinator.node_acts import Died
from lycosa.cluster.coordinator.node_plan import NodePlan
from lycosa.processes.worker_handle import WorkerHandle, WorkerNotStarted
from lycosa.worker.job import WorkerJob

_MEMORY_S = 0.5
_PARSER_AWAY_S = 1.0  # a shorter absence of a parser is not reported
_STALLED_S = 60.0  # between notes about parcels that are not taken


class WorkerGroup:
    """The workers of a node by number.

    ``bound`` is the memory of all processes in bytes; ``show_note`` shows the operator one line.
    """

    def __init__(self, plan: NodePlan, bound: int, show_note: Callable[[str], None]) -> None:
        self._plan = plan
        self._bound = bound
        self._show_note = show_note
        self.handles: dict[int, WorkerHandle] = {}
        self._parser_notes = ParserNotes()
        self._told_relief: set[str] = set()
        self._pool_state: PoolState | None = None  # as last shown
        self._next_told = self._next_stalled = 0.0
        self._tasks = KeptTasks(self._show_error)  # sending messages, and processes

    # -- processes

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a part of the node's work; ``close`` waits for it."""
        self._tasks.begin(work)

    @property
    def is_busy(self) -> bool:
        """Whether work that was begun is not finished."""
        return len(self._tasks) > 0

    def send(self, number: int, message: ToWorker) -> None:
        """Send a message to a worker; it is dropped when the worker has no process."""
        if (handle := self.handles.get(number)) is not None:
            self.begin(handle.send_message(message))

    async def run_process(
        self, handle: WorkerHandle, make_job: Callable[[], WorkerJob]
    ) -> Ended | Failed | Died:
        """Run a process to its end; retry while the system has no process available."""
        attempt = 0
        while not self._plan.is_abandoned:
            stop = self._plan.greeting(handle.number)
            try:
                ended = await handle.run(make_job(), (stop,) if stop is not None else ())
            except WorkerNotStarted as error:
                # the machine has no process or memory to give; the shard waits, the node does not
                # end
                if stop is not None:
                    return Ended(stop.end, handle.progress)
                attempt += 1
                if attempt == 1:
                    self._show_note(
                        f"worker {handle.number} cannot be started ({error}): retrying until it can"
                    )
                await asyncio.sleep(pause_s(attempt))
            else:
                return ended if ended is not None else Died(handle.how_it_died())
        return Died("")

    def kill(self) -> None:
        """Kill all processes at once."""
        for handle in self.handles.values():
            handle.kill()

    async def close(self) -> None:
        """Wait until all processes have ended. They were stopped or killed before."""
        await self._tasks.wait()

    def _show_error(self, error: BaseException) -> None:
        """Show that a part of the work failed; what depends on it is done again later."""
        self._show_note(f"a part of this node's work failed ({error_line(error)})")

    # -- memory, and what workers wait for

    def total(self) -> Progress:
        """The sum of the workers' reports, with the memory of all processes."""
        handles = list(self.handles.values())
        progress = total([handle.progress for handle in handles]) if handles else Progress()
        mine = held_by()
        memory = [ProcessMemory("supervisor", *mine, cpu_s())]
        for handle in handles:
            which = f" {handle.number}" if len(handles) > 1 else ""
            memory += [
                msgspec.structs.replace(each, part=each.part + which)
                for each in handle.progress.memory
            ]
        # All processes share the pages of the program's code, so they are counted once.
        held = sum(each.own_bytes for each in memory) + mine.mapped_bytes
        return msgspec.structs.replace(progress, memory=memory).with_numbers(
            {"lycosa_memory_held_bytes": held, "lycosa_memory_bound_bytes": self._bound}
        )

    def tell_memory(self, progress: Progress) -> None:
        """Send the sum of the memory to the workers while it is near the bound.

        Each worker decides by the sum what to do.
        """
        now = time.monotonic()
        if now < self._next_told or not (
            progress.relief or progress.memory_bytes >= FAR * self._bound
        ):
            return
        self._next_told = now + _MEMORY_S
        for number in self.handles:
            self.send(number, Memory(progress.memory_bytes))
        if progress.relief and progress.relief not in self._told_relief:
            self._told_relief.add(progress.relief)
            held, bound = show_mb(progress.memory_bytes), show_mb(self._bound)
            self._show_note(
                f"memory is near its bound ({held} of {bound}): a worker {progress.relief}"
            )

    def tell_stalled(self, progress: Progress) -> None:
        """Show which parcel waits. Otherwise a crawl whose workers wait would look idle."""
        now = time.monotonic()
        if progress.undelivered and now >= self._next_stalled:
            self._next_stalled = now + _STALLED_S
            self._show_note(f"waiting for {progress.undelivered}")

    def tell_pool(self, progress: Progress) -> None:
        """Show that Redis is used, or is away, for the limits of addresses, when that changes."""
        use = progress.pool
        if use is None or use.state is self._pool_state:
            return
        self._pool_state = use.state
        if use.state is PoolState.SHARED:
            self._show_note("Redis is used: all machines share the limits of IP addresses")
        else:
            what = "is away" if use.state is PoolState.AWAY else "is not used yet"
            self._show_note(f"Redis {what} ({use.why}): each machine uses its part of the limits")

    def note_parser(self, handle: WorkerHandle) -> None:
        """Show a change in the health of the worker's parser, after a report of the worker."""
        if note := self._parser_notes.receive(handle.number, handle.progress.parser):
            self._show_note(note)


class ParserNotes:
    """Notes for the operator about parse children that cannot be started.

    There is one when it begins, and one when it is over. ``receive`` takes the reports of all
    workers in turn.
    """

    def __init__(self) -> None:
        # By worker: the total time without a parser before the current absence.
        self._away: dict[int, float] = {}

    def receive(self, worker: int, health: ParserHealth) -> str:
        """A line for the operator, or the empty string."""
        if worker not in self._away and health.away_s >= _PARSER_AWAY_S:
            self._away[worker] = health.away_total_s - health.away_s
            waits = "pages wait for it, and nothing new is fetched after some seconds"
            return f"worker {worker} cannot start its parse child ({health.away_why}): {waits}"
        if worker in self._away and not health.away_s:
            seconds = health.away_total_s - self._away.pop(worker)
            return (
                f"worker {worker} has a parse child again, after {max(seconds, 0.0):.0f} s; the"
                " pages that waited are parsed now"
            )
        return ""
