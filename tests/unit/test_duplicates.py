"""Content-seen and near-duplicates over partitions that several workers share: whoever owns a
key, the duplicates are found.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from hashlib import sha1

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.model.capture import Original, StoredOriginal
from lycosa.base.model.parcel_items import PartitionKey
from lycosa.state.seen.duplicates import Duplicates
from lycosa.state.seen.foreign_keys import NO_ANSWERS, ForeignKeys

PARTITIONS = 7


class DictTable(dict[bytes, bytes]):
    """A table in memory."""

    def put(self, key: bytes, value: bytes) -> None:
        self[key] = value


class Crowd:
    """Workers that share the partitions; what one tells arrives when the test says so, twice."""

    def __init__(self, workers: int, *, answers: bool = True) -> None:
        self.tables = {number: DictTable() for number in range(PARTITIONS)}
        self.answers = answers
        self.questions: list[list[PartitionKey]] = []
        self.told: list[tuple[int, bytes, bytes]] = []
        self.workers = []
        for number in range(workers):
            owned = {
                partition: table
                for partition, table in self.tables.items()
                if partition % workers == number
            }
            self.workers.append(Duplicates(PARTITIONS, owned, self))

    async def ask_owners(self, keys: Sequence[PartitionKey]) -> Mapping[bytes, bytes | None]:
        self.questions.append(list(keys))
        return (
            {key: self.tables[partition].get(key) for partition, key in keys}
            if self.answers
            else {}
        )

    def tell_owner(self, partition: int, key: bytes, value: bytes) -> None:
        self.told.append((partition, key, value))

    def deliver(self) -> None:
        for _ in range(2):
            for partition, key, value in self.told:
                self.workers[partition % len(self.workers)].file_row(partition, key, value)
        self.told.clear()

    def look(
        self, worker: int, body: bytes, simhash: int
    ) -> tuple[StoredOriginal | None, Original | None]:
        digest, duplicates = sha1(body).digest(), self.workers[worker]
        return duplicates.find_original(
            digest, simhash, asyncio.run(duplicates.ask_owners(digest, simhash))
        )

    def store(self, worker: int, body: bytes, simhash: int, url: str = "") -> StoredOriginal:
        digest, original = (
            sha1(body).digest(),
            StoredOriginal(url or f"http://w{worker}.test/{body.hex()}", 1, "id", "s.warc.gz", 7),
        )
        known = asyncio.run(self.workers[worker].ask_owners(digest, simhash))
        self.workers[worker].remember_capture(digest, simhash, original, known)
        return original


def capture_of(original: StoredOriginal) -> Original:
    """A near-duplicate is found without the place, because it has a body of its own."""
    return Original(original.url, original.date_us, original.record_id)


@pytest.mark.parametrize("workers", [1, 2, 3, PARTITIONS])
def test_every_worker_finds_what_any_worker_stored(workers: int) -> None:
    crowd, chance = Crowd(workers), random.Random(workers)
    stored = []
    for number in range(40):
        simhash = chance.getrandbits(64) | 1
        stored.append((simhash, crowd.store(number % workers, b"%d" % number, simhash)))
    crowd.deliver()
    for number, (simhash, original) in enumerate(stored):
        for worker in range(workers):
            assert crowd.look(worker, b"%d" % number, 0) == (original, None)
            near = capture_of(original)
            assert crowd.look(worker, b"another", simhash ^ 0b10000000100000001) == (None, near)
            assert crowd.look(worker, b"another", simhash) == (None, near)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 4),
    st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(0, 5), st.sampled_from([0, 1, 3, 7, 15, 255, 1 << 40])
        ),
        max_size=25,
    ),
)
def test_several_workers_find_what_one_would_find(
    workers: int, pages: list[tuple[int, int, int]]
) -> None:
    """With a delivery after each page; a page is stored only when nothing like it was."""
    crowd, alone = Crowd(workers), Crowd(1)
    for worker, body, simhash in pages:
        found = crowd.look(worker % workers, b"%d" % body, simhash)
        assert found == alone.look(0, b"%d" % body, simhash)
        if found == (None, None):
            url = f"http://a.test/{body}/{simhash}"
            crowd.store(worker % workers, b"%d" % body, simhash, url)
            alone.store(0, b"%d" % body, simhash, url)
            crowd.deliver()
    merged = {key: value for table in crowd.tables.values() for key, value in table.items()}
    assert merged == {key: value for table in alone.tables.values() for key, value in table.items()}
    assert all(
        crowd.workers[0].owner_of(key) == number
        for number, table in crowd.tables.items()
        for key in table
    )


def test_a_worker_compares_with_what_it_stored_itself_before_its_owner_knows() -> None:
    crowd, simhash = Crowd(2), 0x0123456789ABCDEF
    original = crowd.store(0, b"body", simhash)
    assert crowd.look(0, b"body", 0) == (original, None)
    near = capture_of(original)
    assert crowd.look(0, b"other", simhash ^ 1) == (None, near)
    assert not crowd.told or crowd.look(1, b"other", simhash ^ 1)[1] in (None, near)


def test_nobody_hears_of_a_page_before_it_is_told() -> None:
    crowd = Crowd(2)
    body = next(
        b"%d" % n for n in range(99) if crowd.workers[0].owner_of(sha1(b"%d" % n).digest()) % 2 == 1
    )
    original = crowd.store(0, body, 0)
    assert crowd.look(1, body, 0) == (None, None)
    crowd.deliver()
    assert crowd.look(1, body, 0) == (original, None)


def test_an_answer_that_is_late_counts_as_never_seen() -> None:
    crowd, simhash = Crowd(2), 0x0123456789ABCDEF
    crowd.store(0, b"body", simhash)
    crowd.deliver()
    crowd.answers = False
    seen = [crowd.look(1, b"body", 0)[0], crowd.look(1, b"other", simhash)[1]]
    owners = [
        crowd.workers[0].owner_of(sha1(b"body").digest()),
        crowd.workers[0].owner_of(simhash.to_bytes(8)),
    ]
    assert [found is not None for found in seen] == [owner % 2 == 1 for owner in owners]
    assert crowd.workers[1].snapshot()["unanswered"] > 0


def test_one_worker_alone_asks_nobody_and_two_ask_at_most_twice_a_page() -> None:
    alone, crowd = Crowd(1), Crowd(2)
    assert not alone.workers[0].must_ask and crowd.workers[0].must_ask
    simhash = 0x0123456789ABCDEF
    alone.store(0, b"body", simhash)
    assert (alone.questions, alone.told) == ([], [])
    crowd.store(0, b"body", simhash)
    crowd.deliver()
    crowd.questions.clear()
    crowd.look(1, b"other", simhash ^ 3)
    assert 1 <= len(crowd.questions) <= 2
    assert all(partition % 2 == 0 for question in crowd.questions for partition, _ in question)


def test_what_was_told_is_kept_within_bounds() -> None:
    sent: list[bytes] = []
    told = ForeignKeys(lambda key, _: sent.append(key), capacity=3)
    for number in range(5):
        told.tell_owner(b"C%d" % number, b"value")
    assert len(told) == 3 and len(sent) == 5
    assert (told.get(b"C0", NO_ANSWERS), told.get(b"C4", NO_ANSWERS)) == (None, b"value")
    assert told.get(b"C4", {b"C4": b"the owner's"}) == b"the owner's"
    for number in range(100):
        told.tell_owner(b"Sbucket", number.to_bytes(8))
    assert len(told.get(b"Sbucket", {b"Sbucket": b"\xff" * 8}) or b"") == 8 * 65


def test_near_duplicates_are_not_looked_for_when_they_are_not_wanted() -> None:
    table = DictTable()
    duplicates = Duplicates(1, {0: table}, max_distance=-1)
    duplicates.remember_capture(sha1(b"a").digest(), 5, StoredOriginal("http://a.test/", 1))
    assert duplicates.find_original(sha1(b"b").digest(), 5) == (None, None)
