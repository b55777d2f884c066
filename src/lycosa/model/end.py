"""How workers end: what worker, supervisor and their callers tell each other."""

from __future__ import annotations

from enum import Enum


class End(Enum):
    """Why a worker's run ended."""

    FINISHED = "finished"  # nothing is due within finish_wait
    LIMIT = "limit"  # a limit was reached
    STOPPED = "stopped"  # asked to stop


class PreviousEnd(Enum):
    """How the owner before this worker ended, as whoever starts the worker knows it: whether
    URLs are suspected for it.
    """

    CRASH = (  # by a signal or the memory bound, or unknown, on this machine: what was in flight
        "crash"
    )
    LOST = "lost"  # with its machine: only what a commit had named as being in flight
    ORDERLY = "orderly"  # planned, fenced, or after a commit whose outcome was not known: nothing
