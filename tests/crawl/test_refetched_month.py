"""Short form of ``script/prove month``: ten days of a continuous crawl, and the planted bugs."""

from __future__ import annotations

from pathlib import Path

import pytest

from planting import Breach, assert_fits
from refetched_month import PLANTS, live_and_judge


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 3))])
def test_ten_days_of_refetches_starve_no_page_and_press_no_host(seed: int, tmp_path: Path) -> None:
    month, lines = live_and_judge(seed, tmp_path)
    assert sum(month.happened.values()) >= 20
    assert month.longest_wait_s > 0, "the big host has a queue"
    assert month.grids == 1
    assert len(lines) == 3


FOUND_BY = {
    "restart": "instead of",
    "cell": "have a cell of the refetch price",
    "grid": "grid of the refetch price",
    "due": "does not wait",
}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str, tmp_path: Path) -> None:
    with pytest.raises(Breach, match=FOUND_BY[name]) as found:
        for seed in range(1, 6):
            (tmp_path / str(seed)).mkdir()
            live_and_judge(seed, tmp_path / str(seed), PLANTS[name], days=8.0)
    assert_fits(name, str(found.value))
