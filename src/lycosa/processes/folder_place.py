"""The crawl folder as the place of a worker's shard, with sockets to other workers.

``cluster_place`` is the other implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import msgspec

from lycosa.base.messages.worker_messages import ToWorker
from lycosa.base.model.progress_parts import PoolUse
from lycosa.cluster.network.sockets import SocketExchange
from lycosa.state.exchange.exchange_port import ExchangeEnds
from lycosa.state.shard.opened_shard import Shard
from lycosa.worker.assemble import Assembled
from lycosa.worker.calls.call_router import ReadState
from lycosa.worker.coordinator_link import Peers
from lycosa.worker.job import WorkerJob
from lycosa.worker.worker_ports import Ports


class WorkerPlace(Protocol):
    """What a worker process runs in. ``shard`` is ``None`` for the shard of a crawl folder.

    ``term`` is the owner's number, and ``early`` are the messages that came before the shard was
    open.
    """

    job: WorkerJob
    ports: Ports
    shard: Shard | None
    term: int
    early: Sequence[ToWorker]

    @property
    def peers(self) -> Peers | None:
        """The addresses of workers on other machines, if there may be any."""
        ...

    async def open(self, assembled: Assembled, read: ReadState) -> None:
        """Let other workers reach this one, and start the exchange. ``read`` answers questions."""
        ...

    async def close(self) -> None:
        """Close the ends of the exchange."""
        ...

    def waits_for(self) -> str:
        """What the worker waits for outside itself, for people; empty when there is nothing."""
        ...

    def pool_use(self) -> PoolUse | None:
        """How addresses are shared with other machines, if they are."""
        ...


class FolderPlace:
    """A crawl folder, and the exchange with the other workers of this run and with callers."""

    def __init__(self, job: WorkerJob, ports: Ports) -> None:
        self.job, self.term = job, job.process
        self.shard: Shard | None = None
        self.early: Sequence[ToWorker] = ()
        self.peers: Peers | None = None
        self._exchange = _exchange(job)
        # A worker that is alone has no other to exchange parcels with; it listens for callers.
        if self._exchange is not None and len(job.sockets) > 1:
            ends = ExchangeEnds(self._exchange, self._exchange)
            ports = msgspec.structs.replace(ports, exchange=ends)
        self.ports = ports

    async def open(self, assembled: Assembled, read: ReadState) -> None:
        if self._exchange is None:
            return
        incoming = assembled.incoming
        for partition in self.job.owned:
            self._exchange.receivers.register_partition(
                partition,
                incoming.receive_parcel,
                incoming.look_up(partition),
                partial(assembled.calls.answer_call, partition, read=read),
            )
        await self._exchange.open()
        if len(self.job.sockets) > 1:
            assembled.outgoing.start()
            incoming.start()

    async def close(self) -> None:
        if self._exchange is not None:
            await self._exchange.close()

    def pool_use(self) -> PoolUse | None:
        """One machine has one table."""
        return None

    def waits_for(self) -> str:
        return ""


def _exchange(job: WorkerJob) -> SocketExchange | None:
    if not job.sockets:
        return None
    run = f"{job.manifest.crawl}:{job.manifest.term}"
    return SocketExchange(
        job.sockets[job.number], lambda partition: job.sockets[partition % len(job.sockets)], run
    )
