"""The state of a crawl on machines that has ended, read from storage while callers ask for it.

The first question begins the reading; until it is done, questions are answered with its progress. A
failure is told as well, and the next question after a pause begins again.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from lycosa.base.calls import StateQuestion, decode_call, encode_reply
from lycosa.base.config.cluster_file import ClusterFile
from lycosa.inspect.queries.question_thread import StateReader
from lycosa.state.exchange import NoAnswer

if TYPE_CHECKING:
    from lycosa.inspect.queries.cluster_state import ClusterState

_SHARE = 0.5  # of a core that questions may use while nothing is crawled
_PATIENCE_S = 1.0  # of a question, for the reading of a small crawl
_AGAIN_S = 15.0  # after a failure


class StoredState:
    """Answers questions about the ended crawl of ``given``; closed when the crawl continues."""

    def __init__(self, given: ClusterFile) -> None:
        self._given = given
        self._opening: asyncio.Task[None] | None = None
        self._state: ClusterState | None = None
        self._reader: StateReader | None = None
        self._failure, self._failed_at = "", 0.0

    def __repr__(self) -> str:
        return f"<StoredState {self._given.name} {self._reader!r} {self._failure}>"

    async def answer_call(self, partition: int, body: bytes) -> bytes:
        """The reply to a question. Raises ``NoAnswer``."""
        question = decode_call(body)
        if not isinstance(question, StateQuestion):
            raise NoAnswer("the crawl has ended; resume it")
        if self._reader is None:
            await self._open()
        if self._reader is None:
            raise NoAnswer(self._why_not())
        return encode_reply(await self._reader.answer(partition, question))

    async def close(self) -> None:
        """End, and delete what was made from the downloaded files."""
        if self._state is not None:
            self._state.end()
        if self._opening is not None:
            await asyncio.gather(self._opening, return_exceptions=True)
        if self._reader is not None:
            await self._reader.close()
        if self._state is not None:
            await asyncio.to_thread(self._state.close)

    async def _open(self) -> None:
        if self._opening is None and time.monotonic() - self._failed_at > _AGAIN_S:
            self._opening = asyncio.get_running_loop().create_task(self._read())
        if self._opening is not None:
            # A short reading is over by then, so a small crawl is answered at the first question.
            await asyncio.wait({self._opening}, timeout=_PATIENCE_S)

    async def _read(self) -> None:
        # the Kafka client is an optional extra
        from lycosa.cluster.shards.opened_cluster import default_cache
        from lycosa.inspect.queries.cluster_state import ClusterState

        state = self._state = ClusterState(self._given, default_cache())
        try:
            await asyncio.to_thread(state.open)
        except Exception as error:  # of Kafka, the object storage, the disk, or damage
            self._failure, self._failed_at = str(error) or repr(error), time.monotonic()
            self._state = self._opening = None
            await asyncio.to_thread(state.close)
        else:
            self._reader, self._failure = StateReader(state, _SHARE), ""

    def _why_not(self) -> str:
        if self._failure:
            return (
                f"the crawl has ended, and its storage cannot be read: {self._failure}; the"
                f" command `lycosa status --cluster {self._given.path}` tries to read it too"
            )
        progress = self._state.progress if self._state is not None else None
        done = f" ({progress.opened} of {progress.shards} shards)" if progress is not None else ""
        return f"the crawl has ended; its state is being read from storage{done}; ask again"
