"""Reads one partition from a position, blocking, and waits while the partition is unavailable.

The reader says itself which partition and which position; there is no group and no stored position
that could disagree with the commits. A position that does not exist is an error
(``auto.offset.reset=error``), never a reason to read from somewhere else.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import suppress

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from lycosa.cluster.kafka.kafka_clients import (
    POLL_S,
    ErrorKind,
    KafkaClient,
    Tell,
    WaitReport,
    cause_of,
    kind_of,
)

_AT_ONCE = 500


class PositionGone(Exception):
    """The partition does not hold the position that is to be read."""


class RecordBroken(Exception):
    """A record cannot be read: its checksum or its compression is wrong."""


class ReadingEnded(Exception):
    """``end`` was called while the reader waited."""


class ReadingStalled(Exception):
    """Nothing came for as long as the caller has patience."""


class PartitionReader:
    """One partition. Used by one thread at a time; another may call ``interrupt`` and ``end``."""

    def __init__(self, client: KafkaClient, topic: str, partition: int, tell: Tell) -> None:
        self._client, self._topic, self._partition, self._tell = client, topic, partition, tell
        self._consumer: Consumer | None = None
        self._next = -1
        self._ended, self._interrupted = threading.Event(), threading.Event()

    def limits(self, patience_s: float = float("inf")) -> tuple[int, int]:
        """The first offset that there is, and the one behind the last. Waits.

        Raises ``ReadingEnded``, and ``ReadingStalled`` when no answer comes for ``patience_s``.
        """
        waiting, deadline = self._waiting(), self._client.monotonic() + patience_s
        while not self._ended.is_set():
            try:
                first, behind = self._opened().get_watermark_offsets(
                    TopicPartition(self._topic, self._partition), timeout=5.0, cached=False
                )
            except KafkaException as error:
                self._opened().poll(0)  # else the client does not report what it complains of
                self._judge(cause_of(error), waiting)
                if self._client.monotonic() > deadline:
                    raise ReadingStalled from error
                # an error that comes at once must not come in a loop
                self._client.wait(self._ended, POLL_S)
            else:
                waiting.over()
                return first, behind
        self._drop()
        raise ReadingEnded

    def read(
        self, start: int | None, until: int | None, patience_s: float = float("inf")
    ) -> Generator[tuple[int, bytes | None], None, None]:
        """Offset and value of the records from ``start`` (``None``: the first there is) to the
        offset ``until``, that one included; with ``None`` to the present end of what is committed.

        Raises ``PositionGone``, ``RecordBroken``, ``ReadingEnded``, and ``ReadingStalled`` when no
        record comes for ``patience_s``.
        """
        for offset, _, value in self.read_keyed(start, until, patience_s):
            yield offset, value

    def read_keyed(
        self, start: int | None, until: int | None, patience_s: float = float("inf")
    ) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        """The same with the records' keys: offset, key and value."""
        self._assign(OFFSET_BEGINNING if start is None else start)
        waiting = self._waiting()
        try:
            while True:
                for message in self._messages(waiting, patience_s):
                    error = message.error()
                    if error is not None and error.code() == KafkaError._PARTITION_EOF:
                        if until is None:
                            return
                    elif error is not None:
                        self._judge(error, waiting)
                    else:
                        offset = message.offset()
                        assert offset is not None
                        yield offset, _key(message), message.value()
                        if until is not None and offset >= until:
                            return
        finally:
            self._drop()  # it would continue to fetch what this owner appends

    def batch(self, start: int) -> list[tuple[int, bytes | None]]:
        """The next records from the offset ``start`` on; waits until there is one. Raises as
        ``read``.
        """
        # An interruption that came before this call is lost; the reader then waits for the next
        # record, and is closed by ``end``.
        self._interrupted.clear()
        if start != self._next:
            self._drop()
            self._consumer = self._client.consumer(follows=True)
            self._assign(start)
        waiting = self._waiting()
        while True:
            found: list[tuple[int, bytes | None]] = []
            failure: KafkaError | None = None
            for message in self._messages(waiting):
                error = message.error()
                if error is None:
                    offset = message.offset()
                    assert offset is not None
                    found.append((offset, message.value()))
                elif error.code() != KafkaError._PARTITION_EOF:
                    failure = error
            if found:
                self._next = found[-1][0] + 1
                return found
            if failure is not None:
                self._judge(failure, waiting)

    def interrupt(self) -> None:
        """End a wait of ``batch`` that is in progress with ``ReadingEnded``."""
        self._interrupted.set()

    def end(self) -> None:
        """End a wait, and all that follow, with ``ReadingEnded``."""
        self._ended.set()

    def close(self) -> None:
        """Close the connections."""
        self._ended.set()
        self._drop()

    def _drop(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _messages(self, waiting: WaitReport, patience_s: float = float("inf")) -> list[Message]:
        """Waits for the first, and takes what has come with it: ``consume`` with a time would wait
        until that many are there.
        """
        consumer = self._opened()
        deadline = self._client.monotonic() + patience_s
        while not (self._ended.is_set() or self._interrupted.is_set()):
            first = consumer.poll(POLL_S)
            if first is not None:
                # What has arrived with the first costs no wait.
                messages = [first, *consumer.consume(_AT_ONCE, 0)]
                if any(_is_answer(each) for each in messages):
                    waiting.over()
                return messages
            if self._client.monotonic() > deadline:
                raise ReadingStalled
            if self._client.complaint:
                waiting.because()
        raise ReadingEnded

    def _assign(self, offset: int) -> None:
        self._next = offset
        place = TopicPartition(self._topic, self._partition, offset)
        # The answer tells the library who leads the partition. Without it, a new consumer waits for
        # a timer of the library, half a second to a second.
        with suppress(KafkaException):  # Kafka is away: the read that follows says so
            self._opened().get_watermark_offsets(place, timeout=POLL_S, cached=False)
        self._opened().assign([place])

    def _opened(self) -> Consumer:
        if self._consumer is None:
            self._consumer = self._client.consumer()
        return self._consumer

    def _judge(self, error: KafkaError, waiting: WaitReport) -> None:
        kind = kind_of(error)
        if kind is ErrorKind.GONE:
            raise PositionGone(error.str())
        if kind is ErrorKind.BROKEN:
            raise RecordBroken(error.str())
        if kind in (ErrorKind.FATAL, ErrorKind.FENCED):
            raise KafkaException(error)
        # The client's complaint names the broker and the cause; the error of the partition only
        # says that it has no leader.
        is_away = kind is ErrorKind.AWAY
        waiting.because((is_away and self._client.complaint) or error.str())

    def _waiting(self) -> WaitReport:
        return WaitReport(self._tell, self._client, f"reading {self._topic}/{self._partition}")

    def __repr__(self) -> str:
        return f"PartitionReader({self._topic}/{self._partition}, next={self._next})"


def _key(message: Message) -> bytes | None:
    key = message.key()
    return key.encode() if isinstance(key, str) else key


def _is_answer(message: Message) -> bool:
    """Whether a broker answered: with a record, or that there is none."""
    error = message.error()
    return error is None or error.code() == KafkaError._PARTITION_EOF
