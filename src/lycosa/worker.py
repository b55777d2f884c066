"""A worker: one loop that owns partitions and takes their hosts through the pipeline, and commits what came of it.

The loop starts visits while there are free slots and hosts that are ready, wakes what is due, and commits about every second. A
commit is cut at one instant (nothing awaits while it is cut), then written off the loop in the order that makes it safe:

    WARC, journal, each synced -> one record in the commit log, synced -> the partitions' tables

Only then are outboxes sent and parcels of others acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol

import msgspec

from lycosa.attempts import AttemptLog, CrashCounts, Suspicion
from lycosa.commit import CommitLog, CommitRecord, Mark, PartitionBatch, marked
from lycosa.config import Config
from lycosa.folder import stamp_of
from lycosa.frontier.frontier import Frontier
from lycosa.frontier.partition import Partition
from lycosa.frontier.visit_state import VisitState
from lycosa.kv.port import KeyValue
from lycosa.pipeline import Pipeline
from lycosa.ports import Clock, Offload
from lycosa.robots import robots_url
from lycosa.schedule.outcome import is_unreached
from lycosa.store.closing import ClosedSegment
from lycosa.store.pending import PendingWrite
from lycosa.store.segments import SegmentStore

_FLUSH_RECORDS = 300  # commits after which tables are flushed and the log is dropped up to there
_IDLE_S = 1.0
_OPEN_WRITES = 1_000_000
_DISK_S = 1.0  # between looks at the room that the disk has
_BUFFER_BYTES = 32_000_000  # of records that wait in memory, at which a commit does not wait for its time


class End(Enum):
    """Why a worker's run ended."""

    FINISHED = "finished"  # nothing is due within finish_wait
    LIMIT = "limit"  # a limit was reached
    STOPPED = "stopped"  # asked to stop


class Reach(Protocol):
    """Called at named points, so that a test can crash there; ordinary runs have one that does nothing."""

    def __call__(self, point: str) -> None: ...


class Mail(Protocol):
    """Outboxes towards the partitions of other workers."""

    def cut(self) -> object: ...
    def send(self, posted: object) -> None: ...


class NoMail:
    """A worker that owns all partitions."""

    def cut(self) -> object:
        return None

    def send(self, posted: object) -> None:
        return None


class Books(msgspec.Struct, frozen=True):
    """What a worker writes besides output: tables below the partitions, logs, crash counts."""

    tables: Mapping[int, KeyValue]
    log: CommitLog
    attempts: AttemptLog
    crashes: CrashCounts
    store: SegmentStore
    epoch: int
    free_bytes: Callable[[], int]


class Worker:
    """Runs until nothing is left, a limit is reached or it is told to stop."""

    def __init__(
        self,
        config: Config,
        frontier: Frontier,
        pipeline: Pipeline,
        books: Books,
        clock: Clock,
        offload: Offload,
        reach: Reach = lambda _: None,
    ) -> None:
        self._config = config
        self.frontier = frontier
        self._pipeline = pipeline
        self._books = books
        self._clock = clock
        self._offload = offload
        self._reach = reach
        self._news = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._commit: asyncio.Task[None] | None = None
        self._committed_at = clock.monotonic()
        self._flushed = books.log.next_sequence
        self._marks: dict[int, Mark] = {}
        self._solo = asyncio.Lock()
        self._solo_waiting = 0
        self._stop: End | None = None
        self._failure: BaseException | None = None
        self._is_paused = False
        self.expects_more = False  # seeds are still being given, so an empty frontier is not the end
        self.is_alone = True  # it ends by itself; with others, it is told when all have nothing left
        self.is_idle = False
        self.committed_captures = sum(p.counters.captures for p in frontier.partitions.values())
        self.lacks_room = False  # the disk has less than ``store.min_free_bytes``: nothing new is started until it has more
        self._looked_at_disk = -_DISK_S
        self.waiters: list[asyncio.Future[None]] = []
        self.mail: Mail = NoMail()

    def __repr__(self) -> str:
        return f"<Worker running={len(self._running)} {self.frontier!r}>"

    @property
    def commits(self) -> int:
        """Commits of this worker so far, over all runs."""
        return self._books.log.next_sequence - 1

    @property
    def running(self) -> int:
        """Visits going on."""
        return len(self._running)

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

    def break_off(self) -> None:
        """Ends what is in flight at once; its URLs stay queued."""
        self.stop()
        for task in self._running:
            task.cancel()

    def wake(self) -> None:
        """Something outside changed: look again."""
        self._news.set()

    # -- the loop -----------------------------------------------------------------------------------------------

    async def run(self) -> End:
        """Until the end; everything is committed then, and the open segment closed. Raises what a stage or the disk raised."""
        try:
            while (end := self._step()) is None:
                await self._pause()
            while self._running:
                await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
            self._raise_failure()
            await self._finish()
            return end
        finally:
            for task in (*self._running, *self._closing):
                task.cancel()
            await asyncio.gather(*self._running, *self._closing, return_exceptions=True)

    def _step(self) -> End | None:
        """Starts what can start; gives the end when there is one."""
        self._news.clear()
        self._raise_failure()
        now, wall = self._clock.monotonic(), self._clock.wall()
        if now - self._looked_at_disk >= _DISK_S:
            self._looked_at_disk = now
            self.lacks_room = self._books.free_bytes() < self._config.store.min_free_bytes
        for partition in self.frontier.partitions.values():
            partition.wake_due(wall)
        if self._stop is not None:
            return self._stop
        while self._may_start:
            visit = self.frontier.acquire(now, wall)
            if visit is None:
                break
            self._start(visit)
        self._start_commit_when_due(now)
        is_free = not (self._running or self._solo_waiting or self._is_paused or self.expects_more or self.lacks_room)
        self.is_idle = is_free and self._is_finished(now, wall)
        return End.FINISHED if self.is_idle and self.is_alone else None

    @property
    def _may_start(self) -> bool:
        has_slot = len(self._running) - self._pipeline.parsing < self._config.fetch.slots
        if self._books.store.buffered_bytes > 4 * _BUFFER_BYTES or self._open_writes() > _OPEN_WRITES:
            return False  # commits are slower than fetching: what waits for them is bounded
        return has_slot and not (self._solo_waiting or self._is_paused or self.lacks_room) and self._pipeline.may_start

    def _open_writes(self) -> int:
        return sum(partition.table.open_writes for partition in self.frontier.partitions.values())

    def _is_finished(self, now: float, wall: float) -> bool:
        """Nothing is leased and nothing will be due within ``finish_wait``."""
        wait = self._config.frontier.finish_wait_s
        ready = self.frontier.next_time()
        if self.frontier.waiting_in_front() and (ready is None or ready > now):
            return False
        if ready is not None and ready <= now + (wait if self._reaches_anybody() else 0.0):
            return False
        return all(partition.next_due() > wall + wait for partition in self.frontier.partitions.values())

    def _reaches_anybody(self) -> bool:
        """False when nothing was ever fetched and no host that waits could be reached: the operator should hear of that now."""
        if not self.is_alone or any(partition.counters.captures for partition in self.frontier.partitions.values()):
            return True
        return not all(is_unreached(visit.record.last_error) for visit in self.frontier.workbench.hosts())

    async def _pause(self) -> None:
        """Until something happens or becomes due."""
        now, wall = self._clock.monotonic(), self._clock.wall()
        times = [_IDLE_S, self._config.store.commit_s]
        ready = self.frontier.next_time()
        if ready is not None and self._may_start:
            times.append(ready - now)
        times.extend(partition.next_due() - wall for partition in self.frontier.partitions.values())
        timer = asyncio.get_running_loop().call_later(max(min(times), 0.0), self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()

    # -- visits -------------------------------------------------------------------------------------------------

    def _start(self, visit: VisitState) -> None:
        task = asyncio.get_running_loop().create_task(self._visit(visit))
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()
        self._news.set()

    async def _visit(self, visit: VisitState) -> None:
        if self._books.crashes.suspects() and self._is_suspect(visit):
            await self._visit_alone(visit)
        else:
            await self._pipeline.visit(visit)

    def _is_suspect(self, visit: VisitState) -> bool:
        """Whether the host's next URL, or its robots.txt, was in flight when the worker last died."""
        partition = self.frontier.partitions[visit.partition]
        lease = partition.lease(visit)
        if lease is None:
            return False
        partition.restore(lease)
        urls = (lease.url, robots_url(visit.host, lease.record.secure))
        return any(self._books.crashes.suspicion(url) is not Suspicion.NONE for url in urls)

    async def _visit_alone(self, visit: VisitState) -> None:
        """With nothing else in flight and its end committed: if the worker dies now, it is known who killed it."""
        self._solo_waiting += 1
        try:
            async with self._solo:
                while len(self._running) > self._solo_waiting:
                    await self._clock.sleep(0.01)
                await self.commit()
                await self._pipeline.visit(visit)
                await self.commit()
        finally:
            self._solo_waiting -= 1

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    # -- commits ------------------------------------------------------------------------------------------------

    def _start_commit_when_due(self, now: float) -> None:
        if self._commit is not None or self._solo_waiting:
            return
        is_full = len(self._pipeline.settled) >= self._config.store.commit_pages or self._books.store.buffered_bytes >= _BUFFER_BYTES
        if not is_full and now - self._committed_at < self._config.store.commit_s:
            return
        self._commit = asyncio.get_running_loop().create_task(self._commit_once())
        self._commit.add_done_callback(self._commit_ended)

    def _commit_ended(self, task: asyncio.Task[None]) -> None:
        self._commit = None
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()
        self._news.set()

    async def commit(self, is_last: bool = False) -> None:
        """Everything that happened until now is on disk when this returns."""
        while self._commit is not None:
            await asyncio.wait([self._commit])
        self._raise_failure()
        self._commit = asyncio.get_running_loop().create_task(self._commit_once(is_last))
        self._commit.add_done_callback(self._commit_ended)
        await asyncio.wait([self._commit])
        self._raise_failure()

    async def _commit_once(self, is_last: bool = False) -> None:
        """One commit. The cut is everything before the first await. The last one is logged even when nothing happened, because by then
        files were closed, and the log should name the files that there are."""
        books, partitions = self._books, self.frontier.partitions
        self._reach("commit:cut")
        self._committed_at = self._clock.monotonic()
        settled, self._pipeline.settled = self._pipeline.settled, []
        waiters, self.waiters = self.waiters, []
        posted = self.mail.cut()
        pending = books.store.freeze()
        batches = [PartitionBatch(number, list(writes)) for number, p in partitions.items() if (writes := p.freeze())]
        if batches or not pending.is_empty or is_last:
            record = CommitRecord(epoch=books.epoch, sequence=books.log.next_sequence, wall=self._clock.wall(), batches=batches)
            for batch in batches:
                self._marks[batch.partition] = record.mark
                partitions[batch.partition].seen.seal(stamp_of(record.mark))
            captures = sum(p.counters.captures for p in partitions.values())
            await self._offload.run(lambda: self._write(pending, record))
            self.committed_captures = captures
            for batch in batches:
                partitions[batch.partition].table.settle()
            self._reach("commit:settled")
        else:
            pending.write()  # nothing to write: the store may go on
        for url in settled:
            books.crashes.finished(url)
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.mail.send(posted)
        await self._tend()

    def _write(self, pending: PendingWrite, record: CommitRecord) -> None:
        """Off the loop, in the order that makes it safe."""
        self._reach("commit:begin")
        pending.write()
        self._reach("commit:stored")
        # The lengths are read after the write: some are known only then.
        self._books.log.append(msgspec.structs.replace(record, lengths=pending.lengths))
        self._reach("commit:logged")
        for batch in record.batches:
            self._books.tables[batch.partition].write(marked(batch, record.mark))
            self._reach("commit:applied")

    async def _tend(self) -> None:
        """What may follow a commit: closing segments, saving URL-seen, flushing tables, rotating logs."""
        books = self._books
        while (closed := books.store.roll(self._clock.wall())) is not None:
            self._close_segment(closed)
        if books.crashes.is_changed:
            await self._offload.run(books.crashes.save)
        if books.attempts.is_full:
            await self._offload.run(books.attempts.rotate(self._clock.wall(), self._clock.monotonic()))
        for number, partition in self.frontier.partitions.items():
            if partition.seen.should_save and number in self._marks:
                await self._offload.run(_saving(partition, stamp_of(self._marks[number])))
        if books.log.next_sequence - self._flushed >= _FLUSH_RECORDS:
            await self._flush()

    async def _flush(self) -> None:
        """Tables and URL-seen hold everything up to the last commit: the log before it is not needed any more."""
        sequence = self._books.log.next_sequence - 1
        for number, table in self._books.tables.items():
            await self._offload.run(table.flush)
            if number in self._marks:
                await self._offload.run(_saving(self.frontier.partitions[number], stamp_of(self._marks[number])))
        self._reach("flush:done")
        await self._offload.run(lambda: self._books.log.drop_until(sequence))
        self._flushed = sequence + 1

    def _close_segment(self, closed: ClosedSegment) -> None:
        task = asyncio.get_running_loop().create_task(self._offload.run(lambda: self._books.store.finish(closed)))
        self._closing.add(task)
        task.add_done_callback(self._segment_closed)

    def _segment_closed(self, task: asyncio.Task[None]) -> None:
        self._closing.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()

    async def _finish(self) -> None:
        """The last commit, the open segment closed, tables flushed."""
        await self.commit()
        while (closed := self._books.store.roll(self._clock.wall(), force=True)) is not None:
            self._close_segment(closed)
        while self._closing:
            await asyncio.wait(self._closing)
        self._raise_failure()
        await self.commit(is_last=True)
        await self._flush()
        self._books.attempts.close(self._clock.wall(), self._clock.monotonic())


def _saving(partition: Partition, stamp: int) -> Callable[[], None]:
    return lambda: partition.seen.save(stamp)
