"""Tasks that no other one awaits. Each is kept until it ends, and its error is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class KeptTasks:
    """Tasks of one part. ``on_error`` gets the error of a task that ends with one.

    asyncio holds tasks weakly, and reports an error that was not retrieved when the task is
    collected, where no operator sees it.
    """

    def __init__(self, on_error: Callable[[BaseException], None]) -> None:
        self._on_error = on_error
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the work as a task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def wait(self) -> None:
        """Wait until all have ended, also those that begin meanwhile."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def cancel(self) -> None:
        """Cancel all, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_error(error)


def error_line(error: BaseException) -> str:
    """An error as a part of a line for an operator."""
    return f"{type(error).__name__}: {error}"
