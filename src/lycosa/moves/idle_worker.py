"""The job of a worker that sends no requests, for moved state that only a worker can change.

All stages are assembled over an open shard, and the loop of the worker does not run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from lycosa.base.config.sections import Config
from lycosa.base.model.end import PreviousEnd
from lycosa.base.system.software import SOFTWARE
from lycosa.stages.fetch.headers import build_user_agent
from lycosa.state.folder.manifest import Manifest
from lycosa.state.shard.opened_shard import Shard
from lycosa.worker.assemble import Assembled, assemble
from lycosa.worker.job import WorkerJob
from lycosa.worker.worker_ports import Ports


def idle_job(
    folder: Path, config: Config, manifest: Manifest, owned: Sequence[int], end: PreviousEnd
) -> WorkerJob:
    """The job of an idle worker; ``end`` is how the owner before it ended."""
    agent = config.agent
    return WorkerJob(
        folder,
        config,
        manifest,
        owned[0],
        owned,
        SOFTWARE,
        build_user_agent(agent.product, version("lycosa"), agent.page or agent.contact),
        previous_end=end,
    )


@asynccontextmanager
async def open_idle_worker(job: WorkerJob, ports: Ports, shard: Shard) -> AsyncIterator[Assembled]:
    """The worker, which is closed with its ports behind the block. See ``assemble``."""
    assembled = assemble(job, ports, shard)
    try:
        yield assembled
    finally:
        await ports.parser.close()
        await assembled.sender.close()
        assembled.close()
