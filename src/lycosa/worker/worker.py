"""A worker: one loop that owns partitions and takes their hosts through the pipeline.

The loop starts visits while there are free slots and hosts that are ready, wakes what is due, has
what came of it committed about every second (``committer``), and ends when nothing is left, a
limit is reached or it is told to stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from lycosa.attempts import Suspicion
from lycosa.config.sections import Config
from lycosa.frontier.crawl_clock import CrawlClock
from lycosa.frontier.frontier import Frontier
from lycosa.frontier.visit_state import VisitState
from lycosa.model.end import End
from lycosa.model.parsed import ParserHealth
from lycosa.ports import Offload
from lycosa.schedule.fetch_outcome import is_unreached
from lycosa.worker.committer import Committer, FaultPoint, WorkerFiles
from lycosa.worker.pipeline import Pipeline
from lycosa.worker.reparser import Reparser
from lycosa.worker.visit import Visit

_IDLE_S = 1.0
_CAREFUL_S = 60.0
_STARTED_AT_ONCE = 32  # visits in one turn of the loop
_DISK_S = 1.0  # between looks at the room that the disk has


class Worker:
    """Runs until nothing is left, a limit is reached or it is told to stop."""

    def __init__(
        self,
        config: Config,
        frontier: Frontier,
        pipeline: Pipeline,
        books: WorkerFiles,
        clock: CrawlClock,
        offload: Offload,
        reach: FaultPoint = lambda _: None,
    ) -> None:
        self._config = config
        self.frontier = frontier
        self._pipeline = pipeline
        self._books = books
        self._clock = clock
        self._news = asyncio.Event()
        self.committer = Committer(
            config.store, frontier.partitions, pipeline, books, clock, offload, reach
        )
        self.committer.on_done = self._news.set
        self._running: set[asyncio.Task[None]] = set()
        self._reparse: asyncio.Task[None] | None = None
        self._solo = asyncio.Lock()
        self._solo_waiting = 0
        self._stop: End | None = None
        self._failure: BaseException | None = None
        self._is_paused = False
        self._has_more = False  # hosts may be ready that were not started yet
        self.expects_more = (
            False  # seeds are still being given, so an empty frontier is not the end
        )
        self.is_alone = (
            True  # it ends by itself; with others, it is told when all have nothing left
        )
        self.is_idle = False
        # nothing was ever captured, nobody answered, and all that waits are hosts out of reach
        self.reaches_nobody = False
        self._has_visited = False  # in this run
        self._careful_until = 0.0
        # the disk has less than ``store.min_free_bytes``: nothing new is started until it has more
        self.lacks_room = False
        self.has_lease = True  # of its partitions; without it nothing new is started
        self.recalled = 0  # waits that ended because their stored time could not be
        # by the settings, and by the memory that there is
        self._slots = self._slots_by_memory = config.fetch.slots
        self.lacks_settings = False  # those that the last commit names: nothing new is started
        self._looked_at_disk = -_DISK_S

    def __repr__(self) -> str:
        return f"<Worker running={len(self._running)} {self.frontier!r}>"

    @property
    def running(self) -> int:
        """Visits going on."""
        return len(self._running)

    @property
    def parser_health(self) -> ParserHealth:
        """What the parser says of itself."""
        return self._pipeline.parsing.health

    @property
    def reparsing(self) -> Reparser:
        """Stored bodies that were never parsed."""
        return self._pipeline.reparsing

    def stop(self, end: End = End.STOPPED) -> None:
        """Starts no new visit; what is in flight is finished and committed."""
        self._stop = self._stop or end
        self._news.set()

    def pause(self) -> None:
        """Starts no new visit until ``resume``; what is in flight goes on."""
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._news.set()

    def fetch_at_most(self, visits: int) -> None:
        """So many requests at once from now on; 0 is a pause, as when memory is short."""
        self._slots_by_memory = visits
        self._news.set()

    def use_slots(self, slots: int) -> None:
        """So many requests at once by the settings; never more than at the start."""
        self._slots = min(slots, self._config.fetch.slots)
        self._news.set()

    @property
    def _most_running(self) -> int:
        return min(self._slots, self._slots_by_memory)

    def break_off(self) -> None:
        """Ends what is in flight at once; its URLs stay queued."""
        self.stop()
        for task in self._running:
            task.cancel()

    def start_carefully(self, begin: float) -> None:
        """The partitions' workers died again and again without a commit: until a minute after
        ``begin`` (monotonic) one request leaves at a time, and the log has its name before.
        """
        self._careful_until = begin + _CAREFUL_S

    def fail(self, error: BaseException) -> None:
        """Something that the run depends on cannot go on: ``run`` raises this."""
        self._failure = self._failure or error
        self._news.set()

    def wake(self) -> None:
        """Something outside changed: look again."""
        self._news.set()

    # -- the loop

    async def run(self) -> End:
        """Until the end; everything is committed then, and the open segment closed. Raises what
        a stage or the disk raised.
        """
        try:
            if self._books.crashes.has_news:
                # a page that kills workers before their first commit would never be found out
                await self.committer.commit()
            if self._pipeline.reparsing.waiting():
                self._reparse = self._begin(self._pipeline.reparsing.run(self._may_reparse))
            while (end := self._step()) is None:
                await self._pause()
            while self._running:
                await asyncio.wait(
                    self._running, timeout=_IDLE_S, return_when=asyncio.FIRST_COMPLETED
                )
                if self._pipeline.parsing.lacks_parser:
                    # a stop does not wait until the system has a process to give
                    self._pipeline.parsing.break_off()
                    if self._reparse is not None:
                        self._reparse.cancel()
            self._raise_failure()
            await self.committer.finish()
            return end
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            await self.committer.close()

    def _step(self) -> End | None:
        """Starts what can start; gives the end when there is one."""
        self._news.clear()
        self._raise_failure()
        # In this order: what is late between the two makes a host that waits by crawl time wait
        # longer, not shorter.
        time, now = self._clock.time(), self._clock.monotonic()
        self.has_lease = self._books.lease.holds(now)
        if now - self._looked_at_disk >= _DISK_S:
            self._looked_at_disk = now
            self.lacks_room = self._books.free_bytes() < self._config.store.min_free_bytes
        self.recalled += self.frontier.recall_strays(time)
        if self.frontier.next_due() <= time:
            self.frontier.wake_due(time)
        if self._stop is not None:
            return self._stop
        self._has_more = self._start_visits(now, time)
        if not self._solo_waiting:
            self.committer.start_when_due(now)
        is_free = (
            self.has_lease
            and self._most_running > 0
            and not (
                self._running
                or self._solo_waiting
                or self._is_paused
                or self.expects_more
                or self.lacks_room
                or self.lacks_settings
            )
        )
        wait = self._config.frontier.finish_wait_s
        self.is_idle = is_free and self._is_finished(now, time, wait)
        self.reaches_nobody = (
            is_free and not self._reaches_anybody() and self._is_finished(now, time, 0.0)
        )
        return End.FINISHED if self.is_alone and (self.is_idle or self.reaches_nobody) else None

    def _start_visits(self, now: float, time: float) -> bool:
        """Starts what can start, some at a time, since all of them run in the loop's next turn;
        says whether there may be more.
        """
        for _ in range(_STARTED_AT_ONCE):
            host = self.frontier.acquire(now, time) if self._may_start else None
            if host is None:
                return False
            self._start(host)
        return True

    @property
    def _may_start(self) -> bool:
        has_slot = len(self._running) - self._pipeline.parsing.number < self._most_running
        if self.committer.is_behind:
            return False  # commits are slower than fetching: what waits for them is bounded
        return (
            has_slot
            and self.has_lease
            and not (self._solo_waiting or self._is_paused or self.lacks_room)
            and not self.lacks_settings
            and self._pipeline.may_start
        )

    def _is_finished(self, now: float, time: float, wait: float) -> bool:
        """Nothing is leased, no host will be ready within ``wait`` and nothing will be due
        within ``finish_wait``.
        """
        if any(partition.counters.asking for partition in self.frontier.partitions.values()):
            return False  # an answer will come, or its deadline
        ready = self.frontier.next_time()
        if self.frontier.waiting_in_front() and (ready is None or ready > now):
            return False
        if ready is not None and ready <= now + wait:
            return False
        return self.frontier.next_due() > time + self._config.frontier.finish_wait_s

    def _reaches_anybody(self) -> bool:
        """False when nothing was ever fetched, nobody answered in this run and no host that waits
        could be reached: the operator should hear of that now. A run that asked nobody yet knows
        nothing about that.
        """
        if not self._has_visited or self._pipeline.has_answer:
            return True
        if any(partition.counters.captures for partition in self.frontier.partitions.values()):
            return True
        return not all(
            is_unreached(host.record.last_error) for host in self.frontier.workbench.hosts()
        )

    async def _pause(self) -> None:
        """Until something happens or becomes due."""
        now, time = self._clock.monotonic(), self._clock.time()
        times = [_IDLE_S, self._config.store.commit_s]
        ready = self.frontier.next_time()
        if ready is not None and self._may_start:
            times.append(ready - now)
        times.append(self.frontier.next_due() - time)
        if self._has_more:
            times.append(0.0)
        timer = asyncio.get_running_loop().call_later(max(min(times), 0.0), self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()

    # -- visits

    def _start(self, host: VisitState) -> None:
        self._has_visited = True
        self._begin(self._visit(host))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()
        self._news.set()

    async def _may_reparse(self) -> bool:
        """Whether more stored bodies may be parsed; waits while there is no room for what comes
        of it.
        """
        while self._stop is None and (
            self.committer.is_behind or self.lacks_room or self._is_paused
        ):
            await self._clock.sleep(_IDLE_S)
        return self._stop is None

    async def _visit(self, host: VisitState) -> None:
        async with self._pipeline.hold(host) as visit:
            has_suspects = self._books.crashes.has_suspects
            if self._is_careful or (has_suspects and await self._is_suspect(host)):
                await self._visit_alone(visit)
            else:
                await self._pipeline.run(visit)

    @property
    def _is_careful(self) -> bool:
        return self._careful_until > 0 and self._clock.monotonic() < self._careful_until

    async def _is_suspect(self, host: VisitState) -> bool:
        """Whether the host's next URL, or its robots.txt, was in flight when the worker last
        died.
        """
        return any(
            self._books.crashes.suspicion_of(url) is not Suspicion.NONE
            for url in await self._pipeline.next_urls(host)
        )

    async def _visit_alone(self, visit: Visit) -> None:
        """With nothing else in flight and its end committed: if the worker dies now, it is known
        who killed it. In a careful start the log knows it, for whoever owns the shard then.
        """
        self._solo_waiting += 1
        try:
            async with self._solo:
                while len(self._running) > self._solo_waiting:
                    await self._clock.sleep(0.01)
                urls = await self._pipeline.next_urls(visit.host) if self._is_careful else ()
                self._books.crashes.name_urls(urls)
                await self.committer.commit()
                try:
                    await self._pipeline.run(visit)
                finally:
                    self._books.crashes.unname_urls(urls)
                await self.committer.commit()
        finally:
            self._solo_waiting -= 1

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
        self.committer.raise_failure()
