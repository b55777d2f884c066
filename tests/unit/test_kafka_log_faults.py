"""One owner of a shard's log over a Kafka in memory that loses answers, rolls back, expires
transactions and shuts producers out: what was acknowledged is in the log once and in order, and the
next owner can always claim it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from lycosa.cluster.kafka.changelog import ChangelogDamaged, TopicRemade
from lycosa.cluster.kafka.control_topic import ControlDamaged, KafkaControl
from lycosa.cluster.kafka.kafka_log import KafkaLog
from lycosa.cluster.kafka.topics import CONTROL, Topics
from lycosa.state.commit import (
    Claim,
    Commit,
    FeedRow,
    Fenced,
    OutcomeUnknown,
    PartitionBatch,
    RolledBack,
)
from memory_kafka import COMMIT, DELIVER, FAULTS, Faults, MemoryKafka, MemoryKafkaClient

CRAWL, SHARD = "2f0cf3d2", 0
TOPICS = Topics("t", 1)


def commit(term: int, sequence: int) -> Commit:
    batch = PartitionBatch(0, {b"key": b"%d" % sequence})
    return Commit(term=term, sequence=sequence, wall=1.0, batches=[batch], crawl=CRAWL, shard=SHARD)


class Script:
    """The faults of the next transactions, in order: one of ``FAULTS``, or none, for each."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, step: str) -> str:
        if self.lines and self.lines[0] in FAULTS[step]:
            return self.lines.pop(0)
        if step == COMMIT and self.lines:
            assert not self.lines[0], f"{self.lines[0]!r} did not happen"
            self.lines.pop(0)
        return ""


def owner(cluster: MemoryKafka, faults: Faults = lambda step: "") -> KafkaLog:
    return KafkaLog(MemoryKafkaClient(cluster, faults), TOPICS, CRAWL, SHARD)


def rows_of(made: Commit) -> list[FeedRow]:
    """Every other commit has rows for readers outside."""
    return [FeedRow("pages", b"key", b"%d" % made.sequence)] if made.sequence % 2 else []


def until_safe(log: KafkaLog, made: Commit) -> int:
    """Appends as the committer does; gives how often it was rolled back."""
    for times in range(100):
        try:
            log.append(made, lambda: rows_of(made))
        except RolledBack:
            continue
        return times
    raise AssertionError("rolled back endlessly")


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def cluster() -> MemoryKafka:
    return MemoryKafka()


@pytest.fixture
def log(cluster: MemoryKafka, script: Script) -> Iterator[KafkaLog]:
    log = owner(cluster, script)
    log.claim()
    log.append(commit(1, 1))
    yield log
    assert script.lines == []
    log.close()


def sequences(cluster: MemoryKafka) -> list[int]:
    log = owner(cluster)
    log.claim()
    return [each.sequence for each in log.read()]


@pytest.mark.parametrize("lost", ["unanswered", "answered late"])
@pytest.mark.parametrize("marker", ["refused", "timed out"])
def test_a_commit_whose_answer_was_lost_is_not_appended_again_because_its_marker_was_rolled_back(
    cluster: MemoryKafka, script: Script, log: KafkaLog, lost: str, marker: str
) -> None:
    script.lines = [lost, marker, marker]
    assert until_safe(log, commit(1, 2)) == 0
    log.append(commit(1, 3))
    assert sequences(cluster) == [1, 2, 3]


@pytest.mark.parametrize("lost", ["unanswered", "answered late", "unmarked"])
@pytest.mark.parametrize("marker", ["lost", "unanswered", "expired", "answered late", "unmarked"])
def test_a_marker_whose_own_answer_is_lost_is_repeated(
    cluster: MemoryKafka, script: Script, log: KafkaLog, lost: str, marker: str
) -> None:
    script.lines = [lost, marker]
    until_safe(log, commit(1, 2))
    log.append(commit(1, 3))
    assert sequences(cluster) == [1, 2, 3]


@pytest.mark.parametrize("lost", ["lost", "expired"])
@pytest.mark.parametrize("marker", ["", "refused", "lost", "expired", "unmarked"])
def test_a_commit_that_was_rolled_back_behind_a_lost_answer_is_appended_again(
    cluster: MemoryKafka, script: Script, log: KafkaLog, lost: str, marker: str
) -> None:
    script.lines = [lost, marker]
    assert until_safe(log, commit(1, 2)) == 1
    assert sequences(cluster) == [1, 2]


class Meanwhile:
    """Another owner claims the shard while a transaction of this one is lost."""

    def __init__(self, cluster: MemoryKafka) -> None:
        self._cluster, self.is_due = cluster, False

    def __call__(self, step: str) -> str:
        if not self.is_due or step != COMMIT:
            return ""
        self.is_due = False
        owner(self._cluster).claim()
        return "lost"


def test_an_owner_that_regains_its_log_finds_a_claim_that_was_made_meanwhile(
    cluster: MemoryKafka,
) -> None:
    meanwhile = Meanwhile(cluster)
    log = owner(cluster, meanwhile)
    log.claim()
    log.append(commit(1, 1))
    meanwhile.is_due = True
    with pytest.raises(OutcomeUnknown):
        log.append(commit(1, 2))
    assert sequences(cluster) == [1]


def remade(cluster: MemoryKafka) -> None:
    cluster.remake(TOPICS.changelog)


def truncated(cluster: MemoryKafka) -> None:
    """The first commit is lost, and the claim is kept."""
    cluster.truncate(TOPICS.changelog, SHARD, 2)


@pytest.mark.parametrize("lose", [remade, truncated])
@pytest.mark.parametrize("fault", ["", "lost", "unanswered", "expired", "unmarked", "refused"])
def test_an_owner_stops_at_its_first_commit_to_a_topic_that_was_made_again_or_truncated(
    cluster: MemoryKafka,
    script: Script,
    log: KafkaLog,
    lose: Callable[[MemoryKafka], None],
    fault: str,
) -> None:
    lose(cluster)
    script.lines = [fault] if fault else []
    with pytest.raises(TopicRemade, match="cluster rescue"):
        until_safe(log, commit(1, 2))
    with pytest.raises((Fenced, OutcomeUnknown)):  # nothing is acknowledged any more
        until_safe(log, commit(1, 2))


def test_an_owner_that_slept_until_a_later_one_had_trimmed_the_log_is_fenced(
    cluster: MemoryKafka,
) -> None:
    slept = owner(cluster)
    slept.claim()
    slept.append(commit(1, 1))
    slept._transactions.long_s = -1.0  # it does not know for how long its transaction was open
    later = owner(cluster)
    later.claim()
    for sequence in range(2, 12):
        later.append(commit(2, sequence))
    later.trim(5)
    later.trim(10)
    with pytest.raises(Fenced, match="a later owner"):
        slept.append(commit(1, 2))
    later.append(commit(2, 12))
    assert sequences(cluster)[-1] == 12


@pytest.mark.parametrize("sequence", [1, 7])
def test_a_trim_notices_a_topic_that_was_made_again(
    cluster: MemoryKafka, log: KafkaLog, sequence: int
) -> None:
    remade(cluster)
    with pytest.raises(TopicRemade, match="deleted and made again"):
        log.trim(sequence)


def test_a_claim_of_a_topic_that_was_made_again_names_the_way_out(
    cluster: MemoryKafka, log: KafkaLog
) -> None:
    remade(cluster)
    with pytest.raises(TopicRemade):
        log.append(commit(1, 2))
    with pytest.raises(ChangelogDamaged, match=r"no claim began.*cluster rescue"):
        owner(cluster).claim()


def test_a_coordinator_stops_at_its_first_record_in_a_topic_that_was_made_again(
    cluster: MemoryKafka,
) -> None:
    control = KafkaControl(MemoryKafkaClient(cluster), TOPICS, CRAWL)
    control.claim()
    control.append([("end", b"1")])
    cluster.remake(TOPICS.named(CONTROL))
    with pytest.raises(ControlDamaged, match=r"deleted and made again.*cluster rescue"):
        control.append([("end", b"2")])


@pytest.mark.parametrize("lost", ["lost", "unanswered", "expired", "answered late", "unmarked"])
@pytest.mark.parametrize("probe", [*FAULTS[DELIVER], *FAULTS[COMMIT]])
def test_a_coordinator_repeats_its_probe_until_its_records_are_safe(
    cluster: MemoryKafka, script: Script, lost: str, probe: str
) -> None:
    control = KafkaControl(MemoryKafkaClient(cluster, script), TOPICS, CRAWL)
    control.claim()
    script.lines = [lost, probe]
    control.append([("end", b"1")])
    found = KafkaControl(MemoryKafkaClient(cluster), TOPICS, CRAWL).claim()
    assert (found.number, dict(found.values)) == (2, {"end": b"1"})


class Chance:
    """Faults in spells, as outages are."""

    def __init__(self, seed: int) -> None:
        self._chance, self._left = random.Random(seed), 0

    def __call__(self, step: str) -> str:
        if step == DELIVER and not self._left and self._chance.random() < 0.2:
            self._left = self._chance.randint(1, 4)
        if not self._left:
            return ""
        self._left -= step == COMMIT
        return self._chance.choice([*FAULTS[step], "", ""])


def next_owner(cluster: MemoryKafka, faults: Faults = lambda step: "") -> tuple[KafkaLog, Claim]:
    """As a node does that starts the process again."""
    for _ in range(30):
        log = owner(cluster, faults)
        try:
            return log, log.claim()
        except (Fenced, OutcomeUnknown):
            log.close()
    raise AssertionError("the shard cannot be claimed")


@pytest.mark.parametrize("seed", range(60))
def test_whatever_goes_wrong_each_commit_is_in_the_log_once_and_in_order(seed: int) -> None:
    cluster, chance, faults = MemoryKafka(), random.Random(seed), Chance(seed)
    log, claim = next_owner(cluster, faults)
    told = list[Commit]()
    for _ in range(60):
        made = commit(claim.term, len(told) + 1)
        try:
            until_safe(log, made)
            told.append(made)
            if chance.random() < 0.2:
                log.trim(max(len(told) - chance.randint(0, 4), 0))
            has_ended = chance.random() < 0.1
        except (Fenced, OutcomeUnknown):  # the process ends, and the next owner finds out
            has_ended = True
        if has_ended:
            log, claim = next_owner(cluster, faults)
            told += [made] if claim.latest == made and made not in told else []
            assert claim.latest == (told[-1] if told else None)
    last, claim = next_owner(cluster)
    found = list(last.read())
    assert claim.latest == told[-1]
    fed = cluster.partition(TOPICS.named("pages"), SHARD).visible(0)
    assert [entry.value for _, entry in fed if entry.value] == [
        row.value for each in told for row in rows_of(each)
    ]
    assert found == told[len(told) - len(found) :]
