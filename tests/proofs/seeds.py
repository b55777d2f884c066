"""Histories by seed on as many processes as there are cores, and the planted bugs that they find."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, Protocol, TypeVar

from planting import Plant, assert_fits

Result = TypeVar("Result")
_BATCH = 100
_MOST_TO_FIND = 300


class Lived(Protocol):
    """What a history came to."""

    @property
    def seed(self) -> int: ...

    @property
    def breach(self) -> str:
        """Empty when no promise was broken."""


def on_all_cores(
    live: Callable[..., Result], cases: Sequence[tuple[Any, ...]], batch: int = _BATCH
) -> Iterator[Result]:
    """What ``live`` gives for each case, as they end."""
    for some in (cases[at : at + batch] for at in range(0, len(cases), batch)):
        # Fresh processes for each batch, for their memory's sake. (A pool that replaces them by
        # itself, max_tasks_per_child, hung.)
        with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
            for future in as_completed([pool.submit(live, *case) for case in some]):
                yield future.result()


def find_plant(
    live: Callable[[str, int, str], Lived],
    work: str,
    plants: Mapping[str, Plant],
    name: str,
    first: int,
) -> str:
    """Try seeds, as many at a time as there are cores, until one finds the bug; says which. Raises
    ``AssertionError`` when none does.
    """
    at_once = os.cpu_count() or 1
    with ProcessPoolExecutor(at_once, multiprocessing.get_context("spawn")) as pool:
        for begin in range(first, first + _MOST_TO_FIND, at_once):
            seeds = range(begin, begin + at_once)
            for lived in pool.map(live, [work] * at_once, seeds, [name] * at_once):
                if lived.breach:
                    assert_fits(name, lived.breach)
                    return (
                        f"planted bug found by history {lived.seed - first + 1}:"
                        f" {plants[name].meaning}\n    {lived.breach[:160]}"
                    )
    raise AssertionError(f"not found by {_MOST_TO_FIND} histories: {plants[name].meaning}")
