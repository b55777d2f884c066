"""What every commit log must do; each test runs on the files of a folder, on the changelog in
memory, on a Kafka in memory, and on a real Kafka broker where there is one.

What only a log with several owners has (fencing, snapshots of several owners) is tested on the
last two, with a machine of owners in memory at the end: what was acknowledged to an owner is read
by the next one, in order, once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from lycosa.cluster.kafka.kafka_log import KafkaLog
from lycosa.state.commit import (
    NOTHING,
    Commit,
    CommitLog,
    Fenced,
    FileLog,
    Log,
    LogDamaged,
    Mark,
    MemoryChangelog,
    MemoryLog,
    PartitionBatch,
)
from memory_kafka import MemoryBroker

if TYPE_CHECKING:
    from kafka_broker import Broker

CRAWL = "2f0cf3d2"


def commit(term: int, sequence: int, crawl: str = CRAWL, note: bytes = b"") -> Commit:
    batch = PartitionBatch(0, {b"k%d" % sequence: b"v%d" % term, b"note": note, b"gone": None})
    lengths = {"warc/a.warc.gz.open": sequence * 100}
    return Commit(
        term=term,
        sequence=sequence,
        wall=1e9 + sequence,
        lengths=lengths,
        batches=[batch],
        crawl=crawl,
        shard=0,
    )


class Place(Protocol):
    """Where a log is kept while its owners come and go."""

    def owner(self) -> Log:
        """The log of the next owner, not claimed yet. The one before has ended."""
        ...

    def lose(self, sequence: int) -> None:
        """A commit is not there any more."""
        ...


class Files:
    """A folder in which each commit is a file of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._term = folder, 0

    def owner(self) -> Log:
        self._term += 1
        return FileLog(CommitLog(self._folder, 0, file_bytes=1), self._term)

    def lose(self, sequence: int) -> None:
        (self._folder / f"commit-w000-{sequence:012d}.log").unlink()


class Topic:
    """A changelog in memory."""

    def __init__(self) -> None:
        self.changelog = MemoryChangelog(CRAWL, 0)

    def owner(self) -> Log:
        return MemoryLog(self.changelog)

    def lose(self, sequence: int) -> None:
        entries = self.changelog._entries
        kept = [
            each
            for each in entries
            if not each.payload
            or msgspec.msgpack.decode(each.payload, type=Commit).sequence != sequence
        ]
        assert len(kept) == len(entries) - 1
        self.changelog._entries = kept


class Kafka:
    """A changelog on a broker."""

    def __init__(self, broker: Broker | MemoryBroker) -> None:
        self.broker, self.topics = broker, broker.topics()
        self.owners: list[KafkaLog] = []

    def owner(self) -> KafkaLog:
        self.owners.append(KafkaLog(self.broker.client, self.topics, CRAWL, 0))
        return self.owners[-1]

    def lose(self, sequence: int) -> None:
        kept = [
            value
            for value in self.broker.values(self.topics.changelog, 0)
            if (fields := msgspec.msgpack.decode(value))[0] != "commit" or fields[3] != sequence
        ]
        self.topics = self.broker.topics()
        self.broker.write(self.topics.changelog, 0, kept)


def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param in ("files", "memory"):
        yield Topic() if request.param == "memory" else Files(tmp_path / "log")
        return
    is_real = request.param == "kafka"
    place = Kafka(request.getfixturevalue("kafka") if is_real else MemoryBroker())
    yield place
    for log in place.owners:
        log.close()


SERVICE = pytest.param("kafka", marks=pytest.mark.service)
place = pytest.fixture(params=["files", "memory", "kafka in memory", SERVICE])(made)
shared = pytest.fixture(params=["memory", "kafka in memory", SERVICE])(made)
"""A log with several owners."""


def owned(place: Place, upto: int = 0) -> Log:
    """The log of the first owner, with commits 1 to ``upto``."""
    log = place.owner()
    log.claim()
    for sequence in range(1, upto + 1):
        log.append(commit(1, sequence))
    return log


def sequences(log: Log) -> list[int]:
    return [each.sequence for each in log.read()]


def test_the_first_claim_of_an_empty_log_finds_nothing_and_begins_the_first_term(
    place: Place,
) -> None:
    log = place.owner()
    claim = log.claim()
    assert (claim.term, list(claim.last), claim.reach, claim.latest) == (1, [], NOTHING, None)
    assert list(log.read()) == []
    log.close()


def test_commits_are_read_as_they_were_appended_and_in_their_order(place: Place) -> None:
    log = owned(place, 4)
    assert list(log.read()) == [commit(1, sequence) for sequence in range(1, 5)]
    log.close()


def test_a_claim_gives_the_next_term_the_last_commit_and_how_far_the_log_reaches_back(
    place: Place,
) -> None:
    owned(place, 3).close()
    log = place.owner()
    claim = log.claim()
    assert (claim.term, claim.latest, claim.reach) == (2, commit(1, 3), Mark(1, 1))
    log.append(commit(2, 4))
    log.close()
    again = place.owner()
    claim = again.claim()
    assert (claim.term, claim.latest, claim.reach) == (3, commit(2, 4), Mark(1, 1))
    assert [each.mark for each in again.read()] == [Mark(1, 1), Mark(1, 2), Mark(1, 3), Mark(2, 4)]
    again.close()


def test_terms_grow_with_claims_although_nothing_was_appended_between_them(place: Place) -> None:
    terms = []
    for _ in range(3):
        log = place.owner()
        terms.append(log.claim().term)
        log.close()
    assert terms == [1, 2, 3]


@pytest.mark.parametrize("lost", [2, 3, 4])
def test_a_gap_is_damage_and_is_never_stepped_over(place: Place, lost: int) -> None:
    owned(place, 5).close()
    place.lose(lost)
    log = place.owner()
    found: list[Commit] = []
    with pytest.raises(LogDamaged, match=f"{lost} is missing"):
        found.extend(log.read())
    assert [each.sequence for each in found] == list(range(1, lost))
    log.close()


def test_the_last_commit_is_never_trimmed(place: Place) -> None:
    log = owned(place, 3)
    for _ in range(3):
        log.trim(3)
    assert sequences(log)[-1] == 3
    log.append(commit(1, 4))
    log.close()
    again = place.owner()
    assert again.claim().latest == commit(1, 4)
    again.close()


def test_a_trim_of_an_empty_log_is_harmless(place: Place) -> None:
    log = owned(place)
    log.trim(0)
    log.trim(7)
    log.append(commit(1, 1))
    assert sequences(log) == [1]
    log.close()


def test_nothing_behind_the_trimmed_commit_goes(place: Place) -> None:
    log = owned(place, 9)
    log.trim(4)
    log.trim(6)
    kept = sequences(log)
    assert kept == list(range(kept[0], 10))
    assert kept[0] <= 7
    log.close()


def test_a_trimmed_log_says_where_it_begins(place: Place) -> None:
    log = owned(place, 9)
    log.trim(4)
    log.trim(6)
    first = sequences(log)[0]
    assert first > 1
    log.close()
    again = place.owner()
    assert again.claim().reach == Mark(1, first)
    again.close()


# What a log with several owners has.


@pytest.fixture
def topic() -> Topic:
    return Topic()


def test_the_commits_behind_the_older_of_two_snapshots_are_kept(shared: Place) -> None:
    log = owned(shared, 10)
    log.trim(4)  # the first snapshot
    assert sequences(log) == list(range(1, 11))
    log.trim(8)  # the second one
    assert sequences(log) == list(range(5, 11))
    log.trim(10)
    assert sequences(log) == [9, 10]


def test_the_same_snapshot_again_takes_nothing_from_the_older_one(shared: Place) -> None:
    owned(shared, 10).trim(4)
    for _ in range(3):  # owners that come, find a snapshot of the last commit there already, and go
        log = shared.owner()
        log.claim()
        log.trim(10)
    assert sequences(log) == list(range(5, 11))


def test_an_older_snapshot_told_late_takes_nothing(shared: Place) -> None:
    log = owned(shared, 10)
    log.trim(4)
    log.trim(8)
    log.trim(6)
    assert sequences(log) == list(range(5, 11))


def test_a_fenced_owner_can_neither_append_nor_trim_and_changes_nothing(shared: Place) -> None:
    before = owned(shared, 6)
    before.trim(3)
    owner = shared.owner()
    owner.claim()
    with pytest.raises(Fenced, match="later owner"):
        before.append(commit(1, 7))
    with pytest.raises(Fenced):
        before.trim(6)
    assert sequences(owner) == [1, 2, 3, 4, 5, 6]
    owner.append(commit(2, 7, note=b"owner's"))
    assert [each.mark for each in owner.read()][-1] == Mark(2, 7)


def test_a_fence_without_a_claim_shuts_the_owner_out_too(topic: Topic) -> None:
    log = owned(topic, 2)
    topic.changelog.fence()
    with pytest.raises(Fenced):
        log.append(commit(1, 3))
    assert sequences(topic.owner()) == [1, 2]


def test_a_claim_that_another_one_overtook_is_fenced(topic: Topic) -> None:
    early, late = topic.changelog.fence(), topic.changelog.fence()
    with pytest.raises(Fenced):
        topic.changelog.claim(early)
    assert topic.changelog.claim(late) == 1


def test_a_closed_log_appends_nothing(shared: Place) -> None:
    log = owned(shared, 1)
    log.close()
    with pytest.raises(Fenced):
        log.append(commit(1, 2))


def test_a_log_that_was_not_claimed_appends_nothing(shared: Place) -> None:
    log = shared.owner()
    with pytest.raises(Fenced):
        log.append(commit(1, 1))
    with pytest.raises(Fenced):
        log.trim(1)


def test_commits_of_an_older_term_behind_a_newer_claim_are_ignored(topic: Topic) -> None:
    owned(topic, 3)
    owner = topic.owner()
    owner.claim()
    producer = topic.changelog._producer
    topic.changelog.append(producer, commit(1, 4, note=b"late"))
    owner.append(commit(2, 4, note=b"owner's"))
    topic.changelog.append(producer, commit(1, 5, note=b"late"))
    owner.append(commit(2, 5, note=b"owner's"))
    assert list(owner.read()) == [
        *(commit(1, n) for n in (1, 2, 3)),
        commit(2, 4, note=b"owner's"),
        commit(2, 5, note=b"owner's"),
    ]


def test_a_commit_of_a_term_that_no_claim_began_is_damage(topic: Topic) -> None:
    log = owned(topic, 2)
    topic.changelog.append(topic.changelog._producer, commit(7, 3))
    with pytest.raises(LogDamaged, match="term 7"):
        sequences(log)


def test_a_commit_of_another_crawl_is_damage(shared: Place) -> None:
    log = owned(shared, 2)
    log.append(commit(1, 3, crawl="another"))
    with pytest.raises(LogDamaged, match="another"):
        sequences(log)
    with pytest.raises(LogDamaged):
        shared.owner().claim()


class _Owner:
    """An owner with what it was told."""

    def __init__(self, log: MemoryLog, term: int, following: int) -> None:
        self.log, self.term, self.following = log, term, following
        self.has_ended = False


class Owners(RuleBasedStateMachine):
    """Owners claim, append, lose answers, take snapshots and wake up late; the last claim owns
    the log.
    """

    owners = Bundle("owners")

    def __init__(self) -> None:
        super().__init__()
        self.changelog = MemoryChangelog(CRAWL, 0)
        self.told: list[Commit] = []  # acknowledged to the owner of that time
        self.unknown: Commit | None = None  # of the last owner, which ended without an answer
        self.current: _Owner | None = None
        self.trims = [0, 0]
        self.count = 0

    def new_commit(self, owner: _Owner) -> Commit:
        self.count += 1
        return commit(owner.term, owner.following, note=b"%d" % self.count)

    @rule(target=owners)
    def claim(self) -> _Owner:
        log = MemoryLog(self.changelog)
        claim = log.claim()
        found = list(log.read())
        if self.unknown is not None and found and found[-1] == self.unknown:
            self.told.append(self.unknown)
        self.unknown = None
        assert found == self.told[max(self.kept_from(), 0) :]
        assert claim.latest == (self.told[-1] if self.told else None)
        assert self.current is None or claim.term == self.current.term + 1
        self.current = _Owner(log, claim.term, len(self.told) + 1)
        return self.current

    def kept_from(self) -> int:
        """How many commits may be gone: those up to the trim before the last one, and never the
        last commit.
        """
        return min(self.trims[0], len(self.told) - 1)

    @rule(owner=owners)
    def append(self, owner: _Owner) -> None:
        made = self.new_commit(owner)
        try:
            owner.log.append(made)
        except Fenced:
            assert owner is not self.current or owner.has_ended
            return
        assert owner is self.current
        self.told.append(made)
        owner.following += 1

    @precondition(lambda self: self.current is not None and not self.current.has_ended)
    @rule(is_lost=st.booleans())
    def end_without_an_answer(self, is_lost: bool) -> None:
        """The commit is in the log or is not, and its owner ends without knowing which."""
        assert self.current is not None
        self.unknown = self.new_commit(self.current)
        if not is_lost:
            self.current.log.append(self.unknown)
        self.current.log.close()
        self.current.has_ended = True

    @rule(owner=owners, back=st.integers(0, 4))
    def trim(self, owner: _Owner, back: int) -> None:
        sequence = max(owner.following - 1 - back, 0)
        try:
            owner.log.trim(sequence)
        except Fenced:
            return
        assert owner is self.current
        if sequence > self.trims[1]:
            self.trims = [self.trims[1], sequence]

    @invariant()
    def the_log_holds_what_was_told_once_and_in_order(self) -> None:
        found = list(MemoryLog(self.changelog).read())
        if self.unknown is not None and found and found[-1] == self.unknown:
            found.pop()
        assert found == self.told[len(self.told) - len(found) :]
        assert len(found) >= len(self.told) - max(self.kept_from(), 0)


TestOwners = Owners.TestCase
TestOwners.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
