"""How a worker's run ended, and how the previous owner of its shard ended."""

from __future__ import annotations

from enum import Enum


class End(Enum):
    """Why a worker's run ended."""

    FINISHED = "finished"  # nothing is due within finish_wait
    LIMIT = "limit"  # a limit was reached
    STOPPED = "stopped"  # by the operator or the program


class PreviousEnd(Enum):
    """How the previous owner ended, as far as is known when a worker starts.

    It decides which URLs are suspected.
    """

    CRASH = (  # by a signal or the memory bound, or unknown, on this machine: what was in flight
        "crash"
    )
    LOST = "lost"  # with its machine: only URLs that a commit names as in flight are suspected
    ORDERLY = "orderly"  # planned, fenced, or after a commit whose outcome was not known: nothing
