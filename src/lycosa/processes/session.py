"""One run over a crawl folder, from lock to last commit.

The command line, the Python API and simulations use it.

    folder is a crawl or becomes one -> lock -> manifest agrees with the settings -> no committed
    data is missing -> settings saved -> recovery -> logs begun -> run counted

Up to the check of committed data nothing in a crawl's folder is changed. So after a refused start
the cause can be corrected and the same command repeated.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from lycosa.base.config.live_settings import with_live
from lycosa.base.config.sections import AddressTables, Config
from lycosa.base.config.sources import SettingsError
from lycosa.base.messages.control_records import SettingsSaved
from lycosa.base.model.earlier_sources import EarlierSources
from lycosa.base.model.recovered import Recovered
from lycosa.base.ports import Clock
from lycosa.base.system.clock import SystemClock
from lycosa.base.system.durable import replace_file
from lycosa.base.system.memory_plan import RECOVERY_BYTES, MemoryPlan, fitted, worker_count
from lycosa.base.system.plugins import active_plugins
from lycosa.base.system.software import SOFTWARE
from lycosa.base.urls.identity import partition_of
from lycosa.processes.earlier_crawls import (
    begin_push,
    check_archives,
    prepare_archives,
    told_at_start,
)
from lycosa.processes.folder_code import FolderCode
from lycosa.stages.fetch.headers import build_user_agent
from lycosa.stages.fetch.key_check import check_key
from lycosa.stages.frontier.crawl_clock import ahead_s, time_at_start
from lycosa.state.folder import manifest as manifests
from lycosa.state.folder.folder_notes import PauseNote, refuse_imported, save_pause
from lycosa.state.folder.live_changes import (
    LiveChange,
    in_force,
    noted_change,
    save_changes,
    saved_changes,
)
from lycosa.state.folder.lock import LOCK_PATIENCE_S, CrawlLock
from lycosa.state.folder.manifest import Manifest, identity_of
from lycosa.state.folder.names import (
    begin_logs,
    crawl_sites,
    keep_suffix_list,
    settings_path,
    spool_folder,
    status_path,
)
from lycosa.state.folder.seed_sources import load_sources
from lycosa.state.kv.kv_port import Opener, Reader
from lycosa.state.kv.read_only import table_reader
from lycosa.state.kv.rocks import rocks_opener
from lycosa.worker.job import RunCode, WorkerJob
from lycosa.worker.machine_table import NoMachineTable, machine_table

if TYPE_CHECKING:
    from lycosa.processes.index_push import IndexSender
    from lycosa.state.ranks.rank_sources import RankSource


class Session:
    """Locks a crawl folder for one run. Entering it blocks; use it as a context manager.

    A new crawl gets the ID ``crawl_id``, by default a random UUID. ``read_table`` reads tables that
    ``open_table`` opens. A run that never ``fetches`` needs no key and no extensions. Raises
    ``SettingsError`` for an extension that is not installed or not there, ``KeyFileError``,
    ``SecretError``, ``ManifestError``, ``CrawlInUse``, ``IdentityChanged``,
    ``CommittedDataMissing``, ``LogDamaged``, ``StoreDamaged``, ``TableLocked`` or ``OSError``.
    """

    def __init__(
        self,
        folder: Path,
        config: Config,
        open_table: Opener,
        clock: Clock,
        crawl_id: str = "",
        read_table: Reader | None = None,
        fetches: bool = True,
    ) -> None:
        self.folder = folder
        self.config = config
        self._open_table = open_table
        self._read_table = read_table or table_reader()
        self._clock = clock
        self._crawl_id = crawl_id
        self._lock = CrawlLock(folder)
        self._changes: dict[str, LiveChange] = {}
        self.machine_table: Path | None = None
        self._earlier = EarlierSources()
        self._push: IndexSender | None = None
        self.tell: Callable[[str], None] = lambda line: None
        """Gets lines for the operator, from any thread."""
        self.on_locked: Callable[[], None] = lambda: None
        """Called when the folder is locked, before anything else is written there."""
        if fetches:
            check_key(config.agent, config.requests)
            active_plugins(config.extensions)  # raises for what is not installed
            check_archives(folder, config.earlier)
        # What never fetches runs no code, whatever the folder's settings name.
        self._code = FolderCode(folder, config.extensions) if fetches else None
        if self._code is not None:
            self._code.check(config.extensions)
        self.ranks: RankSource | None = None
        """Ranks to go by from this run on."""
        self.code = RunCode()
        """The user code of this run."""
        self.user_agent = build_user_agent(
            config.agent.product, version("lycosa"), config.agent.page or config.agent.contact
        )

    def __enter__(self) -> Session:
        manifests.prepare_folder(self.folder)
        # The workers of a run that was killed end when they notice it.
        self._lock.take_lock(LOCK_PATIENCE_S)
        try:
            # That of a run that was killed names sockets at which no process answers.
            status_path(self.folder).unlink(missing_ok=True)
            self._begin()
        except BaseException:
            # also a cancellation: a program that continues must be able to start this crawl again
            self._lock.release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._push is not None:
            self._push.finish()
        status_path(self.folder).unlink(missing_ok=True)
        self._lock.release()

    def keep_steering(self, saved: SettingsSaved) -> str:
        """Let the next run begin with the live settings that were changed in this one, or paused.

        Returns the reason in words if that is not possible, else an empty text.
        """
        last = saved.actions[-1] if saved.actions else None
        try:
            if not saved.is_paused:  # first, because it needs no room on the disk
                save_pause(self.folder, None)
            elif last is not None and last.action == "pause_crawl":
                save_pause(self.folder, PauseNote(last.by, last.date_us, last.why))
            if last is not None and last.action == "set":
                who = last.by, last.date_us, last.why
                self._changes = noted_change(self._changes, self.config, saved.values, who)
                save_changes(self.folder, self._changes)
            self._save_settings(with_live(self.config, saved.values))
        except OSError as error:
            # the change is in force in this run; a full disk must not end the crawl
            return f"changed settings and a pause hold for this run only: {error}"
        return ""

    def _save_settings(self, config: Config) -> None:
        # what a machine allows is no setting of the crawl
        section = msgspec.structs.replace(config.extensions, allow=())
        config = msgspec.structs.replace(config, extensions=section)
        content = msgspec.json.format(msgspec.json.encode(config), indent=2)
        replace_file(settings_path(self.folder), content)

    def share_addresses(self) -> str:
        """Use the address table of the machine, if the settings say so.

        Returns the reason in words if that is not possible, else an empty text.
        """
        if self.config.politeness.address_table is AddressTables.CRAWL:
            return ""
        try:
            self.machine_table = machine_table(self.config.politeness)
        except NoMachineTable as error:
            return f"this crawl does not share address delays with others on this machine ({error})"
        return ""

    @property
    def uncompared(self) -> str:
        """What cannot be compared with earlier crawls, as a line, or an empty text."""
        return told_at_start(self.config.earlier, self._earlier)

    @property
    def lock_filenos(self) -> tuple[int, ...]:
        """The descriptors of the lock, for workers to inherit."""
        return self._lock.filenos()

    def job(self, number: int, owned: tuple[int, ...], plan: MemoryPlan | None = None) -> WorkerJob:
        """The job of one worker in this run.

        With a ``plan``, its settings are fitted to the memory.
        """
        return WorkerJob(
            self.folder,
            self.config if plan is None else fitted(self.config, plan),
            self.manifest,
            number,
            owned,
            SOFTWARE,
            self.user_agent,
            last_commit=self.recovered.last_commit,
            places=self.recovered.places,
            plan=plan,
            time_base=self.time_base,
            machine_table=self.machine_table,
            code=self.code,
            earlier=self._earlier,
            earlier_folder=self.folder,
        )

    def recover_worker(self, number: int, owned: Sequence[int]) -> Recovered:
        """Return one worker's part to its last commit after it died. Blocks."""
        from lycosa.state.folder.start_check import check_worker

        # Imported here, because it imports the stages, and few workers die.
        from lycosa.worker.commit.recovery import recover_worker

        check_worker(self.folder, number, owned, self.manifest.term, self._read_table)
        return recover_worker(self.folder, self.config, self._open_table, number, owned)

    def _begin(self) -> None:
        self.is_new = not manifests.has_manifest(self.folder)
        if self.is_new:
            self._lock.sign_lock(self._clock.wall())
            self.on_locked()
            keep_suffix_list(self.folder)
        frozen = "" if self.is_new else manifests.load_manifest(self.folder).identity.suffixes
        identity = identity_of(self.config, crawl_sites(self.folder, frozen))
        if self.is_new:
            manifest = manifests.create_crawl(
                self.folder, identity, SOFTWARE, self._clock.wall(), self._crawl_id
            )
        else:
            manifest = manifests.load_manifest(self.folder)
            refuse_imported(self.folder)
            manifests.check_identity(manifest, identity)
            self._check(manifest)
            self._lock.sign_lock(self._clock.wall())
            self.on_locked()  # not earlier, because a refused start changes no file
        if self.ranks is not None or self.config.priority.ranks:
            self._take_ranks()
        if self._code is not None:
            # Before the settings are saved: a file that is refused must not stay in them.
            self._earlier = prepare_archives(self.folder, self.config.earlier)
        taken = sum(source.seeds for source in load_sources(self.folder))
        self._save_settings(self.config)
        self._changes = in_force(saved_changes(self.folder), self.config)
        save_changes(self.folder, self._changes)
        shutil.rmtree(spool_folder(self.folder), ignore_errors=True)
        spool_folder(self.folder).mkdir()
        workers = worker_count(self.config)
        self.recovered = Recovered() if self.is_new else self._recover(workers)
        self._set_clock()
        begin_logs(self.folder, max(workers, manifest.workers))
        new_seeds = max(taken - manifest.seeds, 0)
        self.manifest: Manifest = manifests.begin_run(
            self.folder, manifest, SOFTWARE, self._clock.wall(), new_seeds, workers=workers
        )
        if self._code is not None:
            self._push = begin_push(self.folder, self.config.earlier, self._tell_now)
            last = self.recovered.settings
            version, term = last + 1 if last else 0, self.manifest.term
            self.code = self._code.keep(version, term, self._clock.wall())

    def _take_ranks(self) -> None:
        """Make the files of given ranks, or check that those of an earlier run are there."""
        # Imported here, because it imports numpy, and few crawls have ranks.
        from lycosa.state.objects.folder import FolderStore
        from lycosa.state.ranks.rank_results import RanksError
        from lycosa.state.ranks.rank_set import read_rank_set
        from lycosa.state.ranks.rank_sources import use_source

        sites = crawl_sites(self.folder, manifests.load_manifest(self.folder).identity.suffixes)
        number, section = self.config.frontier.partitions, self.config.priority
        try:
            if self.ranks is None:
                read_rank_set(FolderStore(str(self.folder), self.folder), section.ranks)
                return

            def owner_of(host: str) -> int:
                return partition_of(sites.site_of(host), number)

            digest = use_source(self.folder, number, owner_of, self.ranks)
        except RanksError as error:
            raise SettingsError([str(error)]) from error
        section = msgspec.structs.replace(section, ranks=digest)
        self.config = msgspec.structs.replace(self.config, priority=section)

    # Both modules are imported only for an existing crawl. They import numpy and the stages, which
    # takes a fifth of a second. A new crawl has nothing to check: ``manifests.prepare_folder``
    # admits only a folder with at most a lock, a suffix list and seeds.

    def _check(self, manifest: Manifest) -> None:
        from lycosa.state.folder.start_check import check_crawl

        check_crawl(self.folder, manifest, self.config.seen.urls, self._read_table)

    def _recover(self, workers: int) -> Recovered:
        from lycosa.worker.commit.recovery import recover_crawl

        return recover_crawl(self.folder, self.config, self._open_table, workers)

    def _tell_now(self, line: str) -> None:
        self.tell(line)  # which is set after the session has begun

    def _set_clock(self) -> None:
        """Let crawl time continue after the last commit, for any wall clock."""
        last_time, last_wall = self.recovered.latest
        wall, monotonic = self._clock.wall(), self._clock.monotonic()
        self.time_base = time_at_start(wall, last_wall, last_time) - monotonic
        self.clock_set_back_s = ahead_s(self.time_base + monotonic, wall)
        """Seconds by which the wall clock is behind the clock of an earlier run; 0 if it is not."""


def open_session(folder: Path, config: Config, fetches: bool = True) -> Session:
    """A run of a real crawl, or of one that never ``fetches``.

    Its tables are RocksDB's, with little memory, because before the workers start only the recovery
    reads them.
    """
    return Session(folder, config, rocks_opener(*RECOVERY_BYTES), SystemClock(), fetches=fetches)
