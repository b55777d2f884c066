"""A worker's shard over Kafka and object storage, opened from any state in which it was left.

    claim of the log -> parts that no commit names are deleted -> the table from the newest snapshot
    -> later commits applied -> the job completed by what the claim found

It blocks and belongs on another thread. Waiting for Kafka or the store has no limit: ``WaitBoard``
says what is waited for, and ``break_off`` ends it.

The owner's lease counts from the moment before the claim, and the hold of hosts from the moment
after it (``previous_owner``).
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from lycosa.base.config.cluster_file import ClusterFile, read_cluster_file
from lycosa.base.config.sections import PolitenessSection
from lycosa.base.config.sources import SettingsError
from lycosa.base.config.units import show_mb
from lycosa.base.model.recovered import Recovered
from lycosa.base.ports import Clock
from lycosa.cluster.kafka.kafka_clients import KafkaClient, KafkaSettings
from lycosa.cluster.kafka.kafka_log import KafkaLog
from lycosa.cluster.kafka.topics import Topics, crawl_topics
from lycosa.stages.frontier.crawl_clock import time_after_takeover
from lycosa.stages.politeness.address_pool import divided
from lycosa.state.attempts import boot_id
from lycosa.state.commit import Claim, LogTrimmed, OutcomeUnknown, RolledBack
from lycosa.state.folder.manifest import MANIFEST_NAME, decoded_manifest
from lycosa.state.kv.kv_port import Opener
from lycosa.state.objects.generation import placed_objects
from lycosa.state.objects.object_errors import ObjectMissing
from lycosa.state.objects.patient import PatientStore
from lycosa.state.objects.store_opening import open_store
from lycosa.state.shard.folder_snapshots import DEFAULT_DELTA, FolderSnapshots
from lycosa.state.shard.object_snapshots import ObjectSnapshots
from lycosa.state.shard.opened_shard import CLUSTER_LIMIT, Shard, ShardStorage, open_shard
from lycosa.state.store.foreign_records import ForeignRecords
from lycosa.state.store.object_segments import ObjectSegments
from lycosa.state.store.segments_port import NotStored
from lycosa.worker.commit.previous_owner import end_of_previous, held_until
from lycosa.worker.job import ClusterJob, WorkerJob

_AGAIN_S = 1.0


class ClusterServices(msgspec.Struct, frozen=True):
    """The services of a cluster as one worker uses them."""

    given: ClusterFile
    client: KafkaClient
    topics: Topics
    store: PatientStore
    waits: WaitBoard
    foreign: ForeignRecords

    @property
    def is_waiting(self) -> bool:
        """Whether Kafka or the store does not answer at the moment."""
        return self.waits.is_waiting("log", "objects")


class OpenedShard(msgspec.Struct, frozen=True):
    """An open shard, and the job completed by what the claim found.

    ``began`` is the moment (monotonic) before the claim, from which the lease counts.
    """

    shard: Shard
    job: WorkerJob
    began: float


def cluster_services(file: Path, generation: str) -> ClusterServices:
    """The services that ``cluster.toml`` names, with the topics and keys of a generation.

    Nothing is asked of them yet. Raises ``SettingsError``, ``OSError`` or ``StoreUnusable``.
    """
    given = read_cluster_file(file)
    if not given.objects:
        raise SettingsError([f"{file}: objects.url: needed, the URL of the object storage"])
    kafka, waits = given.kafka, WaitBoard()
    store = placed_objects(open_store(given.objects), generation)
    return ClusterServices(
        given,
        KafkaClient(KafkaSettings(kafka.addresses, kafka.security)),
        crawl_topics(given, generation),
        PatientStore(store, waits.teller("objects")),
        waits,
        ForeignRecords(store),
    )


class ShardOpening:
    """Opens the shard of a job. ``run`` blocks; the other methods are for other threads."""

    def __init__(
        self, job: WorkerJob, services: ClusterServices, open_table: Opener, clock: Clock
    ) -> None:
        assert job.cluster is not None, "the job is of a worker of a cluster"
        self._job, self._cluster = job, job.cluster
        self._services, self._open_table, self._clock = services, open_table, clock
        self._ended = threading.Event()
        self._log: KafkaLog | None = None
        self._claimed = -1.0

    @property
    def is_claimed(self) -> bool:
        """Whether the shard is this owner's already."""
        return self._claimed >= 0

    def break_off(self) -> None:
        """End ``run`` with an error, whatever it waits for."""
        # The event first: `_open` looks at it after it made the log, and the log may not exist yet
        # here.
        self._ended.set()
        self._services.store.end_patience()
        if self._log is not None:
            self._log.close()

    def run(self) -> OpenedShard:
        """Open the shard; repeat it if a commit was rolled back, a snapshot not stored, or the log
        trimmed by its previous owner meanwhile.

        Raises ``Fenced``, ``OutcomeUnknown``, ``LogDamaged``, ``StoreDamaged``,
        ``SnapshotUnusable``, ``SettingsError``, ``ManifestError``, ``ObjectError`` or ``OSError``.
        """
        while True:
            try:
                opened = self._open()
            except (RolledBack, NotStored, LogTrimmed) as error:
                # None of these means damage, and a new claim reads the log and the snapshots once
                # more.
                self._services.waits.opening = str(error)
                # A wait on the event and not a sleep: `break_off` must end it at once.
                if self._ended.wait(_AGAIN_S):
                    raise
            else:
                # From now on errors of the store reach the committer, which retries while the loop
                # runs.
                self._services.store.end_patience()
                self._services.waits.opening = ""
                # Only after success: until then their files save the download of the same snapshot.
                for folder in earlier_folders(self._cluster):
                    shutil.rmtree(folder, ignore_errors=True)
                return opened

    def _open(self) -> OpenedShard:
        cluster, services, number = self._cluster, self._services, self._job.number
        folder, store = cluster.owner_folder, services.store
        # Before the claim: a node with the settings of another crawl must not fence the present
        # owner.
        self._check_store()
        shutil.rmtree(folder, ignore_errors=True)  # of a try before this one
        folder.mkdir(parents=True)
        log = self._log = KafkaLog(
            services.client,
            services.topics,
            self._job.manifest.crawl,
            number,
            cluster.assignment,
            services.waits.teller("log"),
            services.foreign.note,
        )
        # `break_off` may have run before the log was there to be closed.
        if self._ended.is_set():
            raise OutcomeUnknown(f"opening shard {number} was broken off")
        plan = self._job.plan
        delta = plan.delta if plan else DEFAULT_DELTA
        local = FolderSnapshots(
            folder,
            self._job.config,
            self._open_table,
            self._job.owned,
            delta,
            earlier_folders(cluster),
        )
        snapshots = ObjectSnapshots(store, number, log, local, told=self._tell_snapshot)
        segments = ObjectSegments(store, number, folder / "segments")
        services.waits.opening = f"the claim of shard {number}"
        # Other workers count this lease from when the log accepts the claim, which is later.
        began = self._clock.monotonic()
        storage = ShardStorage(
            log,
            segments,
            snapshots,
            CLUSTER_LIMIT,
            on_claim=self._note_claim,
            saves_in_background=True,
            cold=store,
        )
        shard, recovered = open_shard(number, self._job.owned, storage)
        return OpenedShard(shard, self._completed(shard, recovered), began)

    def _check_store(self) -> None:
        """Raise ``SettingsError`` when ``cluster.toml`` names another crawl since the node read it.

        Otherwise this shard would continue with the snapshots and segments of another place.
        """
        services, crawl = self._services, self._job.manifest.crawl
        where = f"{services.given.path}: objects.url = {services.given.objects}"
        services.waits.opening = f"object storage, {services.given.objects}"
        try:
            found = decoded_manifest(MANIFEST_NAME, services.store.get(MANIFEST_NAME)).crawl
        except ObjectMissing as error:
            # The node started with a crawl, so an empty place is a changed setting and no new
            # crawl.
            raise SettingsError([f"{where} has no crawl, and this node runs {crawl}"]) from error
        if found != crawl:
            raise SettingsError([f"{where} has the crawl {found}, and this node runs {crawl}"])

    def _note_claim(self, claim: Claim) -> None:
        self._claimed = self._clock.monotonic()
        self._services.waits.opening = (
            f"shard {self._job.number}, which is brought to its last commit"
        )

    def _tell_snapshot(self, done: int, total: int) -> None:
        if not self._services.store.is_patient:
            return  # the worker runs and does not wait for its snapshot
        size = f"{show_mb(done)} of {show_mb(total)}"
        self._services.waits.opening = f"a snapshot of shard {self._job.number}: {size}"

    def _completed(self, shard: Shard, recovered: Recovered) -> WorkerJob:
        """The job, completed by what the claim found."""
        clock, config = self._clock, self._job.config
        previous = end_of_previous(shard, self._cluster)
        time, wall = recovered.latest
        return msgspec.structs.replace(
            self._job,
            config=msgspec.structs.replace(config, politeness=self._politeness()),
            last_commit=recovered.last_commit,
            time_base=time_after_takeover(clock.wall(), wall, time) - clock.monotonic(),
            held_until=held_until(
                self._job.folder,
                shard.term,
                previous,
                self._claimed,
                config.fetch.total_s,
                boot_id(),
            ),
            previous_end=previous,
        )

    def _politeness(self) -> PolitenessSection:
        """The limits of IP addresses for this machine alone, or for all that share a pool."""
        section, given = self._job.config.politeness, self._services.given
        return section if given.redis is not None else divided(section, given.nodes)


def earlier_folders(cluster: ClusterJob) -> Sequence[Path]:
    """The folders of earlier owners of the shard on this node, whose processes are dead."""
    own = cluster.owner_folder
    pattern = f"{own.name.rpartition('-')[0]}-*"
    return [path for path in sorted(own.parent.glob(pattern)) if path != own]


# External services that a worker is waiting for: the log, the inbox, object storage.
#
# The parts learn it from their clients, on any thread, and report when they wait no longer. Only a
# part that waits at the moment has a text, so the display never shows a reason that has passed.


class WaitBoard:
    """One per worker."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self.opening = ""
        """How far the opening of the shard is; empty when it is open."""

    def teller(self, part: str) -> Callable[[str], None]:
        """A function that takes what ``part`` waits for; an empty text ends the wait."""

        def tell(text: str) -> None:
            self._texts[part] = text

        return tell

    @property
    def text(self) -> str:
        """What the worker waits for; empty when it waits for nothing."""
        return "; ".join(dict.fromkeys(filter(None, [*self._texts.values()]))) or self.opening

    def is_waiting(self, *parts: str) -> bool:
        """Whether one of these parts waits."""
        return any(self._texts.get(part) for part in parts)
