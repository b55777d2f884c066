"""Near-duplicates by events: whoever owns a bucket and in whatever order fingerprints arrive, the
later of two pages within three bits is the copy.
"""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.model.capture import Original
from lycosa.base.model.parcel_items import Fingerprint, Verdict
from lycosa.state.seen.foreign_keys import BUCKET
from lycosa.state.seen.near_judge import NearJudge
from lycosa.state.seen.simhash import MAX_DISTANCE


class DictTable(dict[bytes, bytes]):
    """A table in memory."""

    def put(self, key: bytes, value: bytes) -> None:
        self[key] = value


class Shards:
    """Owners of one partition each; fingerprints arrive when and in the order that the test says."""

    def __init__(self, count: int, max_distance: int = MAX_DISTANCE) -> None:
        self.judges = [NearJudge(count, {n: DictTable()}, max_distance) for n in range(count)]
        self.verdicts: list[Verdict] = []

    def post(self, pages: list[Fingerprint], chance: random.Random | None = None) -> None:
        letters = [(owner, page) for page in pages for owner in self.owners(page)]
        if chance is not None:
            chance.shuffle(letters)
        for owner, page in letters:
            self.verdicts += self.judges[owner].judge_fingerprint(owner, page)

    def owners(self, page: Fingerprint) -> list[int]:
        return list(self.judges[0].owners_of(page.simhash))

    def originals(self) -> dict[str, str]:
        """Each copy and its nearest original, as the partition of the copy keeps it."""
        kept: dict[str, Verdict] = {}
        for verdict in self.verdicts:
            if verdict.url not in kept or verdict.rank < kept[verdict.url].rank:
                kept[verdict.url] = verdict
        return {url: verdict.original.url for url, verdict in kept.items()}


def page(number: int, simhash: int) -> Fingerprint:
    return Fingerprint(simhash, Original(f"http://a.test/{number:03d}", 1000 + number))


def flip(simhash: int, *bits: int) -> int:
    return simhash ^ sum(1 << bit for bit in bits)


@pytest.mark.parametrize("shards", [1, 3, 16, 256])
def test_every_pair_within_three_bits_meets_at_some_owner(shards: int) -> None:
    chance, first = random.Random(shards), 0x0123456789ABCDEF
    for bits in chance.sample(list(combinations(range(64), 3)), 300):
        each = Shards(shards)
        each.post([page(0, first), page(1, flip(first, *bits))])
        assert each.originals() == {"http://a.test/001": "http://a.test/000"}
        assert {verdict.distance for verdict in each.verdicts} == {3}


def test_no_pair_beyond_three_bits_is_called_similar() -> None:
    chance, first = random.Random(1), 0x0123456789ABCDEF
    for bits in chance.sample(list(combinations(range(64), 4)), 100):
        each = Shards(5)
        each.post([page(0, first), page(1, flip(first, *bits))])
        assert not each.verdicts


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 20), st.integers(0, 2**32), st.integers(1, 12))
def test_the_order_of_arrival_decides_nothing_between_copies_of_one_page(
    shards: int, seed: int, copies: int
) -> None:
    """Copies are within one bit of the first, so each of them is near all others."""
    chance = random.Random(seed)
    first = chance.getrandbits(64) | 1
    simhashes = [first, *(flip(first, chance.randrange(64)) for _ in range(copies))]
    each = Shards(shards)
    each.post([page(number, simhash) for number, simhash in enumerate(simhashes)], chance)
    found = each.originals()
    assert set(found) == {f"http://a.test/{number:03d}" for number in range(1, copies + 1)}
    assert all(original < copy for copy, original in found.items())


def test_at_most_four_owners_get_a_fingerprint() -> None:
    chance, each = random.Random(3), Shards(256)
    assert max(len(each.owners(page(0, chance.getrandbits(64)))) for _ in range(500)) == 4


def test_a_page_fetched_again_is_not_a_copy_of_itself() -> None:
    each, simhash = Shards(4), 0x0123456789ABCDEF
    one = page(0, simhash)
    again = Fingerprint(flip(simhash, 5), Original(one.original.url, 5000))
    each.post([one, again])
    assert not each.verdicts
    each.post([page(1, simhash)])
    assert each.originals() == {"http://a.test/001": "http://a.test/000"}


def test_a_copy_is_not_the_original_of_others_at_the_same_owner() -> None:
    each, simhash = Shards(1), 0x0123456789ABCDEF
    chain = [simhash, flip(simhash, 0, 1, 2), flip(simhash, 0, 1, 2, 3, 4)]
    each.post([page(number, value) for number, value in enumerate(chain)])
    assert each.originals() == {"http://a.test/001": "http://a.test/000"}


def test_a_full_bucket_takes_no_more() -> None:
    each, chance = Shards(1), random.Random(5)
    base = chance.getrandbits(64)
    # equal in the first two blocks and otherwise far from each other
    alike = [base & ~((1 << 38) - 1) | chance.getrandbits(38) for _ in range(BUCKET + 6)]
    each.post([page(number, simhash) for number, simhash in enumerate(alike)])
    assert each.judges[0].snapshot()["refused_by_full_bucket"] >= 6


def test_only_equal_simhashes_are_found_when_no_bit_may_differ() -> None:
    each, simhash = Shards(3, max_distance=0), 0x0123456789ABCDEF
    each.post([page(0, simhash), page(1, flip(simhash, 9)), page(2, simhash)])
    assert each.originals() == {"http://a.test/002": "http://a.test/000"}
