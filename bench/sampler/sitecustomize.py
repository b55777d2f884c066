"""Samples where a Python process spends CPU time, from its first import on.

It does so where this folder is on PYTHONPATH and PYTHON_STAGE_SAMPLES names a folder for the
samples (a parse child gets only variables with such names).

A timer of CPU time (setitimer(2), ITIMER_PROF) interrupts the process; each sample carries the CPU
time since the last one, told apart by thread, so the samples add up to what the process used and
waiting counts for nothing. Stacks are appended to a file several times a second, because the
processes that are measured here end without tidying up.

The signal's handler runs when a C function has returned, so that function's time goes to the line
that called it, as it should.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

_EVERY_S = 0.002
_FLUSH_NS = 100_000_000
_IDLE = ("threading.py", "concurrent/futures/thread.py", "queue.py")  # where threads of a pool wait


class _Sampler:
    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / f"{os.getpid()}.stacks"
        self._stacks: Counter[str] = Counter()
        self._main_ns = self._all_ns = 0
        self._flushed_ns = 0

    def sample(self, _: int, frame: FrameType | None) -> None:
        main_ns, all_ns = time.thread_time_ns(), time.process_time_ns()
        spent, others = main_ns - self._main_ns, (all_ns - self._all_ns) - (main_ns - self._main_ns)
        self._main_ns, self._all_ns = main_ns, all_ns
        self._stacks[_stack(frame)] += spent
        if others > 0:
            busy = self._busy_threads()
            for stack in busy or ["(threads-of-libraries)"]:
                self._stacks[stack] += others // max(len(busy), 1)
        if all_ns - self._flushed_ns > _FLUSH_NS:
            self._flushed_ns = all_ns
            self._flush()
        # What sampling itself took is nobody's time.
        self._main_ns, self._all_ns = time.thread_time_ns(), time.process_time_ns()

    @staticmethod
    def _busy_threads() -> list[str]:
        me = threading.get_ident()
        frames = [frame for ident, frame in sys._current_frames().items() if ident != me]
        return [_stack(frame) for frame in frames if not frame.f_code.co_filename.endswith(_IDLE)]

    def stop(self) -> None:
        """Before the interpreter takes itself apart, and with it the handler: the signal would
        kill the process then.
        """
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        self._flush()

    def _flush(self) -> None:
        # the next signal may come while these are written
        stacks, self._stacks = (
            self._stacks,
            Counter(),
        )
        with self._path.open("a") as file:
            file.writelines(f"{stack} {ns}\n" for stack, ns in stacks.items())


def _stack(frame: FrameType | None) -> str:
    """Frames from the outermost to the innermost, ``path:line:function`` each."""
    frames = []
    while frame is not None:
        code = frame.f_code
        frames.append(
            f"{code.co_filename}:{frame.f_lineno}:{code.co_name}".replace(" ", "_").replace(
                ";", "_"
            )
        )
        frame = frame.f_back
    return ";".join(reversed(frames))


if folder := os.environ.get("PYTHON_STAGE_SAMPLES"):
    sampler = _Sampler(folder)
    atexit.register(sampler.stop)
    signal.signal(signal.SIGPROF, sampler.sample)
    signal.siginterrupt(signal.SIGPROF, False)
    signal.setitimer(signal.ITIMER_PROF, _EVERY_S, _EVERY_S)
