"""A crawl by several workers in one process and in virtual time: what the supervisor does for processes, with an exchange in memory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

import msgspec

from lycosa.exchange import ExchangeEnds, InProcessExchange, Key
from lycosa.model.end import End
from lycosa.parse.inline import InlineParser
from lycosa.parse.parser_config import ParserConfig
from lycosa.synthetic import Faults, SyntheticFetcher, VirtualOffload, run_virtual
from lycosa.synthetic.crawl import VirtualCrawl
from lycosa.synthetic.faults import FaultyFetcher, FaultyOffload
from lycosa.worker.assembly import Assembled, Ports, assemble
from lycosa.worker.permits import GrantedPermits


class SlowExchange(InProcessExchange):
    """Answers questions and delivers after ``latency_s``; while ``is_deaf`` it answers none."""

    latency_s = 0.002
    is_deaf = False

    async def ask(self, keys: Sequence[Key]) -> dict[bytes, bytes | None]:
        await asyncio.sleep(self.latency_s)
        return {} if self.is_deaf else await super().ask(keys)


def run_workers(
    crawl: VirtualCrawl,
    workers: int,
    seeds: Sequence[str],
    faults: Faults | None = None,
    exchange: SlowExchange | None = None,
    meanwhile: Callable[[Assembled], None] = lambda _: None,
) -> list[Assembled]:
    """One run of a crawl's folder by several workers, to its end. Raises ``Crash`` when ``faults`` says so: all die together.

    ``meanwhile`` is called with each worker that was put together, before seeds are given.
    """
    crawl._runs += 1
    config = crawl.config = msgspec.structs.replace(crawl.config, workers=workers)
    return run_virtual(
        _main(crawl, workers, list(seeds), faults, exchange or SlowExchange(), meanwhile),
        seed=config.seed * 1000 + crawl._runs,
        start=crawl.now,
        on_turn=faults.turn if faults else None,
    )


async def _main(
    crawl: VirtualCrawl,
    workers: int,
    seeds: list[str],
    faults: Faults | None,
    exchange: SlowExchange,
    meanwhile: Callable[[Assembled], None],
) -> list[Assembled]:
    loop = asyncio.get_running_loop()
    with crawl.session() as session:
        running = [
            assemble(
                session.job(number, tuple(range(number, crawl.config.frontier.partitions, workers))),
                msgspec.structs.replace(_ports(crawl, number, faults), exchange=ExchangeEnds(exchange, exchange) if workers > 1 else None),
                (lambda _: None) if workers > 1 else None,
            )
            for number in range(workers)
        ]
        for each in running:
            meanwhile(each)
            if workers > 1:
                for partition in each.worker.frontier.partitions:
                    exchange.register(partition, each.delivery.arrivals.receive, each.delivery.arrivals.look_up(partition))
                each.delivery.start()
        for each in running:
            each.intake.seeds(seeds)
        tasks = [loop.create_task(each.worker.run()) for each in running]
        try:
            if workers > 1:
                watch = loop.create_task(_end_together(running))
                await asyncio.wait([watch, *tasks], return_when=asyncio.FIRST_COMPLETED)
                watch.cancel()
            async with asyncio.timeout(crawl.longest_s):
                await asyncio.gather(*tasks)
        finally:
            crawl.now = loop.time()
            for task in tasks:
                task.cancel()
        for each in running:
            await each.delivery.close()
        await exchange.close()
        for each in running:
            each.close()
    return running


async def _end_together(running: list[Assembled]) -> None:
    """Two looks at which everybody is idle and nothing happened in between."""
    last = -1
    while True:
        await asyncio.sleep(1.5)
        activity = sum(
            each.delivery.activity + sum(p.counters.requests for p in each.worker.frontier.partitions.values()) for each in running
        )
        is_idle = all(each.worker.is_idle and each.delivery.is_idle for each in running)
        if is_idle and activity == last:
            break
        last = activity if is_idle else -1
    for each in running:
        assert isinstance(each.permits, GrantedPermits)
        each.worker.stop(End.FINISHED)
    await asyncio.Event().wait()


def _ports(crawl: VirtualCrawl, number: int, faults: Faults | None) -> Ports:
    chance = random.Random(f"{crawl.config.seed}:{crawl._runs}:{number}")
    fetcher = SyntheticFetcher(crawl.answers, crawl.clock, crawl.log, spool_dir=crawl.folder / "spool")
    parser = InlineParser(ParserConfig(crawl.config.parse, crawl.config.canonical, crawl.config.agent.product))
    offload = VirtualOffload(chance, 0.005)
    if faults is None:
        return Ports(crawl.clock, offload, fetcher, crawl.resolver, parser, crawl.open_table, lambda _: None)
    return Ports(
        crawl.clock,
        FaultyOffload(offload, crawl.clock, faults),
        FaultyFetcher(fetcher, crawl.clock, faults),
        crawl.resolver,
        parser,
        crawl.open_table,
        faults.reach,
    )
