"""The near-duplicate index finds what looking at every simhash finds."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.model.capture import Original
from lycosa.state.seen.simhash import BUCKET, NearIndex


class DictTable(dict[bytes, bytes]):
    """A table in memory."""

    def put(self, key: bytes, value: bytes) -> None:
        self[key] = value


def _index() -> NearIndex:
    table = DictTable()
    return NearIndex(lambda key: table)


def _original(simhash: int) -> Original:
    return Original(f"https://example.org/{simhash:x}", simhash & 0xFFFF)


SIMHASHES = st.integers(1, (1 << 64) - 1)
FLIPS = st.sets(st.integers(0, 63), max_size=6)


def _flip(simhash: int, bits: set[int]) -> int:
    return simhash ^ sum(1 << bit for bit in bits)


@settings(deadline=None, max_examples=300)
@given(
    base=SIMHASHES,
    known=st.lists(FLIPS, max_size=25),
    others=st.lists(SIMHASHES, max_size=10),
    asked=FLIPS,
    most=st.integers(0, 3),
)
def test_it_finds_exactly_what_a_full_scan_finds(
    base: int, known: list[set[int]], others: list[int], asked: set[int], most: int
) -> None:
    index, stored = (
        _index(),
        {simhash for simhash in [_flip(base, bits) for bits in known] + others if simhash},
    )
    for simhash in stored:
        index.remember_capture(simhash, _original(simhash))
    wanted = _flip(base, asked)
    near = sorted(((simhash ^ wanted).bit_count(), simhash) for simhash in stored if wanted)
    expected = (_original(near[0][1]), near[0][0]) if near and near[0][0] <= most else None
    assert index.find_nearest(wanted, most) == expected


def test_every_choice_of_three_bits_is_found() -> None:
    index, simhash = _index(), 0x0123456789ABCDEF
    index.remember_capture(simhash, _original(simhash))
    for bits in combinations(range(64), 3):
        assert index.find_nearest(_flip(simhash, set(bits))) == (_original(simhash), 3)


def test_four_bits_are_too_far() -> None:
    index, chance = _index(), random.Random(1)
    index.remember_capture(1 << 40, _original(1 << 40))
    for _ in range(500):
        assert index.find_nearest(_flip(1 << 40, set(chance.sample(range(64), 4)))) is None


def test_the_first_capture_of_a_simhash_stays() -> None:
    index = _index()
    index.remember_capture(7, _original(7))
    index.remember_capture(7, Original("https://later.example/", 9))
    assert index.find_nearest(7) == (_original(7), 0)
    assert index.snapshot() == {"filed": 1, "refused_by_full_bucket": 0}


def test_zero_means_too_little_text() -> None:
    index = _index()
    index.remember_capture(0, _original(0))
    assert index.find_nearest(0) is None
    assert index.find_nearest(1) is None


def test_a_distance_beyond_three_is_refused() -> None:
    with pytest.raises(ValueError, match="0 to 3"):
        _index().find_nearest(1, 4)


def test_a_full_bucket_refuses_and_counts_but_same_and_other_tables_still_find() -> None:
    index = _index()
    base = 0xFFFF << 38  # all of these agree in the two upper blocks and are far apart below
    chance = random.Random(2)
    simhashes = [base & ~((1 << 38) - 1) | chance.getrandbits(38) for _ in range(BUCKET + 6)]
    for simhash in simhashes:
        index.remember_capture(simhash, _original(simhash))
    assert index.snapshot()["refused_by_full_bucket"] == 6
    last = simhashes[-1]
    assert index.find_nearest(last) == (_original(last), 0)
    assert index.find_nearest(last ^ 1) == (_original(last), 1)


def test_keys_are_spread_over_the_tables_that_own_them() -> None:
    tables = [DictTable() for _ in range(4)]
    index = NearIndex(lambda key: tables[hash(key) % 4])
    chance = random.Random(3)
    simhashes = [chance.getrandbits(64) | 1 for _ in range(50)]
    for simhash in simhashes:
        index.remember_capture(simhash, _original(simhash))
    assert all(
        index.find_nearest(simhash ^ 0b1010) == (_original(simhash), 2) for simhash in simhashes
    )
    assert all(tables)
    assert {key[:1] for table in tables for key in table} == {b"S", b"s"}
    assert {len(key) for table in tables for key in table if key[:1] == b"S"} == {6}
