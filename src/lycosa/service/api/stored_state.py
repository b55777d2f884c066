"""The state of a crawl on machines that has ended, read from storage while callers ask for it.

No worker runs that could answer, so the shards are read as the commands with ``--cluster`` read
them, into the same cache folder. That takes a while. The first question begins the reading; until
it is done, questions are answered with its progress. A failure is reported as well, and the next
question after a pause begins again. Nothing changes in a crawl that has ended, so it is read once,
until the crawl continues.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from threading import Event
from typing import TYPE_CHECKING

from lycosa.base.calls import Call, CallReply, StateQuestion
from lycosa.base.config.cluster_file import ClusterFile
from lycosa.inspect.queries.question_thread import StateReader
from lycosa.state.exchange.exchange_errors import NoAnswer

if TYPE_CHECKING:
    from lycosa.cluster.shards.cluster_view import ReadingProgress
    from lycosa.cluster.shards.opened_cluster import OpenedCluster

_SHARE = 0.5  # of a core that questions may use while nothing is crawled
_PATIENCE_S = 1.0  # of a question, for the reading of a small crawl
_AGAIN_S = 15.0  # after a failure


class StoredState:
    """Answers questions about the ended crawl of ``given``; closed when the crawl continues."""

    def __init__(self, given: ClusterFile) -> None:
        self._given = given
        self._is_ending = Event()
        self._reading: asyncio.Task[None] | None = None
        self._progress: ReadingProgress | None = None
        self._opened: OpenedCluster | None = None
        self._reader: StateReader | None = None
        self._failure, self._failed_at = "", 0.0

    def __repr__(self) -> str:
        return f"<StoredState {self._given.name} {self._reader!r} {self._failure}>"

    async def answer(self, partition: int, question: Call) -> CallReply:
        """The reply to a question. Raises ``NoAnswer``."""
        if not isinstance(question, StateQuestion):
            raise NoAnswer("the crawl has ended; resume it")
        if self._reader is None:
            await self._wait_for_reading()
        if self._reader is None:
            raise NoAnswer(self._why_not())
        return await self._reader.answer(partition, question)

    async def close(self) -> None:
        """End, and delete what was made from the downloaded files; these stay in the cache."""
        self._is_ending.set()
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._reader is not None:
            await self._reader.close()
        if self._opened is not None:
            await asyncio.to_thread(self._opened.close)

    async def _wait_for_reading(self) -> None:
        if self._reading is None and time.monotonic() - self._failed_at > _AGAIN_S:
            self._reading = asyncio.get_running_loop().create_task(self._read())
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=_PATIENCE_S)

    async def _read(self) -> None:
        try:
            opened = self._opened = await asyncio.to_thread(self._open)
        except Exception as error:  # of Kafka, the object storage, the disk, or damage
            self._failure, self._failed_at = str(error) or repr(error), time.monotonic()
            self._reading = self._progress = None
        else:
            # all questions share the view, so none of them closes it
            self._reader = StateReader(lambda partition: nullcontext(opened.view), _SHARE)
            self._failure = ""

    def _open(self) -> OpenedCluster:
        """Read all shards. Blocks, perhaps for minutes."""
        # the Kafka client is an optional extra
        from lycosa.cluster.shards.opened_cluster import OpenedCluster, default_cache

        opened = OpenedCluster(self._given, default_cache(), self._note)
        try:
            opened.view.open_shards()
        except BaseException:
            opened.close()
            raise
        return opened

    def _note(self, progress: ReadingProgress) -> None:
        self._progress = progress
        if self._is_ending.is_set():
            raise NoAnswer("the crawl continues")  # ends the reading

    def _why_not(self) -> str:
        if self._failure:
            return (
                f"the crawl has ended, and its storage cannot be read: {self._failure}; the"
                f" command `lycosa status --cluster {self._given.path}` tries to read it too"
            )
        progress = self._progress
        done = f" ({progress.opened} of {progress.shards} shards)" if progress else ""
        return f"the crawl has ended; its state is being read from storage{done}; ask again"
