"""Histories in which machines cannot start a parser for a while: documents wait for one, and some of
the bodies that are stored come back unparsed and are parsed by a later owner, while URLs that
were in flight when a worker was killed are visited alone.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from lycosa.base.model.parsed import Document, Parsed, ParserHealth
from lycosa.base.reasons import Reason
from lycosa.stages.parse.inline import InlineParser
from lycosa.stages.parse.parser_config import ParserConfig
from nodes.history import NodesHistory
from nodes.machine import Machine, Process
from nodes.world import World

_PARSE_S = 0.2  # a document, so that a pile of bodies takes a while
_ROUNDS, _ROUND_S = 8, 20.0


class NodeParser:
    """The parser of one process."""

    def __init__(self, process: Process, config: ParserConfig, chance: random.Random) -> None:
        self._process, self._inner, self._chance = process, InlineParser(config), chance

    async def parse(self, document: Document) -> Parsed:
        """Half of the documents wait while there is no parser; the others fail."""
        world = self._process.machine.world
        while self._away_since() is not None:
            if self._chance.random() < 0.5:
                world.faults["unparsed"] += 1
                return Parsed(Reason.INTERNAL, "injected: no parser can be started")
            await asyncio.sleep(2.0)
        await asyncio.sleep(_PARSE_S)
        await self._process.gate()
        return await self._inner.parse(document)

    def health(self) -> ParserHealth:
        since = self._away_since()
        if since is None:
            return ParserHealth()
        away_s = asyncio.get_running_loop().time() - since
        return ParserHealth(away_s=away_s, away_why="injected")

    async def close(self) -> None:
        await self._inner.close()

    def _away_since(self) -> float | None:
        world = self._process.machine.world
        assert isinstance(world, UnparsedWorld)
        return world.away_since.get(self._process.machine) if world.is_troubled else None


class UnparsedWorld(World):
    """Knows which machines have no parser, and since when."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.away_since: dict[Machine, float] = {}

    def parser(self, process: Process, config: ParserConfig) -> NodeParser:
        name = f"{self.seed} {process.machine.name} {process.shard}"
        return NodeParser(process, config, random.Random(name))


class UnparsedHistory(NodesHistory):
    """In the end no body is unparsed: the links of every page are known."""

    WORLD = UnparsedWorld

    async def _trouble(self) -> None:
        starving = self.world.spawn(self._starve())
        await super()._trouble()
        starving.cancel()
        # A worker parses at its start what waits, so each shard with such bodies gets a new one. If
        # the crawl is over before (all that it knew was fetched), its operator continues it.
        for _ in range(_ROUNDS):
            await asyncio.sleep(_ROUND_S)
            if self.world.newest.coordinator.is_over:
                self._continue()
            for shard, process in sorted(self.world.owners.items()):
                each = process.assembled
                if each is not None and not process.is_dead and each.worker.reparsing.waiting():
                    self._tell(f"fence of shard {shard}, which has unparsed bodies")
                    self.world.logs.fence(shard)

    async def _starve(self) -> None:
        """Machines lose their parsers for some seconds, and workers of theirs are killed."""
        world = self.world
        assert isinstance(world, UnparsedWorld)
        while True:
            await asyncio.sleep(self.chance.uniform(2.0, 12.0))
            if (machine := self._any()) is None or machine in world.away_since:
                continue
            seconds = self.chance.uniform(5.0, 40.0)
            self._tell(f"no parser on {machine.name} for {seconds:.0f}")
            world.away_since[machine] = asyncio.get_running_loop().time()
            asyncio.get_running_loop().call_later(seconds, world.away_since.pop, machine)

    def judge(self) -> None:
        """Raises ``AssertionError`` for the first promise that does not hold."""
        super().judge()
        for table in self._final_tables().values():
            assert not list(table.scan(b"B", b"C")), "a body is unparsed"
