"""Which node a shard is offered, and what looking at all shards and nodes costs."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coordinating import World
from lycosa.base.messages.coordinator_messages import (
    CALLER,
    Move,
    NodeReport,
    ShardReport,
    ShardState,
)
from lycosa.base.messages.timeouts import ClusterRules
from lycosa.base.messages.worker_messages import Failed
from lycosa.cluster.coordinator.candidates import Candidates
from lycosa.cluster.coordinator.node_view import TROUBLED_S, NodeView
from lycosa.cluster.coordinator.placement import Placement

RULES = ClusterRules(low_disk=100, low_memory=0)
PLENTY = 1 << 40


def report(
    serial: int, shards: list[ShardReport], free_disk: int = PLENTY, most: int = 0
) -> NodeReport:
    return NodeReport(1.0, serial, 1, 0, 0.0, free_disk, PLENTY, shards, most_shards=most)


def plain_choice(
    nodes: list[NodeView], load: dict[str, int], present: str, wanted: str
) -> NodeView | None:
    """The rule without the heap: look at every node."""
    able = [
        node
        for node in nodes
        if node.may_have(RULES) and (present == node.name or node.has_room(load[node.name]))
    ]
    chosen = next((node for node in able if node.name == wanted), None)
    return chosen or min(able, key=lambda node: (load[node.name], node.name), default=None)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[NodeView], dict[str, int]]:
    nodes, load = [], {}
    for number in range(draw(st.integers(0, 6))):
        node = NodeView(f"n{number}")
        has_disk, most = draw(st.booleans()), draw(st.sampled_from((0, 0, 1, 3)))
        node.record_report(report(1, [], PLENTY if has_disk else 1, most), 0.0, 20.0, 0.0)
        node.judge_clock(0.0, 0.0, 2.0)
        node.is_admitted = draw(st.sampled_from((True, True, False)))
        nodes.append(node)
        load[node.name] = draw(st.integers(0, 4))
    return nodes, load


_NAMES = st.sampled_from(("", *(f"n{number}" for number in range(6))))


@given(clusters(), st.lists(st.tuples(_NAMES, _NAMES, st.integers(-2, 2)), max_size=20))
def test_a_shard_goes_to_the_chosen_node_or_to_the_one_with_the_fewest(
    cluster: tuple[list[NodeView], dict[str, int]], wishes: list[tuple[str, str, int]]
) -> None:
    nodes, load = cluster
    candidates = Candidates(nodes, RULES, load.__getitem__, 0.0)
    for present, wanted, change in wishes:
        chosen = candidates.choose(present, wanted)
        assert chosen is plain_choice(nodes, load, present, wanted)
        if chosen is not None:
            load[chosen.name] = max(load[chosen.name] + change, 0)
            candidates.note_load(chosen.name)


# -- nodes on which a shard could not run

AWAY = Failed("builtins.OSError", "[Errno 99] Cannot assign address", "", 99, is_local=True)


class ShakyWorld(World):
    """A world in which workers cannot run on some nodes. They notice when they would work."""

    def __init__(self, nodes: int, shards: int, broken: set[str]) -> None:
        super().__init__(nodes, shards)
        self.broken = broken
        self.tries: Counter[str] = Counter()
        self.start_coordinator()

    def check(self) -> None:
        super().check()
        for name in self.broken & self.nodes.keys():
            for shard in list(self.nodes[name].workers):
                self.tries[name] += 1
                self.nodes[name].end(shard, AWAY)

    def owners(self) -> list[str]:
        return [self.latest.owner_of(shard) for shard in range(len(self.logs))]


def test_a_shard_that_cannot_run_on_its_node_runs_on_another() -> None:
    world = ShakyWorld(nodes=2, shards=4, broken={"n0"})
    world.settle(60)
    assert world.owners() == ["n1"] * 4
    tries = world.tries["n0"]
    status = world.latest.status("c", world.now)
    [trouble] = [node.trouble for node in status.nodes if node.trouble]
    assert "could not run there: [Errno 99]" in trouble
    world.settle(120)
    assert world.tries["n0"] == tries, "no shard goes back while the node is in trouble"
    world.broken.clear()
    world.settle(TROUBLED_S)
    assert sorted(world.owners()) == ["n0", "n0", "n1", "n1"]
    assert not any(node.trouble for node in world.latest.status("c", world.now).nodes)


def test_a_shard_stays_where_no_other_node_can_have_it_and_is_tried_again() -> None:
    world = ShakyWorld(nodes=1, shards=1, broken={"n0"})
    world.settle(300)
    assert 8 < world.tries["n0"] < 30
    [shard] = world.latest.status("c", world.now).shards
    assert (shard.node, shard.is_unable, shard.state) == ("n0", True, "waiting")
    world.broken.clear()
    world.settle(40)
    assert world.owners() == ["n0"]


def test_a_shard_that_runs_nowhere_does_not_wander_without_end() -> None:
    world = ShakyWorld(nodes=3, shards=1, broken={"n0", "n1", "n2"})
    world.settle(3600)
    assert sum(world.tries.values()) < 200
    assert all(world.tries.values()) and len(world.tries) == 3
    world.broken.discard("n2")
    world.settle(700)
    assert world.owners() == ["n2"]


def test_a_node_in_trouble_gets_a_shard_that_no_other_node_can_have() -> None:
    world = ShakyWorld(nodes=2, shards=2, broken={"n0"})
    world.settle(60)
    world.broken.clear()
    del world.nodes["n1"]
    world.settle(60)
    assert world.owners() == ["n0", "n0"]


def test_an_operators_choice_waits_while_a_shard_cannot_run_there() -> None:
    world = ShakyWorld(nodes=2, shards=1, broken={"n1"})
    world.settle(30)
    assert world.owners() == ["n0"]
    world.network.append((CALLER, "c1", Move(0, "n1")))
    world.settle(60)
    assert world.owners() == ["n0"] and world.tries["n1"] < 3
    world.broken.clear()
    world.settle(TROUBLED_S + 20)
    assert world.owners() == ["n1"]


def calls_of_tick(size: int) -> int:
    """The calls of functions, and steps of generators, of a tick with ``size`` shards and nodes."""
    placement = Placement(1, size, RULES, 0.0, is_first=True)
    for number in range(size):
        runs = [ShardReport(number, (1 << 32) + number + 1, 1, ShardState.RUNNING)]
        placement.record_report(f"n{number:04d}", report(1, runs), 0.0)
    placement.tick(0.1, 0.1)
    assert all(place.node for place in placement.places)
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        placement.tick(0.2, 0.2)
    finally:
        sys.setprofile(before)
    return calls


def test_a_tick_looks_at_each_shard_and_each_node_a_bounded_number_of_times() -> None:
    small, large = calls_of_tick(40), calls_of_tick(160)
    assert large < 5 * small  # four times as many shards and nodes
