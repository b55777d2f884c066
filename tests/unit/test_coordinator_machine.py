"""Coordinators and nodes over a network that loses, repeats and reorders: what must hold at
every step, and that all comes to an end.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coordinating import World
from lycosa.base.messages.coordinator_messages import CALLER, MoreAsks, StopCrawl
from lycosa.cluster.coordinator.node_acts import Died

NODES, SHARDS = 3, 3
INDEX = st.integers(0, 1 << 16)


class Coordinating(RuleBasedStateMachine):
    """All that may happen to a cluster, in any order."""

    @initialize(limit=st.sampled_from([0, 7, 40]))
    def begin(self, limit: int) -> None:
        self.world = World(NODES, SHARDS, limit)
        self.world.start_coordinator()
        self.calls = 0

    def _coordinator(self, index: int) -> int:
        return sorted(self.world.coordinators)[index % len(self.world.coordinators)]

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 25.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.now += seconds

    @rule(seconds=st.sampled_from([2, 15, 30]))
    def all_is_well(self, seconds: int) -> None:
        self.world.settle(seconds)

    @rule(chance=st.randoms(use_true_random=False), seconds=st.sampled_from([5, 20, 40]))
    def all_is_stormy(self, chance: random.Random, seconds: int) -> None:
        self.world.storm(chance, seconds)

    @rule(node=st.integers(0, NODES - 1))
    def node_ticks(self, node: int) -> None:
        self.world.nodes[f"n{node}"].tick()

    @precondition(lambda self: self.world.coordinators)
    @rule(index=INDEX)
    def coordinator_ticks(self, index: int) -> None:
        self.world.tick_coordinator(self._coordinator(index))

    @precondition(lambda self: self.world.network)
    @rule(index=INDEX, is_kept=st.booleans(), count=st.integers(1, 6))
    def messages_arrive(self, index: int, is_kept: bool, count: int) -> None:
        for _ in range(count):
            if self.world.network:
                self.world.deliver(index % len(self.world.network), is_kept)

    @precondition(lambda self: self.world.network)
    @rule(index=INDEX)
    def message_is_lost(self, index: int) -> None:
        del self.world.network[index % len(self.world.network)]

    @precondition(lambda self: len(self.world.coordinators) < 3)
    @rule()
    def another_coordinator_starts(self) -> None:
        self.world.start_coordinator()

    @precondition(lambda self: self.world.coordinators)
    @rule(index=INDEX)
    def coordinator_dies(self, index: int) -> None:
        self.world.stop_coordinator(self._coordinator(index))

    @rule(node=st.integers(0, NODES - 1))
    def node_dies(self, node: int) -> None:
        self.world.nodes[f"n{node}"].start()

    @rule(node=st.integers(0, NODES - 1), shard=st.integers(0, SHARDS - 1))
    def worker_dies(self, node: int, shard: int) -> None:
        if shard in self.world.nodes[f"n{node}"].workers:
            self.world.nodes[f"n{node}"].end(shard, Died("SIGKILL"))

    @rule(
        node=st.integers(0, NODES - 1),
        shard=st.integers(0, SHARDS - 1),
        captures=st.integers(0, 4),
        to=st.integers(-1, SHARDS - 1),
    )
    def worker_works(self, node: int, shard: int, captures: int, to: int) -> None:
        self.world.nodes[f"n{node}"].work(shard, captures, to if to >= 0 else None)

    @precondition(lambda self: self.world.coordinators)
    @rule(index=INDEX, urls=st.integers(1, 6))
    def caller_asks(self, index: int, urls: int) -> None:
        if not self.world.is_closed:
            self.calls += 1
            self.world.ask(f"call {self.calls}", urls)
        self.world.call(self._coordinator(index))

    @precondition(lambda self: self.world.coordinators)
    @rule(index=INDEX)
    def caller_has_no_more(self, index: int) -> None:
        self.world.is_closed = True
        self.world.call(self._coordinator(index))

    @invariant()
    def promises_hold(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.heal()


@pytest.mark.parametrize("seed", range(30))
def test_the_end_is_found_only_when_nothing_is_under_way(seed: int) -> None:
    """Pages of one shard lead to another, over a network that reorders; ``World`` looks into the
    logs when the end is declared.
    """
    chance = random.Random(seed)
    world = World(chance.choice((1, 2, 3)), chance.choice((2, 3, 4)))
    world.start_coordinator()
    world.settle(22)
    world.ask("seeds", 4)
    world.is_closed = True
    for _ in range(20):
        world.storm(
            chance,
            5,
            loss=chance.choice((0.0, 0.05)),
            deaths=chance.choice((0.0, 0.01)),
            posts=chance.choice((0.3, 0.8)),
        )
    world.heal()
    assert world.ends == ["finished"]


@pytest.mark.parametrize("seed", range(30))
def test_the_limit_is_exact_over_deaths_and_coordinators(seed: int) -> None:
    chance = random.Random(seed)
    limit = chance.choice((20, 60, 100))
    world = World(chance.choice((1, 2, 3)), chance.choice((2, 3, 4)), limit)
    world.start_coordinator()
    world.ask("seeds", 100)
    world.settle(22)
    for _ in range(6):
        world.storm(chance, 20, deaths=0.05)
        if chance.random() < 0.4 and len(world.coordinators) < 3:
            world.start_coordinator()
    world.heal()
    assert world.ends == ["limit"]
    assert sum(log.captures for log in world.logs) == limit


@pytest.mark.parametrize("seed", range(30))
def test_a_crawl_that_is_stopped_and_continued_finishes_all_the_same(seed: int) -> None:
    """Stops, continuations, deaths and new coordinators in any order; the last word is that the
    crawl continues.
    """
    chance = random.Random(seed)
    world = World(chance.choice((1, 2, 3)), chance.choice((2, 3, 4)))
    world.start_coordinator()
    for round_ in range(8):
        world.ask(f"seeds {round_}", 3)
        world.storm(chance, chance.choice((3, 15)), deaths=chance.choice((0.0, 0.03)))
        message = chance.choice((MoreAsks(), StopCrawl("stopped", chance.random() < 0.3)))
        world.network.append((CALLER, f"c{world.claims}", message))
        if chance.random() < 0.2 and len(world.coordinators) < 3:
            world.start_coordinator()
    world.network.clear()
    if world.claims not in world.coordinators:
        world.start_coordinator()
    world.network.append((CALLER, f"c{world.claims}", MoreAsks()))
    world.step()
    world.heal()
    assert world.ends[-1] == "finished"
    assert set(world.asked) <= world.answered


TestCoordinating = Coordinating.TestCase
TestCoordinating.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
