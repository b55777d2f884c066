"""Which user code a cluster runs: nodes without it get no new shards, and updates wait for all."""

from __future__ import annotations

import random

import msgspec
import pytest

from coordinating import RULES, World
from lycosa.base.messages.control_records import SettingsSaved, folded
from lycosa.base.messages.coordinator_messages import (
    CALLER,
    ChangeCode,
    ClusterStatus,
    decode_from_caller,
    encode_node_message,
)
from lycosa.base.messages.worker_messages import AllowedCode, LiveSettings, decode_to_worker
from lycosa.base.model.code_version import CodeVersion
from lycosa.cluster.coordinator import node_view
from lycosa.cluster.coordinator.node_acts import Died, TellWorker
from lycosa.cluster.coordinator.overview import refusal_of
from lycosa.cluster.coordinator.steering import settings_for_owners
from planting import Change, Plant, planted

OLD, NEW = "a" * 64, "b" * 64
NAME = "shop:products"
HAS_CODE = msgspec.structs.replace(RULES, code={NAME: CodeVersion(OLD)})


def status_of(world: World) -> ClusterStatus:
    return world.latest.status("news", world.now)


def crawling(nodes: int = 3, shards: int = 4, without: int = 1) -> World:
    """A crawl with code, which the last nodes do not allow."""
    world = World(nodes, shards, rules=HAS_CODE)
    for number in range(nodes - without):
        world.nodes[f"n{number}"].allow(OLD)
    world.start_coordinator()
    world.ask("seeds", 10)
    world.settle(30)
    return world


def change(world: World, **digests: str) -> str:
    """Ask for code; returns why it is refused. A colon is no part of a keyword."""
    message = ChangeCode({name.replace("_", ":"): each for name, each in digests.items()}, "me")
    assert decode_from_caller(encode_node_message(message)) == message
    refused = refusal_of(message, status_of(world))
    if not refused:
        world.network.append((CALLER, f"c{world.claims}", message))
        world.settle(3)
    return refused


def test_a_node_without_the_code_gets_no_shard_and_status_says_why() -> None:
    world = crawling()
    assert not world.nodes["n2"].plan.alive
    assert {name for log in world.logs for name, _ in log.code} == {"n0", "n1"}
    refusal = {node.name: node.refusal for node in status_of(world).nodes}
    assert refusal["n0"] == refusal["n1"] == ""
    assert f"{NAME} (SHA-256 {OLD[:12]})" in refusal["n2"] and f"--allow {OLD}" in refusal["n2"]
    world.heal()  # the others do the work


def test_no_node_allows_the_code_so_nothing_runs_until_one_does() -> None:
    world = crawling(nodes=2, without=2)
    assert not any(node.plan.alive for node in world.nodes.values())
    world.nodes["n1"].allow(OLD)
    world.settle(10)
    assert len(world.nodes["n1"].plan.alive) == 4
    world.heal()


def test_an_update_waits_until_all_connected_nodes_have_reported_it() -> None:
    world = crawling(without=0)
    world.nodes["n0"].allow(OLD, NEW)
    world.nodes["n2"].allow(OLD, NEW)
    world.settle(3)
    refused = change(world, shop_products=NEW)
    assert "have not reported" in refused and "n1;" in refused and f"--allow {NEW}" in refused
    version = status_of(world).settings_version
    world.nodes["n1"].allow(OLD, NEW)
    world.settle(3)
    assert change(world, shop_products=NEW) == ""
    found = status_of(world)
    assert found.code == {NAME: CodeVersion(NEW, found.settings_version)}
    assert found.settings_version == version + 1
    # every commit names the version that its worker follows
    assert {each.settings for node in world.nodes.values() for each in node.workers.values()} == {
        found.settings_version
    }
    action = world.latest.settings.actions[-1]
    assert (action.by, action.action, action.subject) == (
        "me",
        "set_extension",
        f"{NAME}={NEW[:12]}",
    )


def test_a_node_that_lacks_an_update_keeps_its_shards_and_gets_no_new_ones() -> None:
    world = crawling(without=0)
    away = world.nodes.pop("n2")
    kept = away.plan.alive
    assert kept
    for node in world.nodes.values():
        node.allow(OLD, NEW)
    world.settle(25)  # it is lost, and its shards are elsewhere
    assert change(world, shop_products=NEW) == ""
    started = {shard: len(log.code) for shard, log in enumerate(world.logs)}
    world.nodes["n2"] = away  # it comes back, with what it ran
    world.settle(60)
    new = [each for shard, log in enumerate(world.logs) for each in log.code[started[shard] :]]
    assert all(name != "n2" for name, _ in new)
    note = next(node.refusal for node in status_of(world).nodes if node.name == "n2")
    assert NEW[:12] in note
    away.allow(NEW)
    world.settle(200)
    assert all(not node.refusal for node in status_of(world).nodes)
    world.heal()


def test_a_process_that_is_restarted_on_a_node_that_lacks_the_code_does_not_start() -> None:
    world = crawling(nodes=2, without=0)
    shard = next(iter(world.nodes["n1"].workers))
    world.nodes["n0"].allow(OLD, NEW)
    world.nodes["n1"].allow(OLD, NEW)
    world.settle(3)
    assert change(world, shop_products=NEW) == ""
    world.nodes["n1"].allow(OLD)  # its operator does not trust the new code any more
    world.settle(3)
    assert shard in world.nodes["n1"].workers, "what it runs, it keeps"
    before = [len(log.code) for log in world.logs]
    world.nodes["n1"].end(shard, Died("SIGKILL"))
    world.settle(60)
    assert shard in world.nodes["n0"].workers
    assert all(
        name == "n0" for log, n in zip(world.logs, before, strict=True) for name, _ in log.code[n:]
    )
    world.heal()


def test_the_next_coordinator_has_the_code_of_the_records_and_not_of_the_bucket() -> None:
    world = crawling(without=0)
    for node in world.nodes.values():
        node.allow(OLD, NEW)
    world.settle(3)
    assert change(world, shop_products=NEW) == ""
    # someone writes another name into the bucket
    world.rules = msgspec.structs.replace(RULES, code={"evil:code": CodeVersion("e" * 64)})
    world.start_coordinator()
    world.settle(30)
    assert status_of(world).code[NAME].digest == NEW and len(status_of(world).code) == 1
    assert change(world, shop_products="") == ""
    world.start_coordinator()
    world.settle(30)
    assert status_of(world).code == {}, "also when the crawl runs none any more"
    saved = [each for each in world.control if isinstance(each, SettingsSaved)]
    assert folded(world.control).settings == saved[-1]
    world.heal()


def test_a_bucket_that_names_other_code_gets_nothing_run() -> None:
    """Its writer can only keep nodes from getting shards."""
    world = World(2, 3, rules=msgspec.structs.replace(RULES, code={"evil:x": CodeVersion(NEW)}))
    for node in world.nodes.values():
        node.allow(OLD)
    world.start_coordinator()
    world.ask("seeds", 3)
    world.settle(30)
    assert all(not log.code for log in world.logs)
    assert all("evil:x" in node.refusal for node in status_of(world).nodes)


@pytest.mark.parametrize(
    ("digests", "why"),
    [
        ({}, "no code is named"),
        ({"shop_products": "abc"}, "is not a SHA-256"),
        ({"shop_products": NEW.upper()}, "is not a SHA-256"),
        ({"shop": NEW}, "is not the name of code"),
        ({"other_x": ""}, f"does not run other:x; it runs {NAME}"),
        ({f"m{n}_x": OLD for n in range(32)}, "at most 32"),
    ],
)
def test_a_change_that_is_none_is_refused(digests: dict[str, str], why: str) -> None:
    assert why in change(crawling(without=0), **digests)


def test_messages_of_code_survive_their_encoding() -> None:
    told = settings_for_owners(SettingsSaved(3, {}, code={NAME: CodeVersion(OLD, 2)}))
    for message in (told, AllowedCode((OLD,))):
        assert decode_to_worker(msgspec.msgpack.encode(message)) == message
    assert decode_to_worker(msgspec.msgpack.encode(LiveSettings(1, {}))).code == {}  # type: ignore[union-attr]


def test_a_node_tells_its_workers_what_it_allows_once() -> None:
    world = crawling(nodes=1, without=0)
    plan = world.nodes["n0"].plan
    told = [
        each.message for each in plan.allow((OLD, NEW), world.now) if isinstance(each, TellWorker)
    ]
    assert told == [AllowedCode((OLD, NEW))] * 4
    assert plan.allow((OLD, NEW), world.now) == []


@pytest.mark.parametrize("seed", range(15))
def test_in_a_bad_network_no_process_starts_without_the_code_of_its_node(seed: int) -> None:
    chance, world = random.Random(seed), crawling(nodes=3, without=seed % 2)
    for number in range(4):
        for node in world.nodes.values():
            node.allow(*chance.choice(((OLD,), (OLD, NEW), (OLD, NEW), (NEW,), ())))
        world.storm(chance, 15.0)
        if number == 1 and chance.random() < 0.5:
            world.start_coordinator()
        change(world, shop_products=chance.choice((OLD, NEW)))
        for log in world.logs:
            for name, digests in log.code:
                assert digests, f"{name} started a process without code"
    for node in world.nodes.values():
        node.allow(OLD, NEW)
    world.heal()


def test_a_coordinator_that_ignored_code_would_be_found() -> None:
    plant = Plant(
        "shards are given to nodes without the code",
        lambda: [Change(node_view, "code_refusal", lambda *_: "")],
    )
    with planted(plant):
        assert "n2" in _offered(crawling())
    assert "n2" not in _offered(crawling())


def _offered(world: World) -> set[str]:
    """The nodes that were told to run a shard."""
    return {name for places in world.told.values() for _, name in places}
