"""Fifty seeded histories in which the wall clock of each run is right, or an hour, a day or 400
days ahead or behind.

Each is a history as those of ``proofs.histories``: the crawl dies again and again, and every URL
must be fetched in the end, in a last run of bounded length, with no promise broken. A seed that
fails replays exactly: ``script/prove clock --first SEED --seeds 1``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from histories import LONGEST_END_S, live_and_judge
from planting import Breach
from proofs.seeds import on_all_cores

_SEEDS, _SHORT = 50, 3


def _live(work: str, seed: int) -> tuple[int, int, str]:
    """Requests, settings of the clock, and what was broken."""
    with tempfile.TemporaryDirectory(dir=work, ignore_cleanup_errors=True) as folder:
        try:
            history = live_and_judge(seed, Path(folder), wild_clock=True)
        except Breach as breach:
            return 0, 0, str(breach)
    return len(history.crawl.log), history.faults["clock"], ""


def prove(work: Path, short: bool, seeds: int = 0, first: int = 0) -> list[str]:
    """Raises ``AssertionError`` with the histories that broke a promise."""
    seeds = seeds or (_SHORT if short else _SEEDS)
    lived = list[tuple[int, int, str]]()
    for each in on_all_cores(_live, [(str(work), seed) for seed in range(first, first + seeds)]):
        lived.append(each)
        print(
            each[2] or f"{len(lived)}: {each[0]:,} requests, the clock set {each[1]} times",
            flush=True,
        )
    breaches = [breach for _, _, breach in lived if breach]
    assert not breaches, "\n".join(
        [f"{len(breaches)} of {seeds} histories broke a promise", *breaches]
    )
    settings = sum(changed for _, changed, _ in lived)
    requests = sum(number for number, _, _ in lived)
    return [
        f"{seeds} histories, {requests:,} requests, the clock set {settings} times: no breach, last"
        f" runs under {LONGEST_END_S:.0f} s"
    ]
