"""A small world of coordinators and nodes: the real ``Coordinator`` and ``NodePlan``, small workers
over logs that fence, a network.

Messages wait in the network until they are delivered, in any order, twice, or never. Several
coordinators may live at once; only the last that claimed can write records. A worker claims its
shard's log when it starts, and all that it does is a commit there. ``World`` checks after each step
what must always hold; ``heal`` lets everything arrive and expects the crawl to come to its end.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from typing import Any

from lycosa.base.config.sections import LimitSection
from lycosa.base.messages.control_records import EndSaved, Record, folded
from lycosa.base.messages.coordinator_messages import (
    CALLER,
    CONTROL,
    Answered,
    Ask,
    Assignments,
    NoMoreAsks,
    OutgoingMessage,
    Said,
    Superseded,
    ToCoordinator,
)
from lycosa.base.messages.progress import Progress
from lycosa.base.messages.timeouts import ClusterRules
from lycosa.base.messages.worker_messages import (
    Ended,
    Failed,
    FromWorker,
    LiveSettings,
    NoMoreCalls,
    Permit,
    Probe,
    ProbeAnswer,
    Seeds,
    SeedsTaken,
    Stop,
    ToWorker,
    WorkerStatus,
)
from lycosa.cluster.coordinator.coordinator import Coordinator
from lycosa.cluster.coordinator.node_acts import (
    Died,
    Machine,
    NodeAct,
    Reply,
    StartWorker,
    TellCoordinator,
    TellWorker,
)
from lycosa.cluster.coordinator.node_plan import NodePlan
from lycosa.worker.visit.permits import GrantedPermits
from progress_making import progress_with

FENCED = Failed("lycosa.state.commit.log_port.Fenced", "another owner", "")
RULES = ClusterRules(node_timeout_s=20.0, repeat_s=3.0, low_disk=0, low_memory=0)
PLENTY = 1 << 40


class Log:
    """What a shard has committed, and its claims."""

    def __init__(self) -> None:
        self.claims: list[int] = []  # assignment numbers; the n-th begins term n
        self.commits = self.captures = self.work = self.inbox = 0
        self.taken: set[str] = set()
        # by process that was started: its node, and the digests of the code in force there
        self.code: list[tuple[str, set[str]]] = []


class Worker:
    """The process of a shard."""

    def __init__(self, world: World, shard: int, term: int) -> None:
        self.world, self.shard, self.term = world, shard, term
        self.log = world.logs[shard]
        self.permits = GrantedPermits(world.limits, self.log.captures)
        self.pending = 0  # captures that are not committed
        self.expects_more = True
        self.stop: Stop | None = None
        self.settings = 0

    @property
    def is_fenced(self) -> bool:
        return len(self.log.claims) != self.term

    @property
    def is_idle(self) -> bool:
        return not (self.log.work or self.log.inbox or self.pending or self.expects_more)

    def status(self) -> WorkerStatus:
        permits = self.permits
        return WorkerStatus(
            self.term,
            permits.counted,
            permits.serial,
            permits.may,
            permits.is_waiting,
            self.expects_more,
            self.settings,
        )

    def report(self) -> list[FromWorker]:
        if self.is_idle:
            self.permits.return_unused()
        log = self.log
        progress = progress_with(
            captures=log.captures,
            commits=log.commits,
            is_idle=self.is_idle,
        )
        return [self.status(), progress]

    def capture(self) -> None:
        """Fetches one page of its work, if it may."""
        if self.log.work > self.pending and self.stop is None and self.permits.take_permit():
            self.permits.use_permit(0)
            self.pending += 1

    def commit(self, post_to: int | None = None) -> bool:
        """Commits what it captured; with ``post_to`` each page leads to another one there. False
        when it is fenced.
        """
        if self.is_fenced:
            return False
        log = self.log
        if self.pending or log.inbox:
            if post_to is not None and self.pending:
                self.world.logs[post_to].inbox += 1
            log.commits += 1
            log.captures += self.pending
            log.work += log.inbox - self.pending
            self.pending = log.inbox = 0
        return True

    def handle_message(self, message: ToWorker) -> list[FromWorker] | None:
        """What it says to that; ``None`` when it is fenced."""
        if isinstance(message, Seeds):
            if message.call not in self.log.taken:
                if self.is_fenced:
                    return None
                self.log.taken.add(message.call)
                self.log.work += len(message.raw)
                self.log.commits += 1
            return [SeedsTaken(message.call, [])]
        if isinstance(message, Probe):
            if self.is_fenced and self.is_idle:
                pass  # it does not know yet, and says what it believes
            return [ProbeAnswer(message.round, self.is_idle, 0, False, self.log.commits)]
        if isinstance(message, NoMoreCalls):
            self.expects_more = False
        elif isinstance(message, Permit):
            self.permits.set_permit(message.serial, message.captures)
        elif isinstance(message, LiveSettings):
            self.settings = max(self.settings, message.version)
        return []


class Node:
    """A machine: a plan and its workers. ``ahead_s`` is how far its clock is off."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.starts = 0
        self.ahead_s = 0.0
        self.free = PLENTY
        self.allowed: tuple[str, ...] = ()
        self.start()

    def start(self) -> None:
        """The node's program begins, with nothing running."""
        self.starts += 1
        self.plan = NodePlan(self.world.now + self.ahead_s + self.starts / 1000.0)
        self.plan.allowed = self.allowed
        self.workers: dict[int, Worker] = {}

    def allow(self, *digests: str) -> None:
        """From now on its machine allows this user code, also after a restart."""
        self.allowed = digests
        self.do(self.plan.allow(digests, self.world.now))

    def tick(self) -> None:
        self.do(
            self.plan.tick(
                self.world.now, Machine(self.world.now + self.ahead_s, self.free, self.free)
            )
        )
        for shard, worker in list(self.workers.items()):
            for message in worker.report():
                self.do(self.plan.handle_worker_message(shard, message, self.world.now))

    def do(self, acts: list[NodeAct], answered: str = "") -> None:
        for act in acts:
            if isinstance(act, StartWorker):
                self._start_worker(act)
            elif isinstance(act, TellWorker):
                self._tell_worker(act)
            elif isinstance(act, TellCoordinator):
                for coordinator in self.world.coordinators:
                    self.world.network.append((self.name, f"c{coordinator}", act.message))
            elif isinstance(act, Reply):
                self.world.network.append((self.name, answered, act.message))

    def _start_worker(self, act: StartWorker) -> None:
        log = self.world.logs[act.shard]
        if objection := self.plan.code_objection:
            failed = Failed("PermissionError", objection, "", is_local=True)
            self.do(self.plan.handle_worker_end(act.shard, failed, self.world.now))
            return
        log.code.append((self.name, {each.digest for each in self.plan.code.values()}))
        if log.claims and max(log.claims) > act.assignment:
            self.do(self.plan.handle_worker_end(act.shard, FENCED, self.world.now))
            return
        log.claims.append(act.assignment)
        worker = self.workers[act.shard] = Worker(self.world, act.shard, len(log.claims))
        worker.stop = self.plan.greeting(act.shard)
        self.do(self.plan.handle_worker_message(act.shard, worker.status(), self.world.now))

    def _tell_worker(self, act: TellWorker) -> None:
        worker = self.workers.get(act.shard)
        if worker is None:
            return
        if isinstance(act.message, Stop):
            worker.stop = act.message
            return
        said = worker.handle_message(act.message)
        if said is None:
            self.end(act.shard, FENCED)
            return
        for message in said:
            self.do(self.plan.handle_worker_message(act.shard, message, self.world.now))

    def end(self, shard: int, how: Ended | Failed | Died) -> None:
        del self.workers[shard]
        self.do(self.plan.handle_worker_end(shard, how, self.world.now))

    def work(self, shard: int, captures: int, post_to: int | None) -> None:
        """One step of a worker: some captures, then a commit; or its end, when it was told to
        stop.
        """
        worker = self.workers.get(shard)
        if worker is None:
            return
        for _ in range(captures):
            worker.capture()
        if not worker.commit(post_to):
            self.end(shard, FENCED)
        elif worker.stop is not None:
            self.end(shard, Ended(worker.stop.end, Progress()))


class World:
    """Nodes, coordinators and what is between them."""

    def __init__(
        self, nodes: int = 3, shards: int = 3, max_pages: int = 0, rules: ClusterRules = RULES
    ) -> None:
        self.now = 1000.0
        self.rules = rules
        self.limits = LimitSection(max_pages=max_pages)
        self.logs = [Log() for _ in range(shards)]
        self.network: deque[tuple[str, str, Any]] = deque()
        self.coordinators: dict[int, Coordinator] = {}
        self.control: list[Record] = []
        self.claims = 0
        # by assignment: shards and nodes that were told so
        self.told: defaultdict[int, set[tuple[int, str]]] = defaultdict(set)
        self.asked: dict[str, Seeds] = {}
        self.answered: set[str] = set()
        self.heard_asks: defaultdict[int, set[str]] = defaultdict(set)
        self.ends: list[str] = []
        self.nodes = {f"n{number}": Node(self, f"n{number}") for number in range(nodes)}
        self.is_closed = False  # the caller asks no more
        self.coordinator_ahead_s = 0.0

    @property
    def latest(self) -> Coordinator:
        return self.coordinators[self.claims]

    # -- what happens

    def start_coordinator(self) -> None:
        self.claims += 1
        control = folded(self.control)
        self.coordinators[self.claims] = Coordinator(
            self.claims, len(self.logs), self.limits, self.rules, self.now, control
        )

    def stop_coordinator(self, number: int) -> None:
        del self.coordinators[number]

    def tick_coordinator(self, number: int) -> None:
        wall = self.now + self.coordinator_ahead_s
        self._carry(number, self.coordinators[number].tick(self.now, wall))

    def _carry(self, number: int, outgoing: list[OutgoingMessage]) -> None:
        """What a runner does: records first; one that cannot be written ends the coordinator."""
        for each in outgoing:
            if each.receiver == CONTROL:
                if number != self.claims:
                    self.coordinators.pop(number, None)
                    return
                assert not isinstance(each.message, Assignments | Answered)
                self.control.append(each.message)  # type: ignore[arg-type]
                self._check_record(number, each.message)
            else:
                if isinstance(each.message, Assignments):
                    for shard, assignment in each.message.shards.items():
                        self.told[assignment].add((shard, each.receiver))
                self.network.append((f"c{number}", each.receiver, each.message))
        if number in self.coordinators and self.coordinators[number].superseded_by:
            del self.coordinators[number]

    def ask(self, call: str, urls: int) -> None:
        self.asked[call] = Seeds(call, [f"http://{n}/" for n in range(urls)])

    def call(self, number: int) -> None:
        """The caller says all that is not answered again."""
        for call, request in self.asked.items():
            if call not in self.answered:
                self.network.append((CALLER, f"c{number}", Ask(request)))
        if self.is_closed and self.answered.issuperset(self.asked):
            self.network.append((CALLER, f"c{number}", NoMoreAsks()))

    def deliver(self, at: int, is_kept: bool = False) -> None:
        """One message arrives; with ``is_kept`` it will arrive again."""
        self.network.rotate(-at)
        sender, receiver, message = self.network[0] if is_kept else self.network.popleft()
        self.network.rotate(at)
        if receiver == CALLER:
            assert isinstance(message, Answered)
            assert all(message.call in log.taken for log in self.logs), (
                "answered before all had committed"
            )
            self.answered.add(message.call)
        elif receiver in self.nodes:
            self._deliver_to_node(self.nodes[receiver], sender, message)
        elif (number := int(receiver[1:])) in self.coordinators:
            self._deliver_to_coordinator(number, sender, message)

    def _deliver_to_node(self, node: Node, sender: str, message: Any) -> None:
        before, greatest = repr(node.plan), node.plan.coordinator
        acts = node.plan.handle_message(message, self.now)
        if message.coordinator < greatest:
            assert acts == [Reply(Superseded(greatest))] and repr(node.plan) == before, (
                "an old coordinator was obeyed"
            )
        node.do(acts, sender)

    def _deliver_to_coordinator(self, number: int, sender: str, message: ToCoordinator) -> None:
        if isinstance(message, Ask):
            self.heard_asks[number].add(message.request.call)
        self._carry(number, self.coordinators[number].handle_message(sender, message, self.now))

    # -- what must hold

    def _check_record(self, number: int, record: object) -> None:
        if not isinstance(record, EndSaved):
            return
        self.ends.append(record.end)
        if record.end == "finished":
            assert all(
                call in log.taken for call in self.heard_asks[number] for log in self.logs
            ), "the end, with a request unanswered"
            assert not sum(log.work + log.inbox for log in self.logs), "the end, with work left"
            coordinator = self.coordinators[number]
            assert all(coordinator.owner_of(shard) for shard in range(len(self.logs))), (
                "the end, with a shard without an owner"
            )

    def check(self) -> None:
        """After each step."""
        for assignment, places in self.told.items():
            assert len(places) == 1, f"assignment {assignment} was told to {places}"
        if limit := self.limits.max_pages:
            assert sum(log.captures for log in self.logs) <= limit
            assert sum(permit.captures for permit in folded(self.control).permits.values()) <= limit
        for log in self.logs:
            assert log.claims == sorted(log.claims), (
                "a lower assignment claimed behind a greater one"
            )

    def storm(
        self,
        chance: random.Random,
        seconds: float,
        loss: float = 0.08,
        deaths: float = 0.02,
        posts: float = 0.5,
    ) -> None:
        """A network that delays, loses and repeats, for a while. Workers work meanwhile, and
        die; so do nodes, more rarely.
        """
        until = self.now + seconds
        while self.now < until:
            self.now += chance.choice((0.05, 0.3, 0.6))
            for node in self.nodes.values():
                self._trouble(node, chance, deaths, posts)
            for number in list(self.coordinators):
                if chance.random() < 0.3:
                    self.call(number)
                self.tick_coordinator(number)
            waiting, self.network = list(self.network), deque()
            chance.shuffle(waiting)
            for each in waiting:
                if chance.random() < loss:
                    continue
                self.network.append(each)
                if chance.random() < 0.5:
                    self.deliver(len(self.network) - 1, is_kept=chance.random() < 0.2)
                    self.check()

    def _trouble(self, node: Node, chance: random.Random, deaths: float, posts: float) -> None:
        if chance.random() < deaths / 10:
            node.start()
        if chance.random() < 0.7:
            node.tick()
        for shard in list(node.workers):
            if chance.random() < deaths:
                node.end(shard, Died("SIGKILL"))
            elif chance.random() < 0.5:
                to = chance.randrange(len(self.logs)) if chance.random() < posts else None
                node.work(shard, chance.randint(0, 3), to)

    # -- peace

    def heal(self, longest_s: float = 600.0) -> None:
        """Everything arrives from now on, and one coordinator is there: the crawl comes to its
        end.
        """
        if self.claims not in self.coordinators:
            self.start_coordinator()
        self.is_closed = True
        began = self.now
        while not self.latest.is_over:
            assert self.now - began < longest_s, (
                f"no end: {self.latest!r} {[node.plan for node in self.nodes.values()]}"
            )
            self.step()
        assert self.latest.crawl_end is not None

    def step(self, seconds: float = 0.5) -> None:
        """A moment of peace."""
        self.now += seconds
        for node in self.nodes.values():
            # a worker that died ten times in a row: the operator starts the node again
            if "failed" in repr(node.plan):
                node.start()
            node.tick()
            for shard in list(node.workers):
                node.work(shard, 5, None)
        for number in list(self.coordinators):
            self.call(number)
            self.tick_coordinator(number)
        while self.network:
            self.deliver(0)
            self.check()

    def settle(self, seconds: float) -> None:
        for _ in range(int(seconds / 0.5)):
            self.step()


__all__ = ["FENCED", "PLENTY", "RULES", "Node", "Said", "Worker", "World"]
