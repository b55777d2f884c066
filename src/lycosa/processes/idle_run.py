"""A run over a crawl folder that fetches nothing: one worker owns all partitions, and its loop does
not run.

It is a run as any other: it holds the folder's lock, and its changes are commits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from lycosa.base.system.memory_plan import memory_plan
from lycosa.processes.session import open_session
from lycosa.state.folder.saved_config import settings_of
from lycosa.state.kv.rocks import opener_within
from lycosa.worker.assemble import Assembled, assemble
from lycosa.worker.real_ports import cache_of, real_ports


@asynccontextmanager
async def idle_worker(folder: Path) -> AsyncIterator[Assembled]:
    """The assembled worker, closed at the end; what its user did must be committed by then.

    Raises the errors of ``Session``, and ``ManifestError`` when the folder is not a crawl.
    """
    config = settings_of(folder)
    plan = memory_plan(msgspec.structs.replace(config, workers=1))
    with open_session(folder, config) as session:
        job = session.job(0, tuple(range(config.frontier.partitions)), plan)
        ports = real_ports(job, opener_within(cache_of(plan)))
        assembled = assemble(job, ports)
        try:
            yield assembled
        finally:
            await ports.parser.close()
            await assembled.sender.close()
            assembled.close()
