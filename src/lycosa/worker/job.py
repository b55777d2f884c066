"""What one worker is to do: one value, which the session makes, the node completes and a worker's
process is started with. A supervisor only hands it on, so this module imports no stage.
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
from lycosa.system.plugins import Plugins

if TYPE_CHECKING:  # the types of what only a worker holds
    from lycosa.worker.admission import UserRule
    from lycosa.worker.capture_builder import PageSink


class WorkerJob(msgspec.Struct, frozen=True):
    """What one worker is to do: which of a crawl's partitions it owns in this run, URLs whose
    places are in scope, its part of the memory where that is bounded (``config`` is fitted to it),
    crawl time minus monotonic time (see ``CrawlClock``), the address table of the machine if it is
    to be used.

    ``previous_end`` says which part the end of the previous owner points to, and ``is_careful``
    that the shard died again and again without a commit: for a minute its requests leave one at a
    time, each named in a commit before. ``held_until`` (monotonic) is set after an unclean
    takeover: no host is asked before it, because the previous owner may still be doing that.

    A worker in a process of its own is the ``process``-th of this worker in this run. It loads
    ``plugins`` by name, and where there are several workers, ``sockets`` are those of the exchange,
    by worker.
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
    plan: MemoryPlan | None = None
    time_base: float | None = None
    machine_table: Path | None = None
    previous_end: PreviousEnd = PreviousEnd.CRASH
    is_careful: bool = False
    held_until: float = 0.0
    process: int = 1
    plugins: Plugins = Plugins()
    sockets: tuple[Path, ...] = ()


class Extensions(msgspec.Struct, frozen=True):
    """The user's own code: rules that are asked about each URL, and sinks that get each capture."""

    rules: tuple[UserRule, ...] = ()
    sinks: tuple[PageSink, ...] = ()


encode_job = msgspec.msgpack.Encoder(enc_hook=str).encode
decode_job = msgspec.msgpack.Decoder(WorkerJob, dec_hook=lambda kind, value: kind(value)).decode
