"""What a shard's partition of the changelog holds, and which of its commits count.

Records are MessagePack arrays: ``ClaimRecord`` (an owner begins a term), ``CommitRecord`` (a
commit, or one part of it, all parts in one transaction) and ``SnapshotRecord`` (a snapshot has all
commits up to this one). The n-th claim begins term n. Commits of an older term behind a newer claim
are ignored, because their owner had lost the shard. Everything else that does not fit is damage: a
gap between sequences, another crawl's UUID, a term that no claim began, a front that was cut
elsewhere than ``trim`` cuts it. Damage is reported and never stepped over. A foreign record
(``model.foreign_record``) is no damage: it is reported, and the numbers around it show whether a
commit is missing.

The log is trimmed in front of the first frame of a commit. So the first record of a trimmed log
says in which term it was made, and claims are counted on from there.

Nothing here talks to a broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from lycosa.base.model.foreign_record import ForeignRecord, OnForeign, is_foreign, not_noted
from lycosa.base.system.frames import UNREADABLE
from lycosa.cluster.kafka.topics import FRAME_BYTES
from lycosa.state.commit import Commit, LogDamaged, Mark

CLOSING = 1 << 62
"""The number of an assignment after which no owner follows: no coordinator gives a greater one.

The state of a log that was closed so is in another generation of the crawl.
"""


class ClaimRecord(msgspec.Struct, frozen=True, array_like=True, tag="claim"):
    """An owner begins a term. ``claim`` tells the record from every other one; ``assignment`` is
    the coordinator's number by which the owner was chosen.
    """

    crawl: str
    claim: bytes
    assignment: int = 0


class CommitRecord(msgspec.Struct, frozen=True, array_like=True, tag="commit"):
    """Part ``part`` of the ``parts`` of a commit, counted from 0."""

    crawl: str
    term: int
    sequence: int
    part: int
    parts: int
    data: bytes


class SnapshotRecord(msgspec.Struct, frozen=True, array_like=True, tag="saved"):
    """A snapshot has all commits up to ``sequence``.

    ``assignment`` is that of the owner's claim, which may be trimmed away.
    """

    crawl: str
    term: int
    sequence: int
    assignment: int = 0


_ENCODER = msgspec.msgpack.Encoder()
_RECORDS: msgspec.msgpack.Decoder[ClaimRecord | CommitRecord | SnapshotRecord] = (
    msgspec.msgpack.Decoder(ClaimRecord | CommitRecord | SnapshotRecord)
)
_COMMITS = msgspec.msgpack.Decoder(Commit)


WAY_OUT = (
    "End all nodes and the coordinator, delete what is left of the topics, and continue by `lycosa"
    " cluster rescue`"
)
"""What an operator does when topics have lost records."""


class ChangelogDamaged(LogDamaged):
    """A changelog lacks what was committed, or holds what does not belong there."""

    def __init__(self, topic: str, shard: int, offset: int, what: str) -> None:
        Exception.__init__(
            self,
            f"{topic}, partition {shard}, offset {offset}: {what}; what follows it cannot be"
            " applied without it",
        )
        self.path, self.offset = Path(f"{topic}-{shard}"), offset


class TopicRemade(ChangelogDamaged):
    """A topic was deleted and made again while an owner wrote to it, or its end was lost.

    ``last`` is the offset of the owner's last record, and ``what`` shows that it is not there.
    """

    def __init__(self, topic: str, shard: int, last: int, what: str) -> None:
        Exception.__init__(
            self,
            f"{topic}, partition {shard}: this owner's last record has the offset {last}, and"
            f" {what}: the topic was deleted and made again, or its end was lost. The commits in it"
            f" are lost. {WAY_OUT}",
        )
        self.path, self.offset = Path(f"{topic}-{shard}"), last


def encoded(record: ClaimRecord | SnapshotRecord) -> bytes:
    """The bytes of a record that is not a commit."""
    return _ENCODER.encode(record)


def decode_log_record(value: bytes | None) -> ClaimRecord | CommitRecord | SnapshotRecord | None:
    """A record; ``None`` when this program cannot read it."""
    try:
        return _RECORDS.decode(value or b"")
    except UNREADABLE:
        # A foreign record, or one of a newer program; the caller knows which of them matters.
        return None


def frames(commit: Commit) -> list[bytes]:
    """The records of a commit, each below ``FRAME_BYTES``."""
    payload = memoryview(_ENCODER.encode(commit))
    most = FRAME_BYTES - 200 - len(commit.crawl)  # numbers and the crawl's UUID also need room
    parts = [payload[start : start + most] for start in range(0, len(payload), most)]
    return [
        _ENCODER.encode(
            CommitRecord(
                commit.crawl, commit.term, commit.sequence, number, len(parts), bytes(part)
            )
        )
        for number, part in enumerate(parts)
    ]


class FoundCommit(msgspec.Struct, frozen=True):
    """A commit that counts: its mark, the offset of its first frame, and its bytes."""

    mark: Mark
    offset: int
    data: bytes


class Fold:
    """Folds the records of one partition, given in their order. ``begins_at`` is the first offset
    that the partition still has; a log that was never trimmed begins at 0.
    """

    def __init__(
        self,
        topic: str,
        shard: int,
        crawl: str,
        begins_at: int,
        on_foreign: OnForeign = not_noted,
    ) -> None:
        self._topic, self._shard, self._crawl = topic, shard, crawl
        self._on_foreign = on_foreign
        self.begins_at, self._is_front = begins_at, begins_at > 0
        self._expected = 0
        self._parts: list[CommitRecord] = []
        self._first_offset = 0
        self.term = 0
        """How many claims there were."""
        self.owner_term = 0
        """How many claims there were before the log was closed."""
        self.saved = 0
        """The commit of the newest snapshot that the log names."""
        self.assignment = 0
        """The greatest number of an assignment."""
        self.claim = b""
        """What tells the last claim from every other one."""
        self.last: tuple[int, bytes] | None = None
        """Offset and value of the last record."""

    def add(self, offset: int, value: bytes | None) -> FoundCommit | None:
        """Add the next record; return the commit that it completes. Raises ``ChangelogDamaged``."""
        record = self._decoded(offset, value)
        if record is None:
            return None
        self.last = offset, value or b""
        if self._is_front:
            if not isinstance(record, CommitRecord) or record.part:
                raise self._damage(offset, "the front of the log was cut")
            self._is_front, self.term, self.owner_term = False, record.term, record.term
        if isinstance(record, CommitRecord):
            return self._frame(offset, record)
        if self._parts:
            raise self._damage(offset, f"commit {self._parts[0].sequence} has no end")
        if isinstance(record, ClaimRecord):
            self.term, self.claim = self.term + 1, record.claim
            self.assignment = max(self.assignment, record.assignment)
            if self.assignment < CLOSING:
                self.owner_term = self.term
        elif record.term >= self.term:
            self.saved = max(self.saved, record.sequence)
            self.assignment = max(self.assignment, record.assignment)
        return None

    def commit(self, found: FoundCommit) -> Commit:
        """The commit itself. Raises ``ChangelogDamaged``."""
        try:
            return _COMMITS.decode(found.data)
        except UNREADABLE as error:
            raise self._damage(
                found.offset, f"commit {found.mark.sequence} is not of this format ({error})"
            ) from error

    def _decoded(
        self, offset: int, value: bytes | None
    ) -> ClaimRecord | CommitRecord | SnapshotRecord | None:
        """The record; nothing if it is foreign."""
        data = value or b""
        try:
            record = _RECORDS.decode(data)
        except UNREADABLE as error:
            # Any program with access may have written it. A record of this crawl that cannot be
            # read is damage: passing over it could lose a commit.
            if is_foreign(data, self._crawl):
                why = f"not readable ({error})"
                self._on_foreign(ForeignRecord(self._topic, self._shard, offset, why, data))
                return None
            raise self._damage(
                offset,
                f"the record is of this crawl and not of a form that this program reads ({error})",
            ) from error
        if record.crawl != self._crawl:
            raise self._damage(
                offset, f"the record is of the crawl {record.crawl}, not of {self._crawl}"
            )
        return record

    def _frame(self, offset: int, frame: CommitRecord) -> FoundCommit | None:
        if frame.term < self.term:
            return None  # its owner had lost the shard
        if frame.term > self.term:
            raise self._damage(
                offset,
                f"commit {frame.sequence} is of term {frame.term}, which no claim began, as after"
                f" the topic was deleted and made again. {WAY_OUT}",
            )
        if self._expected and frame.sequence != self._expected:
            raise self._damage(offset, f"commit {self._expected} is missing")
        if frame.part != len(self._parts):
            raise self._damage(
                offset, f"part {len(self._parts)} of commit {frame.sequence} is missing"
            )
        if not self._parts:
            self._expected, self._first_offset = frame.sequence, offset
        self._parts.append(frame)
        if len(self._parts) < frame.parts:
            return None
        data = b"".join(each.data for each in self._parts)
        self._parts, self._expected = [], frame.sequence + 1
        return FoundCommit(Mark(frame.term, frame.sequence), self._first_offset, data)

    def _damage(self, offset: int, what: str) -> ChangelogDamaged:
        return ChangelogDamaged(self._topic, self._shard, offset, what)


def folded_commits(
    fold: Fold, records: Iterator[tuple[int, bytes | None]]
) -> Iterator[FoundCommit]:
    """The commits that count among these records."""
    for offset, value in records:
        if (found := fold.add(offset, value)) is not None:
            yield found
