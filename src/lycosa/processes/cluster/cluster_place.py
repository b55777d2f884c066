"""A worker's shard in Kafka and object storage, as its process sees it.

Opening waits as long as the services are away. Meanwhile the process reports twice a second what it
waits for, so that its node does not take it for one that hangs, and obeys the node: it ends when it
is stopped, or when the node is gone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from lycosa.base.messages.progress import Progress
from lycosa.base.messages.worker_messages import (
    Memory,
    Stop,
    ToWorker,
    decode_to_worker,
    encode_worker_message,
)
from lycosa.base.model.progress_parts import PoolUse
from lycosa.base.ports import Addresses, Clock
from lycosa.base.system.clock import SystemClock
from lycosa.base.system.frame_stream import FrameStream
from lycosa.cluster.kafka.inbound import KafkaInbound
from lycosa.cluster.kafka.kafka_post import KafkaPost
from lycosa.cluster.network.credentials import credentials_of
from lycosa.cluster.network.endpoints import join_address
from lycosa.cluster.network.inquiry import NetworkInquiry
from lycosa.stages.politeness.address_pool import PoolWorker
from lycosa.stages.politeness.address_table import MACHINE_ENTRIES, MACHINE_SLOTS, AddressTable
from lycosa.stages.politeness.machine_addresses import MachineAddresses
from lycosa.stages.politeness.pooled_addresses import PooledAddresses
from lycosa.state.commit import LEASE_S, ShardLease
from lycosa.state.exchange.exchange_port import ExchangeEnds, Lateness
from lycosa.state.folder.names import addresses_path
from lycosa.state.kv.kv_port import Opener
from lycosa.state.shard.opened_shard import Shard
from lycosa.worker.assemble import Assembled
from lycosa.worker.calls.call_router import ReadState
from lycosa.worker.commit.cluster_shard import (
    ClusterServices,
    OpenedShard,
    ShardOpening,
    cluster_services,
)
from lycosa.worker.job import WorkerJob
from lycosa.worker.machine_table import open_machine_table
from lycosa.worker.real_ports import real_ports
from lycosa.worker.worker_ports import Ports
from lycosa.worker.worker_progress import memory_of

_REPORT_S = 0.5
# a snapshot, a segment and attempt logs may be sent at once; commits must not wait for them
_THREADS = 5


async def open_place(
    job: WorkerJob, open_table: Opener, stream: FrameStream, note: Callable[[str, str], None]
) -> ClusterPlace | None:
    """Open the shard of a job; ``None`` when the node stopped the worker before it was open.

    ``note`` gets lines for the log: the name of the event, and the line.

    Raises the errors of ``ShardOpening.run`` and ``cluster_services``, and ``ConnectionError`` when
    the node is gone.
    """
    assert job.cluster is not None
    services = cluster_services(job.cluster.file, job.manifest.generation)
    services.foreign.tell = partial(note, "foreign_record")
    lease = ShardLease(LEASE_S)
    ports = real_ports(job, open_table, lease=lease, threads=_THREADS)
    opening = ShardOpening(job, services, open_table, SystemClock())
    watched = _WatchedOpening(opening, services, stream)
    opened = await watched.run(ports)
    if opened is None:
        return None
    lease.renew(opened.began)
    return ClusterPlace(opened, ports, services, watched.early, partial(note, "tls_files"))


class _WatchedOpening:
    """One opening, with what the node is told and says meanwhile."""

    def __init__(
        self, opening: ShardOpening, services: ClusterServices, stream: FrameStream
    ) -> None:
        self._opening, self._services, self._stream = opening, services, stream
        self.early: list[ToWorker] = []
        self._is_stopped = False

    async def run(self, ports: Ports) -> OpenedShard | None:
        working = asyncio.ensure_future(ports.offload.run(self._opening.run))
        listening = asyncio.create_task(self._listen())
        telling = asyncio.create_task(self._tell())
        try:
            # a message to stop ends the opening early, which may wait for Kafka or the store
            await asyncio.wait({working, listening, telling}, return_when=asyncio.FIRST_COMPLETED)
            if self._is_stopped:
                return None
            if not working.done():
                for task in (listening, telling):
                    if task.done():
                        task.result()
                raise ConnectionResetError("the node closed")
            return working.result()
        finally:
            if not working.done():
                self._opening.break_off()
            for task in (listening, telling):
                task.cancel()
            await asyncio.gather(listening, telling, return_exceptions=True)

    async def _listen(self) -> None:
        """Return when the node is gone, or has stopped an opening that is not needed any more."""
        while (frame := await self._stream.receive()) is not None:
            message = decode_to_worker(frame)
            if isinstance(message, Memory):
                continue  # there is nothing yet that could be given back
            self.early.append(message)
            # A claim without a commit makes the next owner hold all hosts. So an opening that is
            # past its claim and waits for no service is finished, and the worker then ends in
            # order.
            is_useless = not self._opening.is_claimed or self._services.is_waiting
            if isinstance(message, Stop) and (message.at_once or is_useless):
                self._is_stopped = True
                return

    async def _tell(self) -> None:
        while True:
            memory = memory_of({})
            held = sum(each.own_bytes for each in memory)
            progress = Progress(waits_for=self._services.waits.text, memory=memory).with_numbers(
                {"lycosa_memory_held_bytes": held}
            )
            await self._stream.send(encode_worker_message(progress))
            await asyncio.sleep(_REPORT_S)


class NetworkPeers:
    """This worker's listener, and the addresses of the others; implements ``Peers``."""

    def __init__(self, inquiry: NetworkInquiry, host: str) -> None:
        self._inquiry, self._host = inquiry, host
        self.address, self.routes = "", 0

    async def open(self, assembled: Assembled, shard: int, read: ReadState) -> None:
        """Listen on a free port, and answer for the shard. Raises ``OSError``."""
        incoming = assembled.incoming
        self._inquiry.receivers.register_partition(
            shard,
            incoming.receive_parcel,
            incoming.look_up(shard),
            partial(assembled.calls.answer_call, shard, read=read),
        )
        self.address = await self._inquiry.open(join_address(self._host, 0))

    def follow_routes(self, version: int, addresses: Mapping[int, str]) -> None:
        if version > self.routes:
            self.routes = version
            self._inquiry.follow_routes(addresses)

    @property
    def trouble(self) -> str:
        """Which other workers have not answered for long; empty when all do."""
        return self._inquiry.trouble

    async def close(self) -> None:
        await self._inquiry.close()


class ClusterPlace:
    """An open shard with its ends of the exchange; implements ``WorkerPlace``."""

    def __init__(
        self,
        opened: OpenedShard,
        ports: Ports,
        services: ClusterServices,
        early: Sequence[ToWorker],
        tell: Callable[[str], None],
    ) -> None:
        self.job, self.early = opened.job, early
        self.shard: Shard | None = opened.shard
        self.term = opened.shard.term
        self._waits = services.waits
        job, client, topics = opened.job, services.client, services.topics
        assert job.cluster is not None
        crawl, number = job.manifest.crawl, job.number
        lease, clock = ports.lease, SystemClock()
        self._post = KafkaPost(
            client, topics, crawl, self.term, may_post=lambda: lease.holds(clock.monotonic())
        )
        foreign = services.foreign
        self._inbound = KafkaInbound(
            client, topics, crawl, number, self._waits.teller("inbox"), foreign.note
        )
        inquiry = NetworkInquiry(credentials_of(services.given, tell), crawl)
        self.peers = NetworkPeers(inquiry, job.cluster.listen)
        ends = ExchangeEnds(self._post, inquiry, self._inbound, Lateness())
        self.ports = msgspec.structs.replace(
            ports, exchange=ends, addresses=self._addresses, objects=services.store
        )
        self._services = services
        self._pooled: PooledAddresses | None = None

    async def open(self, assembled: Assembled, read: ReadState) -> None:
        await self.peers.open(assembled, self.job.number, read)
        meter, foreign = assembled.meter, self._services.foreign
        meter.watch(lambda: meter.set_table("lycosa_foreign_records_total", dict(foreign.counts)))
        assembled.outgoing.start()
        assembled.incoming.start()

    async def close(self) -> None:
        if self._pooled is not None:
            await self._pooled.leave()
        await self.peers.close()
        await self._post.close()
        await self._inbound.close()

    def waits_for(self) -> str:
        held_s = self.job.held_until - self.ports.clock.monotonic()
        held = f"the end of the previous owner's last requests, {held_s:.0f} s"
        return self._waits.text or self.peers.trouble or (held if held_s > 0 else "")

    def pool_use(self) -> PoolUse | None:
        return self._pooled.use if self._pooled is not None else None

    def _addresses(self, job: WorkerJob) -> Addresses:
        """The slots of addresses: those of this machine, or those of all that share the pool."""
        local, given = _machine_addresses(job, self.ports.clock), self._services.given
        if given.redis is None:
            return local
        from lycosa.cluster.redis.pool import RedisPool  # an optional extra

        crawl = job.manifest.crawl
        worker = PoolWorker(
            f"{crawl[:8]}-{job.number}-{self.term}-{os.urandom(4).hex()}-",
            crawl,
            job.number,
            given.shards,
            given.nodes,
            job.config.politeness,
            job.config.fetch.total_s,
            is_first=self.term == 1,
        )
        pool = RedisPool(given.redis, self.ports.clock)
        self._pooled = PooledAddresses(worker, local, pool, self.ports.clock)
        return self._pooled


def _machine_addresses(job: WorkerJob, clock: Clock) -> MachineAddresses:
    """The slots of addresses that all shards on this machine share."""
    section, request_s = job.config.politeness, job.config.fetch.total_s
    if job.machine_table is not None:
        return MachineAddresses(open_machine_table(job.machine_table, section, request_s), clock)
    path = addresses_path(job.folder.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    table = AddressTable(path, section, MACHINE_ENTRIES, MACHINE_SLOTS, request_s)
    return MachineAddresses(table, clock)
