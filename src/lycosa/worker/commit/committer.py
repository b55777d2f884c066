"""Commits: everything that a worker changed in its partitions and its store, in a safe order.

    records put into segments -> the commit appended to the log -> the partitions' tables

A commit is cut at one instant, because nothing awaits while it is cut. It is written outside the
loop, and one commit is in flight at a time. Outboxes are sent and parcels of other workers are
acknowledged only when the commit is in the log. The work that may follow a commit is done here too:
closing segments, taking snapshots, trimming the log. If the store or the log is unavailable, the
commit waits without a limit. ``commit.log_port`` lists the errors that end the worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import msgspec

from lycosa.base.config.sections import StoreSection
from lycosa.base.system.meter import Histogram
from lycosa.base.system.metric_catalogue import SECONDS
from lycosa.stages.frontier.partition import Partition
from lycosa.state.attempts import AttemptLog, CrashCounts
from lycosa.state.attempts.shipping import AttemptShipper
from lycosa.state.commit import (
    Commit,
    FeedSource,
    Fenced,
    Mark,
    OutcomeUnknown,
    PartitionBatch,
    RolledBack,
    ShardLease,
    folder_lease,
    marked,
)
from lycosa.state.folder.names import mark_of, stamp_of
from lycosa.state.shard.opened_shard import Shard
from lycosa.state.store.closing import ClosedSegment
from lycosa.state.store.journal import FindSimilar
from lycosa.state.store.pending import PendingWrite
from lycosa.state.store.segments import SegmentStore
from lycosa.state.store.segments_port import NotStored
from lycosa.worker.commit.committed_rows import feed_rows
from lycosa.worker.commit.snapshot_saver import SnapshotSaver
from lycosa.worker.intake.inbox_topic import InboxTopic
from lycosa.worker.intake.outgoing_parcels import OutgoingParcels
from lycosa.worker.run_signals import RunSignals
from lycosa.worker.visit.worker_stages import Stages
from lycosa.worker.worker_ports import Ports

BATCH_BYTES = 32_000_000
"""Records in memory at which a commit is cut before its time, without a memory plan."""

_CALLED_S = 0.2  # between two commits while a caller waits
_IDLE = 1000  # commits without writes to a partition: three hours of a cluster's shard
_AGAIN_S = 1.0  # before a failed write of records or of a commit is retried
# of a write to the tables that waits for its commit; 250 with all its objects
_OPEN_WRITE_BYTES = 64


class WorkerFiles(msgspec.Struct, frozen=True):
    """Everything that a worker writes: its shard, records for segments, attempts, crash counts."""

    crawl: str
    shard: Shard
    store: SegmentStore
    attempts: AttemptLog
    crashes: CrashCounts
    free_bytes: Callable[[], int]
    held_until: float = 0.0
    """Time (monotonic) until which hosts are held after an unclean takeover."""
    batch_bytes: int = BATCH_BYTES
    """Size of the records in memory at which a commit is cut before its time."""
    lease: ShardLease = msgspec.field(default_factory=folder_lease)
    find_similar: FindSimilar | None = None
    """Near-duplicates by the verdicts in the shard's table, when verdicts come later."""
    shipper: AttemptShipper | None = None
    """Sends the closed files of the attempt log to object storage, in a cluster."""
    price: Callable[[], tuple[float, int]] = lambda: (0.0, 0)
    """The price of a refetch in force, and its number."""
    ranks: Callable[[], str] = str
    """The digest of the ranks in force, empty without any."""


class Committer:
    """Commits at regular intervals and on request; wakes the loop after each commit."""

    def __init__(
        self,
        section: StoreSection,
        files: WorkerFiles,
        stages: Stages,
        outgoing: OutgoingParcels,
        topic: InboxTopic,
        signals: RunSignals,
        ports: Ports,
    ) -> None:
        self._section = section
        self._partitions = partitions = stages.frontier.partitions
        self._files, self._stages, self._clock = files, stages, stages.clock
        self._outgoing, self._topic, self._signals = outgoing, topic, signals
        self._offload, self._reach = ports.offload, ports.reach
        self._commit: asyncio.Task[bool] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._shipping: asyncio.Task[None] | None = None
        self._committed_at = self._clock.monotonic()
        self._next = files.shard.next_sequence
        self._inbox = topic.position
        self._before = {number: mark_of(table) for number, table in files.shard.tables.items()}
        self._snapshots = SnapshotSaver(
            files.shard,
            self._offload,
            self._reach,
            self.commits,
            topic,
            self._clock.monotonic,
            self._before,
        )
        self._marks: dict[int, Mark] = {}  # of commits of this run
        self._waits_for = ""
        self._failure: BaseException | None = None
        self.commit_times = Histogram(SECONDS)
        """Seconds from the cut of a commit until it is written."""
        self.counted = [p.counters.copied() for p in partitions.values()]
        """The counters of the partitions as the last commit has them."""
        self.waiters: list[asyncio.Future[None]] = []
        """Futures that are resolved when the next commit to be cut is on disk."""
        self.is_awaited = False
        """Whether a caller waits for the next commit."""
        self.damaged = dict.fromkeys(files.shard.damaged, "")
        """Closed segments that are damaged, and what this owner found wrong with them."""
        self.last: Commit | None = files.shard.last
        """The last commit, without its writes."""
        self.settings = self.last.settings if self.last else 0
        """The version of the live settings that commits name."""

    @property
    def waits_for(self) -> str:
        """Why the log or the store cannot take something at the moment, for people; else empty."""
        return self._waits_for or self._snapshots.waits_for

    @property
    def is_saving(self) -> bool:
        """Whether a snapshot is being saved while commits continue."""
        return self._snapshots.is_saving

    def wake(self) -> None:
        """Let the worker's loop look for work again."""
        self._signals.wake()

    @property
    def commits(self) -> int:
        """Number of commits of this worker over all runs."""
        return self._next - 1

    @property
    def is_behind(self) -> bool:
        """Whether so much waits for the commit in flight that no more work should be added.

        It is asked at every turn of the loop.
        """
        if self._commit is None:
            return False  # the next commit starts within a second
        open_writes = sum([partition.table.open_writes for partition in self._partitions.values()])
        bound = self._files.batch_bytes
        return (
            self._files.store.buffered_bytes > 4 * bound or open_writes * _OPEN_WRITE_BYTES > bound
        )

    @property
    def longest_s(self) -> float:
        """Seconds from one commit to the next at most; fewer while a caller waits for it."""
        longest = self._section.commit_s
        return min(longest, _CALLED_S) if self.is_awaited else longest

    def raise_failure(self) -> None:
        """Raise the error of a commit or of the closing of a segment, if there was one."""
        if self._failure is not None:
            raise self._failure

    def start_when_due(self, now: float) -> None:
        """Start a commit when enough has happened or enough time has passed."""
        if self._commit is not None:
            return
        # Another worker may take over the shard when its lease ends. It must know then that a host
        # asked for a longer rest, so such a rest is committed at once.
        is_urgent = self._stages.pacing.was_asked and self._files.lease.is_limited
        is_full = (
            len(self._stages.ended.settled) >= self._section.commit_pages
            or self._files.store.buffered_bytes >= self._files.batch_bytes
        )
        if not (is_full or is_urgent) and now - self._committed_at < self.longest_s:
            return
        self._commit = asyncio.get_running_loop().create_task(self._commit_once())
        self._commit.add_done_callback(self._commit_ended)

    def _commit_ended(self, task: asyncio.Task[bool]) -> None:
        self._commit = None
        is_empty = False
        if not task.cancelled():
            if task.exception() is not None:
                self._failure = self._failure or task.exception()
            else:
                is_empty = not task.result()
        # An empty commit changes nothing, and a worker without anything to do sleeps on.
        if not is_empty:
            self._signals.wake()

    async def commit(self, is_last: bool = False, is_forced: bool = False) -> None:
        """Commit everything that has happened; return when it is on disk.

        ``is_forced`` appends a commit even if nothing has happened, so it raises ``Fenced`` when
        the shard has a later owner.
        """
        # A loop, because another task may start a commit between the end of this one and our turn.
        while self._commit is not None:
            # `wait` instead of `await`: cancelling this caller must not cancel the commit in
            # flight.
            await asyncio.wait([self._commit])
        self.raise_failure()
        self._commit = asyncio.get_running_loop().create_task(self._commit_once(is_last, is_forced))
        self._commit.add_done_callback(self._commit_ended)
        # Again `wait`: a commit that is cancelled half way may be in the log or not.
        await asyncio.wait([self._commit])
        self.raise_failure()

    async def _commit_once(self, is_last: bool = False, is_forced: bool = False) -> bool:
        """Make one commit; return whether there was anything to commit or to answer.

        The cut is everything from the end of the first awaits to the write. The last commit is
        logged even when nothing happened. Files were closed by then, and the log should name the
        files that exist.
        """
        files, partitions = self._files, self._partitions
        for partition in partitions.values():
            # All partitions together would be a long step of the loop. Little is gathered while the
            # others run.
            if partition.take_gathered():
                await self._clock.sleep(0)
        await self._stages.slices.wait_until_done()
        # From here to the write nothing awaits, so everything below sees the same instant.
        self._reach("commit:cut")
        self._committed_at = self._clock.monotonic()
        self._stages.pacing.was_asked = False
        own = self._stages.pacing.own
        proofs = own.cut() if own is not None else {}
        settled, given_up = self._stages.ended.take()
        waiters, self.waiters, self.is_awaited = self.waiters, [], False
        # Their visits ended, so none of them can have killed the process.
        for url in settled:
            files.crashes.clear_suspicion(url)
        posted, inbox = self._outgoing.cut_parcels(), self._topic.position
        pending = files.store.freeze()
        batches = self._cut_batches()
        has_news = bool(batches) or not pending.is_empty or inbox != self._inbox
        has_news |= is_last or is_forced or files.lease.is_due(self._committed_at)
        if has_news:
            # Copied before the write, because visits continue while it runs and count for the next
            # commit.
            counted = [p.counters.copied() for p in partitions.values()]
            feed = partial(feed_rows, pending.parts, given_up, files.store.policy)
            await self._write(pending, self._seal(batches, inbox, is_last), feed)
            self.commit_times.observe(self._clock.monotonic() - self._committed_at)
            self.counted = counted
            # Only now: until the tables have the batch, reads find its rows in the overlay.
            for batch in batches:
                partitions[batch.partition].table.settle()
            self._reach("commit:settled")
        else:
            pending.written({}, {})  # the commit is empty: release the store
        if own is not None:
            own.note_committed(proofs)
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        # Parcels are sent, and those of others acknowledged, only now: a crash before the commit
        # would undo both.
        self._outgoing.send_parcels(posted)
        self._topic.note_committed(inbox)
        await self._after_commit()
        return has_news or bool(waiters)

    def _cut_batches(self) -> list[PartitionBatch]:
        return [
            PartitionBatch(number, writes)
            for number, partition in self._partitions.items()
            # Now and then without writes, so that there is a snapshot and the log does not grow.
            if (writes := partition.freeze())
            or self.commits - self._before[number].sequence >= _IDLE
        ]

    def _seal(self, batches: list[PartitionBatch], inbox: int, is_last: bool) -> Commit:
        """Make a commit of the cut. What is found from now on belongs to the next commit."""
        files = self._files
        price, number = files.price()
        commit = Commit(
            term=files.shard.term,
            sequence=self._next,
            wall=self._clock.wall(),
            batches=batches,
            before=dict(self._before),
            time=self._clock.time(),
            crawl=files.crawl,
            shard=files.shard.number,
            inbox=inbox,
            settings=self.settings,
            price=price,
            price_number=number,
            ranks=files.ranks(),
            # While hosts are held because of the previous owner, the next owner has to hold them
            # as well.
            is_final=is_last and self._committed_at >= files.held_until,
        )
        for batch in batches:
            self._before[batch.partition] = self._marks[batch.partition] = commit.mark
            self._partitions[batch.partition].seen.seal(stamp_of(commit.mark))
        return commit

    async def _write(self, pending: PendingWrite, commit: Commit, feed: FeedSource) -> None:
        """Write the commit, retrying while the store or the log cannot take it.

        Nothing can be committed without it, so the retries do not end.
        """
        while True:
            try:
                began = await self._offload.run(lambda: self._write_once(pending, commit, feed))
            except (NotStored, RolledBack) as error:
                # The log certainly lacks the commit, so the same one may be written again.
                self._waits_for = str(error)
                await self._clock.sleep(_AGAIN_S)
            except (Fenced, OutcomeUnknown):
                # Another owner may exist already. Requests in preparation must stop before the
                # error ends the worker.
                self._files.lease.give_up()
                raise
            else:
                # From before the append: the next owner counts from when the log accepted it, which
                # is later.
                self._files.lease.renew(began)
                self._next, self._inbox, self._waits_for = commit.sequence + 1, commit.inbox, ""
                self.last = msgspec.structs.replace(
                    commit, batches=[], lengths=pending.lengths, sums=pending.sums
                )
                return

    def _write_once(self, pending: PendingWrite, commit: Commit, feed: FeedSource) -> float:
        """Write outside the loop, in the safe order; return the moment before the append began."""
        storage = self._files.shard.storage
        self._reach("commit:begin")
        # Records first: a commit in the log must not name bytes that a crash could still lose.
        storage.segments.put_records(pending)
        self._reach("commit:stored")
        began = self._clock.monotonic()
        # The lengths are read after the write, because some are known only then.
        storage.log.append(
            msgspec.structs.replace(commit, lengths=pending.lengths, sums=pending.sums), feed
        )
        self._reach("commit:logged")
        # The tables last: after a crash they are completed from the log, but never the log from
        # them.
        for batch in commit.batches:
            self._files.shard.data[batch.partition].table.write(
                marked(batch, commit.mark, commit.shard)
            )
            self._reach("commit:applied")
        self._snapshots.note_commit(commit)
        return began

    async def _after_commit(self) -> None:
        """Do what may follow a commit.

        Segments are closed, the attempt log rotated, URL-seen saved, and snapshots taken.
        """
        files = self._files
        # Each in a task: compressing and uploading a segment may take longer than the commit
        # interval.
        while (closed := files.store.roll_segment(self._clock.wall())) is not None:
            self._close_segment(closed)
        # Compressing the closed file would block the loop, which writes requests to the new one
        # meanwhile.
        if files.attempts.is_full(self._clock.monotonic()):
            await self._offload.run(
                files.attempts.rotate_file(self._clock.wall(), self._clock.monotonic())
            )
            self._ship_attempts()
        for number, partition in self._partitions.items():
            is_free = not self._snapshots.is_saving  # else its file is being sent
            if is_free and partition.seen.should_save and number in self._marks:
                await self._offload.run(_saving(partition, stamp_of(self._marks[number])))
        await self._snapshots.save_when_due(self.commits, self._inbox, self._before)

    def _ship_attempts(self) -> None:
        """Send closed attempt logs; commits do not wait for it."""
        shipper, current = self._files.shipper, self._files.attempts.path
        # One upload at a time, because a second one would send the same closed files again.
        if shipper is not None and (self._shipping is None or self._shipping.done()):
            self._shipping = asyncio.get_running_loop().create_task(
                self._offload.run(lambda: shipper.ship_closed(current))
            )

    def _close_segment(self, closed: ClosedSegment) -> None:
        task = asyncio.get_running_loop().create_task(self._close_one(closed))
        self._closing.add(task)
        task.add_done_callback(self._segment_closed)

    async def _close_one(self, closed: ClosedSegment) -> None:
        while True:
            try:
                damage = await self._offload.run(
                    lambda: self._files.shard.storage.segments.close_segment(
                        closed.name, self._files.find_similar
                    )
                )
            except NotStored as error:
                # Only this segment waits: commits need the log and the store of parts, and
                # continue.
                self._waits_for = str(error)
                await self._clock.sleep(_AGAIN_S)
            else:
                break
        # Damage is reported and does not end the worker: the bytes are lost, and the crawl is not.
        if damage:
            self.damaged[closed.name] = damage
        self._files.store.note_closed(closed)

    def _segment_closed(self, task: asyncio.Task[None]) -> None:
        self._closing.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()

    async def finish(self) -> None:
        """Make the last commit, close the open segment, and take snapshots."""
        # The open segment can be closed only after its last records are committed.
        await self.commit()
        while (
            closed := self._files.store.roll_segment(self._clock.wall(), force=True)
        ) is not None:
            self._close_segment(closed)
        # The commit after this names the files that exist at the end, so none may still change.
        while self._closing:
            await asyncio.wait(self._closing)
        self.raise_failure()
        await self.commit(is_last=True)
        await self._snapshots.finish(self.commits, self._inbox, self._before)
        self._files.attempts.close(self._clock.wall(), self._clock.monotonic())
        if self._shipping is not None:
            # The upload below would send the same files as this one.
            await asyncio.wait([self._shipping])
        if (shipper := self._files.shipper) is not None:
            # A plain file counts as open and is not sent.
            await self._offload.run(self._files.attempts.compress_closed)
            await self._offload.run(shipper.ship_closed)

    async def close(self) -> None:
        """Cancel what is in progress. Uncommitted work is lost."""
        tasks = {*self._closing, *([self._shipping] if self._shipping is not None else [])}
        for task in tasks:
            task.cancel()
        # With their exceptions, because the error that ends the worker must not be replaced by
        # theirs.
        await asyncio.gather(*tasks, self._snapshots.close(), return_exceptions=True)


def _saving(partition: Partition, stamp: int) -> Callable[[], None]:
    return lambda: partition.seen.save(stamp)
