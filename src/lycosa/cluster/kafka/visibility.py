"""Whether a transaction that was acknowledged is visible to readers.

A broker acknowledges a transaction when it has decided it, and then writes a marker to each
partition. Measured on Kafka 4.4.0: when all brokers that have the metadata are killed in between,
the coordinator may count the marker as written although the partition does not have it. The records
then stay open, and the *next* marker of the same producer decides them: one that commits makes them
visible, one that rolls back takes them with it. So an acknowledgement alone does not make a commit
safe. The first offset that is still open (the last stable offset) does: once it is behind the
commit, the marker is in the partition, as durable as the records.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from lycosa.cluster.kafka.kafka_clients import KafkaClient, Tell, WaitReport, cause_of

_ANSWER_S = 5.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.002, 0.25

Place = tuple[str, int]
"""A topic and one of its partitions."""


class Visibility:
    """Asks brokers how far the transactions in partitions are decided."""

    def __init__(self, client: KafkaClient, tell: Tell) -> None:
        self._client, self._tell = client, tell
        self._admin: AdminClient | None = None
        self._closed = threading.Event()

    def is_reached(self, last: Mapping[Place, int], patience_s: float) -> bool:
        """Wait until the records up to these offsets are visible; false after ``patience_s``."""
        report = WaitReport(self._tell, self._client, "a commit to become visible")
        deadline, wait_s = self._client.monotonic() + patience_s, _FIRST_WAIT_S
        try:
            while not self._is_visible(last, report):
                if self._client.monotonic() > deadline or self._client.wait(self._closed, wait_s):
                    return False
                wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
            return True
        finally:
            report.over()

    def close(self) -> None:
        """End a wait, and free the connections."""
        self._closed.set()
        self._admin = None

    def _is_visible(self, last: Mapping[Place, int], report: WaitReport) -> bool:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the library's types lack it
        asked = self._opened().list_offsets(
            {TopicPartition(*place): latest for place in last},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_ANSWER_S,
        )
        try:
            ends = {
                (place.topic, place.partition): future.result(_ANSWER_S).offset
                for place, future in asked.items()
            }
        except (KafkaException, TimeoutError) as error:
            # No answer is no statement about the transaction: the caller asks again until its
            # patience ends.
            report.because(cause_of(error).str())
            self._admin = None  # it may know a leader that is none any more, and ask it again
            return False
        return all(ends[place] > offset for place, offset in last.items())

    def _opened(self) -> AdminClient:
        # No local variable of the caller: it would live on in the traceback of an error.
        admin = self._admin
        if admin is None:
            admin = self._admin = self._client.admin()
        return admin
