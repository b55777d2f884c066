"""The ranks that a worker goes by: those that ``priority.ranks`` names.

The files of its partitions are read when the worker starts, or on another thread when the setting
changes while the crawl runs. Commits name the set that was in force. Ranks only order what is
fetched, so a crawl never stops for want of them: a set that cannot be read leaves those before it
in force, and a line in the log says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from lycosa.base.logs.log_records import LogLevel
from lycosa.base.logs.log_writer import opened_log
from lycosa.base.ports import Offload
from lycosa.stages.frontier.partition import Partition
from lycosa.state.objects.object_errors import ObjectError
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.ranks.rank_file import RankFile
from lycosa.state.ranks.rank_results import RanksError
from lycosa.state.ranks.rank_set import open_rank_file
from lycosa.state.seen.hash_files import HashFileDamaged

_UNREADABLE = (RanksError, HashFileDamaged, ObjectError, OSError)


class RanksInForce:
    """One per worker. ``store`` has the files of a cluster; without it they are in ``folder``."""

    def __init__(
        self,
        folder: Path,
        store: ObjectStore | None,
        partitions: Mapping[int, Partition],
        number_of_partitions: int,
        offload: Offload,
    ) -> None:
        self._folder, self._store, self._offload = folder, store, offload
        self._partitions, self._number = partitions, number_of_partitions
        self._wanted = ""
        self._reading: asyncio.Task[None] | None = None
        self.digest = ""
        """The set in force; empty without one."""

    def __repr__(self) -> str:
        return f"<RanksInForce {self.digest[:12] or 'none'} wanted={self._wanted[:12]}>"

    def begin(self, digest: str) -> None:
        """Go by a set from the start on. Blocks."""
        self._wanted = digest
        try:
            self._use(digest, self._read(digest))
        except _UNREADABLE as error:
            _tell(digest, error)

    def follow(self, digest: str) -> None:
        """Go by another set, or by none if ``digest`` is empty, as soon as its files are read."""
        if digest != self._wanted:
            self._wanted = digest
            self._reading = asyncio.get_running_loop().create_task(self._follow(digest))

    async def _follow(self, digest: str) -> None:
        try:
            files = await self._offload.run(lambda: self._read(digest))
        except _UNREADABLE as error:
            _tell(digest, error)
            return
        if digest == self._wanted:  # else another one was named meanwhile
            self._use(digest, files)

    def _read(self, digest: str) -> dict[int, RankFile]:
        if not digest:
            return {}
        return {
            each: open_rank_file(self._folder, self._store, digest, each, self._number)[1]
            for each in self._partitions
        }

    def _use(self, digest: str, files: Mapping[int, RankFile]) -> None:
        if digest == self.digest:
            return
        for number, partition in self._partitions.items():
            partition.use_ranks(files.get(number))
        self.digest = digest


def _tell(digest: str, error: Exception) -> None:
    log = opened_log("worker")
    log.note(LogLevel.WARNING, "ranks_not_read", str(error), values={"ranks": digest})
    log.close()
