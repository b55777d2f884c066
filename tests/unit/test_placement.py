"""Which node a shard is offered, and what looking at all shards and nodes costs."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lycosa.cluster.candidates import Candidates
from lycosa.cluster.messages import NodeReport, ShardReport, ShardState
from lycosa.cluster.node_view import NodeView
from lycosa.cluster.placement import Placement
from lycosa.cluster.rules import ClusterRules

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
    candidates = Candidates(nodes, RULES, load.__getitem__)
    for present, wanted, change in wishes:
        chosen = candidates.choose(present, wanted)
        assert chosen is plain_choice(nodes, load, present, wanted)
        if chosen is not None:
            load[chosen.name] = max(load[chosen.name] + change, 0)
            candidates.note_load(chosen.name)


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
