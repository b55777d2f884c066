"""Histories with an outside fetcher that outlives the workers, and the bugs that they must find."""

from __future__ import annotations

from pathlib import Path

import pytest

from outside_fetching import PLANTS
from outside_histories import live_with_fetcher
from planting import Breach

_FOUND = (3,)  # a clock that was set forward at a restart freed the hosts that were lent


@pytest.mark.long
@pytest.mark.parametrize("seed", [*range(2), *_FOUND])
def test_leases_of_an_outside_fetcher_break_no_promise_when_workers_die(
    seed: int, tmp_path: Path
) -> None:
    history = live_with_fetcher(seed, tmp_path)
    assert history.faults["end"] > 0


@pytest.mark.long
@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_of_leases_is_found(plant: str, tmp_path: Path) -> None:
    for seed in range(5):
        (tmp_path / str(seed)).mkdir()
        try:
            live_with_fetcher(seed, tmp_path / str(seed), PLANTS[plant], with_audit=False)
        except Breach as breach:
            print(breach)
            return
    pytest.fail(f"not found: {PLANTS[plant]}")
