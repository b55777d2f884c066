"""Why a run ended: what worker, supervisor and their callers tell each other."""

from __future__ import annotations

from enum import Enum


class End(Enum):
    """Why a worker's run ended."""

    FINISHED = "finished"  # nothing is due within finish_wait
    LIMIT = "limit"  # a limit was reached
    STOPPED = "stopped"  # asked to stop
