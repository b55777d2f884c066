"""Faults of a cluster, drawn by a seed: what they hit, when, for how long, and how they are undone.

They may overlap: a node is cut off while a broker is down and the coordinator is started again. Only
what is already disturbed is not hit again before it is well.
"""

from __future__ import annotations

import heapq
import json
import random
import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from typing import NamedTuple

from proofs.cluster_parts import Cluster, Node
from proofs.programs import send
from relay import Cut

_PATIENCE_S = 60.0  # without progress, the next fault comes all the same


class Fault(Enum):
    """What happens."""

    WORKER_KILLED = "worker killed"
    NODE_KILLED = "node's program killed"
    MACHINE_LOST = "machine lost"
    NODE_LEFT = "node left in order"
    COORDINATOR_KILLED = "coordinator killed"
    BROKER_KILLED = "broker killed"
    WORKER_STOPPED = "worker stopped and woken"
    MACHINE_STOPPED = "machine stopped and woken"
    NODE_CUT = "node cut off and healed"
    NODE_BLACKHOLED = "node blackholed and healed"
    CLOCK_WRONG = "coordinator with a wrong clock"
    OBJECTS_CONFLICT = "all puts in conflict"
    FOREIGN_RECORDS = "topics with foreign records"


_WEIGHTS = {
    Fault.WORKER_KILLED: 10,
    Fault.NODE_KILLED: 4,
    Fault.MACHINE_LOST: 5,
    Fault.NODE_LEFT: 2,
    Fault.COORDINATOR_KILLED: 5,
    Fault.BROKER_KILLED: 5,
    Fault.WORKER_STOPPED: 2,
    Fault.MACHINE_STOPPED: 3,
    Fault.NODE_CUT: 3,
    Fault.NODE_BLACKHOLED: 3,
    Fault.CLOCK_WRONG: 3,
    Fault.OBJECTS_CONFLICT: 2,
    Fault.FOREIGN_RECORDS: 2,
}
_CUTS = {Fault.NODE_CUT: Cut.RESET, Fault.NODE_BLACKHOLED: Cut.SILENT}
_OF_NODES = {
    Fault.NODE_KILLED,
    Fault.MACHINE_LOST,
    Fault.NODE_LEFT,
    Fault.MACHINE_STOPPED,
    *_CUTS,
}
_IN_USE = "is in use by process"
_RESTART_S = 10.0
_CLOCKS_S = (-400 * 86400.0, -3600.0, -30.0, 30.0, 3600.0, 400 * 86400.0)
"""By how much a wrong clock is ahead; nodes may differ by 2 s."""


class Planned(NamedTuple):
    """A fault, and the share of the undisturbed crawl's requests after which it comes."""

    moment: float
    fault: Fault


def planned_faults(count: int, chance: random.Random) -> list[Planned]:
    """Each kind in its share; a small number has each kind once first."""
    kinds = list(_WEIGHTS)
    chance.shuffle(kinds)
    found = kinds[:count]
    found += chance.choices(kinds, [_WEIGHTS[each] for each in kinds], k=count - len(found))
    chance.shuffle(found)
    moments = sorted(chance.uniform(0.02, 0.85) for _ in range(count))
    return [Planned(*each) for each in zip(moments, found, strict=True)]


class Undo(NamedTuple):
    """What ends a fault; ordered by time."""

    at: float
    number: int
    act: Callable[[], None]


class Disturber:
    """Brings the planned faults over a cluster; ``step`` is called again and again.

    ``tell`` gets a line for each. What blocks (a broker that starts) runs on a thread; an error of
    it is raised by the next step.
    """

    def __init__(
        self,
        cluster: Cluster,
        faults: list[Planned],
        chance: random.Random,
        tell: Callable[[str], None],
    ) -> None:
        self._cluster, self._chance, self._tell = cluster, chance, tell
        self._left = list(reversed(faults))
        self._undo: list[Undo] = []
        self._threads = ThreadPoolExecutor(4)
        self._under_way: list[Future[None]] = []
        self._disturbed: set[object] = set()
        self._last = self._managed = time.monotonic()
        self._number = 0
        self.done: Counter[str] = Counter()
        self.foreign: list[bytes] = []
        """Foreign records in the inboxes of shards."""
        self.clocks: Counter[str] = Counter()
        """What coordinators with a wrong clock said of it."""
        self.wrong: list[str] = []
        """What a fault did that it must not do, however the crawl ends."""

    @property
    def is_over(self) -> bool:
        """All faults came, and all are undone."""
        return not (self._left or self._undo or self._under_way)

    def step(self, share: float) -> None:
        """``share`` is how many requests there were, of those of the undisturbed crawl."""
        now = time.monotonic()
        for each in [each for each in self._under_way if each.done()]:
            self._under_way.remove(each)
            each.result()
        while self._undo and self._undo[0].at <= now:
            heapq.heappop(self._undo).act()
        if now - self._managed >= _RESTART_S:
            self._managed = now
            self._manage()
        if self._left and (share >= self._left[-1].moment or now - self._last > _PATIENCE_S):
            self._last = now
            self._begin(self._left.pop().fault)

    def undo_all(self) -> None:
        """Everything is well again, at once."""
        self._left.clear()
        while self._undo:
            heapq.heappop(self._undo).act()
        for each in self._under_way:
            each.result(180)
        self._under_way.clear()
        self._threads.shutdown()

    def _manage(self) -> None:
        """Starts nodes that found their folder in use, as a service manager does: a worker that is
        stopped holds it after its node was killed.
        """
        for node in self._cluster.nodes:
            if node in self._disturbed or node.is_running:
                continue
            *_, last = ["", *node.said().splitlines()]
            assert _IN_USE in last, f"{node.name} ended: {node.said()}"
            self._tell(f"{node.name} is started once more: its folder was in use")
            node.start()

    # -- faults

    def _begin(self, fault: Fault) -> None:
        acts = {
            Fault.WORKER_KILLED: self._kill_worker,
            Fault.WORKER_STOPPED: self._stop_worker,
            Fault.COORDINATOR_KILLED: self._kill_coordinator,
            Fault.BROKER_KILLED: self._kill_broker,
            Fault.CLOCK_WRONG: self._set_clock,
            Fault.OBJECTS_CONFLICT: self._conflict,
            Fault.FOREIGN_RECORDS: self._write_foreign,
        }
        if fault in _OF_NODES:
            well = [node for node in self._cluster.nodes if self._is_well(node)]
            what = self._disturb_node(fault, self._chance.choice(well)) if well else ""
        else:
            what = acts[fault]()
        if not what:  # all that it could hit is disturbed: later
            self._left.append(Planned(0.0, fault))
            self._last = time.monotonic()
            return
        self.done[fault.value] += 1
        self._tell(f"{fault.value}: {what}")

    def _is_well(self, node: Node) -> bool:
        return node not in self._disturbed and node.is_running

    def _later(self, seconds: float, what: object, act: Callable[[], None], said: str) -> None:
        """Undoes a fault after a time; ``what`` counts as disturbed until then."""
        self._disturbed.add(what)
        self._number += 1

        def undo() -> None:
            act()
            self._disturbed.discard(what)
            self._tell(said)

        heapq.heappush(self._undo, Undo(time.monotonic() + seconds, self._number, undo))

    def _worker(self) -> tuple[Node, int] | None:
        found = [
            (node, worker)
            for node in self._cluster.nodes
            if self._is_well(node)
            for worker in node.workers()
            if worker not in self._disturbed
        ]
        return self._chance.choice(found) if found else None

    def _kill_worker(self) -> str:
        if (found := self._worker()) is None:
            return ""
        send(found[1], signal.SIGKILL)
        return f"{found[1]} of {found[0].name}"

    def _stop_worker(self) -> str:
        if (found := self._worker()) is None:
            return ""
        node, worker = found
        send(worker, signal.SIGSTOP)
        said = f"{worker} of {node.name} woken"
        self._later(self._cluster.size.stop_s, worker, lambda: send(worker, signal.SIGCONT), said)
        return f"{worker} of {node.name}"

    def _kill_coordinator(self) -> str:
        coordinator = self._cluster.coordinator
        if coordinator in self._disturbed:
            return ""
        assert coordinator.is_running, f"the coordinator had ended: {coordinator.said()}"
        coordinator.kill()
        seconds = self._chance.choice([0.0, self._chance.uniform(5, 40)])
        self._later(seconds, coordinator, coordinator.start, "coordinator started")
        return f"for {seconds:.0f} s"

    def _set_clock(self) -> str:
        coordinator = self._cluster.coordinator
        if coordinator in self._disturbed:
            return ""
        coordinator.kill()
        ahead_s = self._chance.choice(_CLOCKS_S)
        coordinator.start(ahead_s)

        def correct() -> None:
            self._tell(f"clocks: {self._judge_clocks()}")
            coordinator.kill()
            coordinator.start()

        seconds = self._cluster.size.stop_s
        self._later(seconds, coordinator, correct, "coordinator started with the right clock")
        return f"{ahead_s:+.0f} s"

    def _judge_clocks(self) -> str:
        """What the coordinator with the wrong clock says of all clocks. No node's may be wrong."""
        asked = self._cluster.run(
            "cluster", "status", str(self._cluster.file), "--json", timeout=30
        )
        if asked.code:  # it waits for a broker, and so gave no orders
            self.clocks["not asked"] += 1
            return asked.err.strip()
        found = json.loads(asked.out)
        blamed = [
            node["name"]
            for node in found["nodes"]
            if node["clock"] == "wrong" and not node["is_lost"]
        ]
        if blamed:
            self.wrong.append(
                f"a coordinator with a wrong clock takes those of {blamed} for wrong:"
                f" {found['clock_alarm']}"
            )
        if found["clock"] == "right" and any(node["clock"] == "right" for node in found["nodes"]):
            self.wrong.append("a coordinator with a wrong clock takes it for right")
        self.clocks[found["clock"]] += 1
        return str(found["clock_alarm"] or found["clock"])

    def _conflict(self) -> str:
        cluster = self._cluster
        if cluster.proxy in self._disturbed:
            return ""
        cluster.all_conflict, seconds = True, self._chance.uniform(5, 20)

        def end() -> None:
            cluster.all_conflict = False

        self._later(seconds, cluster.proxy, end, "puts are stored again")
        return f"for {seconds:.0f} s"

    def _write_foreign(self) -> str:
        """Into each partition of each topic, from a program that knows nothing of the crawl."""
        if (broker := self._cluster.broker) in self._disturbed:
            return ""
        topics, name = self._cluster.topics, uuid.uuid4().hex
        places = [(topics.named("control"), 0, b"settings")]
        kinds = ("changelog", "inbox", "pages", "dlq")
        places += [(topics.named(kind), n, None) for kind in kinds for n in range(topics.shards)]

        def write() -> None:
            for topic, partition, key in places:
                junk = f"{name} for {topic}/{partition}".encode()
                broker.write(topic, partition, [junk, b"{}", b""], key)
                if topic == topics.inbox:
                    self.foreign.append(junk)

        self._under_way.append(self._threads.submit(write))
        return f"3 in each of {len(places)} partitions"

    def _kill_broker(self) -> str:
        broker = self._cluster.broker
        if broker in self._disturbed:
            return ""
        number = self._chance.randrange(self._cluster.size.brokers)
        broker.kill(number)
        seconds = self._chance.uniform(2, 20)
        self._disturbed.add(broker)

        def restart() -> None:
            broker.start()
            self._disturbed.discard(broker)

        self._later(
            seconds,
            object(),
            lambda: self._under_way.append(self._threads.submit(restart)),
            f"broker {number + 1} started",
        )
        return f"{number + 1} for {seconds:.0f} s"

    def _disturb_node(self, fault: Fault, node: Node) -> str:
        seconds = self._chance.uniform(2, 40)
        if (how := _CUTS.get(fault)) is not None:
            node.network.cut_off(how)
            seconds = self._cluster.size.stop_s
            self._later(seconds, node, node.network.heal, f"{node.name} healed")
            return node.name
        if fault is Fault.MACHINE_STOPPED:
            everything = node.everything()
            for pid in everything:
                send(pid, signal.SIGSTOP)
            seconds = self._cluster.size.stop_s

            def wake() -> None:
                for pid in everything:
                    send(pid, signal.SIGCONT)

            self._later(seconds, node, wake, f"{node.name} woken")
            return f"{node.name}, {len(everything)} processes"
        if fault is Fault.NODE_LEFT:
            node.signal(signal.SIGTERM)
            self._later(seconds + 20, node, lambda: self._return(node), f"{node.name} started")
            return f"{node.name} for {seconds + 20:.0f} s"
        node.kill() if fault is Fault.NODE_KILLED else node.kill_everything()
        is_empty = fault is Fault.MACHINE_LOST and self._chance.random() < 0.5
        if is_empty:
            node.lose_disk()
        self._later(seconds, node, node.start, f"{node.name} started")
        return f"{node.name}{' with its disk' if is_empty else ''} for {seconds:.0f} s"

    def _return(self, node: Node) -> None:
        """A node that was told to leave has left by now, or is one more that hangs."""
        assert node.wait(60), f"{node.name} did not leave: {node.said()}"
        node.start()
