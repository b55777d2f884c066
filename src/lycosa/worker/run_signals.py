"""Signals from the parts of a worker to its loop: there may be work, or the run should end.

The value is made before all parts. Each part that has something to say is given it, so no part
needs the worker itself.
"""

from __future__ import annotations

import asyncio

from lycosa.base.model.end import End


class RunSignals:
    """One per worker. The loop reads it at each step."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        """Set when something has happened since the loop's last step."""
        self.end: End | None = None
        """Why the run should end; ``None`` while it should continue."""
        self.failure: BaseException | None = None

    def wake(self) -> None:
        """Let the loop look for work again."""
        self.news.set()

    def stop(self, end: End = End.STOPPED) -> None:
        """Let the loop start no new visit, and end when all visits have ended."""
        self.end = self.end or end
        self.news.set()

    def fail(self, error: BaseException) -> None:
        """Let the loop raise ``error``, unless another part failed before."""
        self.failure = self.failure or error
        self.news.set()
