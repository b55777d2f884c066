"""The coordinator's records in Kafka's topic ``control``, off the event loop.

Calls to the topic block, for as long as Kafka is away. They run one after the other on one thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from lycosa.base.messages.control_records import Control, Record, decode_records, folded, key_of
from lycosa.base.model.foreign_record import ForeignRecord, OnForeign, not_noted
from lycosa.base.system.frames import UNREADABLE
from lycosa.cluster.kafka.control_topic import ControlDamaged, KafkaControl
from lycosa.cluster.kafka.kafka_clients import KafkaClient
from lycosa.cluster.kafka.topics import Topics

_Result = TypeVar("_Result")
_ENCODER = msgspec.msgpack.Encoder()


class SavedRecords:
    """The records of one coordinator of the crawl ``crawl`` (its UUID).

    ``tell`` is called on the loop with what a call waits for, and with an empty text when it waits
    no longer. ``on_foreign`` is called on another thread.
    """

    def __init__(
        self,
        client: KafkaClient,
        topics: Topics,
        crawl: str,
        tell: Callable[[str], None],
        on_foreign: OnForeign = not_noted,
    ) -> None:
        self.foreign = 0
        """Number of foreign records that were stepped over."""
        loop = asyncio.get_running_loop()

        def tell_loop(text: str) -> None:
            loop.call_soon_threadsafe(tell, text)

        def note(record: ForeignRecord) -> None:
            self.foreign += 1
            on_foreign(record)

        self._topic = KafkaControl(client, topics, crawl, tell_loop, note)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="control")

    async def claim(self) -> tuple[int, Control]:
        """Begin a coordinator's time: its number, and the records of earlier ones.

        Raises ``Fenced``, ``ControlDamaged`` and ``OutcomeUnknown``.
        """
        state = await self._call(self._topic.claim)
        try:
            records = decode_records(state.values.values())
        except UNREADABLE as error:
            raise ControlDamaged(
                f"{self._topic!r}: a record is not of a form that this program reads ({error});"
                " a newer program may have written it"
            ) from error
        control = folded(records)
        return state.number, msgspec.structs.replace(control, is_first=state.number == 1)

    async def save(self, records: Sequence[Record]) -> None:
        """Write records; return when they are safe. Raises ``Fenced`` and ``OutcomeUnknown``."""
        pairs = [(key_of(record), _ENCODER.encode(record)) for record in records]
        await self._call(lambda: self._topic.append(pairs))

    async def newest_number(self) -> int:
        """The number of the newest coordinator. Raises as ``save`` does."""
        return await self._call(self._topic.newest_number)

    def close(self) -> None:
        """End what waits; later calls raise."""
        self._topic.close()
        self._thread.shutdown(wait=True)

    async def _call(self, call: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)
