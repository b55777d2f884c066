"""What sharing the limits of IP addresses through Redis costs a page:
``python -m bench.address_pool --redis HOST:PORT [--pages 20000]``.

Some pages at a time take a slot of an address, start, end and free the slot, as a worker does
without a network. Printed for the machine's table alone and for the pool: the median and the 99th
percentile of the time that taking a slot takes, CPU time of this process and of Redis for a page,
and calls to Redis for a page. The last line is the memory of Redis for an address. It uses keys of
the given server that begin with ``{lycosa}:``, and deletes the addresses' at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from typing import Any

import uvloop

from lycosa.base.config.cluster_file import RedisSection
from lycosa.base.config.sections import PolitenessSection
from lycosa.base.model.progress_parts import PoolState
from lycosa.base.ports import Addresses
from lycosa.base.system.clock import SystemClock
from lycosa.cluster.redis.pool import RedisPool, connection_to, parse_info
from lycosa.stages.politeness.address_pool import PoolWorker
from lycosa.stages.politeness.address_table import AddressTable
from lycosa.stages.politeness.machine_addresses import MachineAddresses
from lycosa.stages.politeness.pooled_addresses import PooledAddresses

SECTION = PolitenessSection(address_delay_s=0.0, address_slots=4)
ADDRESSES = 2000


class Server:
    """A connection for questions about the server itself."""

    def __init__(self, section: RedisSection) -> None:
        self._connection = connection_to(section, section.addresses[0])

    async def ask(self, *words: Any) -> Any:
        await self._connection.send_command(*words)
        return await self._connection.read_response()

    async def facts(self) -> dict[str, str]:
        return parse_info(await self.ask("INFO"))

    async def calls(self) -> int:
        """How many times a script ran."""
        facts = parse_info(await self.ask("INFO", "commandstats"))
        runs = [facts.get(f"cmdstat_{name}", "calls=0,") for name in ("eval", "evalsha")]
        return sum(int(each.split(",")[0].removeprefix("calls=")) for each in runs)

    async def close(self) -> None:
        await self._connection.disconnect(nowait=True)


async def _page(addresses: Addresses, number: int, took: list[float]) -> None:
    address = f"192.0.{number % ADDRESSES // 250}.{number % 250}"
    began = time.monotonic()
    while (wait_s := await addresses.take_slot(address, time.monotonic(), number)) > 0:  # noqa: ASYNC110 (as a worker)
        await asyncio.sleep(wait_s)
    took.append(time.monotonic() - began)
    await addresses.record_start(address, time.monotonic(), 0.0, number)
    await asyncio.sleep(0)
    await addresses.record_start(address, time.monotonic(), 0.0, number)
    await addresses.release_slot(address, time.monotonic(), number)


async def _pages(addresses: Addresses, pages: int, at_once: int) -> tuple[list[float], float]:
    """The times of taking a slot, and CPU seconds."""
    took: list[float] = []
    numbers = iter(range(pages))

    async def work() -> None:
        for number in numbers:
            await _page(addresses, number, took)

    cpu = time.process_time()
    await asyncio.gather(*(work() for _ in range(at_once)))
    return sorted(took), time.process_time() - cpu


def _tell(name: str, took: Sequence[float], cpu_s: float, rest: str = "") -> None:
    pages = len(took)
    print(
        f"{name}: slot in {took[pages // 2] * 1e3:.3f} ms (median),"
        f" {took[pages * 99 // 100] * 1e3:.2f} ms (99 %); {cpu_s / pages * 1e6:.0f} us CPU a page"
        f"{rest}"
    )


async def _run(address: str, pages: int) -> None:
    section, clock = RedisSection((address,)), SystemClock()
    server = Server(section)
    table = MachineAddresses(AddressTable(None, SECTION))
    for at_once in (1, 32):
        _tell(f"table, {at_once} at once", *await _pages(table, pages, at_once))
    before = int((await server.facts())["used_memory"])
    local = MachineAddresses(AddressTable(None, SECTION))
    worker = PoolWorker("bench-", "bench", 0, 1, 4, SECTION, 0.1, is_first=True)
    pool = PooledAddresses(worker, local, RedisPool(section, clock), clock)
    while pool.use.state is not PoolState.SHARED:  # noqa: ASYNC110 (it settles within seconds)
        await asyncio.sleep(0.1)
    for at_once in (1, 32):
        facts, calls = await server.facts(), await server.calls()
        took, cpu_s = await _pages(pool, pages, at_once)
        after = await server.facts()
        used = sum(
            float(after[key]) - float(facts[key]) for key in ("used_cpu_sys", "used_cpu_user")
        )
        rest = f", {used / pages * 1e6:.0f} us of Redis, {(await server.calls() - calls) / pages:.2f} calls"
        _tell(f"pool, {at_once} at once", took, cpu_s, rest)
    held = int((await server.facts())["used_memory"]) - before
    print(f"memory of Redis: {held / ADDRESSES:.0f} bytes an address")
    await pool.leave()
    pool.close()
    for key in await server.ask("KEYS", "{lycosa}:address:192.0.*"):
        await server.ask("DEL", key)
    await server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--redis", required=True, metavar="HOST:PORT")
    parser.add_argument("--pages", type=int, default=20000)
    given = parser.parse_args()
    uvloop.run(_run(given.redis, given.pages))


if __name__ == "__main__":
    main()
