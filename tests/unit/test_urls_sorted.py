"""The sorted hash file itself: order, buckets, merges over many blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lycosa.state.seen.seen_port import Hashes
from lycosa.state.seen.urls_sorted import SortedSeenUrls


def _random(seed: int, count: int) -> Hashes:
    return np.random.default_rng(seed).integers(0, 1 << 64, count, dtype=np.uint64)


def _check_file(seen: SortedSeenUrls, expected: Hashes) -> None:
    held = seen._known
    assert np.array_equal(held.hashes, np.unique(expected))
    bits = (len(held.starts) - 1).bit_length() - 1
    bounds = np.array([bucket << (64 - bits) for bucket in range(1 << bits)], dtype=np.uint64)
    assert np.array_equal(held.starts[:-1], np.searchsorted(held.hashes, bounds))
    assert held.starts[-1] == len(held)


def test_a_merge_over_many_blocks_keeps_order_and_buckets(tmp_path: Path) -> None:
    old, new = _random(1, 700_000), _random(2, 60_000)
    seen = SortedSeenUrls(tmp_path / "f")
    seen.rebuild(np.array_split(np.concatenate((old, old[:1000])), 9), 1)
    assert seen.unseen(new).all()
    seen.seal(2)
    seen.save(2)
    again = SortedSeenUrls(tmp_path / "f")
    _check_file(again, np.concatenate((old, new)))
    assert not again.unseen(np.concatenate((old[:5000], new[:5000]))).any()
    assert again.unseen(_random(3, 5000)).all()
    assert 8 < again.snapshot().disk_bytes / 760_000 < 9.1


@pytest.mark.parametrize("run", [1, 7, 1000])
def test_a_rebuild_in_several_runs_gives_the_same_file(tmp_path: Path, run: int) -> None:
    hashes = _random(4, 3000)
    seen = SortedSeenUrls(tmp_path / "f")
    seen.rebuild(np.array_split(np.concatenate((hashes, hashes[::3])), run), 5)
    _check_file(seen, hashes)
    assert SortedSeenUrls(tmp_path / "f").stamp == 5


def test_hashes_that_are_not_uniform_are_found_all_the_same(tmp_path: Path) -> None:
    hashes = np.concatenate((np.arange(20_000, dtype=np.uint64), _random(5, 500)))
    seen = SortedSeenUrls(tmp_path / "f")
    seen.rebuild([hashes], 1)
    _check_file(seen, hashes)
    assert not seen.unseen(hashes[::7]).any()
    assert seen.unseen(np.arange(20_000, 20_100, dtype=np.uint64)).all()


def test_bounds_of_the_number_range_are_ordinary_hashes(tmp_path: Path) -> None:
    ends = np.array([0, 2**64 - 1], dtype=np.uint64)
    seen = SortedSeenUrls(tmp_path / "f")
    seen.rebuild([ends, _random(6, 1000)], 1)
    assert not seen.unseen(ends).any()
    assert seen.unseen(np.array([1, 2**64 - 2], dtype=np.uint64)).all()
