"""Short form of ``script/prove histories``: a few seeds, those that once found something among them, and the planted bugs."""

from __future__ import annotations

from pathlib import Path

import pytest

from histories import LEAST_FAULTS, PLANTS, Breach, live_and_judge
from judging import asked

FOUND = {
    12: "a wall clock set forward hid recent contacts of a host from the next run",
    13: "after the wall clock was set back the audit read the attempts in the wrong order",
}


@pytest.mark.parametrize("seed", [0, *FOUND], ids=lambda seed: f"seed-{seed}")
def test_a_history_of_crashes_and_losses_breaks_no_promise(seed: int, tmp_path: Path) -> None:
    history = live_and_judge(seed, tmp_path)
    assert sum(history.faults.values()) >= LEAST_FAULTS
    assert len(set(asked(history.crawl.log))) >= 2000


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_found(plant: str, tmp_path: Path) -> None:
    for seed in range(5):
        (tmp_path / str(seed)).mkdir()
        try:
            live_and_judge(seed, tmp_path / str(seed), plant, with_audit=False)
        except Breach as breach:
            print(breach)
            return
    pytest.fail(f"not found: {PLANTS[plant]}")
