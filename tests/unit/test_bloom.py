"""Bloom filters: sized by n and p, as good as p, rolled when full."""

from __future__ import annotations

from math import ceil, log, sqrt
from pathlib import Path

import numpy as np
import pytest

from lycosa.state.seen.seen_port import Hashes
from lycosa.state.seen.urls_bloom import BloomFilter, BloomSeenUrls


def _random(seed: int, count: int) -> Hashes:
    return np.random.default_rng(seed).integers(0, 1 << 64, count, dtype=np.uint64)


@pytest.mark.parametrize(
    ("capacity", "error"), [(1000, 0.01), (50_000, 0.001), (1_000_000, 0.0001)]
)
def test_bits_and_positions_follow_from_capacity_and_error(capacity: int, error: float) -> None:
    bloom = BloomFilter(capacity, error)
    assert bloom.bits == ceil(-capacity * log(error) / log(2) ** 2)
    assert bloom.positions == round(bloom.bits / capacity * log(2))
    assert len(bloom.array) * 8 - bloom.bits < 64


@pytest.mark.parametrize(("capacity", "error"), [(20_000, 0.05), (50_000, 0.01), (100_000, 0.001)])
def test_a_full_filter_errs_as_often_as_it_was_sized_for(capacity: int, error: float) -> None:
    bloom = BloomFilter(capacity, error)
    bloom.add_hashes(_random(1, capacity))
    asked = 200_000
    wrong = int(bloom.has_hashes(_random(2, asked)).sum())
    # four standard deviations, and 5 % for the filter's own chance
    spread = 4 * sqrt(error * (1 - error) / asked) + 0.05 * error
    assert abs(wrong / asked - error) < spread
    assert abs(bloom.error_rate() - error) < 0.1 * error
    assert abs(bloom.fill() - 0.5) < 0.03  # k is rounded


def test_nothing_added_is_ever_missed() -> None:
    bloom, hashes = BloomFilter(10_000, 0.01), _random(3, 10_000)
    bloom.add_hashes(hashes)
    assert bloom.has_hashes(hashes).all()


def test_a_full_filter_is_followed_by_one_of_twice_the_capacity(tmp_path: Path) -> None:
    seen = BloomSeenUrls(tmp_path / "f", 1000, 0.01)
    hashes = _random(4, 6500)
    seen.rebuild([hashes[:400]], 0)
    for number, start in enumerate(range(400, 6500, 500), 1):
        seen.unseen(hashes[start : start + 500])
        seen.seal(number)
        seen.save(number)
    held = [(bloom.count, bloom.capacity) for bloom in seen._known]
    assert [capacity for _, capacity in held] == [1000, 2000, 4000]
    assert held[0][0] == 1000
    assert held[1][0] == 2000
    assert not BloomSeenUrls(tmp_path / "f", 1000, 0.01).unseen(hashes).any()


def test_false_positives_are_counted_when_the_table_refutes_them(tmp_path: Path) -> None:
    known = np.sort(_random(5, 20_000))
    seen = BloomSeenUrls(tmp_path / "f", 20_000, 0.02, lambda hashes: np.isin(hashes, known))
    seen.rebuild([known], 0)
    assert not seen.unseen(known[:5000]).any()
    fresh = _random(6, 20_000)
    assert seen.unseen(fresh).all()
    snapshot = seen.snapshot()
    assert snapshot.unseen == 20_000
    assert snapshot.error_rate == snapshot.false_positives / 20_000
    assert abs(snapshot.error_rate - 0.02) < 4 * sqrt(0.02 * 0.98 / 20_000) + 0.001
    assert not seen.unseen(fresh).any()
    assert seen.snapshot().false_positives == snapshot.false_positives


def test_without_a_table_new_urls_are_lost_at_the_rate_that_is_stated(tmp_path: Path) -> None:
    seen = BloomSeenUrls(tmp_path / "f", 20_000, 0.02)
    seen.rebuild([_random(7, 20_000)], 0)
    lost = 1 - seen.unseen(_random(8, 50_000)).mean()
    assert abs(lost - seen.snapshot().error_rate) < 4 * sqrt(0.02 * 0.98 / 50_000)


@pytest.mark.parametrize(("capacity", "error"), [(0, 0.1), (10, 0.0), (10, 1.0)])
def test_impossible_sizes_are_refused(tmp_path: Path, capacity: int, error: float) -> None:
    with pytest.raises(ValueError, match="Bloom"):
        BloomSeenUrls(tmp_path / "f", capacity, error)
