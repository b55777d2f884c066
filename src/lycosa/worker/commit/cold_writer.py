"""Writes cold files and reads them: the part of a worker that moves records out of the tables.

    records gathered by the walk -> the file stored -> their rows deleted, and the file named, in
    one commit -> the URLs in the hashes of cold URLs

A crash before the commit leaves a file that no row names; the next owner deletes it. The rows are
deleted in steps of the loop between which no commit is cut. One file of a partition is written at a
time, and the next one only after the commit, so a commit has at most ``FILE_RECORDS`` deletions for
each partition. The URLs become cold in memory only when the commit is on disk: the file of hashes
never has one whose record may still be in the table.

It is a separate task, because the walk must not cost the loop anything while there is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from lycosa.base.ports import Offload
from lycosa.stages.frontier.cold_policies import apply_policies, next_unruled
from lycosa.stages.frontier.crawl_clock import CrawlClock
from lycosa.stages.frontier.partition import Partition
from lycosa.state.cold.cold_keys import COLD_DAY_S, ColdKeys, notes_of
from lycosa.state.cold.cold_rows import (
    PLACE,
    ColdDamaged,
    ColdFileRow,
    ColdRecord,
    cold_name,
    last_number,
    noted_state,
    object_key,
)
from lycosa.state.cold.cold_table import ColdTable
from lycosa.state.folder.names import cold_keys_file
from lycosa.state.objects.object_errors import ObjectError
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.worker.commit.cold_merger import MergedFileWriter
from lycosa.worker.commit.committer import Committer
from lycosa.worker.visit.slicing import Slices
from lycosa.worker.worker_ports import FaultPoint

_WALKED = 1000  # records in one step of the walk: 4 ms
_STEP_S = 0.05  # between two steps
_AGAIN_S = 30.0  # before a store that failed is asked again
_RETURNED = 512  # records that are read together when they come back
_LONGEST_S = 3600.0  # between two looks at the clock
_WEEK_S = 7 * 86_400.0


class ColdPlace(msgspec.Struct, frozen=True):
    """Where cold files are, and who writes them.

    ``store`` is the crawl's folder or object storage, ``folder`` that of the tables, ``term`` the
    owner's. ``may_write`` is false where the formats in force have no cold files. ``is_shared``:
    an earlier owner may still be writing.
    """

    store: ObjectStore
    folder: Path
    term: int
    may_write: bool
    is_shared: bool


class ColdWriter:
    """One per worker. ``run`` is a task that ends with the worker."""

    def __init__(
        self,
        place: ColdPlace,
        partitions: Mapping[int, Partition],
        committer: Committer,
        slices: Slices,
        offload: Offload,
        clock: CrawlClock,
        reach: FaultPoint,
    ) -> None:
        """Opens the hashes of cold URLs. Blocks. Raises ``ColdDamaged``.

        If the store fails meanwhile, ``run`` opens them later: until then links bring nothing back.
        """
        self._place, self._partitions, self._committer = place, partitions, committer
        self._slices, self._offload, self._clock = slices, offload, clock
        self._reach = reach
        self._merger = MergedFileWriter(
            place.store, offload, self._next_commit, place.is_shared, reach
        )
        self._news = asyncio.Event()
        self._keys: dict[int, ColdKeys] = {}
        self._last: dict[int, int] = {}  # number of the last file that was begun, by partition
        # By partition, until a file of it was written or read, or a pass found nothing to write.
        self._troubles: dict[int, str] = {}
        for number, partition in partitions.items():
            partition.cold.wake = self._news.set
            try:
                self._use_keys(number, self._open_keys(number))
            except ObjectError as error:
                self._troubles[number] = str(error)

    @property
    def waits_for(self) -> str:
        """Why a file could not be written or read, for people; else empty."""
        return next(iter(self._troubles.values()), "")

    def __repr__(self) -> str:
        return f"<ColdWriter {sum(map(len, self._keys.values()))} URLs {self.waits_for}>"

    def _open_keys(self, number: int) -> ColdKeys:
        rows = self._partitions[number].cold.files.copy()
        path = cold_keys_file(self._place.folder, number)
        return ColdKeys(path, rows, ColdTable(self._place.store, rows))

    def _use_keys(self, number: int, keys: ColdKeys) -> None:
        self._keys[number] = self._partitions[number].cold.hashes = keys

    async def run(self) -> None:
        """Archive and bring back until it is cancelled, and then save the hashes.

        It ends at once in a crawl that has no cold URLs and makes none.
        """
        if not any(each.cold.is_used for each in self._partitions.values()):
            return
        try:
            await self._delete_orphans()
            while True:
                self._news.clear()
                for partition in self._partitions.values():
                    await self._serve(partition)
                await self._pause()
        finally:
            for keys in self._keys.values():
                if keys.has_fresh and not self._committer.is_saving:
                    await self._offload.run(keys.save)

    async def _serve(self, partition: Partition) -> None:
        number = partition.number
        try:
            if number not in self._keys:
                opened = await self._offload.run(partial(self._open_keys, number))
                self._use_keys(number, opened)
                self._troubles.pop(number, None)
            if partition.cold.returning:
                await self._bring_back(partition)
            if self._place.may_write:
                await self._write(partition, self._clock.time())
        except ObjectError as error:
            # What was gathered stays in the table, and the next pass of the walk finds it.
            self._troubles[number] = str(error)
            await self._clock.sleep(_AGAIN_S)

    async def _write(self, partition: Partition, time: float) -> None:
        """Take a step of the walk, or merge files when there is none to take."""
        if partition.cold.next_step(time) <= time:
            await self._clock.sleep(_STEP_S)
            # What is deleted waits in memory for a commit, as everything else does.
            if self._committer.is_behind:
                return
            if gathered := partition.cold.step(time, _WALKED):
                await self._archive(partition, gathered)
            if partition.cold.row.began:
                return  # the pass is not at its end
            self._troubles.pop(partition.number, None)
        if number := next_unruled(partition):
            await self._apply_policies(partition, number, time)
            self._news.set()
            return
        await self._merger.delete_replaced(partition, time)
        if (chosen := self._merger.choose(partition)) and not self._committer.is_saving:
            keys = self._keys[partition.number]
            if keys.has_fresh:  # the file of hashes must not be of one that is merged away
                await self._offload.run(keys.save)
            _, name = self._new_name(partition, time)
            await self._merger.merge(partition, keys, chosen, name, time)
            self._troubles.pop(partition.number, None)
            self._news.set()

    async def _apply_policies(self, partition: Partition, number: int, time: float) -> None:
        rows = partition.cold.files[number]
        table = ColdTable(self._place.store, {number: rows})
        try:
            records = await self._offload.run(lambda: list(table.scan(b"U", b"V")))
        except ColdDamaged:
            records = []  # the audit reports the file
        part = [(key[1:], value) for key, value in records]
        for _ in apply_policies(partition, number, part, time):
            await self._clock.sleep(0)
        await self._bring_back(partition)

    def _new_name(self, partition: Partition, time: float) -> tuple[int, str]:
        """A number and a name for a file."""
        # Never twice, also after a failure: a store may repeat a request that it answered long ago.
        number = max(self._last.get(partition.number, 0), last_number(partition.cold.files)) + 1
        self._last[partition.number] = number
        return number, cold_name(partition.number, number, self._place.term, time)

    async def _pause(self) -> None:
        """Wait until a partition has something to do."""
        time = self._clock.time()
        due = min(each.cold.next_step(time) for each in self._partitions.values())
        wait_s = min(max(due - time, 0.0), _LONGEST_S) if self._place.may_write else _LONGEST_S
        timer = asyncio.get_running_loop().call_later(wait_s, self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()

    # -- leaving

    async def _archive(self, partition: Partition, gathered: Sequence[ColdRecord]) -> None:
        cold, time = partition.cold, self._clock.time()
        number, name = self._new_name(partition, time)
        row = await self._offload.run(partial(self._store, name, gathered, int(time)))
        self._troubles.pop(partition.number, None)
        self._reach("cold:stored")
        removed: list[ColdRecord] = []
        if not cold.files and partition.policy_walk.is_done:
            cold.row.policies = partition.policy_walk.row.version

        def steps() -> Iterator[None]:
            for part in cold.remove(number, row, gathered):
                removed.extend(part)
                yield

        await self._slices.run_whole(steps)
        self._reach("cold:removed")
        if not removed:  # all of them changed meanwhile
            await self._offload.run(lambda: self._place.store.delete([object_key(name)]))
            return
        await self._next_commit()
        notes = notes_of(
            [each.url for each in removed],
            int(time) // COLD_DAY_S,
            [noted_state(each.record) for each in removed],
            [int(each.record.reason) for each in removed],
        )
        keys = self._keys[partition.number]
        keys.add(number, name, notes)
        # A snapshot that is being sent has the file of the commit that it is of.
        if keys.should_save and not self._committer.is_saving:
            await self._offload.run(keys.save)

    def _store(self, name: str, gathered: Sequence[ColdRecord], time: int) -> ColdFileRow:
        """Store a file; returns when it is safe. An orphan of this name is replaced."""
        # Arrow takes 0.3 s and 60 MB, which only a crawl with cold files needs.
        from lycosa.state.cold.cold_file import encode_file

        content = encode_file(gathered)
        self._place.store.put(object_key(name), content)
        return ColdFileRow.of(name, content, gathered, time)

    async def _next_commit(self) -> None:
        """Wait until what was done so far is in the log."""
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._committer.waiters.append(committed)
        self._committer.wake()
        await committed

    # -- coming back

    async def _bring_back(self, partition: Partition) -> None:
        cold, number = partition.cold, partition.number
        while urls := sorted(cold.returning)[:_RETURNED]:
            notes = [cold.hashes.find(url[8:]) for url in urls]
            days = [note.day if note is not None else 0 for note in notes]
            self._troubles.pop(number, None)
            read = partial(self._read, number, cold.files.copy(), urls, days)
            values = await self._offload.run(read)
            for url, value in zip(urls, values, strict=True):
                partition.come_back(url, value, self._clock.time())
            self._committer.wake()
            await self._clock.sleep(0)

    def _read(
        self,
        number: int,
        rows: Mapping[int, ColdFileRow],
        urls: Sequence[bytes],
        days: Sequence[int],
    ) -> Sequence[bytes | None]:
        table = ColdTable(self._place.store, rows)
        found: list[bytes | None] = []
        for url, day in zip(urls, days, strict=True):
            try:
                found.append(table.get_of_day(b"U" + url, day))
            except ColdDamaged as error:
                # The URL's text is in the record only. The audit reports the file.
                self._troubles[number] = str(error)
                found.append(None)
        return found

    # -- orphans

    async def _delete_orphans(self) -> None:
        """Delete files that no row names, of earlier owners that were killed before a commit."""
        for number, partition in self._partitions.items():
            rows = partition.cold.files.values()
            named = {object_key(row.name) for row in rows}
            named |= {object_key(name) for row in rows for _, name in row.replaced}
            try:
                await self._offload.run(partial(self._delete_unnamed, number, named))
            except ObjectError as error:
                self._troubles[number] = str(error)

    def _delete_unnamed(self, number: int, named: set[str]) -> None:
        store, now = self._place.store, self._clock.wall()
        self._place.store.delete(
            [
                each.key
                for each in store.list(f"{PLACE}/{number:05d}/")
                if each.key not in named and self._is_dead(each.key, now - each.modified)
            ]
        )

    def _is_dead(self, key: str, age_s: float) -> bool:
        """Whether no commit can name a file any more: its owner and its requests have ended."""
        term = key.rpartition("-")[2].removesuffix(".parquet")
        is_earlier = term.isdigit() and int(term) < self._place.term
        return not self._place.is_shared or (is_earlier and age_s >= _WEEK_S)
