"""Histories with an outside fetcher that outlives the workers, and the bugs that they must find."""

from __future__ import annotations

from pathlib import Path

import pytest

from outside_fetching import TOLD
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
def test_a_lease_that_is_told_before_its_commit_is_found(tmp_path: Path) -> None:
    """The other planted bugs of leases are found by histories of many nodes."""
    for seed in range(5):
        (tmp_path / str(seed)).mkdir()
        try:
            live_with_fetcher(seed, tmp_path / str(seed), TOLD, with_audit=False)
        except Breach as breach:
            print(breach)
            return
    pytest.fail("no history found it")
