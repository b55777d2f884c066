"""Which URLs the last crash may be blamed on: those whose request was on the wire, and the one
whose page was just being stored.

A URL of another worker's partitions is for that one to judge, which may be running.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lycosa.attempts import Attempt, crashed_attempts, left_settling
from lycosa.urls.identity import host_of


def suspects(folder: Path, owns_host: Callable[[str], bool]) -> list[Attempt]:
    """From the attempt logs in ``folder``, before a new one is opened. ``owns_host`` says which
    hosts are this worker's.
    """
    return [
        attempt
        for attempt in crashed_attempts(folder, left_settling(folder))
        if owns_host(host_of(attempt.url))
    ]
