"""Measures every step of every asyncio loop in the processes that a proof starts, when
``PROOF_STEPS`` names a folder.

A step is one callback, or a task from one await to the next; its cost is the processor time of the
loop's thread. uvloop does not tell where a step begins, so asyncio's own loop takes its place here:
the steps are the same. The longest of each process is kept in a file of its own, with what ran. A
worker's start, which opens its tables before there is a host to wait, is left out.
"""

from __future__ import annotations

import asyncio
import os
import time
from asyncio import events
from pathlib import Path
from typing import Any

_START = "WorkerProcess.run"
_FOLDER = os.environ.get("PROOF_STEPS", "")


def _name(callback: Any) -> str:
    task = getattr(callback, "__self__", None)
    coroutine: Any = task.get_coro() if isinstance(task, asyncio.Task) else None
    names = []
    while hasattr(coroutine, "cr_frame"):
        names.append(
            f"{coroutine.__qualname__}:{coroutine.cr_frame.f_lineno if coroutine.cr_frame else 'end'}"
        )
        coroutine = coroutine.cr_await
    return " > ".join(names) or repr(callback)[:200]


def _measure(folder: Path) -> None:
    run, longest = events.Handle._run, [0.0]

    def measured(handle: Any) -> None:
        callback, began = handle._callback, time.thread_time()
        run(handle)
        took = time.thread_time() - began
        if took > longest[0] and not (name := _name(callback)).startswith(_START):
            longest[0] = took
            (folder / str(os.getpid())).write_text(f"{took} {name}\n")

    events.Handle._run = measured  # type: ignore[method-assign]


if _FOLDER:
    import uvloop

    _measure(Path(_FOLDER))
    uvloop.run = asyncio.run
