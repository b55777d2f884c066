"""What can be added to a history of many nodes: its events, its callers, and its judge.

Plug-ins do not know of each other, so that a history may have several: settings that an operator
changes while machines lose their parsers and an outside fetcher has leases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lycosa.base.ports import Addresses, Clock, Parser

if TYPE_CHECKING:
    from lycosa.synthetic.oracle import Truth
    from lycosa.worker.extensions import CodeCaller
    from nodes.history import NodesHistory
    from nodes.machine import Process
    from nodes.world import World


class Plugin:
    """Adds nothing; a plug-in overrides what it needs. It is made before the world is, and may
    change the history's web, seeds and settings then.
    """

    LEAST_NODES = 1
    CLOCKS_DIFFER_S = 1.9
    """By how much the clocks of two machines differ from that of the world, at most."""

    FETCHES_ONCE = True

    def __init__(self, history: NodesHistory) -> None:
        self.history = history

    @property
    def world(self) -> World:
        return self.history.world

    # -- what a process gets

    def wrap_parser(self, process: Process, parser: Parser) -> Parser:
        """The parser of a process."""
        return parser

    def code(self, process: Process) -> CodeCaller | None:
        """What calls user code for a process."""
        return None

    def wrap_addresses(self, process: Process, table: Addresses, clock: Clock) -> Addresses:
        """The slots of addresses of a process, beginning with those of its machine."""
        return table

    async def leave(self, process: Process) -> None:
        """A process ends in order."""

    # -- what happens

    async def operate(self) -> None:
        """What callers and operators do once the seeds are given. The crawl is told that no more
        seeds come when all of them are done.
        """

    async def attend(self) -> None:
        """What a caller does until the crawl is over."""

    async def disturb(self) -> None:
        """Faults, until the time of trouble is over."""

    async def repair(self) -> None:
        """What ends with the time of trouble, and what an operator does about its damage."""

    # -- judging

    def expect(self, truth: Truth) -> None:
        """Add what the web's own survey does not know."""

    def judge(self) -> None:
        """Raises ``AssertionError`` for the first promise that does not hold."""
