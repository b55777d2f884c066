"""What counts in a changelog, and what is damage: the fold of its records, without a broker."""

from __future__ import annotations

import pytest

from lycosa.cluster.kafka.changelog import (
    ClaimRecord,
    Fold,
    SnapshotRecord,
    encoded,
    folded_commits,
    frames,
)
from lycosa.cluster.kafka.topics import FRAME_BYTES
from lycosa.state.commit import Commit, LogDamaged, Mark, PartitionBatch

CRAWL = "2f0cf3d2"


def commit(term: int, sequence: int, crawl: str = CRAWL, size: int = 3) -> Commit:
    batch = PartitionBatch(0, {b"key": bytes(size)})
    return Commit(term=term, sequence=sequence, wall=1.0, batches=[batch], crawl=crawl, shard=1)


def claim(assignment: int = 0) -> bytes:
    return encoded(ClaimRecord(CRAWL, b"claim", assignment))


def one(term: int, sequence: int) -> bytes:
    (record,) = frames(commit(term, sequence))
    return record


def fold(records: list[bytes], begins_at: int = 0) -> tuple[Fold, list[Mark]]:
    made = Fold("c.changelog", 1, CRAWL, begins_at)
    found = list(folded_commits(made, iter(list(enumerate(records, begins_at)))))
    return made, [each.mark for each in found]


def test_the_nth_claim_begins_term_n() -> None:
    made, marks = fold([claim(), one(1, 1), claim(), claim(), one(3, 2)])
    assert (made.term, marks) == (3, [Mark(1, 1), Mark(3, 2)])


def test_commits_of_an_older_term_behind_a_newer_claim_are_ignored() -> None:
    _, marks = fold([claim(), one(1, 1), claim(), one(1, 2), one(2, 2), one(1, 3), one(2, 3)])
    assert marks == [Mark(1, 1), Mark(2, 2), Mark(2, 3)]


def test_the_greatest_assignment_and_the_newest_snapshot_are_known() -> None:
    saved = encoded(SnapshotRecord(CRAWL, 1, 1))
    made, _ = fold([claim(7), one(1, 1), saved, claim(5)])
    assert (made.assignment, made.saved) == (7, 1)


def test_a_large_commit_is_split_below_the_bound_and_joined_again() -> None:
    large = commit(1, 1, size=2 * FRAME_BYTES)
    records = frames(large)
    assert len(records) == 3 and all(len(each) < FRAME_BYTES for each in records)
    made = Fold("c.changelog", 1, CRAWL, 0)
    found = list(folded_commits(made, iter(list(enumerate([claim(), *records])))))
    assert [made.commit(each) for each in found] == [large]
    assert found[0].offset == 1


def test_a_trimmed_log_goes_on_counting_claims_from_the_term_of_its_first_commit() -> None:
    made, marks = fold([one(4, 70), claim(), one(5, 71)], begins_at=99)
    assert (made.term, marks) == (5, [Mark(4, 70), Mark(5, 71)])


LARGE = frames(commit(1, 1, size=2 * FRAME_BYTES))


@pytest.mark.parametrize(
    ("records", "begins_at", "what"),
    [
        ([claim(), one(1, 1), one(1, 3)], 0, "commit 2 is missing"),
        ([claim(), one(1, 1), one(1, 1)], 0, "commit 2 is missing"),
        ([claim(), one(2, 1)], 0, "term 2, which no claim began"),
        ([one(1, 1)], 0, "term 1, which no claim began"),
        ([claim(), *frames(commit(1, 1, crawl="other"))], 0, "of the crawl other"),
        ([claim(), LARGE[0], LARGE[2]], 0, "part 1 of commit 1 is missing"),
        ([claim(), LARGE[1]], 0, "part 0 of commit 1 is missing"),
        ([claim(), LARGE[0], claim()], 0, "commit 1 has no end"),
        ([claim(), claim()[:-5]], 0, "of this crawl and not of a form"),
        ([claim(), one(1, 9)], 50, "the front of the log was cut"),
        ([LARGE[1], LARGE[2]], 50, "the front of the log was cut"),
    ],
)
def test_what_does_not_fit_is_damage(records: list[bytes], begins_at: int, what: str) -> None:
    with pytest.raises(LogDamaged, match=what):
        fold(records, begins_at)


def test_damage_names_topic_partition_and_offset() -> None:
    with pytest.raises(LogDamaged, match=r"c\.changelog, partition 1, offset 2: commit 2 is"):
        fold([claim(), one(1, 1), one(1, 3)])
