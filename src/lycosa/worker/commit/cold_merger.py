"""Merges the cold files of a partition, and deletes those that were merged away long ago.

    files chosen and read -> the merged file stored -> their rows replaced by one row, in a commit
    -> a day or a week later: the old files deleted, and forgotten in a commit

A crash before the commit leaves a file that no row names, as when records leave the table; one
behind it leaves the old files, which the row names until they are deleted. Records are read and
written on another thread. What the loop does is bounded: lookups of at most ``MERGED_RECORDS``
keys, in slices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from lycosa.base.ports import Offload
from lycosa.stages.frontier.partition import Partition
from lycosa.state.cold.cold_keys import ColdKeys
from lycosa.state.cold.cold_rows import ColdDamaged, ColdFileRow, object_key
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.seen.seen_port import hashes_of
from lycosa.worker.worker_ports import FaultPoint

if TYPE_CHECKING:
    from lycosa.state.cold.cold_merging import MergedRows

_LOOKED_UP = 500  # keys in one step of the loop: 3 ms
_DAY_S = 86_400.0
_KEPT_S, _KEPT_SHARED_S = _DAY_S, 7 * _DAY_S


class MergedFileWriter:
    """One per worker; called by its ``ColdWriter``, one call at a time."""

    def __init__(
        self,
        store: ObjectStore,
        offload: Offload,
        next_commit: Callable[[], Awaitable[None]],
        is_shared: bool,
        reach: FaultPoint,
    ) -> None:
        self._store, self._offload, self._next_commit = store, offload, next_commit
        self._reach = reach
        self._kept_s = _KEPT_SHARED_S if is_shared else _KEPT_S
        self._passed: dict[int, int] = {}  # by partition, the last file that was written again
        self._settled: dict[int, tuple[int, ...]] = {}
        """By partition, the files of which none are to be merged."""

    async def merge(
        self, partition: Partition, keys: ColdKeys, chosen: Sequence[int], name: str, time: float
    ) -> None:
        """Merge the files with these numbers into one with this name, which no other file had."""
        files = partition.cold.files
        rows = [files[each] for each in chosen]
        try:
            merged = await self._offload.run(partial(_read, self._store, rows))
        except ColdDamaged:
            # The audit reports the file. Its records stay where they are.
            self._settled[partition.number] = tuple(files)
            return
        is_kept = await self._useful(partition, keys, merged.urls, merged.days)
        into = chosen[-1]
        replaced = [(each, files[each].name) for each in chosen]
        replaced += [old for row in rows for old in row.replaced]
        changed: dict[int, ColdFileRow | None] = dict.fromkeys(chosen[:-1])
        if any(is_kept):
            content = await self._offload.run(lambda: merged.encode(is_kept))
            await self._offload.run(lambda: self._store.put(object_key(name), content))
            self._reach("cold:merged")
            urls = list(compress(merged.urls, is_kept))
            row = ColdFileRow.merged(name, content, urls, rows)
            changed[into] = row.replacing(replaced, int(time))
            keys.rename(into, name)
        else:
            # The next file remembers what is to be deleted; the newest one is never merged.
            heir = min(each for each in files if each > into)
            changed[into], changed[heir] = None, files[heir].replacing(replaced, int(time))
        self._passed[partition.number] = into
        partition.cold.name_files(changed)
        await self._next_commit()

    def choose(self, partition: Partition) -> list[int]:
        """The numbers of files that are to be merged; empty if there is nothing to do."""
        files, number = partition.cold.files, partition.number
        if len(files) < 2 or self._settled.get(number) == tuple(files):
            return []
        # Arrow takes 0.3 s and 60 MB, which only a crawl with cold files needs.
        from lycosa.state.cold.cold_merging import choose_files

        cold = sum(partition.counters.cold.values())
        chosen = choose_files(files, cold, self._passed.get(number, 0))
        if not chosen:
            self._settled[number] = tuple(files)
        return chosen

    async def _useful(
        self, partition: Partition, keys: ColdKeys, urls: Sequence[bytes], days: NDArray[np.uint16]
    ) -> list[bool]:
        """Whether the records are what counts for their URLs, as far as is known in memory."""
        is_kept: list[bool] = []
        for at in range(0, len(urls), _LOOKED_UP):
            part = urls[at : at + _LOOKED_UP]
            hashes = hashes_of([url[8:] for url in part])
            is_newer = keys.newer(hashes, days[at : at + _LOOKED_UP]).tolist()
            hidden = partition.cold.is_hidden(part)
            is_kept += [not (one or other) for one, other in zip(hidden, is_newer, strict=True)]
            await asyncio.sleep(0)
        return is_kept

    async def delete_replaced(self, partition: Partition, time: float) -> None:
        """Delete files that were merged away so long ago that no reader has them open."""
        for number, row in list(partition.cold.files.items()):
            if row.replaced and row.replaced_at + self._kept_s <= time:
                names = [object_key(name) for _, name in row.replaced]
                await self._offload.run(partial(self._store.delete, names))
                forgotten = msgspec.structs.replace(row, replaced=(), replaced_at=0)
                partition.cold.name_files({number: forgotten})


def _read(store: ObjectStore, rows: Sequence[ColdFileRow]) -> MergedRows:
    from lycosa.state.cold.cold_merging import MergedRows

    return MergedRows(store, rows)
