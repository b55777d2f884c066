"""Waiting while the system has no process, thread or memory to give.

Such a shortage passes (a control group's ``pids.max``, a machine that is out of memory for some
seconds), so the work is tried again and the crawl does not end.
"""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 5.0
_PASSING = frozenset({errno.EAGAIN, errno.ENOMEM})
_NO_THREAD = "can't start new thread"  # CPython has no class for this error, only this text


def is_shortage(error: BaseException) -> bool:
    """Whether an error means that the system has no process, thread or memory to give."""
    if isinstance(error, OSError):
        return error.errno in _PASSING
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and _NO_THREAD in str(error)
    )


def pause_s(attempt: int) -> float:
    """Seconds to wait after ``attempt`` failures (from 1) before the next try."""
    return min(FIRST_PAUSE_S * 2.0 ** min(attempt - 1, 30), LONGEST_PAUSE_S)


async def in_thread(work: Callable[[], _T], on_wait: Callable[[], None] = lambda: None) -> _T:
    """The result of blocking work, run in a new thread, or its exception.

    While no thread can be started, waits and tries again; ``on_wait`` is called once then. An
    executor is not used, because it keeps submitted work when it cannot start a thread, so a second
    attempt could do the work twice.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def tell(result: _T | None, error: BaseException | None) -> None:
        if done.done():
            return  # the caller was cancelled
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # without an error there is a result

    def run() -> None:
        try:
            outcome: tuple[_T | None, BaseException | None] = (work(), None)
        except BaseException as error:  # raised again in the caller
            outcome = (None, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, *outcome)

    attempt = 0
    while True:
        try:
            threading.Thread(target=run, name="in-thread").start()
        except RuntimeError as error:
            # ``can't start new thread`` is a passing state of the machine; any other error is ours.
            if not is_shortage(error):
                raise
            attempt += 1
            if attempt == 1:
                on_wait()
            await asyncio.sleep(pause_s(attempt))
        else:
            return await done
