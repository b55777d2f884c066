"""Named points of a worker at which a test can make it crash."""

from __future__ import annotations

from typing import Protocol


class FaultPoint(Protocol):
    """Called at named points, so that a test can crash there. In ordinary runs it does nothing."""

    def __call__(self, point: str) -> None: ...
