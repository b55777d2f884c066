"""The ports of one simulated process: they stand still while its machine hangs, do nothing once
it is dead, and lose what chance says.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from lycosa.base.model.fetched import Fetched, FetchRequest
from lycosa.base.ports import ResolveError, Resolver
from lycosa.base.reasons import Reason
from lycosa.state.commit import Log, RolledBack
from lycosa.state.exchange.exchange_errors import ExchangeError
from lycosa.state.exchange.exchange_port import Parcel
from lycosa.state.shard.opened_shard import PartitionData
from lycosa.state.store.pending import PendingWrite
from lycosa.state.store.segments_port import NotStored
from lycosa.synthetic.fetcher import SyntheticFetcher
from lycosa.synthetic.request_log import LoggedRequest, RequestLog
from lycosa.synthetic.virtual_clock import VIRTUAL_EPOCH
from memory_segments import MemorySegments, Objects
from memory_snapshots import MemorySnapshots

if TYPE_CHECKING:
    from nodes.machine import Process

T = TypeVar("T")
_UNLISTED_S = 90.0  # a day, in a history of some hundred seconds


class Dead(BaseException):
    """What a process meets at every port once it is dead: nothing that it does has an effect any
    more.
    """


class NodeClock:
    """The clocks of a machine: its wall clock is off, its monotonic clock began at some other
    moment.
    """

    def __init__(self, process: Process) -> None:
        self._process = process

    def monotonic(self) -> float:
        self._process.check()
        return asyncio.get_running_loop().time() + self._process.machine.monotonic_base

    def wall(self) -> float:
        self._process.check()
        return VIRTUAL_EPOCH + asyncio.get_running_loop().time() + self._process.machine.clock_off_s

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(max(0.0, delay_s))
        await self._process.gate()


class NodeOffload:
    """Work of another thread, which stands still with its machine: before it begins, and before
    its result is known.
    """

    def __init__(self, process: Process, chance: random.Random, mean_s: float = 0.005) -> None:
        self._process, self._chance, self._mean_s = process, chance, mean_s

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.shield(asyncio.create_task(self._run(work)))

    async def _run(self, work: Callable[[], T]) -> T:
        await self._pause()
        appended = self._process.appended
        try:
            result = work()
        finally:
            await self._process.wait_out()
        await self._pause()
        if self._process.appended != appended:
            await self.acknowledgement()
        return result

    async def _pause(self) -> None:
        seconds = self._chance.expovariate(1.0 / self._mean_s)
        world = self._process.machine.world
        if world.is_troubled and self._chance.random() < 0.003:
            seconds += self._chance.uniform(1.0, 40.0)  # an acknowledgement that comes late
            world.faults["late"] += 1
        await asyncio.sleep(seconds)
        await self._process.gate()

    async def acknowledgement(self) -> None:
        """After a commit was appended, on a machine that hears of it late."""
        if (seconds := self._process.machine.hears_late_s) > 0:
            await asyncio.sleep(seconds)
            await self._process.gate()


class NodeFetcher:
    """Requests of one process. What it had open when it died ends then."""

    def __init__(self, process: Process, inner: SyntheticFetcher) -> None:
        self._process, self._inner = process, inner

    async def fetch(self, request: FetchRequest) -> Fetched:
        await self._process.gate()
        fetched = await self._inner.fetch(request)
        await self._process.gate()
        return fetched

    async def close(self) -> None:
        await self._inner.close()


class WorldLog(RequestLog):
    """The web's record, by the world's clock alone."""

    def __init__(self) -> None:
        super().__init__()
        self.of_processes: list[LoggedRequest] = []  # of the crawl, not of outside fetchers

    def begin_request(
        self, host: str, address: str, path: str, start: float, wall: float
    ) -> LoggedRequest:
        now = asyncio.get_running_loop().time()
        return super().begin_request(host, address, path, now, VIRTUAL_EPOCH + now)

    def finish_request(self, exchange: LoggedRequest, end: float) -> None:
        if exchange.end == float("inf"):
            super().finish_request(exchange, asyncio.get_running_loop().time())


class ProcessLog:
    """The web's record as one process fills it; knows what the process has open."""

    def __init__(self, log: WorldLog) -> None:
        self._log = log
        self._open: list[LoggedRequest] = []

    def begin_request(
        self, host: str, address: str, path: str, start: float, wall: float
    ) -> LoggedRequest:
        exchange = self._log.begin_request(host, address, path, start, wall)
        self._open.append(exchange)
        self._log.of_processes.append(exchange)
        return exchange

    def finish_request(self, exchange: LoggedRequest, end: float) -> None:
        self._log.finish_request(exchange, end)
        if exchange in self._open:
            self._open.remove(exchange)

    def broken_off(self) -> None:
        """The process died: servers see its connections end."""
        for exchange in list(self._open):
            self.finish_request(exchange, 0.0)


class NodeResolver:
    """Names; now and then there is no answer."""

    def __init__(self, process: Process, inner: Resolver, chance: random.Random) -> None:
        self._process, self._inner, self._chance = process, inner, chance

    async def resolve(self, name: str) -> Sequence[str]:
        await self._process.gate()
        world = self._process.machine.world
        if world.is_troubled and self._chance.random() < 0.02:
            world.faults["name"] += 1
            raise ResolveError(name, Reason.DNS_TIMEOUT, "injected")
        addresses = await self._inner.resolve(name)
        await self._process.gate()
        return addresses

    async def close(self) -> None:
        await self._inner.close()


class NodeObjects(MutableMapping[str, bytes]):
    """The object store: a put may be repeated long after it was answered, as a request that a
    proxy held back.
    """

    def __init__(self, process: Process, objects: Objects, chance: random.Random) -> None:
        self._process, self._objects, self._chance = process, objects, chance

    def __setitem__(self, key: str, value: bytes) -> None:
        self._objects[key] = value
        world = self._process.machine.world
        if (
            world.is_troubled
            and key.startswith(("parts/", "snapshots/"))
            and self._chance.random() < 0.3
        ):
            world.faults["late put"] += 1
            # a segment is open for some tens of seconds
            longest_s = 60.0 if key.startswith("snapshots/") else 20.0
            asyncio.get_running_loop().call_later(
                self._chance.uniform(0.1, longest_s), self._put_again, key, value
            )

    def _put_again(self, key: str, value: bytes) -> None:
        self._objects.pop(key, None)  # so that it counts as the newest by the time of its writing
        self._objects[key] = value

    def __getitem__(self, key: str) -> bytes:
        return self._objects[key]

    def __delitem__(self, key: str) -> None:
        del self._objects[key]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._objects))

    def __len__(self) -> int:
        return len(self._objects)


class NodeSegments(MemorySegments):
    """Puts that fail, before or after they took effect."""

    def __init__(
        self, process: Process, objects: Objects, shard: int, chance: random.Random
    ) -> None:
        super().__init__(NodeObjects(process, objects, chance), shard)
        self._process, self._chance = process, chance

    def put_records(self, pending: PendingWrite) -> None:
        machine = self._process.machine
        self._process.check()
        if machine.is_cut_off:
            raise NotStored("the object store cannot be reached")
        if machine.world.is_troubled and not pending.is_written and self._chance.random() < 0.02:
            machine.world.faults["put"] += 1
            raise NotStored("injected")
        super().put_records(pending)


class NodeSnapshots(MemorySnapshots):
    """Snapshots that are not taken while the object store is away."""

    def __init__(
        self,
        process: Process,
        objects: Objects,
        shard: int,
        log: Log,
        make: Callable[[], PartitionData],
    ) -> None:
        super().__init__(objects, shard, log, make, NodeClock(process).monotonic, _UNLISTED_S)
        self._process = process

    def saved_partitions(self) -> list[int]:
        if self._process.machine.is_cut_off:
            raise RolledBack("the object store cannot be reached")
        return super().saved_partitions()


def bad_append(
    process: Process, chance: random.Random, append: Callable[[Parcel], Any]
) -> Callable[[Parcel], Any]:
    """Appends to inbox topics that are lost, repeated, late, or not acknowledged."""

    async def appended(parcel: Parcel) -> int:
        await process.gate()
        machine = process.machine
        if machine.is_cut_off:
            await asyncio.sleep(1.0)
            raise ExchangeError("the inbox topics cannot be reached")
        kinds = ("", "lost", "unanswered", "twice", "late")
        kind = chance.choices(kinds, (80, 5, 5, 5, 5))[0] if machine.world.is_troubled else ""
        machine.world.faults["parcel"] += bool(kind)
        if kind == "late":
            await asyncio.sleep(chance.uniform(0.0, 20.0))
            await process.gate()
        if kind == "lost":
            raise ExchangeError("lost")
        position = await append(parcel)
        if kind == "twice":
            position = await append(parcel)
        if kind == "unanswered":
            raise ExchangeError("the acknowledgement was lost")
        await process.gate()
        return int(position)

    return appended
