"""Counts the Python functions that a process calls, from its first import to its end.

It does so where this folder is on PYTHONPATH and PYTHON_CALL_COUNTS names a folder (a parse child
gets only variables with such names). It imports nothing of ours, so that the same file counts in
every checkout. ``bench.calls`` reads what it writes.

A function is counted each time its frame is entered, so a generator counts once for each value.
Each thread has two files of its own: NAME.functions, the command and one function a line, and
NAME.counts, a mapped file with a number for each line, which is complete even after SIGKILL. That
is how parse children end.

With PYTHON_CALL_COUNTS_PAUSE, a process sleeps a millisecond after so many calls: the same work
then takes longer, which shows how many calls go by time.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
import time
from itertools import count
from types import CodeType, FrameType
from typing import Any

_MOST_FUNCTIONS = 32_768
_PAUSE_S = 0.001
_numbers = count()


def _noting(folder: str, pause: int) -> Any:
    """A profile function for one thread."""
    path = f"{folder}/{os.getpid()}-{next(_numbers)}"
    names = os.open(f"{path}.functions", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
    os.write(names, (" ".join(sys.orig_argv).replace("\n", " ") + "\n").encode())
    file = os.open(f"{path}.counts", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
    os.ftruncate(file, 8 * _MOST_FUNCTIONS)
    counts = memoryview(mmap.mmap(file, 8 * _MOST_FUNCTIONS)).cast("Q")
    os.close(file)
    places: dict[CodeType, int] = {}
    calls = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        if event != "call":
            return
        code = frame.f_code
        place = places.get(code)
        if place is None:
            place = places[code] = len(places)
            line = f"{code.co_filename}:{getattr(code, 'co_qualname', code.co_name)}\n"
            os.write(names, line.encode())
        counts[place] += 1
        calls += 1
        if pause and not calls % pause:
            time.sleep(_PAUSE_S)

    return note


def _start(folder: str, pause: int) -> None:
    def join(frame: FrameType, event: str, argument: Any) -> None:
        note = _noting(folder, pause)
        sys.setprofile(note)
        note(frame, event, argument)

    threading.setprofile(join)
    sys.setprofile(_noting(folder, pause))


if folder := os.environ.get("PYTHON_CALL_COUNTS"):
    _start(folder, int(os.environ.get("PYTHON_CALL_COUNTS_PAUSE", "0")))
