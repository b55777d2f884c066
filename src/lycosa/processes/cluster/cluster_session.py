"""What a node of a cluster has before its first worker starts: the crawl's identity and settings
from object storage, a locked local folder, and the division of the machine's memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import msgspec

from lycosa.base.config.cluster_file import ClusterFile
from lycosa.base.config.sections import AddressTables, Config
from lycosa.base.config.sources import SettingsError
from lycosa.base.model.compatibility import FIRST_FORMATS
from lycosa.base.system.memory_plan import (
    MemoryPlan,
    TooLittleMemory,
    fitted,
    most_workers,
    node_config,
    plan_memory,
)
from lycosa.base.system.plugins import active_plugins, inactive_lines, installed_extensions
from lycosa.base.system.software import SOFTWARE
from lycosa.cluster.shards.stored_crawl import StoredCrawl
from lycosa.processes.cluster.node_folder import NodeFolder
from lycosa.processes.earlier_crawls import prepare_archives, told_at_start
from lycosa.stages.fetch.headers import build_user_agent
from lycosa.stages.fetch.key_check import check_key
from lycosa.state.attempts.shipping import ship_left_files
from lycosa.state.folder.manifest import ManifestError
from lycosa.state.folder.names import attempts_folder
from lycosa.state.objects.generation import placed_objects
from lycosa.state.objects.object_errors import ObjectError
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.objects.store_opening import open_store
from lycosa.worker.job import ClusterJob, RunCode, WorkerJob
from lycosa.worker.machine_table import NoMachineTable, machine_table


class NodeMemory:
    """The memory of a node, divided among as many workers as it has shards.

    A node has room for as many shards as fit with the minimum for each, so that it can take those
    of lost nodes. But memory is divided by the shards that it will have when one node is missing;
    only a node with still more shards gives each new worker less. ``most_shards`` is the operator's
    bound (0 = none), ``nodes`` the maximum number of nodes. Raises ``SettingsError`` when the
    memory is too little.
    """

    def __init__(
        self, config: Config, shards: int, nodes: int, machine_bytes: int, most_shards: int = 0
    ) -> None:
        room = most_shards or max(most_workers(config, machine_bytes), 1)
        self.most = min(shards, room)
        self.expected = min(self.most, math.ceil(shards / max(nodes - 1, 1)))
        self._config, self._machine_bytes = config, machine_bytes
        try:
            self.total = self._divided(self.most).total
        except TooLittleMemory as error:
            raise SettingsError([str(error)]) from error
        self._config = msgspec.structs.replace(config, memory_bytes=self.total)

    def plan(self, workers: int) -> MemoryPlan:
        """The plan of one of ``workers`` workers, at most ``most``."""
        return self._divided(max(workers, self.expected))

    def _divided(self, workers: int) -> MemoryPlan:
        return plan_memory(node_config(self._config, workers), workers, self._machine_bytes)


class ClusterSession:
    """One run of a node's program: what its workers' jobs are made of.

    ``folder`` is locked for it, ``listen`` the host on which its workers listen. ``read_again``
    reads the crawl as ``shards.stored_crawl.read_crawl`` does, and blocks.
    Raises ``KeyFileError`` when requests are to be signed and cannot be, and ``SettingsError`` when
    the crawl names an extension that is not installed here, or an earlier crawl that is not.
    """

    def __init__(
        self,
        given: ClusterFile,
        crawl: StoredCrawl,
        folder: NodeFolder,
        memory: NodeMemory,
        listen: str,
        show_note: Callable[[str], None],
        read_again: Callable[[], StoredCrawl],
    ) -> None:
        self.given, self.folder, self.memory = given, folder, memory
        self._crawl, self.listen = crawl, listen
        self._generation = crawl.manifest.generation
        self.formats = FIRST_FORMATS
        """The formats in force, as the coordinator told last."""
        self.code = RunCode()
        """The user code of workers that start from now on."""
        self._show_note, self._read_again = show_note, read_again
        agent = crawl.config.agent
        check_key(agent, crawl.config.requests)
        self._user_agent = build_user_agent(
            agent.product, version("lycosa"), agent.page or agent.contact
        )
        section, installed = crawl.config.extensions, installed_extensions()
        self._plugins = active_plugins(section, installed)
        for line in inactive_lines(section, installed):
            show_note(line)
        self._table = self._address_table(show_note)
        # Each node has the archives, or their indexes, at these places itself.
        self._earlier = prepare_archives(folder.path, crawl.config.earlier)
        if uncompared := told_at_start(crawl.config.earlier, self._earlier):
            show_note(uncompared)

    def _address_table(self, show_note: Callable[[str], None]) -> Path | None:
        """The table of the machine; without it the workers of this node share a separate one."""
        section = self._crawl.config.politeness
        if section.address_table is AddressTables.MACHINE:
            try:
                return machine_table(section)
            except NoMachineTable as error:
                # addresses are then shared less widely, which is no reason to refuse the node
                show_note(
                    f"this node does not share address delays with others on this machine ({error})"
                )
        return None

    @property
    def crawl_id(self) -> str:
        """The UUID of the crawl in the bucket."""
        return self._crawl.manifest.crawl

    @property
    def generation(self) -> str:
        """The generation of the crawl for which this node was started."""
        return self._generation

    def follow_settings(self) -> None:
        """Use the settings that are stored now for the workers that start from now on. Blocks.

        ``lycosa cluster init`` may have changed them. If they cannot be read, nothing changes.
        """
        try:
            found = self._read_again()
            # this node was not started for the shards of another generation
            if found.manifest.generation == self._generation:
                self._plugins = active_plugins(found.config.extensions)
                self._crawl = found
        except SettingsError as error:
            # without a rule that they name, a worker would fetch what it should not
            self._show_note(
                f"the crawl's new settings cannot be used here, so those of before stay: {error}"
            )
        except (ManifestError, ObjectError) as error:
            # the settings of before are valid, so a store that is away stops nothing
            self._show_note(
                f"the crawl's settings cannot be read, so those of before stay: {error}"
            )

    def send_attempts(self, shard: int) -> str:
        """Send the attempt logs that dead workers of a shard left on this machine. Blocks.

        Returns why not all were sent, or an empty text. No worker of the shard may run here.
        """
        folder = attempts_folder(self.folder.shard_folder(shard))
        try:
            store = placed_objects(open_store(self.given.objects), self._generation)
            return ship_left_files(store, folder, shard)
        except ObjectError as error:
            # the files stay on this machine, and the next process of the shard sends them
            return str(error)

    def job(self, shard: int, plan: MemoryPlan, cluster: ClusterJob) -> WorkerJob:
        """The job of a worker. It continues where the log of its shard ends."""
        return WorkerJob(
            self.folder.shard_folder(shard),
            fitted(self._crawl.config, plan),
            self._crawl.manifest,
            shard,
            (shard,),
            SOFTWARE,
            self._user_agent,
            plan=plan,
            machine_table=self._table,
            plugins=self._plugins,
            cluster=cluster,
            code=self.code,
            earlier=self._earlier,
            earlier_folder=self.folder.path,
        )

    def open_objects(self) -> ObjectStore:
        """The place of the crawl in object storage. Raises ``ObjectError``."""
        return open_store(self.given.objects)

    def cluster_job(
        self, assignment: int, owner: Path, previous_term: int, previous_crashed: bool
    ) -> ClusterJob:
        """The part of a job that only a worker of a cluster has (see ``ClusterJob``)."""
        return ClusterJob(
            self.given.path.absolute(),
            assignment,
            self.listen,
            owner,
            previous_term,
            previous_crashed,
            self.formats,
        )
