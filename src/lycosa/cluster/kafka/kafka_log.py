"""The log port over Kafka: one shard's partition of the changelog, held by one owner.

A claim has three steps. It raises the producer's epoch, which fences every earlier owner and
decides their open transactions. It appends a claim record. It reads the log until that record:
everything that earlier owners wrote comes before it, so no end offset is requested, which could be
stale. An append is one transaction over ``changelog``, and over ``pages`` and ``dlq`` when there
are rows for them. A log that was not claimed can be read up to what is committed now.

If Kafka is unavailable for longer than a transaction may last, the client gives the producer up,
but the owner keeps the shard: it **regains** its log. It looks for a newer claim, and ends as
fenced if there is one. Otherwise it makes a new producer, appends a marker, and reads up to it. A
claim that was made meanwhile is found there; every later claim fences this owner as usual. The
records that were read show whether the last commit is in the log, so its outcome is known again. A
marker that is rolled back says nothing about the commit: it is appended again.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from confluent_kafka import KafkaException, TopicPartition

from lycosa.base.model.foreign_record import OnForeign, not_noted
from lycosa.cluster.kafka.changelog import (
    ChangelogDamaged,
    ClaimRecord,
    Fold,
    FoundCommit,
    SnapshotRecord,
    TopicRemade,
    encoded,
    folded_commits,
    frames,
)
from lycosa.cluster.kafka.kafka_clients import POLL_S, KafkaClient, Tell
from lycosa.cluster.kafka.partition_reader import (
    PartitionReader,
    PositionGone,
    ReadingEnded,
    ReadingStalled,
    RecordBroken,
)
from lycosa.cluster.kafka.topics import Topics
from lycosa.cluster.kafka.transactions import OutgoingRecord, Transactions
from lycosa.cluster.kafka.visibility import Visibility
from lycosa.state.commit import (
    NOTHING,
    Claim,
    Commit,
    FeedSource,
    Fenced,
    LogDamaged,
    LogTrimmed,
    OutcomeUnknown,
    RolledBack,
    no_rows,
)

_TRIM_S = 30.0
_PATIENCE_S = 3.0
_ELECTION_S = 30.0  # a leader that was just elected may give the newest records only later
_HEAD_BYTES = 100  # of a record: crawl, term, sequence and part, or what tells a claim from others


class KafkaLog:
    """One owner's hold on a shard's log. ``assignment`` is the number by which the coordinator
    chose this owner; ``tell`` is called with the reason for a wait, ``on_foreign`` with the foreign
    records that the claim finds.
    """

    def __init__(
        self,
        client: KafkaClient,
        topics: Topics,
        crawl: str,
        shard: int,
        assignment: int = 0,
        tell: Tell = lambda text: None,
        on_foreign: OnForeign = not_noted,
    ) -> None:
        self._client, self._topics, self._crawl, self.shard = client, topics, crawl, shard
        self._assignment, self._tell, self._on_foreign = assignment, tell, on_foreign
        self._transactions = Transactions(
            client, topics.transactional_id(shard), topics.changelog, tell
        )
        self._visibility = Visibility(client, tell)
        self._reader = PartitionReader(client, topics.changelog, shard, tell)
        self._kept: deque[tuple[int, int]] = deque()  # sequence, offset of the first frame
        self._end = -1  # offset of the last record that this owner knows to be in the log
        self._last = b""  # the beginning of that record, which has its numbers
        self._undecided: set[str] = set()  # feeds that may have records without a marker
        self._saved = 0
        self._complains = False
        self._closed = threading.Event()
        self.term = 0

    def claim(self) -> Claim:
        """See ``Log``. Raises ``Fenced`` as well: a later owner claims the shard, or the log has
        one with a greater assignment. Also ``LogTrimmed``: an earlier owner had a trim in progress.
        Nothing is written into the log of another crawl.
        """
        self._check_crawl()
        while True:
            claim, offset = self._append_claim()
            self._kept.clear()
            first = last = None
            fold = self._fold(self._on_foreign)
            for found in self._found(fold, offset):
                first, last = first or found, found
                self._kept.append((found.mark.sequence, found.offset))
            if fold.claim == claim.claim:  # else it was rolled back, see the module ``visibility``
                break
        assert fold.last is not None, "the claim was read"
        self._note_last(*fold.last)
        if fold.assignment > self._assignment:
            raise Fenced(
                f"shard {self.shard} was given to another node: assignment {fold.assignment} is"
                f" newer than {self._assignment}"
            )
        self.term, self._saved = fold.term, fold.saved
        return Claim(
            self.term, [fold.commit(last)] if last else [], first.mark if first else NOTHING
        )

    def read(self) -> Iterator[Commit]:
        """See ``Log``. Raises ``LogTrimmed`` as ``claim`` does."""
        fold = self._fold()
        for found in self._found(fold, self._end if self.term else None):
            yield fold.commit(found)

    def append(self, commit: Commit, feed: FeedSource = no_rows) -> None:
        """See ``Log``; the rows of ``feed`` are in the commit's transaction."""
        self._check_claimed()
        frame_records = [self._changelog(each) for each in frames(commit)]
        feed_records = [
            OutgoingRecord(self._topics.named(each.kind), self.shard, each.value, each.key)
            for each in feed()
        ]
        # One transaction: a consumer of the feeds sees a capture exactly when the commit counts.
        records = [*frame_records, *feed_records]
        feeds = {each.topic for each in feed_records}
        # Noted before the write: from here until they are visible, a marker must cover them too.
        self._undecided |= feeds
        try:
            offsets = self._write(records)
        except (Fenced, OutcomeUnknown) as error:
            # The commit may be in the log. Only reading the log behind a record of a new producer
            # tells.
            first = self._regain(commit.sequence, error)
        else:
            last = {
                (record.topic, record.partition): offset
                for record, offset in zip(records, offsets, strict=True)
            }
            # The broker acknowledges before the marker of the transaction is in each partition.
            # Until then a new owner would not see the commit.
            if self._visibility.is_reached(last, _PATIENCE_S):
                first = offsets[0]
                self._undecided -= feeds
                self._note_last(offsets[len(frame_records) - 1], frame_records[-1].value)
            else:
                first = self._decide(commit.sequence)
        self._kept.append((commit.sequence, first))
        if self._complains:
            self._complains = False
            self._tell("")

    def trim(self, sequence: int) -> None:
        """See ``Log``. What goes are the commits that the snapshot before this one has, so that the
        older of two snapshots can still be used. A trim that fails is made up for by the next.
        """
        self._check_claimed()
        # Never beyond what is known to be in the log: the last commit stays, because the next owner
        # continues its numbers.
        newest = min(sequence, self._kept[-1][0]) if self._kept else 0
        if newest <= self._saved:
            return
        saved = self._saved_record(newest)
        try:
            self._write([self._changelog(saved)])
        except RolledBack as error:
            # A trim only saves space. The next one drops these commits too.
            self._complain(str(error))
            return
        except (Fenced, OutcomeUnknown) as error:
            with suppress(RolledBack):  # it looks for a commit that there is not
                self._regain(-1, error)
            return
        before, self._saved = self._saved, newest
        dropped = False
        while len(self._kept) > 1 and self._kept[0][0] <= before:
            self._kept.popleft()
            dropped = True
        if dropped:
            self._delete_before(self._kept[0][1])

    def close(self) -> None:
        """Close the log; a wait of another thread ends as well."""
        self._closed.set()
        self._transactions.close()
        self._visibility.close()
        self._reader.end()

    def _check_crawl(self) -> None:
        """Raise ``ChangelogDamaged`` when the log begins as that of another crawl.

        A claim in it would stop that crawl: its next owner would find a foreign record.
        """
        with closing(self._found(self._fold(), None)) as found:
            next(found, None)

    def _append_claim(self) -> tuple[ClaimRecord, int]:
        """A claim that is acknowledged, with its offset."""
        claim = ClaimRecord(self._crawl, uuid.uuid4().bytes, self._assignment)
        self._transactions.begin()
        while True:
            try:
                (offset,) = self._transactions.run([self._changelog(encoded(claim))])
            except RolledBack as error:
                # Nothing of the claim is in the log, so it can be tried again without a second
                # term.
                self._tell(str(error))
            except (Fenced, OutcomeUnknown) as error:
                if self._is_over(error):
                    raise
                self._transactions.begin()  # a claim that is in the log twice begins two terms
            else:
                return claim, offset

    def _write(self, records: Sequence[OutgoingRecord]) -> list[int]:
        """The offsets of these records, of which the first is in the changelog.

        Raises as ``Transactions.run``, and ``TopicRemade``. What was written then is in a log that
        lacks what came before it, so it does not count, and nothing more is written.
        """
        try:
            offsets = self._transactions.run(records)
        except RolledBack:
            self._check_last()  # what was rolled back has offsets as well, which are not known
            raise
        if offsets[0] <= self._end:
            raise self._remade(f"the next one was given {offsets[0]}")
        return offsets

    def _note_last(self, offset: int, value: bytes) -> None:
        self._end, self._last = offset, value[:_HEAD_BYTES]

    def _check_last(self) -> None:
        """Raise ``TopicRemade`` unless the last record of this owner is where it was.

        A leader that was just elected may not give it yet, so a log that seems to end in front of
        it is read again for a while.
        """
        # Waiting costs little here; taking an election for a lost log would stop the shard for
        # good.
        deadline = self._client.monotonic() + _ELECTION_S
        while (found := self._record_at_end()) is None:
            if self._client.monotonic() > deadline:
                raise self._remade("the log ends in front of it")
            self._client.wait(self._closed, POLL_S)
        if found != (self._end, self._last):
            raise self._remade("there is another one in its place")

    def _record_at_end(self) -> tuple[int, bytes] | None:
        """The first record at the position of the last known one or behind it."""
        try:
            # It reads to what is committed now: waiting for more would hide that the record is
            # missing.
            with closing(self._reader.read(self._end, None)) as records:
                for offset, value in records:
                    return offset, (value or b"")[:_HEAD_BYTES]
        except PositionGone as error:
            raise self._gone(error) from error
        except RecordBroken as error:
            raise ChangelogDamaged(
                self._topics.changelog, self.shard, self._end, str(error)
            ) from error
        except ReadingEnded as error:
            raise OutcomeUnknown(f"the log of shard {self.shard} was closed") from error
        return None

    def _gone(self, error: PositionGone) -> Fenced | TopicRemade:
        """Why the log cannot be read from the last known record on."""
        if self._first() > self._end >= 0:
            return Fenced(f"shard {self.shard} has a later owner, which has trimmed the log")
        return self._remade(f"the log cannot be read there ({error})")

    def _remade(self, what: str) -> TopicRemade:
        self._transactions.close()  # nothing is acknowledged any more
        return TopicRemade(self._topics.changelog, self.shard, self._end, what)

    def _decide(self, sequence: int) -> int:
        """The offset of a commit that was acknowledged and is not visible: another transaction
        decides it. Raises as ``_regain`` does.
        """
        try:
            behind = self._append_marker()
        except (Fenced, OutcomeUnknown) as error:
            return self._regain(sequence, error)
        return self._found_commit(sequence, behind, Fenced(f"shard {self.shard} has a later owner"))

    def _regain(self, sequence: int, error: Fenced | OutcomeUnknown) -> int:
        """After an append that failed for good: the offset of the commit if it is in the log.
        Raises ``RolledBack`` if it is not, and the last error if the log is another owner's.
        """
        found: dict[int, int] = {}
        while True:
            if self._is_over(error):
                raise error
            self._check_last()
            found |= self._own_commits(None, error)  # a newer claim is not disturbed
            self._transactions.begin()
            # The marker is needed even if the commit was found: a claim made since then, which the
            # new producer has shut out, is found only in front of a record of this owner.
            try:
                behind = self._append_marker()
            except (Fenced, OutcomeUnknown) as again:
                error = again
            else:
                return self._found_commit(sequence, behind, error, found)

    def _is_over(self, error: Fenced | OutcomeUnknown) -> bool:
        """Whether another owner has the log or it was closed; else the producer is replaced."""
        # The coordinator of the transaction fences a producer whose transaction lasted too long, in
        # the same words as one that has a successor.
        is_fenced = isinstance(error, Fenced) and not self._transactions.was_long
        return is_fenced or self._transactions.is_closed

    def _append_marker(self) -> int:
        """Append a record that means nothing, until it is in the log; return its offset.

        ``RolledBack`` of a marker must not reach the caller of ``append``, to whom it says that the
        commit is not in the log. Raises ``Fenced`` and ``OutcomeUnknown``.
        """
        records = self._with_feeds(self._saved_record(self._saved))
        while True:
            try:
                return self._write(records)[0]
            except RolledBack as error:
                self._tell(str(error))

    def _with_feeds(self, value: bytes) -> list[OutgoingRecord]:
        """A record, with one without a value for each feed that may have undecided records.

        Otherwise a roll-back that takes a commit would leave its rows, for the next one to commit.
        """
        feeds = [OutgoingRecord(topic, self.shard, b"") for topic in sorted(self._undecided)]
        return [self._changelog(value), *feeds]

    def _found_commit(
        self, sequence: int, behind: int, error: Exception, before: Mapping[int, int] | None = None
    ) -> int:
        """The offset of a commit in front of the record ``behind``; ``RolledBack`` if it is not
        there. ``before`` has the commits that were found already.
        """
        found = {**(before or {}), **self._own_commits(behind, error)}
        if sequence not in found:
            raise RolledBack(str(error)) from error
        return found[sequence]

    def _own_commits(self, until: int | None, error: Exception) -> dict[int, int]:
        """The commits behind the last known record, with the offset of their first frame. The last
        record that was read is the last known one then. Raises ``error`` when there is a newer
        claim.
        """
        fold = Fold(self._topics.changelog, self.shard, self._crawl, 0)
        fold.term = self.term
        found: dict[int, int] = {}
        for each in self._found(fold, until, self._end + 1):
            found[each.mark.sequence] = each.offset
        # There is a newer claim: nothing that this owner writes behind it counts.
        if fold.term > self.term:
            raise error
        if fold.last is not None:
            self._note_last(*fold.last)
        return found

    def _delete_before(self, offset: int) -> None:
        admin = self._client.admin()
        place = TopicPartition(self._topics.changelog, self.shard, offset)
        try:
            admin.delete_records([place], request_timeout=_TRIM_S)[place].result(_TRIM_S)
        except (KafkaException, TimeoutError) as error:
            # Not waited for: the records take space until the next trim, and no reader needs them.
            self._complain(f"trimming {self._topics.changelog}/{self.shard}: {error}")

    def _complain(self, text: str) -> None:
        """Tell what failed and is not waited for; the next commit ends it."""
        self._complains = True
        self._tell(text)

    def _check_claimed(self) -> None:
        if not self.term:
            raise Fenced(f"shard {self.shard} was not claimed by this owner")

    def _changelog(self, value: bytes) -> OutgoingRecord:
        return OutgoingRecord(self._topics.changelog, self.shard, value)

    def _saved_record(self, sequence: int) -> bytes:
        return encoded(SnapshotRecord(self._crawl, self.term, sequence, self._assignment))

    def _fold(self, on_foreign: OnForeign = not_noted) -> Fold:
        return Fold(self._topics.changelog, self.shard, self._crawl, self._first(), on_foreign)

    def _first(self) -> int:
        """The first offset that the log still has."""
        try:
            return self._reader.limits()[0]
        except ReadingEnded as error:
            raise OutcomeUnknown(f"the log of shard {self.shard} was closed") from error

    def _found(
        self, fold: Fold, until: int | None, start: int | None = None
    ) -> Generator[FoundCommit, None, None]:
        try:
            yield from folded_commits(fold, self._records(fold, until, start))
        except PositionGone as error:
            found: Fenced | LogDamaged = self._gone(error)
            if start is None and isinstance(found, TopicRemade):
                # It was read from its front, which was there a moment ago.
                found = LogTrimmed(Path(f"{self._topics.changelog}-{self.shard}"), fold.begins_at)
            raise found from error
        except RecordBroken as error:
            raise ChangelogDamaged(self._topics.changelog, self.shard, -1, str(error)) from error
        except ReadingEnded as error:
            raise OutcomeUnknown(f"the log of shard {self.shard} was closed") from error

    def _records(
        self, fold: Fold, until: int | None, start: int | None
    ) -> Iterator[tuple[int, bytes | None]]:
        """The records from ``start``, by default where the fold begins, to ``until``.

        A commit is acknowledged when the broker has decided it; it becomes visible a moment later,
        by a marker in the partition. When the broker is killed in between, the marker is not
        written before the next request of this ``transactional.id``, and a reader that only
        waited for the record would wait endlessly. An empty transaction is such a request.
        """
        is_others = until is None and start is None  # a reader that may not write
        patience_s = float("inf") if is_others else _PATIENCE_S
        start = fold.begins_at if start is None else start
        while True:
            try:
                for offset, value in self._reader.read(start, until, patience_s):
                    yield offset, value
                    start = offset + 1
            except ReadingStalled:
                # No particular record is awaited: what was read is all there is.
                if until is None:
                    return
                # Also one that is rolled back makes the broker write the missing marker.
                with suppress(RolledBack):
                    self._transactions.run(
                        self._with_feeds(encoded(SnapshotRecord(self._crawl, 0, 0)))
                    )
            else:
                return

    def __repr__(self) -> str:
        return (
            f"KafkaLog(shard={self.shard}, term={self.term}, commits={len(self._kept)},"
            f" saved={self._saved})"
        )
