"""The topic ``control``: what a coordinator must not lose, and which coordinator may write it.

It has one partition and is compacted: of the records with one key the last is kept. A key names the
part of the state that its record replaces as a whole, so what is kept defines the same state as
everything that was written. A claim has a key as well, so it contains its own number: earlier
claims do not stay.

A claim has three steps. It raises the producer's epoch, which shuts out all earlier coordinators.
It appends a record without meaning (``probe``) and reads up to it: that is everything that earlier
ones wrote. It appends its number, one more than the greatest. If another coordinator claims
meanwhile, an append is refused (``Fenced``).

A record is safe when it is visible, as in ``kafka.kafka_log``. As records contain complete states,
one whose fate is not known is appended again. When the client gives up its producer, the
coordinator looks for a later claim before it makes another producer, which would shut a later one
out.

A foreign record (``model.foreign_record``) is stepped over. A compaction would keep one with a key
of the crawl in the place of the crawl's record, so a claim writes that one again.

Nothing here knows what the records mean.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec

from lycosa.base.model.foreign_record import ForeignRecord, OnForeign, is_foreign, not_noted
from lycosa.base.system.frames import UNREADABLE
from lycosa.cluster.kafka.changelog import WAY_OUT
from lycosa.cluster.kafka.kafka_clients import KafkaClient, Tell
from lycosa.cluster.kafka.partition_reader import (
    PartitionReader,
    PositionGone,
    ReadingEnded,
    ReadingStalled,
    RecordBroken,
)
from lycosa.cluster.kafka.topics import CONTROL, Topics
from lycosa.cluster.kafka.transactions import OutgoingRecord, Transactions
from lycosa.cluster.kafka.visibility import Visibility
from lycosa.state.commit import Fenced, OutcomeUnknown, RolledBack

_PATIENCE_S = 3.0
_CLAIM, _PROBE = "claim", "probe"


class ControlRecord(msgspec.Struct, frozen=True, array_like=True):
    """A record of the coordinator with that number; a claim's value tells it from all others."""

    crawl: str
    number: int
    value: bytes


_ENCODER = msgspec.msgpack.Encoder()
_RECORDS = msgspec.msgpack.Decoder(ControlRecord)


class ControlDamaged(Exception):
    """The topic ``control`` has what does not belong there."""


class ControlState(msgspec.Struct, frozen=True):
    """The number of the last coordinator (0 = none yet), and the last record of each key."""

    number: int
    values: Mapping[str, bytes]


class KafkaControl:
    """One coordinator's hold on the topic of the crawl ``crawl`` (its UUID).

    All calls block, and belong on one other thread; ``close`` may be called by any. ``tell`` hears
    what a call waits for, ``on_foreign`` of foreign records.
    """

    def __init__(
        self,
        client: KafkaClient,
        topics: Topics,
        crawl: str,
        tell: Tell = lambda text: None,
        on_foreign: OnForeign = not_noted,
    ) -> None:
        self._topic, self._crawl, self._tell = topics.named(CONTROL), crawl, tell
        self._on_foreign = on_foreign
        self._noted = 0  # all records in front of this offset that are foreign were reported
        self._covered: set[str] = set()  # keys of foreign records
        self._transactions = Transactions(
            client, topics.transactional_id(CONTROL), self._topic, tell
        )
        self._visibility = Visibility(client, tell)
        self._reader = PartitionReader(client, self._topic, 0, tell)
        self._end = -1  # offset of the last record that this coordinator knows
        self.number = 0

    def claim(self) -> ControlState:
        """Begin the next coordinator's time; return its number and what the earlier ones wrote.

        Raises ``Fenced`` when another coordinator claims at the same time, ``ControlDamaged``, and
        ``OutcomeUnknown`` after ``close``.
        """
        self._read(None, None)  # nothing is written into the topic of another crawl
        while True:
            try:
                self._transactions.begin()
                before = self._read(None, self._write([self._record(_PROBE, b"")]))
                self.number = before.number + 1
                claim = self._record(_CLAIM, uuid.uuid4().bytes)
                # Compaction would keep a foreign record in the place of the one with its key.
                covered = sorted(self._covered & before.values.keys())
                again = [self._record(key, before.values[key]) for key in covered]
                self._end = self._write([claim, *again])
            except OutcomeUnknown:
                # The claim may be written. Another try makes one with the next number, and this
                # coordinator then has the greater of the two.
                if self._transactions.is_closed:
                    raise
            else:
                return ControlState(self.number, before.values)

    def read(self) -> ControlState:
        """What is written now, without a claim. Raises as ``claim`` does."""
        return self._read(None, None)

    def append(self, records: Sequence[tuple[str, bytes]]) -> None:
        """Write keys and values; returns when they are safe. One key may occur several times.

        Raises ``Fenced`` when a later coordinator has claimed, and ``OutcomeUnknown`` after
        ``close``.
        """
        written = [self._record(key, value) for key, value in records]
        while True:
            try:
                self._end = self._write(written)
            except (Fenced, OutcomeUnknown) as error:
                # After the return the topic is still ours, and the records are written again: the
                # last value of a key counts, so a second copy changes nothing.
                self._regain(error)
            else:
                return

    def newest_number(self) -> int:
        """The number of the newest coordinator. Raises as ``append`` does."""
        return max(self._read(self._end + 1, None).number, self.number)

    def close(self) -> None:
        """End what another thread waits for, as well."""
        self._transactions.close()
        self._visibility.close()
        self._reader.end()

    def _write(self, records: Sequence[OutgoingRecord]) -> int:
        """Write the records until they are visible; return the offset of the last."""
        while True:
            try:
                last = self._transactions.run(records)[-1]
            except RolledBack as error:
                # Nothing of it is in the topic. There is no limit: a coordinator without a record
                # decides nothing.
                self._tell(str(error))
            else:
                if last <= self._end:
                    raise ControlDamaged(
                        f"{self._topic}: this coordinator's last record has the offset {self._end},"
                        f" and the next one was given {last}: the topic was deleted and made again,"
                        f" or its end was lost. {WAY_OUT}"
                    )
                # An acknowledged transaction that stays invisible is decided by the next one.
                if self._visibility.is_reached({(self._topic, 0): last}, _PATIENCE_S):
                    return last

    def _regain(self, error: Fenced | OutcomeUnknown) -> None:
        """Make another producer, if the topic is still this coordinator's.

        Raises ``Fenced`` if it is not, and ``error`` after ``close``.
        """
        while True:
            is_fenced = isinstance(error, Fenced) and not self._transactions.was_long
            if is_fenced or self._transactions.is_closed:
                raise error
            # Before a new producer is made: it would fence a coordinator that is in its right
            # place.
            self._check_newest(None)
            self._transactions.begin()
            try:
                last = self._write([self._record(_PROBE, b"")])
            except (Fenced, OutcomeUnknown) as again:
                error = again
            else:
                # A claim of the moment between the check and the fence is in front of the probe.
                self._check_newest(last)
                return

    def _check_newest(self, until: int | None) -> None:
        newest = self._read(self._end + 1, until).number
        if newest > self.number:
            raise Fenced(f"coordinator {newest} has claimed the crawl; this is {self.number}")

    def _read(self, start: int | None, until: int | None) -> ControlState:
        """The state by the records from ``start`` to ``until``, or to the present end."""
        number, values = 0, {}
        try:
            for offset, key, data in self._records(start, until):
                record = self._decoded(offset, key, data)
                if record is None:
                    continue
                if record.number < number or key == _PROBE:
                    continue  # written by a coordinator that had a successor
                number = max(number, record.number)
                if key != _CLAIM:
                    values[key] = record.value
        except (PositionGone, RecordBroken) as error:
            raise ControlDamaged(f"{self._topic}: {error}") from error
        except ReadingEnded as error:
            raise OutcomeUnknown("the topic was closed") from error
        return ControlState(number, values)

    def _records(self, start: int | None, until: int | None) -> Iterator[tuple[int, str, bytes]]:
        """Offset, key and value of each record; see ``KafkaLog._records`` about a stalled read."""
        while True:
            try:
                patience_s = float("inf") if until is None else _PATIENCE_S
                for offset, key, value in self._reader.read_keyed(start, until, patience_s):
                    yield offset, (key or b"").decode("utf-8", "replace"), value or b""
                    start = offset + 1
            except ReadingStalled:
                # An acknowledged record is invisible until its marker is written, which the next
                # transaction of this producer makes happen.
                with suppress(RolledBack):
                    self._transactions.run([self._record(_PROBE, b"")])
            else:
                return

    def _decoded(self, offset: int, key: str, data: bytes) -> ControlRecord | None:
        """The record; nothing if it is foreign."""
        try:
            record = _RECORDS.decode(data)
        except UNREADABLE as error:
            if is_foreign(data, self._crawl):
                self._covered.add(key)
                if offset >= self._noted:
                    self._noted = offset + 1
                    why = f"not readable ({error}), with the key {key[:100]!r}"
                    self._on_foreign(ForeignRecord(self._topic, 0, offset, why, data))
                return None
            raise ControlDamaged(
                f"{self._topic}, offset {offset}: the record is of this crawl and not of a form"
                f" that this program reads ({error}): a newer program wrote it"
            ) from error
        if record.crawl != self._crawl:
            raise ControlDamaged(
                f"{self._topic}, offset {offset}: the record is of the crawl {record.crawl}, not of"
                f" {self._crawl}; give this crawl another name in cluster.toml"
            )
        return record

    def _record(self, key: str, value: bytes) -> OutgoingRecord:
        data = _ENCODER.encode(ControlRecord(self._crawl, self.number, value))
        return OutgoingRecord(self._topic, 0, data, key.encode())
