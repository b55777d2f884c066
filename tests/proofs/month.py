"""Thirty virtual days of a continuous crawl by seed, with restarts, lost machines, changed policies
and budgets, and sitemaps that lie; and planted bugs, each of them found.

``tests/refetched_month.py`` says what happens and what is judged. A seed that fails is printed and
replays exactly: ``script/prove month --first SEED --seeds 1``.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import msgspec

from planting import Breach
from proofs.seeds import find_plant, on_all_cores
from refetched_month import PLANTS, live_and_judge

_SEEDS, _SHORT = 50, 2
_DAYS, _SHORT_DAYS = 30.0, 10.0
_PAGES, _SHORT_PAGES = 3000, 600


class Lived(msgspec.Struct, frozen=True):
    """What one month came to, and its breach (empty = none)."""

    seed: int
    requests: int = 0
    happened: int = 0
    wait_h: float = 0.0
    cpu_s: float = 0.0
    breach: str = ""


def live(
    work: str, seed: int, plant: str = "", pages: int = _SHORT_PAGES, days: float = _SHORT_DAYS
) -> Lived:
    """One month in a folder of its own, which is gone afterwards."""
    began = time.process_time()
    with tempfile.TemporaryDirectory(dir=work, ignore_cleanup_errors=True) as folder:
        try:
            bug = PLANTS[plant] if plant else None
            month, _ = live_and_judge(seed, Path(folder), bug, pages, days)
        except Breach as breach:
            return Lived(seed, cpu_s=time.process_time() - began, breach=str(breach))
    happened = sum(month.happened.values())
    used_s = time.process_time() - began
    return Lived(seed, month.resting.requests, happened, month.longest_wait_s / 3600, used_s)


def prove(work: Path, short: bool, seeds: int = 0, first: int = 1) -> list[str]:
    """Raises ``AssertionError`` with the seeds of the months that broke a promise, or the bug that
    none of them found.
    """
    number = seeds or (_SHORT if short else _SEEDS)
    days, pages = (_SHORT_DAYS, _SHORT_PAGES) if short else (_DAYS, _PAGES)
    cases = [(str(work), seed, "", pages, days) for seed in range(first, first + number)]
    lived = list(on_all_cores(live, cases))
    broken = [each for each in lived if each.breach]
    assert not broken, "\n".join(each.breach for each in broken)
    lines = [
        f"{number} crawls of {days:.0f} days: {sum(each.requests for each in lived):,} requests,"
        f" {sum(each.happened for each in lived):,} happenings, no host asked early, nothing due"
        " forgotten, no grid that differs from its records",
        f"the longest wait of a due page was {max(each.wait_h for each in lived):.1f} h, always"
        f" within its bound; {sum(each.cpu_s for each in lived):.0f} s of processor time",
    ]
    if not seeds:
        lines += [find_plant(live, str(work), PLANTS, name, first) for name in PLANTS]
    return lines
