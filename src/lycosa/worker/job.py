"""The job of one worker.

It is one value: the session makes it, the node completes it, and a worker process is started with
it. A supervisor only passes it on, so this module imports no stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from lycosa.base.config.sections import Config, StoreSection
from lycosa.base.model.code_version import CodeVersion
from lycosa.base.model.compatibility import FIRST_FORMATS, LATE_FIELDS, PROTOCOL
from lycosa.base.model.earlier_sources import EarlierSources
from lycosa.base.model.end import PreviousEnd
from lycosa.base.system.code_file import FILE, PACKAGE
from lycosa.base.system.memory_plan import MemoryPlan
from lycosa.base.system.plugins import Plugins
from lycosa.state.folder.manifest import Manifest

_CAREFUL_S = 60.0


class ClusterJob(msgspec.Struct, frozen=True):
    """What only a worker of a cluster is given.

    ``file`` is the ``cluster.toml`` from which the worker itself reads the addresses of the
    services, so that no secret is passed on. ``assignment`` is the number under which the
    coordinator gave the shard to this node, ``listen`` the host on which other workers reach this
    one. ``previous_term`` is the term of this node's last process of the shard (-1: there was
    none), and ``previous_crashed`` says that the node saw that process end by a signal.
    ``owner_folder`` is new and empty: the tables of this process. The worker writes no format that
    is newer than ``formats``, those in force (``model.compatibility``).
    """

    file: Path
    assignment: int
    listen: str
    owner_folder: Path
    previous_term: int = -1
    previous_crashed: bool = False
    formats: int = FIRST_FORMATS


class RunCode(msgspec.Struct, frozen=True):
    """The user code of a worker.

    The crawl runs ``code``. Copies of it are in ``folder``, named by their digests. Only code of
    the digests ``allowed`` is run, whatever the crawl and the folder have.
    """

    code: dict[str, CodeVersion] = {}
    folder: Path = Path()
    allowed: tuple[str, ...] = ()

    def copy_of(self, digest: str) -> Path | None:
        """The copy to run, if there is one and it is allowed. Blocks for a moment."""
        if digest not in self.allowed:
            return None
        copies = (self.folder / f"{digest}{suffix}" for suffix in (FILE, PACKAGE))
        return next((path for path in copies if path.is_file()), None)


class WorkerJob(msgspec.Struct, frozen=True):
    """The job of one worker: its partitions (``owned``) and everything that it starts from.

    ``places`` are URLs whose places are in scope. ``plan`` is the worker's part of the memory,
    where that is bounded; ``config`` is fitted to it. ``time_base`` is crawl time minus monotonic
    time (see ``CrawlClock``). ``machine_table`` is the address table of the machine, if it is to be
    used.

    ``previous_end`` says how the previous owner ended. ``is_careful`` says that the shard's workers
    died repeatedly without a commit: for a minute requests are sent one at a time, each named in a
    commit before. ``held_until`` (monotonic) is set after an unclean takeover: no host is requested
    before it, because the previous owner may still be sending requests.

    A worker in a separate process is the ``process``-th of this worker in this run. It loads
    ``plugins`` by name. ``sockets`` are the sockets of the exchange, by worker, where
    there are several workers or callers. ``cluster`` is set for a worker of a cluster, whose shard
    is in Kafka and object storage. ``code`` is the user code that it runs. ``earlier`` are the
    earlier crawls whose bodies are not stored again; their indexes are below ``earlier_folder``.
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
    cluster: ClusterJob | None = None
    code: RunCode = RunCode()
    earlier: EarlierSources = EarlierSources()
    earlier_folder: Path = Path()

    @property
    def formats(self) -> int:
        """The formats that the worker writes (``model.compatibility``).

        The programs of a crawl on one machine are of one version, so it writes the newest there.
        """
        return self.cluster.formats if self.cluster is not None else PROTOCOL

    @property
    def store(self) -> StoreSection:
        """The settings of the output files, without content where formats in force lack it."""
        section = self.config.store
        if section.content and self.formats < LATE_FIELDS:
            return msgspec.structs.replace(section, content=False)
        return section

    def careful_until(self, now: float) -> float:
        """The end (monotonic) of a careful start, 0 for an ordinary one.

        A start is careful when the shard's workers died repeatedly without a commit.
        """
        return max(now, self.held_until) + _CAREFUL_S if self.is_careful else 0.0


encode_job = msgspec.msgpack.Encoder(enc_hook=str).encode
decode_job = msgspec.msgpack.Decoder(WorkerJob, dec_hook=lambda kind, value: kind(value)).decode
