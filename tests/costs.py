"""What code costs, told in a way that does not depend on the machine.

Two measures. ``count_calls`` counts calls, so that the same input always gives the same number; it
sees no loop inside a library. ``cost_in_units`` sees those too: it compares the processor time with
that of a fixed program on the same machine at the same moment. A unit is a millisecond where the
bounds were chosen, and longer on a slower or busier machine. Bounds leave room for what still
varies, caches above all: they find what grows with the square of its input, not a tenth more.
What a tenth more costs is measured in ``bench``.
"""

from __future__ import annotations

import gc
import re
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import TypeVar

T = TypeVar("T")

_READINGS, _FAR = 5, 4
_WORD = re.compile(r"([a-z]+): ?(/[!-~]*)")
_LINES = [f"line: /{number * 7919 % 100_003}/page" for number in range(2_500)]


def count_calls(work: Callable[[], object]) -> int:
    """How often ``work`` calls a function, in Python or in C."""
    count = 0

    def take(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # others may have it call functions of theirs
    sys.setprofile(take)
    try:
        work()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return count


def cost_in_units(work: Callable[[], object], enough: float = 0.0) -> float:
    """The processor time of ``work`` as a multiple of that of a fixed program.

    The least of up to five readings, because any one may fall into a garbage collection. The first
    that is below ``enough``, or far above it, ends them.
    """
    return _measured(work, enough)[0]


def run_below(units: float, work: Callable[[], T]) -> T:
    """What ``work`` gives, which must cost less than ``units``."""
    found, result = _measured(work, units)
    assert found < units, f"{found:.1f} units, {units} are allowed"
    return result


def _measured(work: Callable[[], T], enough: float) -> tuple[float, T]:
    least = float("inf")
    for reading in range(_READINGS):
        # The first is compared with the least that the program ever took, the others with what it
        # takes now: the machine may be busier than it was.
        unit_now_s = unit_s() if reading else _least_unit_s()
        began = time.process_time()
        result = work()
        spent_s = time.process_time() - began
        if reading:
            unit_now_s = max(unit_now_s, unit_s())
        least = min(least, spent_s / unit_now_s)
        if least < enough or least > _FAR * enough > 0:
            break
    return least, result


def unit_s() -> float:
    """The processor time of the fixed program just now."""
    times = []
    for _ in range(3):
        began = time.process_time()
        _fixed_program()
        times.append(time.process_time() - began)
    return min(times)


@cache
def _least_unit_s() -> float:
    return min(unit_s() for _ in range(3))


def _fixed_program() -> list[tuple[str, int]]:
    """What programs in Python do: matches, new objects, a table, a sort."""
    table: dict[str, int] = {}
    for number, line in enumerate(_LINES):
        if found := _WORD.fullmatch(line):
            table.setdefault(found[2], number)
    return sorted(table.items())
