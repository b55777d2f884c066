"""What all machines of a simulated cluster share: logs, objects, topics, the network,
coordinators, and the web.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from judging import new_folder
from lycosa.base.config.sections import Config
from lycosa.base.messages.control_records import Record, folded
from lycosa.base.messages.coordinator_messages import CALLER, CONTROL, Answered, Ask, NoMoreAsks
from lycosa.base.messages.timeouts import ClusterRules
from lycosa.base.messages.worker_messages import Seeds
from lycosa.base.model.parcel_items import PartitionKey
from lycosa.base.ports import Addresses, Clock, Parser
from lycosa.base.urls.identity import Sites
from lycosa.cluster.coordinator.coordinator import Coordinator
from lycosa.stages.parse.inline_parser import InlineParser
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.state.exchange.exchange_errors import NoAnswer
from lycosa.state.exchange.exchange_port import Parcel
from lycosa.state.exchange.local import InProcessExchange
from lycosa.state.exchange.topic import MemoryTopics
from lycosa.state.folder import manifest as manifests
from lycosa.state.folder.names import suffix_list
from lycosa.state.shard.opened_shard import PartitionData
from lycosa.synthetic import SyntheticResolver, SyntheticWeb
from lycosa.synthetic.synthetic_web import Responder
from lycosa.synthetic.virtual_clock import VIRTUAL_EPOCH, VirtualClock
from lycosa.worker.assemble import Assembled
from lycosa.worker.extensions import Extensions
from nodes.logs import ShardLogs
from nodes.machine import CURRENT, Machine, Process
from nodes.plugin import Plugin
from nodes.ports import Dead, WorldLog

CRAWL = "00000000-0000-4000-8000-000000000001"
_PROBE_S = 0.5
_SEEDS_AGAIN_S = 3.0


class Runner:
    """One coordinator, and the right to write the control topic as long as no later one has
    claimed it.
    """

    def __init__(self, world: World) -> None:
        world.claims += 1
        self.number, self._world = world.claims, world
        self.is_over = False
        self.coordinator = Coordinator(
            self.number,
            world.shards,
            world.config.limits,
            world.rules,
            world.now(),
            folded(world.control),
        )
        self._task = world.spawn(self._tick())

    def end(self) -> None:
        self.is_over = True
        self._task.cancel()

    def receive(self, sender: str, message: Any) -> None:
        if not self.is_over:
            self._send(self.coordinator.handle_message(sender, message, self._world.now()))

    def _send(self, outgoing: Sequence[Any]) -> None:
        for each in outgoing:
            if each.receiver == CONTROL:
                if self._world.claims != self.number:
                    self.end()  # a later one has claimed the topic: nothing of what follows is said
                    return
                self._world.control.append(each.message)
            elif each.receiver == CALLER:
                self._world.answered(each.message)
            else:
                self._world.tell_machine(each.receiver, each.message)

    async def _tick(self) -> None:
        while not (self.coordinator.is_over or self.coordinator.superseded_by):
            await asyncio.sleep(_PROBE_S)
            wall = VIRTUAL_EPOCH + self._world.now() + self._world.coordinator_off_s
            self._send(self.coordinator.tick(self._world.now(), wall))
        self.is_over = True


class Setting(NamedTuple):
    """Where a history takes place."""

    folder: Path
    seed: int
    shards: int
    nodes: int
    config: Config
    web: SyntheticWeb
    answers: Responder
    hosts_per_address: float
    plugins: Sequence[Plugin]


class World:
    """Everything beside machines. All chance follows from ``seed``."""

    def __init__(self, setting: Setting) -> None:
        self.folder, self.seed, self.shards = setting.folder, setting.seed, setting.shards
        self.chance = random.Random(f"world {self.seed}")
        self.config, self.answers = setting.config, setting.answers
        self.plugins, self._nodes = setting.plugins, setting.nodes
        self.clocks_differ_s = min([1.9, *(each.CLOCKS_DIFFER_S for each in self.plugins)])
        self.is_troubled = True
        self.coordinator_off_s = 0.0
        self.faults: Counter[str] = Counter()
        self.told: list[str] = []
        self.allowed: tuple[str, ...] = ()  # user code, by machines that begin from now on
        # processes that were started: machine, shard, digests in force, and those allowed there
        self.code_starts: list[tuple[str, int, set[str], set[str]]] = []
        self.log = WorldLog()
        self.logs = ShardLogs(CRAWL, self.shards)
        self.objects: dict[str, bytes] = {}
        self.topics = MemoryTopics()
        self.control: list[Record] = []
        self.claims = 0
        self.rules = ClusterRules()
        self.resolver = SyntheticResolver(
            setting.web.hosts, VirtualClock(), hosts_per_address=setting.hosts_per_address
        )
        self.last_machine: dict[int, Machine] = {}
        self.machines: dict[str, Machine] = {}
        self.owners: dict[int, Process] = {}
        self.runners: list[Runner] = []
        self._mesh = InProcessExchange()
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._named = 0
        asyncio.get_running_loop().set_task_factory(_owned_task)
        self._answers: dict[str, Answered] = {}
        self.failure: BaseException | None = None
        place = new_folder(self.folder / "manifest")
        self.sites = Sites(suffix_list(place))
        self.manifest = manifests.create_crawl(
            place, manifests.identity_of(self.config, self.sites), "simulated", VIRTUAL_EPOCH, CRAWL
        )

    @staticmethod
    def now() -> float:
        return asyncio.get_running_loop().time()

    @property
    def node_politeness(self) -> Any:
        """Each machine has a table of its own, so delays of addresses are longer and slots
        fewer.
        """
        section = self.config.politeness
        return msgspec.structs.replace(
            section,
            address_delay_s=section.address_delay_s * self._nodes,
            address_slots=max(section.address_slots // self._nodes, 1),
        )

    def parser(self, process: Process, config: ParserConfig) -> Parser:
        """The parser of a process."""
        parser: Parser = InlineParser(config)
        for plugin in self.plugins:
            parser = plugin.wrap_parser(process, parser)
        return parser

    def extensions(self, process: Process) -> Extensions:
        """What users added to a process."""
        callers = [plugin.code(process) for plugin in self.plugins]
        return Extensions(code=next(filter(None, callers), None))

    def addresses_of(self, process: Process, clock: Clock) -> Addresses:
        """The slots of addresses of a process: those of its machine."""
        table: Addresses = process.machine.addresses.join(self.node_politeness)
        for plugin in self.plugins:
            table = plugin.wrap_addresses(process, table, clock)
        return table

    async def leave(self, process: Process) -> None:
        """A process ends in order."""
        for plugin in self.plugins:
            await plugin.leave(process)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if (
            not task.cancelled()
            and (error := task.exception()) is not None
            and not isinstance(error, Dead)
        ):
            self.failure = self.failure or error

    def state(self) -> str:
        """For people, when a history does not end."""
        owners = {shard: owner.state() for shard, owner in sorted(self.owners.items())}
        return f"{self.newest.coordinator!r} {list(self.machines.values())!r} {owners}"

    def wind_up(self) -> None:
        """The history is over: nothing runs on."""
        for task in list(self._tasks):
            task.cancel()

    def add_machine(self) -> Machine:
        self._named += 1
        machine = Machine(self, f"n{self._named}")
        self.machines[machine.name] = machine
        return machine

    def living(self) -> list[Machine]:
        return [machine for machine in self.machines.values() if not machine.is_dead]

    # -- network

    def _deliver(self, act: Callable[[], None]) -> None:
        kind = (
            self.chance.choices(("", "lost", "twice", "late"), (94, 2, 2, 2))[0]
            if self.is_troubled
            else ""
        )
        self.faults["message"] += bool(kind)
        if kind == "lost":
            return
        for _ in range(2 if kind == "twice" else 1):
            seconds = self.chance.uniform(0.001, 0.03) + (
                self.chance.uniform(0.0, 20.0) if kind == "late" else 0.0
            )
            asyncio.get_running_loop().call_later(seconds, act)

    def tell_coordinators(self, machine: Machine, message: Any) -> None:
        """To all that think they are it, as nodes know addresses and not who is right."""

        def arrive() -> None:
            if not machine.is_cut_off:
                for runner in self.runners:
                    runner.receive(machine.name, message)

        if not machine.is_cut_off:
            self._deliver(arrive)

    def tell_machine(self, name: str, message: Any) -> None:
        machine = self.machines.get(name)

        def arrive() -> None:
            if machine is not None and not machine.is_dead and not machine.is_cut_off:
                machine.handle_message(message)

        if machine is not None and not machine.is_cut_off:
            self._deliver(arrive)

    # -- coordinators

    def start_coordinator(self) -> Runner:
        runner = Runner(self)
        self.runners = [each for each in self.runners if not each.is_over] + [runner]
        return runner

    @property
    def newest(self) -> Runner:
        return self.runners[-1]

    # -- calls

    def answered(self, message: Any) -> None:
        if isinstance(message, Answered):
            self._answers[message.call] = message

    async def give_seeds(self, seeds: Sequence[str], call: str = "seeds") -> None:
        """As a caller does: repeated until it is answered, whatever coordinator hears it."""
        request = Seeds(call, list(seeds))
        while request.call not in self._answers:
            for runner in list(self.runners):
                runner.receive(CALLER, Ask(request))
            await asyncio.sleep(_SEEDS_AGAIN_S)

    def no_more_seeds(self) -> None:
        for runner in list(self.runners):
            runner.receive(CALLER, NoMoreAsks())

    # -- what processes reach

    def inquiry_register(self, process: Process, assembled: Assembled) -> None:
        """The shard's owner answers from now on; one before it, which may still live, does not.

        A machine that hung while it claimed the shard comes late: callers know a later owner.
        """
        known, incoming = self.owners.get(process.shard), assembled.incoming
        if known is not None and known.term > process.term:
            return
        self.owners[process.shard] = process
        self._mesh.receivers.register_partition(
            process.shard,
            incoming.receive_parcel,
            incoming.look_up(process.shard),
            partial(assembled.calls.answer_call, process.shard),
        )

    async def call_owner(self, shard: int, body: bytes, within_s: float = 30.0) -> bytes:
        """A program that is not of the crawl calls a shard's owner. Raises ``NoAnswer``."""
        process = self.owners.get(shard)
        if process is None or not process.answers or process.machine.is_cut_off:
            raise NoAnswer(f"shard {shard} has no owner that answers")

        async def answer() -> bytes:
            await process.gate()
            reply = await self._mesh.receivers.call_owner(shard, body)
            await process.gate()
            return reply

        token = CURRENT.set(process)
        task = asyncio.get_running_loop().create_task(answer())
        CURRENT.reset(token)
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.wait([task], timeout=within_s)
        if not task.done() or task.cancelled() or process.machine.is_cut_off:
            raise NoAnswer(f"the owner of shard {shard} gave no answer")
        return task.result()

    def inquiry(self, process: Process) -> NodeInquiry:
        return NodeInquiry(process, self._mesh)

    def inbound(self, process: Process) -> NodeInbound:
        return NodeInbound(process, self.topics)

    def local_table(self, machine: Machine, shard: int) -> PartitionData | None:
        """A table that an earlier process left on this machine, where one may be used. None ever
        is.
        """
        return None


def _owned_task(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
    if (process := CURRENT.get()) is not None:
        process.adopt(task)
    return task


class NodeInquiry:
    """Questions to other owners: late, or unanswered, when either side is away."""

    def __init__(self, process: Process, mesh: InProcessExchange) -> None:
        self._process, self._mesh = process, mesh

    async def look_up_keys(self, keys: Sequence[PartitionKey]) -> dict[bytes, bytes | None]:
        await self._process.gate()
        await asyncio.sleep(0.002)
        machine = self._process.machine
        if machine.is_cut_off or (
            machine.world.is_troubled and machine.world.chance.random() < 0.05
        ):
            return {}
        owners = {shard: owner for shard, owner in machine.world.owners.items() if owner.answers}
        found = await self._mesh.look_up_keys([key for key in keys if key[0] in owners])
        await self._process.gate()
        return found

    async def call_owner(self, destination: int, body: bytes) -> bytes:
        await self._process.gate()
        return await self._mesh.call_owner(destination, body)

    async def close(self) -> None:
        """The mesh belongs to all."""


class NodeInbound:
    """The reading end of an inbox topic."""

    def __init__(self, process: Process, topics: MemoryTopics) -> None:
        self._process, self._topics = process, topics

    async def read_parcels(self, after: int) -> list[tuple[int, Parcel | None]]:
        while True:
            await self._process.gate()
            found = await self._topics.read_parcels(self._process.shard, after)
            await self._process.gate()
            if not self._process.machine.is_cut_off:
                return found
            await asyncio.sleep(1.0)

    async def last_position(self) -> int:
        while True:
            await self._process.gate()
            if not self._process.machine.is_cut_off:
                return self._topics.last_position(self._process.shard)
            await asyncio.sleep(1.0)

    async def trim(self, position: int) -> None:
        await self._process.gate()
        if not self._process.machine.is_cut_off:
            self._topics.trim(self._process.shard, position)
