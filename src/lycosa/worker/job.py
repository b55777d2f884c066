"""What one worker is to do. A value of its own, so that a supervisor, which only hands it on, imports no stage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lycosa.config.sections import Config
from lycosa.folder.manifest import Manifest
from lycosa.system.memory_plan import MemoryPlan

if TYPE_CHECKING:  # the types of what only a worker holds
    from lycosa.worker.admission import Rule
    from lycosa.worker.capturing import PageSink


class Job(msgspec.Struct, frozen=True):
    """What one worker is to do: which of a crawl's partitions it owns in this run, URLs whose places are in scope, the user's own rules,
    its part of the memory where that is bounded (``config`` is fitted to it), crawl time minus monotonic time (see
    ``CrawlClock``), the address table of the machine if it is to be used."""

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
