"""One run over a crawl folder, from lock to last commit: what the command line, the Python API and simulations share.

folder is a crawl or becomes one -> lock -> manifest agrees with the settings -> settings saved -> recovery -> run counted
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from types import TracebackType

import msgspec

from lycosa import machine
from lycosa import manifest as manifests
from lycosa.assembly import Job, identity_of
from lycosa.config import Config
from lycosa.config_sources import SettingsError
from lycosa.durable import replace_file
from lycosa.fetch.headers import build_user_agent
from lycosa.folder import crawl_sites, settings_path, spool_folder, status_path, suffix_list
from lycosa.kv.port import Opener
from lycosa.lock import CrawlLock
from lycosa.manifest import Manifest
from lycosa.memory_plan import MemoryPlan, TooLittleMemory, plan_memory
from lycosa.ports import Clock
from lycosa.recovery import Recovered, recover_crawl, recover_worker
from lycosa.url import BUNDLED_LIST
from lycosa.wire import UNREADABLE

SOFTWARE = f"lycosa/{version('lycosa')}"


def saved_settings(folder: Path) -> Config | None:
    """The settings of the folder's last run, or ``None`` when it is not a crawl yet. Raises ``ManifestError``."""
    if not manifests.exists(folder):
        return None
    manifests.load(folder)
    try:
        return msgspec.json.decode(settings_path(folder).read_bytes(), type=Config)
    except FileNotFoundError:
        return None
    except UNREADABLE as error:
        what = f"{settings_path(folder)} cannot be read ({error}); restore it, or delete it and give the settings again"
        raise manifests.DamagedManifest(what) from error


def worker_count(config: Config) -> int:
    """How many workers a run has: as the settings say, or one per core, and never more than there are partitions."""
    return min(config.workers or machine.cores(), config.frontier.partitions)


def memory_plan(config: Config) -> MemoryPlan:
    """How the memory of a run is dealt out on this machine. Raises ``SettingsError`` when it is too little."""
    try:
        return plan_memory(config, worker_count(config), machine.memory_bytes())
    except TooLittleMemory as error:
        raise SettingsError([str(error)]) from error


class Session:
    """Holds the lock of a crawl folder for one run. ``open`` blocks; use it as a context manager.

    A crawl that is new is called ``crawl_id``, a UUID that is drawn unless given.

    Raises ``ManifestError``, ``CrawlInUse``, ``IdentityChanged``, ``LogDamaged``, ``StoreDamaged``, ``StoreLocked`` or ``OSError``.
    """

    def __init__(self, folder: Path, config: Config, open_table: Opener, clock: Clock, crawl_id: str = "") -> None:
        self.folder = folder
        self.config = config
        self._open_table = open_table
        self._clock = clock
        self._crawl_id = crawl_id
        self._lock = CrawlLock(folder)
        self.user_agent = build_user_agent(config.agent.product, version("lycosa"), config.agent.contact)

    def __enter__(self) -> Session:
        manifests.prepare(self.folder)
        self._lock.acquire(self._clock.wall())
        try:
            self._begin()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        status_path(self.folder).unlink(missing_ok=True)
        self._lock.release()

    @property
    def lock_fileno(self) -> int:
        """The lock's descriptor, for workers to inherit."""
        return self._lock.fileno()

    def job(self, number: int, owned: tuple[int, ...]) -> Job:
        """The work of one worker in this run."""
        return Job(
            self.folder,
            self.config,
            self.manifest,
            number,
            owned,
            SOFTWARE,
            self.user_agent,
            last_commit=self.recovered.last_commit,
            places=self.recovered.places,
        )

    def recover_worker(self, number: int, owned: Sequence[int]) -> Recovered:
        """Brings one worker's part to its last commit, after it died. Blocks."""
        return recover_worker(self.folder, self.config, self._open_table, number, owned, self.manifest.runs)

    def _begin(self) -> None:
        self.is_new = not manifests.exists(self.folder)
        if self.is_new and not suffix_list(self.folder).exists():
            replace_file(suffix_list(self.folder), BUNDLED_LIST.read_bytes())
        frozen = "" if self.is_new else manifests.load(self.folder).identity.suffixes
        identity = identity_of(self.config, crawl_sites(self.folder, frozen))
        if self.is_new:
            manifest = manifests.create(self.folder, identity, SOFTWARE, self._clock.wall(), self._crawl_id)
        else:
            manifest = manifests.load(self.folder)
            manifests.check_identity(manifest, identity)
        replace_file(settings_path(self.folder), msgspec.json.format(msgspec.json.encode(self.config), indent=2))
        shutil.rmtree(spool_folder(self.folder), ignore_errors=True)
        spool_folder(self.folder).mkdir()
        self.recovered: Recovered = recover_crawl(self.folder, self.config, self._open_table, worker_count(self.config))
        self.manifest: Manifest = manifests.begin_run(self.folder, manifest, SOFTWARE, self._clock.wall())
