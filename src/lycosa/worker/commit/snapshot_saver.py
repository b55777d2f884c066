"""Takes the snapshots of a worker's shard, and then has its log and its inbox trimmed.

On one machine a snapshot is a flush, and the next commit waits for it. In a cluster its files are
sent to object storage. That may take longer than a lease lasts, so commits continue meanwhile
(``ShardStorage.saves_in_background``); only the trim happens between two commits. Such a snapshot
may contain later commits than the one that it is named after. Its table says up to which one.

Commits without writes change no table, so there is nothing new to save after them, and nothing is
trimmed: of the two snapshots that are kept, the log must continue the older one too.

A snapshot that cannot be stored is tried again after a pause that doubles. Otherwise each commit,
one a second, would write and send the files of a store that is away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from math import inf

from lycosa.base.ports import Offload
from lycosa.state.commit import Commit, Mark
from lycosa.state.shard.opened_shard import Shard
from lycosa.state.store.segments_port import NotStored
from lycosa.worker.intake.inbox_topic import InboxTopic
from lycosa.worker.worker_ports import FaultPoint

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 300.0  # before a snapshot is tried again


class SnapshotSaver:
    """One per worker.

    ``sequence`` is the last commit, which the snapshots contain, and which names the position of
    ``topic``; ``marks`` are those of the tables then. ``monotonic`` is the clock by which snapshots
    are due.
    """

    def __init__(
        self,
        shard: Shard,
        offload: Offload,
        reach: FaultPoint,
        sequence: int,
        topic: InboxTopic,
        monotonic: Callable[[], float],
        marks: Mapping[int, Mark],
    ) -> None:
        self._shard, self._offload, self._reach, self._topic = shard, offload, reach, topic
        self._saved, self._saved_inbox, self._saved_marks = sequence, topic.position, dict(marks)
        self._monotonic, self._began = monotonic, monotonic()
        self._write_bytes = 0  # of commits behind the last snapshot
        self._saving: asyncio.Task[None] | None = None
        # a snapshot whose trim is due
        self._done: tuple[int, int, Mapping[int, Mark]] | None = None
        self._failures, self._retry_at = 0, 0.0  # snapshots in a row that were not stored
        self.waits_for = ""
        """Why the last snapshot could not be stored, for people; else empty."""

    @property
    def is_saving(self) -> bool:
        """Whether a snapshot is being saved while commits continue."""
        return self._saving is not None

    def note_commit(self, commit: Commit) -> None:
        """Count the bytes that a commit in the log wrote, if snapshots are due by them.

        May be called on another thread.
        """
        if self._shard.storage.snapshot_limit.write_bytes == inf:
            return  # no limit asks for them, and a page has fifteen writes
        for batch in commit.batches:
            writes = dict(batch.writes)
            self._write_bytes += sum(map(len, writes)) + sum(
                map(len, filter(None, writes.values()))
            )

    async def save_when_due(self, commits: int, inbox: int, marks: Mapping[int, Mark]) -> None:
        """Save a snapshot when one is due, and trim after one that was saved.

        It is called between two commits; ``commits``, ``inbox`` and ``marks`` are of the last one.
        Raises the errors of the snapshots, except ``NotStored``.
        """
        if self._saving is not None and self._saving.done():
            task, self._saving = self._saving, None
            task.result()
        storage = self._shard.storage
        if self._is_due(commits) and self._saving is None and self._done is None:
            if not storage.saves_in_background:
                await self._save(commits, inbox, marks, self._extent())
            else:
                # What is written before the task runs belongs to the next snapshot.
                work = self._save(commits, inbox, dict(marks), self._extent())
                self._saving = asyncio.get_running_loop().create_task(work)
        await self._trim()

    async def finish(self, commits: int, inbox: int, marks: Mapping[int, Mark]) -> None:
        """Save the last snapshot; return when it is stored or cannot be."""
        if self._saving is not None:
            task, self._saving = self._saving, None
            await task
        await self._trim()
        await self._save(commits, inbox, marks, self._extent())
        await self._trim()

    async def close(self) -> None:
        """Cancel what is in progress."""
        if self._saving is not None:
            self._saving.cancel()
            await asyncio.gather(self._saving, return_exceptions=True)

    def _is_due(self, commits: int) -> bool:
        made, limit = commits - self._saved, self._shard.storage.snapshot_limit
        return (made > 0 and self._monotonic() >= self._retry_at) and (
            made >= limit.commits
            or self._monotonic() - self._began >= limit.seconds
            or self._write_bytes >= limit.write_bytes
        )

    def _extent(self) -> tuple[float, int]:
        """The time, and the bytes of writes since the last snapshot."""
        return self._monotonic(), self._write_bytes

    async def _save(
        self, sequence: int, inbox: int, marks: Mapping[int, Mark], extent: tuple[float, int]
    ) -> None:
        snapshots = self._shard.storage.snapshots
        try:
            for number, data in self._shard.data.items():
                mark = marks[number]
                await self._offload.run(
                    lambda number=number, data=data, mark=mark: snapshots.save_partition(  # type: ignore[misc]
                        number, data, mark
                    )
                )
        except NotStored as error:  # the log keeps what they would contain: it is not trimmed
            self.waits_for = str(error)
            pause_s = _FIRST_PAUSE_S * 2.0 ** min(self._failures, 30)
            self._failures += 1
            self._retry_at = self._monotonic() + min(pause_s, _LONGEST_PAUSE_S)
            return
        self.waits_for, self._failures, self._retry_at = "", 0, 0.0
        self._reach("flush:done")
        self._done = sequence, inbox, dict(marks)
        self._began, self._write_bytes = extent[0], self._write_bytes - extent[1]

    async def _trim(self) -> None:
        """Trim after a snapshot. The log before it is then not needed any more."""
        if self._done is None:
            return
        (sequence, inbox, marks), self._done = self._done, None
        if marks == self._saved_marks:
            self._saved = sequence
            return
        await self._offload.run(lambda: self._shard.storage.log.trim(sequence))
        # two snapshots are kept, and the older one is the one before this
        self._topic.trim(self._saved_inbox)
        self._saved, self._saved_inbox, self._saved_marks = sequence, inbox, dict(marks)
