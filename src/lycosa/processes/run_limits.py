"""The limits of a run that its process watches: its time, its end date, the size of its folder.

Limits on captures and bytes are held by permits instead (``worker.visit.permits``).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from math import inf
from pathlib import Path
from types import TracebackType

from lycosa.base.config.end_date import read_end_date
from lycosa.base.config.sections import LimitSection

_LOOK_S = 1.0  # between looks at the folder, or longer: a look takes a bounded share of the time
_LOOK_SHARE = 0.02
_LOOK_AT_CLOCK_S = 30.0


class RunLimits:
    """Calls ``on_limit`` once in the loop, within a ``with`` block, when a limit is reached."""

    def __init__(self, section: LimitSection, folder: Path, on_limit: Callable[[], None]) -> None:
        self._section, self._folder, self._on_limit = section, folder, on_limit
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self._ends_at = self._ends_on = inf

    def __repr__(self) -> str:
        return f"<RunLimits of {self._folder}>"

    def __enter__(self) -> RunLimits:
        loop = asyncio.get_running_loop()
        self._ends_at = loop.time() + (self._section.max_time_s or inf)
        # Once: a time of day would mean tomorrow as soon as it has come.
        self._ends_on = time.time() + _seconds_until(self._section)
        self._timer = loop.call_later(0.0, self._look_at_clock)
        if self._section.max_disk_bytes:
            self._looking = loop.create_task(self._watch_folder())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()

    def _look_at_clock(self) -> None:
        """Call when the time is over; look again before, as the machine may sleep until then.

        The loop's clock stands still while the machine sleeps, and the clock of the wall is set.
        """
        loop = asyncio.get_running_loop()
        left = min(self._ends_at - loop.time(), self._ends_on - time.time())
        if left <= 0:
            self._on_limit()
        elif left < inf:
            self._timer = loop.call_later(min(left, _LOOK_AT_CLOCK_S), self._look_at_clock)

    async def _watch_folder(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            if await asyncio.to_thread(folder_bytes, self._folder) >= self._section.max_disk_bytes:
                self._on_limit()
                return
            await asyncio.sleep(max(_LOOK_S, (loop.time() - begun) / _LOOK_SHARE))


def seconds_left(section: LimitSection) -> float:
    """Seconds until a run that starts now reaches a limit of its time; infinite without one."""
    return max(min(section.max_time_s or inf, _seconds_until(section)), 0.0)


def _seconds_until(section: LimitSection) -> float:
    """Seconds until the end date by the clock of the wall; infinite without one."""
    if not section.until:
        return inf
    now = datetime.now().astimezone()
    return (read_end_date(section.until, now) - now).total_seconds()


def lasting_limit(section: LimitSection, folder: Path, captures: int, received: int) -> str:
    """Which limit would end a further run at once; empty without one.

    ``captures`` and ``received`` (bytes of bodies) are those of the crawl so far. Looks at all
    files of the folder if their size is limited, which blocks.
    """
    if section.until and not seconds_left(LimitSection(until=section.until)):
        return f"limits.until = {section.until} is past"
    if 0 < section.max_pages <= captures:
        return f"limits.max_pages = {section.max_pages} is reached"
    if 0 < section.max_bytes <= received:
        return f"limits.max_bytes = {section.max_bytes} is reached"
    if 0 < section.max_disk_bytes <= folder_bytes(folder):
        return f"limits.max_disk_bytes = {section.max_disk_bytes} is reached"
    return ""


def folder_bytes(folder: Path) -> int:
    """Size of all files in a folder, in bytes. Files that vanish meanwhile do not count."""
    total, folders = 0, [folder]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(Path(entry.path))
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
    return total
