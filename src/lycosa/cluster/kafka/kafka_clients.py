"""Clients of one Kafka cluster: how each kind is set, and what an error of theirs means.

The client library (librdkafka) connects, finds leaders and repeats requests by itself, for as long
as it takes. What a call of ours sees is therefore one of few kinds of errors (``kind_of``), and
while a cluster is away a call waits and says so (``Tell``). docs/cluster.md lists the errors of
brokers with the reaction to each.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any, TypeVar

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from lycosa.cluster.kafka.topics import FRAME_BYTES, INBOX_RECORD_BYTES, TRANSACTION_TIMEOUT_MS

C = TypeVar("C")
Tell = Callable[[str], None]
"""Told what a call waits for, and an empty text when it waits no longer; on the thread of the
call.
"""

POLL_S = 0.25
"""How long one call of the library blocks: how late a wait notices that it was ended."""

_TIMES = re.compile(r" \(after .*\)$")  # differ each time, and say nothing new
_LOGGER = logging.getLogger("lycosa.kafka")
_LOGGER.addHandler(logging.NullHandler())


class BadClientSettings(Exception):
    """The client library refuses the settings; the text names the setting and no value."""


class KafkaSettings(msgspec.Struct, frozen=True):
    """Where the cluster is. ``security`` goes to the client library as it is (``sasl.*``,
    ``ssl.*``, ``security.*``) and is never printed.
    """

    addresses: tuple[str, ...]
    security: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"KafkaSettings({', '.join(self.addresses)}, security={sorted(self.security)})"


class ErrorKind(Enum):
    """What an error means for the call that sees it."""

    AWAY = "Kafka, or a part of it, does not answer; the call waits"
    DENIED = "access control or a missing topic; the call waits, since an operator can correct it"
    FENCED = "a later producer has the same transactional.id"
    ROLL_BACK = "the transaction has to be rolled back, and may be tried again"
    GONE = "the position does not exist any more"
    BROKEN = "a record cannot be read: its checksum or its compression is wrong"
    FATAL = "the client cannot continue"


_FENCED = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.TRANSACTION_COORDINATOR_FENCED,
}
_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}
_AWAY = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError._WAIT_COORD,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
}
_BROKEN = {
    KafkaError._BAD_MSG,
    KafkaError._BAD_COMPRESSION,
    KafkaError.INVALID_MSG,
    KafkaError._LOG_TRUNCATION,
}


def kind_of(error: KafkaError) -> ErrorKind:
    """What an error means. A fence comes first: it is fatal as well."""
    code = error.code()
    if code in _FENCED:
        return ErrorKind.FENCED
    if error.txn_requires_abort():
        return ErrorKind.ROLL_BACK
    if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        return ErrorKind.GONE
    if code in _BROKEN:
        return ErrorKind.BROKEN
    if error.fatal():
        return ErrorKind.FATAL
    if code in _DENIED:
        return ErrorKind.DENIED
    return ErrorKind.AWAY if error.retriable() or code in _AWAY else ErrorKind.FATAL


def cause_of(error: BaseException) -> KafkaError:
    """The error that an exception of the library carries.

    One that the library raises while it delivers reports comes out as ``SystemError`` of the call
    that delivers them, with the library's own as its cause.
    """
    if isinstance(error, SystemError) and error.__cause__ is not None:
        error = error.__cause__
    cause = error.args[0] if error.args else None
    return cause if isinstance(cause, KafkaError) else KafkaError(KafkaError._FAIL, str(error))


class KafkaClient:
    """Makes clients of one cluster, and remembers what they complained of last."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self.complaint = ""
        """The last error that a client of this cluster reported by itself, for example that no
        broker can be reached.
        """

    def monotonic(self) -> float:
        """The clock by which calls measure how long they wait, in seconds."""
        return time.monotonic()

    def wait(self, ended: threading.Event, seconds: float) -> bool:
        """Wait until ``ended`` is set, for ``seconds`` at most; return whether it is set."""
        return ended.wait(seconds)

    @property
    def addresses(self) -> str:
        """The brokers to begin with, as commands of Kafka take them."""
        return ",".join(self._settings.addresses)

    def transactional(self, transactional_id: str, topic: str) -> Producer:
        """A producer of transactions that write to ``topic`` among others; ``init_transactions``
        shuts out the others of its name. Blocks for up to ``POLL_S``.
        """
        producer = self._made(
            Producer,
            {
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "message.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "message.max.bytes": FRAME_BYTES + 100_000,
                "compression.type": "zstd",
                "linger.ms": 0,
            },
        )
        # It connects now. ``init_transactions`` alone would wait a second for a timer of the
        # library, in every claim of a shard.
        with suppress(KafkaException):  # Kafka is away: the claim that follows says so
            producer.list_topics(topic, timeout=POLL_S)
        return producer

    def idempotent(self) -> Producer:
        """A producer that repeats a record until it is acknowledged, once and in order, without a
        limit of time.
        """
        return self._made(
            Producer,
            {
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "message.max.bytes": INBOX_RECORD_BYTES + 100_000,
                "compression.type": "zstd",
                "linger.ms": 5,
                # bounds the memory of what waits while Kafka is away; more is refused
                "queue.buffering.max.kbytes": 32_768,
            },
        )

    def consumer(self, follows: bool = False) -> Consumer:
        """A reader whose caller assigns partitions and positions.

        Its group is only a name: it neither joins the group nor stores positions. One that
        ``follows`` a partition asks twice a second whether there is more; another one reads to the
        end, of which the broker tells it without this pause.
        """
        return self._made(
            Consumer,
            {
                "group.id": "lycosa-readers",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "check.crcs": True,
                "queued.max.messages.kbytes": 2048,
                # 1 s by default, which cuts the rate to a third
                "fetch.queue.backoff.ms": 10,
                "fetch.wait.max.ms": 500 if follows else 20,
            },
        )

    def admin(self) -> AdminClient:
        """Makes, describes and trims topics."""
        return self._made(AdminClient, {})

    def _made(self, kind: Callable[..., C], settings: dict[str, Any]) -> C:
        """Raises ``BadClientSettings``."""
        try:
            return kind(
                {
                    "bootstrap.servers": self.addresses,
                    "client.id": "lycosa",
                    "enable.metrics.push": False,
                    "allow.auto.create.topics": False,
                    # without one the library raises fatal errors in whatever call comes next
                    "error_cb": self._note,
                    **settings,
                    **self._settings.security,
                },
                logger=_LOGGER,
            )
        except KafkaException as error:
            raise BadClientSettings(self._without_values(cause_of(error).str())) from None

    def _note(self, error: KafkaError) -> None:
        if self.complaint and error.code() == KafkaError._ALL_BROKERS_DOWN:
            return  # it follows the errors of the brokers, which say more
        self.complaint = _TIMES.sub("", error.str())

    def _without_values(self, text: str) -> str:
        for value in self._settings.security.values():
            text = text.replace(value, "...") if value else text
        return f"the Kafka client refuses its settings: {text}"

    def __repr__(self) -> str:
        return f"KafkaClient({self._settings!r}, complaint={self.complaint!r})"


class WaitReport:
    """Says what a call waits for, once for each reason, and that it is over."""

    def __init__(self, tell: Tell, client: KafkaClient, what: str) -> None:
        self._tell, self._client, self._what = tell, client, what
        self._said = ""

    def because(self, why: str = "") -> None:
        """Report why the call still waits; by default, the last error of the client."""
        text = f"{self._what}: {why or self._client.complaint or 'Kafka has not answered yet'}"
        if text != self._said:
            self._said = text
            self._tell(text)

    def over(self) -> None:
        """The call has what it waited for."""
        self._client.complaint = ""
        if self._said:
            self._said = ""
            self._tell("")
