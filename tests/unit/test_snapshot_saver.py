"""Snapshots beside commits: when one is taken, what is trimmed after it, and that commits continue
while it is saved in the background.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection
from pathlib import Path

from lycosa.base.system.clock import ThreadOffload
from lycosa.state.commit import Commit, Mark, MemoryChangelog, MemoryLog, PartitionBatch
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.seen.urls_sorted import SortedSeenUrls
from lycosa.state.shard.opened_shard import (
    CLUSTER_LIMIT,
    PartitionData,
    Shard,
    ShardStorage,
    SnapshotLimit,
)
from lycosa.state.store.segments_port import NotStored
from lycosa.worker.commit.snapshot_saver import SnapshotSaver
from lycosa.worker.intake.inbox_topic import InboxTopic
from memory_segments import MemorySegments


class Trimming(MemoryLog):
    """Remembers up to where it was trimmed."""

    def __init__(self) -> None:
        super().__init__(MemoryChangelog("c", 0))
        self.trims: list[int] = []

    def trim(self, sequence: int) -> None:
        self.trims.append(sequence)


class Slow:
    """Snapshots that are stored when they are let go; ``failures`` of them are not."""

    def __init__(self) -> None:
        self.saved: list[Mark] = []
        self.go, self.failures = threading.Event(), 0

    def saved_partitions(self) -> Collection[int]:
        return []

    def restore_partition(self, partition: int) -> PartitionData:
        raise AssertionError

    def save_partition(self, partition: int, data: PartitionData, mark: Mark) -> None:
        assert self.go.wait(60)
        if self.failures:
            self.failures -= 1
            raise NotStored("the store is away")
        self.saved.append(mark)


class Topic(InboxTopic):
    """Remembers up to where the inbox was trimmed."""

    def __init__(self) -> None:
        super().__init__(None, 0, lambda error: None)
        self.trims: list[int] = []

    def trim(self, position: int) -> None:
        self.trims.append(position)


class Bench:
    """A saver that is told of commits 1, 2, ...; commit n names the inbox position 10 n."""

    def __init__(
        self,
        seen: Path,
        is_aside: bool,
        limit: SnapshotLimit = SnapshotLimit(3),  # noqa: B008
    ) -> None:
        self.now = 1000.0
        self.log, self.slow, self.topic = Trimming(), Slow(), Topic()
        storage = ShardStorage(
            self.log, MemorySegments({}, 0), self.slow, limit, saves_in_background=is_aside
        )
        data = PartitionData(MemoryKeyValue(), SortedSeenUrls(seen))
        self.saver = SnapshotSaver(
            Shard(0, 1, storage, {0: data}),
            ThreadOffload(),
            lambda point: None,
            0,
            self.topic,
            lambda: self.now,
            {0: Mark(0, 0)},
        )

    async def commit(self, number: int, value: bytes = b"") -> None:
        batch = PartitionBatch(0, {b"key": value, b"deleted": None})
        self.saver.note_commit(Commit(term=1, sequence=number, wall=0.0, batches=[batch]))
        await self.saver.save_when_due(number, 10 * number, {0: Mark(1, number)})

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not holds():  # noqa: ASYNC110 (what it waits for happens on a thread)
                await asyncio.sleep(0)


async def test_commits_continue_while_a_snapshot_is_saved_in_the_background(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "seen", is_aside=True)
    for number in range(1, 9):
        await bench.commit(number)
    assert bench.saver.is_saving and bench.log.trims == []
    bench.slow.go.set()
    await bench.until(lambda: bench.slow.saved)
    assert bench.slow.saved == [Mark(1, 3)]
    await bench.until(lambda: bench.saver._done)
    await bench.commit(9)
    assert bench.log.trims == [3] and bench.topic.trims == [0]
    await bench.until(lambda: len(bench.slow.saved) == 1)
    await bench.saver.finish(9, 90, {0: Mark(1, 9)})
    assert bench.log.trims[-1] == 9 and bench.topic.trims[-1] in (30, 90)
    await bench.saver.close()


async def test_the_next_commit_waits_for_a_snapshot_on_one_machine(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "seen", is_aside=False)
    bench.slow.go.set()
    for number in range(1, 7):
        await bench.commit(number)
    assert bench.slow.saved == [Mark(1, 3), Mark(1, 6)]
    assert bench.log.trims == [3, 6] and bench.topic.trims == [0, 30]


async def test_commits_without_writes_leave_the_log_to_both_snapshots(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "seen", is_aside=False)
    bench.slow.go.set()
    for number in range(1, 7):
        await bench.commit(number)
    for number in range(7, 30):
        await bench.saver.save_when_due(number, 10 * number, {0: Mark(1, 6)})
    await bench.saver.finish(30, 300, {0: Mark(1, 6)})
    # The log continues the snapshots of commits 3 and 6 as long as there is no newer one.
    assert bench.log.trims == [3, 6] and bench.topic.trims == [0, 30]
    for number in range(31, 34):
        await bench.commit(number)
    assert bench.log.trims == [3, 6, 33] and bench.topic.trims == [0, 30, 60]


async def test_nothing_is_trimmed_after_a_snapshot_that_was_not_stored(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "seen", is_aside=False)
    bench.slow.go.set()
    bench.slow.failures = 1
    for number in range(1, 4):
        await bench.commit(number)
    assert bench.log.trims == [] and bench.saver.waits_for == "the store is away"
    bench.now += 5.0
    await bench.commit(4)
    assert bench.log.trims == [4] and bench.saver.waits_for == ""


async def test_in_a_cluster_a_snapshot_is_due_after_ten_minutes(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "seen", is_aside=False, limit=CLUSTER_LIMIT)
    bench.slow.go.set()
    for number in range(1, 400):  # a commit every second and a half
        bench.now += 1.5
        await bench.commit(number)
    assert bench.slow.saved == []
    bench.now += 1.5
    await bench.commit(400)
    assert bench.slow.saved == [Mark(1, 400)]
    bench.now += 1e6  # without a commit there is nothing to save
    await bench.saver.save_when_due(400, 4000, {0: Mark(1, 400)})
    assert len(bench.slow.saved) == 1
    await bench.commit(401)
    assert bench.slow.saved[1:] == [Mark(1, 401)]


async def test_in_a_cluster_a_snapshot_is_due_after_256_mb_of_writes(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "seen", is_aside=False, limit=CLUSTER_LIMIT)
    bench.slow.go.set()
    value = bytes(64_000_000 - len(b"key") - len(b"deleted"))
    for number in range(1, 4):
        await bench.commit(number, value)
    assert bench.slow.saved == []
    await bench.commit(4, value)
    assert bench.slow.saved == [Mark(1, 4)]
    for number in range(5, 9):
        assert len(bench.slow.saved) == 1
        await bench.commit(number, value)
    assert bench.slow.saved == [Mark(1, 4), Mark(1, 8)]


async def test_writes_while_a_snapshot_is_sent_count_for_the_next(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "seen", is_aside=True, limit=SnapshotLimit(1e9, 1e9, 100))
    for number in range(1, 4):
        await bench.commit(number, bytes(90))
    bench.slow.go.set()
    await bench.until(lambda: bench.saver._done)
    await bench.commit(4)  # trims
    await bench.commit(5)
    await bench.until(lambda: len(bench.slow.saved) == 2)
    assert bench.slow.saved == [Mark(1, 1), Mark(1, 5)]
    await bench.saver.close()


async def test_a_snapshot_that_was_not_stored_stays_due(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "seen", is_aside=False, limit=CLUSTER_LIMIT)
    bench.slow.go.set()
    bench.slow.failures = 1
    bench.now += 600.0
    await bench.commit(1)
    assert bench.slow.saved == []
    bench.now += 5.0
    await bench.commit(2)
    assert bench.slow.saved == [Mark(1, 2)]


async def test_a_snapshot_is_tried_again_after_pauses_that_double(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "seen", is_aside=False, limit=CLUSTER_LIMIT)
    bench.slow.go.set()
    bench.slow.failures, pauses, since = 9, list[int](), 0
    bench.now += 600.0
    for number in range(1, 2000):  # a commit every second
        before = bench.slow.failures
        await bench.commit(number)
        if bench.slow.failures < before:
            pauses.append(number - since)
            since = number
        if bench.slow.saved:
            break
        bench.now += 1.0
    assert pauses[1:] == [5, 10, 20, 40, 80, 160, 300, 300]
    assert bench.saver.waits_for == "" and bench.log.trims == [number]
    bench.now += 600.0  # the count begins again
    bench.slow.failures = 1
    await bench.commit(number + 1)
    bench.now += 5.0
    await bench.commit(number + 2)
    assert len(bench.slow.saved) == 2


async def test_the_last_snapshot_is_not_put_off(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "seen", is_aside=False, limit=SnapshotLimit(1))
    bench.slow.go.set()
    bench.slow.failures = 1
    await bench.commit(1)
    assert bench.slow.saved == []
    await bench.saver.finish(1, 10, {0: Mark(1, 1)})
    assert bench.slow.saved == [Mark(1, 1)]
