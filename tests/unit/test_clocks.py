"""Whose clock is right: the majority's, and reports that waited accuse nobody."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinating import Node, World
from lycosa.base.messages.coordinator_messages import (
    Assignments,
    NodeReport,
    ShardReport,
    ShardState,
)
from lycosa.base.messages.timeouts import ClusterRules
from lycosa.cluster.coordinator.node_view import ClockState, NodeView, majority_clock
from lycosa.cluster.coordinator.placement import Placement

TOLERANCE_S = 2.0


def spans(*ahead_s: float) -> list[tuple[float, float]]:
    return [(each, each + 0.01) for each in ahead_s]


@pytest.mark.parametrize(
    ("nodes", "right"),
    [
        ([], 0.0),
        ([0.5], 0.0),
        ([5.0], None),
        ([0.0, 5.0], 0.0),
        ([-10.0, -10.2], -10.0),
        ([10.0, 10.2, 0.0], None),
        ([10.0, 10.2, 9.9, 0.0], 9.9),
        ([10.0, -10.0], None),
    ],
)
def test_the_clock_of_more_than_half_is_right(nodes: list[float], right: float | None) -> None:
    assert majority_clock(0.0, spans(*nodes), TOLERANCE_S) == right


@given(st.lists(st.floats(-20.0, 20.0), max_size=8))
def test_a_clock_is_right_only_by_a_majority(nodes: list[float]) -> None:
    right = majority_clock(0.0, [(each, each) for each in nodes], TOLERANCE_S)
    clocks = [0.0, *nodes]
    if right is not None:
        near = [each for each in clocks if abs(each - right) <= TOLERANCE_S]
        assert 2 * len(near) > len(clocks)
    else:
        assert sum(abs(each) <= TOLERANCE_S for each in nodes) + 1 <= len(clocks) / 2


def settled_world(nodes: int) -> World:
    world = World(nodes=nodes, shards=3)
    world.start_coordinator()
    world.settle(25)
    assert sorted(shard for node in world.nodes.values() for shard in node.workers) == [0, 1, 2]
    return world


def claims(world: World) -> list[int]:
    return [len(log.claims) for log in world.logs]


@pytest.mark.parametrize("ahead_s", [10.0, -10.0, 600.0])
def test_a_coordinator_with_a_wrong_clock_takes_no_shard_from_nodes_that_agree(
    ahead_s: float,
) -> None:
    world = settled_world(nodes=3)
    before = claims(world)
    world.coordinator_ahead_s = ahead_s
    world.settle(60)
    assert claims(world) == before
    status = world.latest.status("c", world.now)
    assert status.clock == "wrong" and "clock of the coordinator is" in status.clock_alarm
    assert all(node.clock == "right" and not node.refusal for node in status.nodes)
    # shards are given as before: a node is lost, and the others take over
    del world.nodes["n0"]
    world.settle(60)
    assert sorted(shard for node in world.nodes.values() for shard in node.workers) == [0, 1, 2]
    world.coordinator_ahead_s = 0.0
    world.settle(20)
    assert not world.latest.status("c", world.now).clock_alarm


def test_a_node_that_disagrees_with_a_wrong_coordinator_and_the_others_loses_its_shards() -> None:
    world = settled_world(nodes=4)
    world.coordinator_ahead_s = 10.0
    world.nodes["n0"].ahead_s = 20.0
    world.settle(30)
    assert not world.nodes["n0"].workers
    assert sum(len(node.workers) for node in world.nodes.values()) == 3
    refusals = {node.name: node.refusal for node in world.latest.status("c", world.now).nodes}
    assert "20.0 s ahead of those of most machines" in refusals.pop("n0")
    assert not any(refusals.values())


@pytest.mark.parametrize("ahead_s", [5.0, -5.0])
def test_the_only_node_keeps_its_shards_when_its_clock_and_the_coordinators_differ(
    ahead_s: float,
) -> None:
    world = settled_world(nodes=1)
    before = claims(world)
    world.nodes["n0"].ahead_s = ahead_s
    world.settle(60)
    assert claims(world) == before
    status = world.latest.status("c", world.now)
    assert "no majority" in status.clock_alarm
    assert status.nodes[0].clock == "doubted" and "keeps what it runs" in status.nodes[0].refusal
    other = Node(world, "n1")  # its clock agrees with the coordinator's: now there is a majority
    world.nodes["n1"] = other
    world.settle(60)
    assert sorted(other.workers) == [0, 1, 2] and not world.nodes["n0"].workers


def test_without_a_majority_a_node_gets_nothing_new() -> None:
    world = World(nodes=1, shards=1)
    world.nodes["n0"].ahead_s = 5.0
    world.start_coordinator()
    world.settle(60)
    assert not world.nodes["n0"].workers


def reported(serial: int, wall: float, echo: float = 0.0, echo_age_s: float = 0.0) -> NodeReport:
    return NodeReport(1.0, serial, 1, 0, wall, 1, 1, [], echo=echo, echo_age_s=echo_age_s)


def test_reports_that_waited_in_the_coordinator_accuse_no_clock() -> None:
    """It handles nothing while a record waits for Kafka, and then all that came meanwhile."""
    world = settled_world(nodes=2)
    before = claims(world)
    for _ in range(3):
        held = []
        for _ in range(30):  # half a second each
            world.now += 0.5
            for node in world.nodes.values():
                node.tick()
            # what nodes say is not handled, and what they would hear is not sent
            held += [each for each in world.network if each[1] == "c1"]
            world.network.clear()
        world.tick_coordinator(1)
        for sender, receiver, message in held[:-2]:
            world.network.append((sender, receiver, message))
            world.deliver(len(world.network) - 1)
            world.tick_coordinator(1)
            clocks = [node.clock for node in world.latest.status("c", world.now).nodes]
            assert clocks == ["right", "right"]
        world.settle(5)
    assert claims(world) == before


def test_a_coordinator_that_was_suspended_accuses_no_clock() -> None:
    """Its monotonic clock stood still, and what nodes reported meanwhile waits for it."""
    rules = ClusterRules(low_disk=0, low_memory=0)
    placement, now, wall = Placement(1, 3, rules, 0.0, is_first=True), 100.0, 1000.0
    names = ("a", "b", "c")

    def receive(name: str, serial: int, at: float, echo: float, echo_age_s: float) -> None:
        runs = [ShardReport(names.index(name), (1 << 32) + 1, 1, ShardState.RUNNING)]
        report = reported(serial, at, echo, echo_age_s)
        placement.record_report(name, msgspec.structs.replace(report, shards=runs), now)

    def look() -> None:
        placement.tick(now, wall)
        clocks = {node.clock for node in placement.nodes.values()}
        assert ClockState.WRONG not in clocks
        assert not any(place.leaving for place in placement.places)

    for serial in range(1, 10):
        for name in names:
            receive(name, serial, wall, echo=now - 1.0, echo_age_s=1.0)
        look()
        now, wall = now + 1.0, wall + 1.0
    asleep = wall
    wall += 600.0
    now += 0.1
    look()
    for serial in range(10, 610):
        for name in names:
            receive(name, serial, asleep + serial - 9.0, echo=now - 1.1, echo_age_s=serial - 8.0)
            if serial % 100 == 0:
                look()
    for serial in range(610, 615):
        now, wall = now + 1.0, wall + 1.0
        for name in names:
            receive(name, serial, wall, echo=now - 0.9, echo_age_s=0.8)
            look()
    assert {node.clock for node in placement.nodes.values()} == {ClockState.RIGHT}


def test_a_clock_that_was_set_is_noticed_by_the_next_report() -> None:
    node = NodeView("n")
    for serial in range(1, 9):
        node.record_report(reported(serial, 100.0 + serial), float(serial), 20.0, 0.01)
    node.judge_clock(100.0, 100.0, TOLERANCE_S)
    assert node.clock is ClockState.RIGHT
    node.record_report(reported(9, 109.0 - 600.0), 9.0, 20.0, 0.01)
    node.judge_clock(100.0, 100.0, TOLERANCE_S)
    assert node.clock is ClockState.WRONG


def test_a_node_gives_back_the_time_of_the_last_list_with_its_age() -> None:
    world = settled_world(nodes=1)
    node = world.nodes["n0"]
    sent = [message for _, to, message in world.network if to == "n0"]
    assert not sent
    world.tick_coordinator(1)
    node.plan.handle_message(Assignments(1, 1 << 40, 1 << 40, {}, at=world.now), world.now)
    heard = world.now
    world.network.clear()
    world.now += 3.0
    node.tick()
    [report] = [message for _, _, message in world.network if isinstance(message, NodeReport)]
    assert (report.echo, report.echo_age_s) == (heard, 3.0)
