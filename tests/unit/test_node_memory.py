"""The memory of a node: for as many shards as fit, divided by those that it will have."""

from __future__ import annotations

import pytest

from lycosa.base.config.sources import SettingsError, settings
from lycosa.base.system.memory_plan import MB, fitted, most_workers, node_config, plan_memory
from lycosa.processes.cluster.cluster_session import NodeMemory

_LARGE = 64_000 * MB


def memory(
    shards: int, nodes: int, machine: int = _LARGE, most_shards: int = 0, **values: object
) -> NodeMemory:
    return NodeMemory(settings(values), shards, nodes, machine, most_shards)


def test_a_large_machine_has_room_for_all_shards_and_plans_for_its_share() -> None:
    node = memory(16, 4)
    # with one of four nodes missing, the others have six shards at most
    assert (node.most, node.expected) == (16, 6)
    assert node.plan(1).share == node.plan(6).share > node.plan(16).share


@pytest.mark.parametrize("machine", [2000 * MB, 4000 * MB, 16_000 * MB])
def test_a_small_machine_takes_what_fits_with_the_minimum_and_never_exceeds_it(
    machine: int,
) -> None:
    node = memory(256, 16, machine)
    assert 1 <= node.most < 256
    plan = node.plan(node.most)
    assert plan.program + plan.supervisor + node.most * plan.share <= node.total <= machine // 2
    assert plan.owned == 1


def test_most_workers_is_the_greatest_number_that_a_plan_accepts() -> None:
    config = settings({"memory_bytes": 3000 * MB})
    most = most_workers(config, _LARGE)
    assert plan_memory(node_config(config, most), most, _LARGE).total == 3000 * MB
    with pytest.raises(ValueError, match="too little"):
        plan_memory(node_config(config, most + 1), most + 1, _LARGE)


def test_an_operator_may_ask_for_fewer_or_more_shards_than_fit_in_half_of_the_machine() -> None:
    assert memory(16, 4, most_shards=2).most == 2
    node = memory(16, 2, 2000 * MB, most_shards=8)
    assert node.most == 8 and node.total > 1000 * MB


def test_memory_that_is_too_little_for_one_shard_is_refused() -> None:
    with pytest.raises(SettingsError, match="memory_bytes"):
        memory(4, 2, memory_bytes=100 * MB)
    assert memory(4, 2, 300 * MB).most == 1  # without a setting one worker gets its minimum


def test_one_node_has_all_shards() -> None:
    node = memory(4, 1)
    assert (node.most, node.expected) == (4, 4)
    assert fitted(settings({}), node.plan(4)).fetch.slots > 0
