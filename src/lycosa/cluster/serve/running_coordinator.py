"""Runs a coordinator: handles one message at a time, and saves records before it sends what follows
from them.

While a record waits for Kafka, everything that the coordinator would send waits, and no other
message is handled. The crawl itself continues meanwhile. The coordinator ends when another one has
claimed the crawl: a record is refused, a node names a greater number, or the topic has a later
claim.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec

from lycosa.base.config.sections import LimitSection
from lycosa.base.messages import coordinator_messages as messages
from lycosa.base.messages.control_records import Record
from lycosa.base.messages.progress import ProcessMemory
from lycosa.base.messages.timeouts import ClusterRules
from lycosa.base.system.process_memory import cpu_s, held_by
from lycosa.cluster.coordinator.coordinator import Coordinator
from lycosa.cluster.serve.coordinator_links import NodeLinks, PeerLink
from lycosa.cluster.serve.saved_records import SavedRecords
from lycosa.state.commit import Fenced, OutcomeUnknown

_TICK_S = 0.25
_WATCH_S = 5.0  # between two looks for a later claim
TellOperator = Callable[[str], None]
"""Gets lines for the operator."""


class ServeEnd(msgspec.Struct, frozen=True):
    """How a coordinator ended: it was told to, or another one has the crawl."""

    is_superseded: bool = False


class RunningCoordinator:
    """One coordinator of the crawl ``name``, from its claim to its end."""

    def __init__(self, name: str, records: SavedRecords, tell: TellOperator) -> None:
        self._name, self._records, self._tell = name, records, tell
        self._coordinator: Coordinator | None = None
        self._turn = asyncio.Lock()
        self.waits_for = ""
        self.nodes = NodeLinks()
        self.callers: set[PeerLink] = set()
        self.ready = asyncio.Event()
        self.over: asyncio.Future[ServeEnd] = asyncio.get_running_loop().create_future()

    # -- its life

    async def claim(self, shards: int, limits: LimitSection, rules: ClusterRules) -> None:
        """Claim the crawl, and be its coordinator from now on.

        Raises ``Fenced`` when another one claims at the same time, ``ControlDamaged``, and
        ``OutcomeUnknown`` after ``finish``.
        """
        number, control = await self._records.claim()
        self._coordinator = Coordinator(number, shards, limits, rules, time.monotonic(), control)
        self._tell(f"coordinator {number} of the crawl {self._name}")
        self.ready.set()

    @property
    def is_over(self) -> bool:
        """Whether this coordinator has ended."""
        return self.over.done()

    def objection(self, message: messages.CallerMessage) -> messages.Refused | None:
        """See ``CalledCoordinator``: a coordinator of a cluster accepts requests at all times."""
        return None

    async def run(self) -> None:
        """Let the clock advance, and look for later claims, until the end.

        Raises ``ControlDamaged``.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._tick())
                tasks.create_task(self._watch())
        except ExceptionGroup as group:
            # The first error ends the other task. The group would hide what an operator has to do.
            raise group.exceptions[0] from group

    def finish(self, end: ServeEnd) -> None:
        """End: nothing is handled or sent from now on."""
        if not self.over.done():
            self.over.set_result(end)

    def part_from_peers(self) -> None:
        """Tell callers that this coordinator ends, and close all connections."""
        for caller in self.callers:
            # Not final: the caller looks for the next coordinator and repeats its request.
            caller.send_last(messages.Refused("this coordinator has ended", is_final=False))
        for node in self.nodes:
            node.close()

    def note_waiting(self, text: str) -> None:
        """Note what the records wait for; an empty text when they wait no longer."""
        if text and not self.waits_for:
            self._tell(f"waiting: {text}")
        elif self.waits_for and not text:
            self._tell("waiting is over")
        self.waits_for = text

    # -- messages that it receives

    async def receive(self, sender: str, message: messages.ToCoordinator) -> None:
        """Handle a message, and send what follows from it."""
        # One message at a time: a record has to be safe before what follows from it, and the next
        # message may depend on both.
        async with self._turn:
            # Asked again within the lock: it may have ended while this message waited.
            if not self.over.done():
                coordinator = self._coordinator
                assert coordinator is not None, "the crawl is claimed first"
                await self._send(coordinator.handle_message(sender, message, time.monotonic()))
                if coordinator.superseded_by:
                    self.finish(ServeEnd(is_superseded=True))

    def follow_limits(self, limits: LimitSection) -> None:
        """Follow changed limits of the stored settings."""
        assert self._coordinator is not None
        self._coordinator.follow_limits(limits)

    def status(self) -> messages.ClusterStatus:
        """The state of everything; does not wait while a record does."""
        assert self._coordinator is not None
        status = self._coordinator.status(self._name, time.monotonic())
        mine = ProcessMemory("coordinator", *held_by(), cpu_s())
        progress = status.progress
        progress = msgspec.structs.replace(progress, memory=[mine, *progress.memory])
        if self._records.foreign:
            name = "lycosa_foreign_records_total"
            counts = {**progress.meter.numbers.get(name, {}), "control": self._records.foreign}
            progress = progress.with_numbers({}, {name: counts})
        return msgspec.structs.replace(status, waits_for=self.waits_for, progress=progress)

    def health(self) -> tuple[bool, str]:
        """Whether it has the crawl, and its state in one line."""
        if not self.ready.is_set():
            return False, f"does not have the crawl yet: {self.waits_for or 'it has just started'}"
        number = self._coordinator.number if self._coordinator is not None else 0
        waits = f"; waits: {self.waits_for}" if self.waits_for else ""
        return True, f"coordinator {number} of the crawl {self._name}{waits}"

    async def _tick(self) -> None:
        coordinator, told_end = self._coordinator, ""
        assert coordinator is not None
        while not self.over.done():
            async with self._turn:
                if not self.over.done():
                    await self._send(coordinator.tick(time.monotonic(), time.time()))
            end = coordinator.crawl_end.value if coordinator.crawl_end else ""
            if end != told_end:
                self._tell(f"the crawl ends: {end}" if end else "the crawl continues")
                told_end = end
            await asyncio.sleep(_TICK_S)

    async def _watch(self) -> None:
        assert self._coordinator is not None
        while not self.over.done():
            # Only now and then: a coordinator that was replaced learns it at its next record
            # anyway, and one that has none to write learns it here.
            await asyncio.sleep(_WATCH_S)
            try:
                newest = await self._records.newest_number()
            except OutcomeUnknown:
                return  # the records were closed
            if newest > self._coordinator.number:
                self.finish(ServeEnd(is_superseded=True))

    # -- what it sends

    async def _send(self, outgoing: Sequence[messages.OutgoingMessage]) -> None:
        """Send in this order; a record is safe before what follows it is sent."""
        records: list[Record] = []
        for each in outgoing:
            message = each.message
            if each.receiver == messages.CONTROL:
                assert not isinstance(
                    message, messages.Assignments | messages.Relay | messages.Answered
                )
                records.append(message)
                continue
            if not await self._save(records):
                return
            records = []
            if isinstance(message, messages.Answered):
                self._answer(message)
            elif isinstance(message, messages.Assignments | messages.Relay):
                self.nodes.send_message(each.receiver, message)
        await self._save(records)

    async def _save(self, records: list[Record]) -> bool:
        """Write records; false when this is no longer the coordinator."""
        if not records:
            return True
        try:
            await self._records.save(records)
        except OutcomeUnknown:
            return False  # the records were closed
        except Fenced:
            self.finish(ServeEnd(is_superseded=True))
            return False
        return not self.over.done()

    def _answer(self, message: messages.Answered) -> None:
        for caller in self.callers:
            if message.call in caller.calls:
                caller.calls.discard(message.call)
                caller.send_message(message)
