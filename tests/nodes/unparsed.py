"""Machines cannot start a parser for a while: documents wait for one, and some of the bodies that are
stored come back unparsed and are parsed by a later owner, while URLs that were in flight when a
worker was killed are visited alone.
"""

from __future__ import annotations

import asyncio
import random

from lycosa.base.model.parsed import Parsed, ParseInput, ParserHealth
from lycosa.base.ports import Parser
from lycosa.base.reasons import Reason
from nodes.history import NodesHistory
from nodes.machine import Machine, Process
from nodes.plugin import Plugin

_PARSE_S = 0.2  # a document, so that a pile of bodies takes a while
_ROUNDS, _ROUND_S = 8, 20.0


class NodeParser:
    """The parser of one process."""

    def __init__(self, process: Process, plugin: Unparsed, inner: Parser) -> None:
        self._process, self._plugin, self._inner = process, plugin, inner
        world, machine = process.machine.world, process.machine
        self._chance = random.Random(f"{world.seed} {machine.name} {process.shard}")

    async def parse(self, document: ParseInput) -> Parsed:
        """Half of the documents wait while there is no parser; the others fail."""
        while self._away_since() is not None:
            if self._chance.random() < 0.5:
                self._process.machine.world.faults["unparsed"] += 1
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

    def judge_scripts(self, is_wanted: bool) -> None:
        self._inner.judge_scripts(is_wanted)

    async def close(self) -> None:
        await self._inner.close()

    def _away_since(self) -> float | None:
        machine = self._process.machine
        return self._plugin.away_since.get(machine) if machine.world.is_troubled else None


class Unparsed(Plugin):
    """In the end no body is unparsed: the links of every page are known."""

    def __init__(self, history: NodesHistory) -> None:
        super().__init__(history)
        self.away_since: dict[Machine, float] = {}  # of the machines that have no parser

    def wrap_parser(self, process: Process, parser: Parser) -> NodeParser:
        return NodeParser(process, self, parser)

    async def disturb(self) -> None:
        """Machines lose their parsers for some seconds."""
        history = self.history
        while True:
            await asyncio.sleep(history.chance.uniform(2.0, 12.0))
            if (machine := history.any_machine()) is None or machine in self.away_since:
                continue
            seconds = history.chance.uniform(5.0, 40.0)
            history.tell(f"no parser on {machine.name} for {seconds:.0f}")
            self.away_since[machine] = asyncio.get_running_loop().time()
            asyncio.get_running_loop().call_later(seconds, self.away_since.pop, machine)

    async def repair(self) -> None:
        """A worker parses at its start what waits, so each shard with such bodies gets a new one.

        If the crawl is over before (all that it knew was fetched), its operator resumes it.
        """
        world = self.world
        for _ in range(_ROUNDS):
            await asyncio.sleep(_ROUND_S)
            if world.newest.coordinator.is_over:
                self.history.resume()
            for shard, process in sorted(world.owners.items()):
                each = process.assembled
                if each is not None and not process.is_dead and each.worker.reparsing.waiting():
                    self.history.tell(f"fence of shard {shard}, which has unparsed bodies")
                    world.logs.fence(shard)

    def judge(self) -> None:
        for table in self.history.final_tables().values():
            assert not list(table.scan(b"B", b"C")), "a body is unparsed"
