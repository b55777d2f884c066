"""Keeps a process running that the crawl can do without: started again when it ends or is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from lycosa.base.system.kept_tasks import error_line

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_STEADY_S = 60.0  # a process that lived so long is started again at once


async def keep_running(
    name: str, run_once: Callable[[], Awaitable[str]], tell: Callable[[str], None]
) -> None:
    """Run the process again and again, until this is cancelled.

    ``run_once`` runs one process to its end and says how it ended; it ends the process when it is
    cancelled. ``name`` is what ``tell`` calls it.
    """
    loop, pause_s = asyncio.get_running_loop(), 0.0
    while True:
        began = loop.time()
        try:
            why = await run_once()
        except OSError as error:  # the system has no process or memory to give
            why = f"cannot be started: {error.strerror or error}"
        except Exception as error:  # a bug must not leave the crawl without the process
            why = f"cannot be kept: {error_line(error)}"
        if loop.time() - began >= _STEADY_S:
            pause_s = 0.0
        tell(f"{name} {why}; it is started again, and the crawl continues")
        pause_s = min(max(2 * pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        await asyncio.sleep(pause_s)


def how_it_ended(code: int) -> str:
    """The end of a process by its return code, for people."""
    return f"died by signal {-code}" if code < 0 else f"ended with code {code}"
