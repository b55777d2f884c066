"""What one worker is to do. A value of its own, so that a supervisor, which only hands it on,
imports no stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lycosa.config.sections import Config
from lycosa.folder.manifest import Manifest
from lycosa.model.end import PreviousEnd
from lycosa.system.memory_plan import MemoryPlan

if TYPE_CHECKING:  # the types of what only a worker holds
    from lycosa.worker.admission import Rule
    from lycosa.worker.capturing import PageSink


class Job(msgspec.Struct, frozen=True):
    """What one worker is to do: which of a crawl's partitions it owns in this run, URLs whose
    places are in scope, the user's own rules, its part of the memory where that is bounded
    (``config`` is fitted to it), crawl time minus monotonic time (see ``CrawlClock``), the address
    table of the machine if it is to be used.

    ``previous_end`` says whom the end of the owner before this one accuses, and ``is_careful`` that
    the shard died again and again without a commit: for a minute its requests leave one at a time,
    each named in a commit before. ``held_until`` (monotonic) is set after an unclean takeover: no
    host is asked before it, because the owner before this one may still be doing that.
    """

    folder: Path
    config: Config
    manifest: Manifest
    number: int
    owned: Sequence[int]
    software: str
    user_agent: str
    last_commit: float = 0.0
    places: Sequence[str] = ()
    rules: tuple[Rule, ...] = ()
    sinks: tuple[PageSink, ...] = ()
    plan: MemoryPlan | None = None
    time_base: float | None = None
    machine_table: Path | None = None
    previous_end: PreviousEnd = PreviousEnd.CRASH
    is_careful: bool = False
    held_until: float = 0.0
