"""What the operator's page says limits the crawl: coordinator, nodes and shards before hosts."""

from __future__ import annotations

from typing import Any

import msgspec

from lycosa.base.messages.coordinator_messages import ClusterStatus, NodeStatus, ShardStatus
from lycosa.base.messages.progress import HostNote, Progress
from lycosa.cluster.coordinator.crawl_metrics import crawl_metrics
from lycosa.service.page.limits import crawl_limits
from progress_making import progress_with

SLOTS = 100


def node(name: str, *shards: int, **changed: Any) -> NodeStatus:
    values: dict[str, Any] = {"silent_s": 0.4, "is_lost": False, "is_draining": False}
    values |= {"refusal": "", "ahead_s": 0.0, "free_disk": 1, "free_memory": 1}
    return NodeStatus(name, **(values | {"shards": list(shards)} | changed))


def shard(number: int, node: str = "a", state: str = "running", waits_for: str = "") -> ShardStatus:
    return ShardStatus(number, node, 1, 1, state, "", "", False, "", 5, 2, 8, False, waits_for)


def progress(workers: int = 2, **given: Any) -> Progress:
    numbers = {"discovered": 90, "states": {"queued": 40}, "hosts_ready": 1, "hosts_snoozed": 3}
    found = progress_with(**(numbers | given))
    return found.with_numbers({}, {"lycosa_workers": {"busy": workers, "idle": 0}})


def limits(**changed: Any) -> list[str]:
    values: dict[str, Any] = {"crawl": "news", "coordinator": 3, "most_nodes": 4, "end": ""}
    values |= {"nodes": [node("a", 0), node("b", 1)], "shards": [shard(0), shard(1, "b")]}
    values |= {"progress": progress(), "at_once": False, "is_over": False, "is_quiet": False}
    values |= {"expects_asks": False, "open_requests": 0, "settings_version": 0, "settings": {}}
    return crawl_limits(ClusterStatus(**(values | changed)), SLOTS)


def test_a_cluster_in_order_is_limited_by_its_hosts() -> None:
    assert limits() == ["One host may be requested now."]


def test_a_node_that_is_silent_is_named_before_its_shards_move() -> None:
    silent = limits(nodes=[node("a", 0), node("b", 1, silent_s=12.0)])
    assert silent[0] == (
        "Node b has not reported for 12 s. If it stays silent, its shards (1) move to other nodes."
    )
    lost = limits(nodes=[node("a", 0, 1), node("b", silent_s=62.0, is_lost=True)])
    assert lost == limits(), "its shards run elsewhere"


def test_shards_without_a_node_and_failed_ones_are_named() -> None:
    found = limits(shards=[shard(0, "", ""), shard(1, "b", "failed")])
    assert "These shards have no node: 0. The page Workers says why." in found
    assert "These shards failed: 1. The page Workers says why." in found


def test_shards_that_their_nodes_cannot_run_are_named() -> None:
    unable = msgspec.structs.replace(shard(1, "b", "waiting"), is_unable=True)
    text = "These shards cannot run on their nodes: 1. The page Workers says why."
    assert text in limits(shards=[shard(0), unable])
    given_up = msgspec.structs.replace(unable, state="failed")
    assert text not in limits(shards=[shard(0), given_up])


def test_a_wrong_clock_of_the_coordinator_is_named_first() -> None:
    alarm = "the clock of the coordinator is 10.0 s ahead of those of most nodes"
    assert limits(clock_alarm=alarm)[0] == f"T{alarm[1:]}."


def test_the_metrics_count_clocks_and_what_machines_cannot_run() -> None:
    nodes = [
        node("a", 0, clock="wrong", refusal="its clock is 10.0 s behind"),
        node("b", 1, clock="right", trouble="shard 1 could not run there"),
        node("c", is_lost=True, clock="wrong"),
    ]
    unable = msgspec.structs.replace(shard(1, "b", "waiting"), is_unable=True)
    values: dict[str, Any] = {"crawl": "news", "coordinator": 3, "most_nodes": 4, "end": ""}
    values |= {"at_once": False, "is_over": False, "is_quiet": False, "expects_asks": False}
    values |= {"open_requests": 0, "settings_version": 0, "settings": {}, "progress": progress()}
    found = crawl_metrics(
        ClusterStatus(nodes=nodes, shards=[shard(0, "a"), unable], clock="right", **values)
    )
    assert found.table("lycosa_clocks") == {"unknown": 0, "right": 2, "wrong": 1, "doubted": 0}
    assert found.table("lycosa_nodes") == {
        "live": 0,
        "draining": 0,
        "refused": 1,
        "lost": 1,
        "troubled": 1,
    }
    assert found.table("lycosa_shards")["unable"] == 1


def test_a_coordinator_that_has_just_started_says_what_its_numbers_lack() -> None:
    assert limits(is_quiet=True, progress=Progress()) == [
        "The coordinator has just started. It assigns shards when the nodes have reported."
    ]
    assert limits(progress=progress(workers=1))[0] == (
        "1 of 2 shards have not reported yet: the numbers are without theirs."
    )
    assert limits(progress=progress(discovered=0), expects_asks=True) == ["It waits for seeds."]


def test_workers_that_wait_are_counted() -> None:
    found = limits(shards=[shard(0), shard(1, "b", waits_for="Kafka")])
    assert "1 of 2 workers wait; worker 1 for Kafka." in found
    assert "It waits for Kafka." in limits(shards=[shard(0, waits_for="Kafka")])
    assert "The coordinator waits for Kafka." in limits(waits_for="Kafka")


def test_request_slots_are_those_of_all_workers() -> None:
    said = "All 200 request slots (fetch.slots) are in use."
    assert said not in limits(progress=progress(running=SLOTS))
    assert said in limits(progress=progress(running=2 * SLOTS))


def test_a_pause_is_all_that_limits_a_crawl_with_all_its_nodes() -> None:
    slow = progress(slowest=[HostNote("h.example", 9, 5.0, 1.0)], waits_for="Kafka")
    paused = msgspec.structs.replace(slow, is_paused=True)
    assert limits(is_paused=True, progress=paused) == ["An operator has paused the crawl."]


def test_records_of_other_programs_in_the_topics_are_named() -> None:
    counts = {"inbox": 2, "control": 1}
    found = progress().with_numbers({}, {"lycosa_foreign_records_total": counts})
    assert limits(progress=found)[0] == (
        "3 records were stepped over in the topics (control, inbox): another program wrote there."
        " Nothing is missing, but find out which program it is."
    )
    one = progress().with_numbers({}, {"lycosa_foreign_records_total": {"inbox": 1}})
    assert limits(progress=one)[0].startswith("One record was stepped over in the topics (inbox)")
