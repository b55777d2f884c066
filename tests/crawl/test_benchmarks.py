"""The benchmarks run: they use the crawler's inside, and a change of it breaks them unnoticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = {
    "frontier": ["--millions", "0.002", "--links", "2000", "--warm", "0"],
    "placement": ["--sizes", "16x4"],
    "fairness": ["--hosts", "300", "--pages", "2000", "--slots", "20"],
    "hosts": ["--millions", "0.002", "--few", "500", "--links", "500", "--visits", "200"],
    "memory_queued": ["--few", "500", "--many", "1000"],
}
LONG = ["memory_queued", "frontier", "fairness"]  # each takes a quarter of a minute and more


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in SMALL]
)
def test_a_benchmark_runs_on_a_small_input(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{name}", *SMALL[name]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout
