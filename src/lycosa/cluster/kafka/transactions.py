"""Transactions of one owner: records that all become visible, or none of them.

The producer's ``transactional.id`` is the shard's name, so the newest producer shuts out all
earlier ones. A transaction has the outcomes of ``commit.log_port``:

* it succeeded;
* it was rolled back: an error came before the broker was asked to commit, or the broker refused to;
* its outcome is unknown: the client failed for good, or was closed while it waited;
* fenced: a later producer has the name. The broker says the same of a transaction that was open
  for longer than its time allows (``TRANSACTION_TIMEOUT_MS``), because it rolled it back itself;
  ``was_long`` tells that this may be the reason.

While the cluster is away a transaction waits without a limit, and says so.

A producer has a dozen descriptors and some threads. It is freed as soon as it is not used any
more: ``_producer`` is the only reference to it, because a local variable would live on in the
traceback of the error, until a garbage collection that may be hours away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from lycosa.cluster.kafka.kafka_clients import (
    POLL_S,
    ErrorKind,
    KafkaClient,
    Tell,
    WaitReport,
    cause_of,
    kind_of,
)
from lycosa.cluster.kafka.topics import TRANSACTION_TIMEOUT_MS
from lycosa.state.commit import Fenced, OutcomeUnknown, RolledBack


class OutgoingRecord(msgspec.Struct, frozen=True):
    """A record that is to be written."""

    topic: str
    partition: int
    value: bytes
    key: bytes | None = None


class _Sent:
    """What the broker said of each record of a transaction."""

    def __init__(self) -> None:
        self.offsets: dict[int, int] = {}
        self.failure: KafkaError | None = None

    def report(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        def reported(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failure = self.failure or error
            else:
                self.offsets[number] = message.offset() or 0

        return reported


class Transactions:
    """The transactions of the producer ``name``; ``topic`` is one that they write to. Used by one
    thread; ``close`` may be called by another, and ends a wait.
    """

    def __init__(self, client: KafkaClient, name: str, topic: str, tell: Tell) -> None:
        self._client, self._name, self._topic, self._tell = client, name, topic, tell
        self._producer: Producer | None = None
        self._is_committing = False
        self._closed = threading.Event()
        self._in_use = threading.Lock()
        self._began = self._ended = 0.0
        self.long_s = TRANSACTION_TIMEOUT_MS / 1000 * 0.8

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    @property
    def was_long(self) -> bool:
        """Whether the last transaction lasted so long that the broker may have ended it."""
        return self._ended - self._began > self.long_s

    def begin(self) -> None:
        """Exclude earlier producers of this name, and return when what they had open is
        decided. Raises ``Fenced``.
        """
        waiting = WaitReport(self._tell, self._client, f"claiming {self._name}")
        with self._using():
            self._producer = None
            self._producer = self._client.transactional(self._name, self._topic)
            self._repeat(lambda: self._given().init_transactions(POLL_S * 4), waiting)

    def run(self, records: Sequence[OutgoingRecord]) -> list[int]:
        """Write these records in one transaction; return their offsets when all are committed.
        Raises ``RolledBack``, ``OutcomeUnknown``, ``Fenced``.
        """
        with self._using():
            if self._producer is None or self._closed.is_set():
                raise Fenced(f"{self._name} was not claimed by this owner, or it was closed")
            self._began = self._client.monotonic()
            try:
                return self._run(records)
            finally:
                self._ended = self._client.monotonic()

    def _run(self, records: Sequence[OutgoingRecord]) -> list[int]:
        waiting = WaitReport(self._tell, self._client, f"writing a commit of {self._name}")
        sent = _Sent()
        self._is_committing = False
        try:
            self._given().begin_transaction()
            for number, record in enumerate(records):
                self._produce(record, sent.report(number))
            while self._given().flush(POLL_S):
                self._check_open()
                waiting.because()
        except (KafkaException, SystemError) as error:
            # Not committed for certain: the commit had not begun. So it is rolled back, or the
            # error says why not.
            self._roll_back(cause_of(error), waiting)
        # ``flush`` ends without an error when records failed one by one; committing would leave a
        # part of them.
        if sent.failure is not None or len(sent.offsets) < len(records):
            self._roll_back(sent.failure or KafkaError(KafkaError._FAIL, "no report"), waiting)
        # From here on an error no longer says that nothing was written.
        self._is_committing = True
        self._repeat(lambda: self._given().commit_transaction(POLL_S * 4), waiting)
        return [sent.offsets[number] for number in range(len(records))]

    def close(self) -> None:
        """End a wait that is in progress. The next owner rolls back what was not committed."""
        self._closed.set()
        self._free_if_closed()

    @contextmanager
    def _using(self) -> Iterator[None]:
        """Keep ``close`` from freeing the producer under a call of it."""
        try:
            with self._in_use:
                yield
        finally:
            self._free_if_closed()

    def _free_if_closed(self) -> None:
        # Not under a call of another thread: that call frees it when it ends (``_using``).
        if self._closed.is_set() and self._in_use.acquire(blocking=False):
            self._producer = None
            self._in_use.release()

    def _given(self) -> Producer:
        assert self._producer is not None
        return self._producer

    def _produce(
        self,
        record: OutgoingRecord,
        reported: Callable[[KafkaError | None, Message], None],
    ) -> None:
        while True:
            try:
                self._given().produce(
                    record.topic,
                    record.value,
                    record.key,
                    partition=record.partition,
                    on_delivery=reported,
                )
            except BufferError:  # what is queued goes out meanwhile
                self._given().poll(POLL_S)
            else:
                return

    def _repeat(self, call: Callable[[], None], waiting: WaitReport) -> None:
        """Call until it succeeds. Raises what an error means that is not worth waiting for."""
        while True:
            self._check_open()
            try:
                call()
            except (KafkaException, SystemError) as error:
                cause = cause_of(error)
                if kind_of(cause) is ErrorKind.ROLL_BACK:
                    self._roll_back(cause, waiting)
                if kind_of(cause) not in (ErrorKind.AWAY, ErrorKind.DENIED):
                    self._raise(cause)
                if self._producer is not None:
                    self._producer.poll(0)  # else the client does not report what it complains of
                waiting.because("" if cause.code() == KafkaError._TIMED_OUT else cause.str())
                # an error that comes at once must not come in a loop
                self._client.wait(self._closed, POLL_S)
            else:
                waiting.over()
                return

    def _roll_back(self, cause: KafkaError, waiting: WaitReport) -> NoReturn:
        """Always raises: ``RolledBack`` when the broker has nothing of the transaction any more."""
        if kind_of(cause) is ErrorKind.FENCED or cause.fatal():
            self._raise(cause)
        self._is_committing = False
        while True:
            self._check_open()
            try:
                self._given().abort_transaction(POLL_S * 4)
            except (KafkaException, SystemError) as error:
                again = cause_of(error)
                if kind_of(again) not in (ErrorKind.AWAY, ErrorKind.DENIED, ErrorKind.ROLL_BACK):
                    self._raise(again)
                waiting.because("" if again.code() == KafkaError._TIMED_OUT else again.str())
                # As in ``_repeat``; and a close ends the wait.
                self._client.wait(self._closed, POLL_S)
            else:
                waiting.over()
                raise RolledBack(f"{self._name}: {cause.str()}")

    def _raise(self, cause: KafkaError) -> NoReturn:
        self._producer = None
        if kind_of(cause) is ErrorKind.FENCED:
            raise Fenced(
                f"{self._name} has a later owner, or its transaction was open for too long:"
                f" {cause.str()}"
            )
        raise OutcomeUnknown(f"{self._name}: the Kafka client cannot continue: {cause.str()}")

    def _check_open(self) -> None:
        if self._closed.is_set():
            what = "was being committed" if self._is_committing else "was not committed"
            raise OutcomeUnknown(f"{self._name} was closed while a transaction {what}")
