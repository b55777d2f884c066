"""Inputs of the corpus made longer: what they cost must grow with their length, and not with its
square.

Sixty-four kilobytes are too short to tell. Only the processor time is judged here; promises about
content were judged already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from fuzz.judging import CPU_S, MAX_BYTES


def stretched(data: bytes, size: int) -> Iterator[bytes]:
    """Two longer inputs: the whole again and again, and some bytes of its middle again and
    again.
    """
    middle = len(data) // 2
    yield (data * (size // len(data) + 1))[:size]
    for width in (3, 30):
        piece = data[middle : middle + width]
        yield data[:middle] + piece * (size // len(piece)) + data[middle:]


def slow(
    check: Callable[[bytes], None],
    inputs: Iterable[bytes],
    size: int,
    minutes: float,
    clock: Callable[[], float] = time.process_time,
) -> tuple[int, list[tuple[float, bytes]]]:
    """How many were tried, and those that cost more than their length allows, with the seconds.
    ``clock`` counts processor time.
    """
    allowed_s = CPU_S * size / MAX_BYTES
    ends, tried, found = time.monotonic() + minutes * 60, 0, list[tuple[float, bytes]]()
    for data in inputs:
        for longer in stretched(data, size) if data else ():
            began = clock()
            with suppress(Exception):  # a promise for inputs of the usual length
                check(longer)
            tried += 1
            if (spent := clock() - began) > allowed_s:
                found.append((spent, longer))
        if time.monotonic() > ends:
            break
    return tried, found
