"""``status.json``: the state of a running crawl about once a second.

``lycosa status`` (``inspect.crawl_status``) and other programs read it.
"""

from __future__ import annotations

import json
import os
import time
from datetime import datetime
from pathlib import Path

import msgspec

from lycosa.base.messages.progress import Progress, progress_values
from lycosa.base.system.durations import long_duration
from lycosa.base.system.memory_relief import ReliefStep
from lycosa.state.folder.names import status_path

_EVERY_S = 1.0
_AT_ONCE_S = 1.0  # maximum age of a report
_SOON_S = 120.0


class StatusFile:
    """The file is replaced as a whole by the supervisor, and deleted at the end of the run.

    ``sockets`` is the folder of sockets at which other programs call the crawl.
    """

    def __init__(self, folder: Path, sockets: Path | None = None) -> None:
        self._path, self._sockets = status_path(folder), str(sockets or "")
        self._next = 0.0

    def write(self, state: str, progress: Progress, workers: int, deaths: int) -> None:
        """Write the file, unless it was written a moment ago."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY_S
        rate = progress.meter.number("lycosa_captures_per_second", "minute")
        status = {
            "state": state,
            "updated": time.time(),
            "pid": os.getpid(),
            "sockets": self._sockets,
            "workers": workers,
            "deaths": deaths,
            "pages_per_s": round(rate, 2),
            "running": progress.running,
            "hosts": {
                "ready": progress.hosts_ready,
                "snoozed": progress.hosts_snoozed,
                "parked": progress.hosts_parked,
                "retired": progress.hosts_retired,
                "paused": progress.hosts_paused,
                "front": progress.hosts_front,
            },
            "memory": {
                "bound_bytes": progress.memory_bound,
                "held_bytes": progress.memory_bytes,
                "relief": progress.relief,
                "processes": msgspec.to_builtins(progress.memory),
            },
            "waiting_for": waiting_for(progress),
            "progress": progress_values(progress),
        }
        # Not synced, because the file is meaningless after a crash. The rename is for readers, who
        # would otherwise see half of it.
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps(status))
        temporary.replace(self._path)


def held_up_by(progress: Progress) -> str:
    """What keeps the whole crawl from requesting anything, in one line; empty if nothing does."""
    if progress.is_paused:
        return "an operator: the crawl is paused until it is resumed"
    if progress.lacks_room:
        return "free disk space (store.min_free_bytes); the crawl resumes when there is more"
    if progress.relief == ReliefStep.STOP.meaning and not progress.running:
        return "free memory (--memory); the crawl resumes when there is more"
    if progress.waits_for:
        return progress.waits_for
    if progress.parser.away_s:
        return (
            f"the parse child, which cannot be started ({progress.parser.away_why}); the crawl"
            " resumes when it can"
        )
    return ""


def waiting_for(progress: Progress) -> str:
    """One line on what the crawl waits for."""
    if progress.uploads is not None and progress.uploads.is_ending:
        return f"the upload of {progress.uploads.waiting_files:,} files to {progress.uploads.url}"
    if held_up := held_up_by(progress):
        return held_up
    if progress.running:
        return f"{progress.running} page{'s' if progress.running > 1 else ''} being fetched or read"
    if progress.undelivered:
        return progress.undelivered
    note = min(progress.slowest, key=lambda note: note.next_in_s, default=None)
    if (
        note is not None
        and progress.next_in_s >= 0
        and note.next_in_s <= progress.next_in_s + _AT_ONCE_S
    ):
        why = f" ({note.reason})" if note.reason else ""
        return f"{note.host}, ready {_in(note.next_in_s)}{why}"
    if progress.hosts_front:
        hosts = "1 host" if progress.hosts_front == 1 else f"{progress.hosts_front:,} hosts"
        return f"{hosts} in the front queues"
    if progress.next_in_s >= _SOON_S:
        at = datetime.fromtimestamp(time.time() + progress.next_in_s)
        return f"the next URL to be due, at {at:%Y-%m-%d %H:%M:%S} ({_in(progress.next_in_s)})"
    if progress.next_in_s >= 0:
        return f"a host or a retry that is due {_in(progress.next_in_s)}"
    return "nothing"


def _in(seconds: float) -> str:
    """``in 3 seconds``; less than one is not worth digits that change with each report."""
    return "in less than a second" if seconds < 1 else f"in {long_duration(round(seconds))}"
