"""Bugs that the histories of many nodes must find. Each changes the crawler's own code, which is
the purpose here and nowhere else.

The list is that of the design of many machines, 11.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from lycosa.cluster.node_plan import NodePlan
from lycosa.commit import Commit, MemoryChangelog
from lycosa.exchange import Handover, Parcel, TopicPost
from lycosa.frontier.frontier import Frontier
from lycosa.shard.memory_snapshots import MemorySnapshots
from lycosa.shard.opening import PartitionData
from lycosa.store import FoundSegments
from lycosa.store.memory_segments import MemorySegments
from lycosa.worker.committer import Committer
from planting import code_named

PLANTS = {
    "no fence": "an owner that lost its shard may go on appending",
    "no hold": "hosts are not held after an unclean takeover",
    "early acknowledgement": "a parcel counts as posted before the topic has it",
    "late lease": "the lease is counted from the acknowledgement of the append",
    "row n": "row n is deleted when parcel n + 1 was acknowledged",
    "stale snapshot": (
        "the snapshot that was written last is used, not the one of the latest commit"
    ),
    "early end": "the log is read to an end that was asked for before all appends were decided",
    "mixed files": "files of snapshots are named by their number and not by their content",
    "old coordinator": "nodes obey a coordinator that another has followed",
    "shared key": "a new owner continues the segment of the one before, under the same keys",
}
_LAG_S = 8.0


@contextlib.contextmanager
def planted(plant: str) -> Iterator[None]:
    """The bug is there while this lasts; without a name, nothing is changed."""
    with contextlib.ExitStack() as undo:
        for owner, name, wrong in _BUGS[plant]() if plant else ():
            right = code_named(owner, name)
            setattr(owner, name, wrong)
            undo.callback(setattr, owner, name, right)
        yield


Change = tuple[Any, str, Any]


def _no_fence() -> Sequence[Change]:
    return [(MemoryChangelog, "check", lambda self, producer: None)]


def _no_hold() -> Sequence[Change]:
    return [(Frontier, "hold_all", lambda self, until, delay_of: None)]


def _early_acknowledgement() -> Sequence[Change]:
    async def post(self: TopicPost, parcels: Sequence[Parcel]) -> Handover:
        for parcel in parcels:
            self._running.add(
                asyncio.get_running_loop().create_task(_quietly(self._append(parcel)))
            )
        return Handover(len(parcels))

    return [(TopicPost, "post_parcels", post)]


async def _quietly(work: Any) -> int:
    with contextlib.suppress(Exception):
        await work
    return 0


def _late_lease() -> Sequence[Change]:
    right = Committer._write

    async def write(self: Committer, pending: Any, commit: Commit, *others: Any) -> None:
        await right(self, pending, commit, *others)
        self._books.lease.renew(self._clock.monotonic())

    return [(Committer, "_write", write)]


def _row_n() -> Sequence[Change]:
    async def post(self: TopicPost, parcels: Sequence[Parcel]) -> Handover:
        results = await asyncio.gather(*map(self._append, parcels), return_exceptions=True)
        landed = [number for number, result in enumerate(results, 1) if isinstance(result, int)]
        failure = next((result for result in results if isinstance(result, Exception)), None)
        count = max(landed, default=0)
        return Handover(count, None if count == len(parcels) else failure)  # type: ignore[arg-type]  # an ExchangeError

    return [(TopicPost, "post_parcels", post)]


def _stale_snapshot() -> Sequence[Change]:
    def keys(self: MemorySnapshots) -> list[str]:
        # in the order in which they were written
        return [key for key in self._objects if key.startswith(self._prefix())]

    def restore(self: MemorySnapshots, partition: int) -> PartitionData:
        data = self._make()
        for name in msgspec.msgpack.decode(self._objects[self._keys()[-1]]) if self._keys() else ():
            data.table.write(msgspec.msgpack.decode(self._objects[name], type=dict[bytes, bytes]))
        return data

    return [(MemorySnapshots, "_keys", keys), (MemorySnapshots, "restore_partition", restore)]


def _early_end() -> Sequence[Change]:
    right_append, right_commits = MemoryChangelog.append, MemoryChangelog.commits
    times: WeakKeyDictionary[MemoryChangelog, dict[tuple[int, int], float]] = WeakKeyDictionary()

    def append(self: MemoryChangelog, producer: int, commit: Commit, *others: Any) -> None:
        right_append(self, producer, commit, *others)
        times.setdefault(self, {})[commit.mark] = asyncio.get_running_loop().time()

    def commits(self: MemoryChangelog) -> Iterator[Commit]:
        now, seen = asyncio.get_running_loop().time(), times.get(self, {})
        for commit in right_commits(self):
            if now - seen.get(commit.mark, 0.0) < _LAG_S:
                return
            yield commit

    return [(MemoryChangelog, "append", append), (MemoryChangelog, "commits", commits)]


def _mixed_files() -> Sequence[Change]:
    def store(self: MemorySnapshots, number: int, content: bytes) -> str:
        name = f"{self._files()}{number}"
        self._objects[name] = content
        return name

    return [(MemorySnapshots, "_store", store)]


def _old_coordinator() -> Sequence[Change]:
    right = NodePlan.handle_message

    def hear(self: NodePlan, message: Any, now: float) -> Any:
        if message.coordinator < self.coordinator:
            self.coordinator = message.coordinator
            self._obeyed = self._upon = 0
            self._greatest.clear()
        return right(self, message, now)

    return [(NodePlan, "handle_message", hear)]


def _shared_key() -> Sequence[Change]:
    right = MemorySegments.find_segments

    def find(self: MemorySegments, term: int) -> FoundSegments:
        return msgspec.structs.replace(right(self, term), term=0)

    return [(MemorySegments, "find_segments", find)]


_BUGS: dict[str, Callable[[], Sequence[Change]]] = {
    "no fence": _no_fence,
    "no hold": _no_hold,
    "early acknowledgement": _early_acknowledgement,
    "late lease": _late_lease,
    "row n": _row_n,
    "stale snapshot": _stale_snapshot,
    "early end": _early_end,
    "mixed files": _mixed_files,
    "old coordinator": _old_coordinator,
    "shared key": _shared_key,
}
assert _BUGS.keys() == PLANTS.keys()
