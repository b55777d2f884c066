"""What only a coordinator of many machines decides: a crawl that continues after its end, the
maximum number of nodes, addresses of workers, and what operators are shown.
"""

from __future__ import annotations

import msgspec
import pytest

from coordinating import RULES, Node, World
from lycosa.base.config.sections import LimitSection
from lycosa.base.messages.control_records import (
    AsksSaved,
    Control,
    DrainSaved,
    EndSaved,
    PermitSaved,
    Record,
    SettingsSaved,
    folded,
    key_of,
)
from lycosa.base.messages.coordinator_messages import (
    CALLER,
    Ask,
    Assignments,
    CallerMessage,
    ChangeSettings,
    Drain,
    MoreAsks,
    Move,
    NodeReport,
    NoMoreAsks,
    PauseCrawl,
    Relay,
    Said,
    ShardReport,
    ShardState,
    StopCrawl,
    decode_from_caller,
    decode_to_caller,
    encode_node_message,
)
from lycosa.base.messages.worker_messages import Routes, Seeds, WorkerStatus
from lycosa.cluster.coordinator.coordinator import Coordinator
from lycosa.cluster.coordinator.node_acts import Note
from lycosa.cluster.coordinator.node_plan import NodePlan
from lycosa.cluster.coordinator.overview import refusal_of
from progress_making import progress_with

PLENTY = 1 << 40


def finished(world: World) -> World:
    """A world whose crawl is finished."""
    world.start_coordinator()
    world.ask("a", 3)
    world.heal()
    return world


def told(world: World, message: CallerMessage) -> None:
    world.network.append((CALLER, f"c{world.claims}", message))
    world.step()


# -- a crawl that continues


def test_a_crawl_that_finished_continues_with_more_requests() -> None:
    world = finished(World(nodes=2, shards=3))
    before = [len(log.claims) for log in world.logs]
    world.is_closed = False
    told(world, MoreAsks())
    world.settle(1)
    assert world.latest.crawl_end is None and not world.latest.is_over
    world.ask("b", 4)
    world.settle(10)
    assert "b" in world.answered
    assert all(len(log.claims) > n for log, n in zip(world.logs, before, strict=True))
    world.heal()
    assert world.ends[-1] == "finished" and world.ends.count("finished") == 2


def test_a_crawl_that_was_stopped_stays_so_over_coordinators_until_it_is_resumed() -> None:
    world = World(nodes=2, shards=2)
    world.start_coordinator()
    world.ask("a", 3)
    world.settle(30)
    told(world, StopCrawl("stopped"))
    world.settle(10)
    assert world.latest.is_over
    world.start_coordinator()
    world.settle(30)
    assert world.latest.is_over and world.latest.crawl_end is not None
    world.is_closed = True
    told(world, MoreAsks())
    world.settle(2)
    assert world.ends[-1] == "", "the record of the end is taken back"
    world.heal()
    assert world.ends[-1] == "finished"


def test_shards_of_a_lost_node_continue_elsewhere_after_the_end() -> None:
    world = finished(World(nodes=2, shards=2))
    del world.nodes["n0"]
    world.settle(60)
    world.is_closed = False
    told(world, MoreAsks())
    world.settle(30)
    assert {world.latest.owner_of(shard) for shard in (0, 1)} == {"n1"}


def test_that_no_more_is_asked_survives_the_coordinator() -> None:
    world = World(nodes=1, shards=1)
    world.start_coordinator()
    world.ask("a", 1)
    world.is_closed = True
    world.settle(25)
    assert AsksSaved(True) in world.control
    world.control = [each for each in world.control if not isinstance(each, EndSaved)]
    world.is_closed = False  # the caller is gone
    world.start_coordinator()
    world.settle(40)
    assert world.latest.crawl_end is not None


def test_a_shard_that_failed_starts_again_where_an_operator_wants_it() -> None:
    coordinator, given = one_node()
    failed = ShardReport(0, given.shards[0], 1, ShardState.FAILED, why="a part is missing")
    coordinator.handle_message("n", report(2, [failed]), 2.0)
    assert coordinator.tick(3.0, 3.0) == []
    [out] = coordinator.handle_message(CALLER, Move(0, "n"), 4.0)
    assert isinstance(out.message, Assignments)
    assert out.message.shards[0] > given.shards[0]


def test_the_only_worker_of_a_crawl_may_find_its_end_by_itself() -> None:
    coordinator, given = one_node()
    status = Said(0, given.shards[0], 1, WorkerStatus(1, 0, 0, 0, expects_more=False))
    coordinator.handle_message("n", status, 1.5)
    ended = ShardReport(0, given.shards[0], 1, ShardState.ENDED, "finished")
    out = coordinator.handle_message("n", report(2, [ended]), 2.0)
    assert out[0].message == EndSaved("finished", False)
    assert coordinator.is_over
    coordinator.handle_message(CALLER, MoreAsks(), 3.0)
    coordinator.handle_message(CALLER, NoMoreAsks(), 3.0)
    out = coordinator.handle_message("n", report(3, [ended]), 3.1)  # it was on its way
    assert coordinator.crawl_end is None
    [out] = coordinator.tick(3.2, 3.2)
    assert isinstance(out.message, Assignments)
    assert out.message.shards[0] > given.shards[0] and not out.message.end


# -- records


RECORDS: list[Record] = [
    PermitSaved(0, 1, 1, 5),
    DrainSaved("a", False),
    PermitSaved(1, 1, 1, 5),
    PermitSaved(0, 1, 2, 9),
    SettingsSaved(1, {"fetch.slots": "3"}),
    EndSaved("stopped", False),
    DrainSaved("b", False),
    AsksSaved(True),
    EndSaved("", False),
    DrainSaved("a", True),
]


def test_the_last_record_of_each_key_defines_the_same_state() -> None:
    last = {key_of(record): record for record in RECORDS}
    assert len(last) < len(RECORDS)
    assert folded(last.values()) == folded(RECORDS)
    control = folded(RECORDS)
    assert (control.end.end, control.asks.are_over, control.draining) == ("", True, {"b"})


def test_a_drained_node_stays_so_under_the_next_coordinator() -> None:
    world = World(nodes=2, shards=2)
    world.start_coordinator()
    world.settle(25)
    told(world, Drain("n0"))
    world.settle(10)
    world.start_coordinator()
    world.settle(40)
    assert {world.latest.owner_of(shard) for shard in (0, 1)} == {"n1"}
    told(world, Drain("n0", is_over=True))
    world.settle(20)
    assert {world.latest.owner_of(shard) for shard in (0, 1)} == {"n0", "n1"}


def test_a_node_is_drained_only_if_another_can_have_its_shards_or_by_force() -> None:
    world = World(nodes=3, shards=2, rules=msgspec.structs.replace(RULES, most_nodes=2))
    world.start_coordinator()
    world.settle(30)

    def refused(name: str) -> str:
        return refusal_of(Drain(name), world.latest.status("x", world.now))

    spare = next(n.name for n in world.latest.status("x", world.now).nodes if n.is_spare)
    assert not refused("n0") and not refused("n1")
    told(world, Drain("n0"))
    world.settle(20)
    assert not refused("n1"), f"{spare} can have them"
    told(world, Drain("n1"))
    world.settle(20)
    why = refused(spare)
    assert f"no other node can have the shards of {spare} (n0: it is being drained" in why
    told(world, Drain("n0", is_over=True))
    assert not refused(spare)
    del world.nodes["n0"]
    world.settle(40)
    assert "n0: it does not report" in refused(spare)


def test_a_drained_node_that_never_comes_back_is_forgotten_and_stays_drained() -> None:
    world = World(nodes=2, shards=2)
    world.control = [DrainSaved("gone", False), DrainSaved("n0", False)]
    world.start_coordinator()
    world.settle(30)
    assert "gone" not in repr(world.latest)
    gone = world.nodes.pop("n0")
    world.settle(60)
    world.now += 3600
    world.settle(60)
    assert [node.name for node in world.latest.status("x", world.now).nodes] == ["n1"]
    world.nodes["n0"] = gone
    world.settle(30)
    assert {world.latest.owner_of(shard) for shard in (0, 1)} == {"n1"}
    [found] = [n for n in world.latest.status("x", world.now).nodes if n.name == "n0"]
    assert found.is_draining


# -- nodes


def report(
    serial: int = 1, shards: list[ShardReport] | None = None, began: float = 1.0
) -> NodeReport:
    return NodeReport(began, serial, 1, 0, 0.0, PLENTY, PLENTY, shards or [])


def one_node(most_nodes: int = 4) -> tuple[Coordinator, Assignments]:
    """The first coordinator of a crawl of one shard, and what its only node was assigned."""
    rules = msgspec.structs.replace(RULES, most_nodes=most_nodes, clock_off_s=1e9)
    coordinator = Coordinator(1, 1, LimitSection(), rules, 0.0, Control(is_first=True))
    coordinator.tick(0.0, 0.0)
    coordinator.handle_message("n", report(), 0.5)
    [out] = coordinator.tick(1.0, 1.0)
    assert isinstance(out.message, Assignments) and out.message.shards
    return coordinator, out.message


def test_the_first_coordinator_of_a_crawl_assigns_at_once() -> None:
    one_node()


def test_a_node_is_not_chosen_before_its_clock_was_compared() -> None:
    coordinator = Coordinator(1, 1, LimitSection(), RULES, 0.0, Control(is_first=True))
    unheard = msgspec.structs.replace(report(), coordinator=0)  # it may be of any age
    coordinator.handle_message("n", unheard, 0.1)
    out = coordinator.tick(0.2, 1e9)
    assert not any(each.message.shards for each in out if isinstance(each.message, Assignments))
    assert not coordinator.status("x", 0.2).nodes[0].refusal


def test_nodes_beyond_the_maximum_wait_and_are_told_why() -> None:
    world = World(nodes=3, shards=4, rules=msgspec.structs.replace(RULES, most_nodes=2))
    world.start_coordinator()
    world.settle(30)
    owners = {world.latest.owner_of(shard) for shard in range(4)}
    assert owners == {"n0", "n1"}
    [waiting] = [node for node in world.latest.status("x", world.now).nodes if node.refusal]
    assert waiting.name == "n2" and "at most 2 nodes may have shards" in waiting.refusal
    told(world, Drain("n0"))
    world.settle(20)
    assert {world.latest.owner_of(shard) for shard in range(4)} == {"n1", "n2"}


def test_the_place_of_a_lost_node_is_free_when_it_certainly_sends_nothing_more() -> None:
    rules = msgspec.structs.replace(RULES, most_nodes=1, vacant_s=60.0)
    world = World(nodes=2, shards=1, rules=rules)
    world.start_coordinator()
    world.settle(30)
    assert world.latest.owner_of(0) == "n0"
    del world.nodes["n0"]
    world.settle(45)
    assert world.latest.owner_of(0) == ""
    world.settle(25)
    assert world.latest.owner_of(0) == "n1"


def test_a_node_that_runs_shards_is_not_refused_by_the_next_coordinator() -> None:
    rules = msgspec.structs.replace(RULES, most_nodes=2)
    world = World(nodes=2, shards=2, rules=rules)
    world.start_coordinator()
    world.settle(30)
    world.start_coordinator()
    world.network.append(("a0", f"c{world.claims}", report()))  # the first to report
    world.settle(40)
    assert {world.latest.owner_of(shard) for shard in (0, 1)} == {"n0", "n1"}


def test_a_node_shows_its_operator_once_why_it_gets_no_shards() -> None:
    plan, notes = NodePlan(1.0), []
    for upon, notice in enumerate(("", "2.1 GB are free", "2.0 GB are free", "", "")):
        message = Assignments(1, 1, upon, {}, notice=notice)
        notes += [act for act in plan.handle_message(message, 0.0) if isinstance(act, Note)]
    assert [note.text for note in notes] == [
        "this node gets no shards: 2.1 GB are free",
        "this node may have shards again",
    ]


def test_a_shard_whose_hosts_may_still_wait_is_not_moved_to_even_the_load() -> None:
    rules = msgspec.structs.replace(RULES, vacant_s=60.0)
    world = World(nodes=1, shards=2, rules=rules)
    world.start_coordinator()
    world.settle(30)
    world.nodes = {"n1": Node(world, "n1")}  # n0 is lost
    world.settle(30)
    assert [len(log.claims) for log in world.logs] == [2, 2]
    world.nodes["n2"] = Node(world, "n2")
    world.settle(30)
    assert {world.latest.owner_of(shard) for shard in (0, 1)} == {"n1"}
    world.settle(60)
    assert {world.latest.owner_of(shard) for shard in (0, 1)} == {"n1", "n2"}


# -- addresses


def test_owners_get_the_addresses_of_all_owners_until_they_use_them() -> None:
    coordinator, given = one_node()

    def says(routes: int, address: str, now: float) -> list[object]:
        status = WorkerStatus(1, 0, 0, 0, address=address, routes=routes)
        coordinator.handle_message("n", Said(0, given.shards[0], 1, status), now)
        out = [each.message for each in coordinator.tick(now, now)]
        return [each.message for each in out if isinstance(each, Relay)]

    [routes] = says(0, "10.0.0.1:5", 2.0)
    assert isinstance(routes, Routes) and routes.addresses == {0: "10.0.0.1:5"}
    assert routes.version > 1 << 32, "greater than those of earlier coordinators"
    assert says(routes.version, "10.0.0.1:5", 3.0) == []
    [later] = says(routes.version, "10.0.0.1:6", 4.0)
    assert isinstance(later, Routes) and later.version > routes.version


# -- what callers are told


def test_the_status_has_nodes_shards_progress_and_decisions() -> None:
    coordinator, given = one_node()
    owner = given.shards[0]
    running = ShardReport(0, owner, 1, ShardState.RUNNING)
    coordinator.handle_message("n", report(2, [running]), 2.0)
    status = WorkerStatus(1, 0, 0, 0, address="10.0.0.1:5")
    coordinator.handle_message("n", Said(0, owner, 1, status), 2.0)
    progress = progress_with(discovered=9, captures=5, commits=2, states={"queued": 4})
    coordinator.handle_message("n", Said(0, owner, 1, progress), 2.0)
    coordinator.handle_message(CALLER, Ask(Seeds("a", ["http://a/"])), 2.0)
    found = coordinator.status("news", 5.0)
    assert (found.crawl, found.coordinator, found.end, found.is_over) == ("news", 1, "", False)
    assert (found.expects_asks, found.open_requests, found.is_quiet) == (True, 1, False)
    [node] = found.nodes
    assert (node.name, node.silent_s, node.shards, node.refusal) == ("n", 3.0, [0], "")
    [shard] = found.shards
    assert (shard.node, shard.state, shard.term, shard.queued) == ("n", "running", 1, 4)
    assert shard.address == "10.0.0.1:5" and found.progress.captures == 5
    assert decode_to_caller(encode_node_message(found)) == found


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Drain("m"), "there is no node 'm'; there are n"),
        (Move(0, "m"), "there is no node 'm'; there are n"),
        (Move(3, "n"), "there is no shard 3; they are 0 to 0"),
        (StopCrawl("asleep"), "there is no end 'asleep'"),
        (ChangeSettings({"scope.rule": "any"}), "scope.rule: it cannot change while the crawl"),
        (ChangeSettings({"politeness.delay_s": "fast"}), "politeness.delay_s: 'fast' is not a"),
        (
            ChangeSettings({"fetch.slots": "9"}, shown={"politeness.delay_s": "60s"}),
            "changed by another operator meanwhile: politeness.delay_s is 2m, not 60s",
        ),
        (ChangeSettings({"fetch.slots": "9"}, shown={"politeness.delay_s": "120s"}), ""),
        (Drain("n"), "no other node can have the shards of n: they"),
        (Drain("n", is_forced=True), ""),
        (Drain("n", is_over=True), ""),
        (Move(0, "n"), ""),
        (PauseCrawl(True), ""),
        (MoreAsks(), ""),
        (NoMoreAsks(), ""),
    ],
)
def test_requests_that_make_no_sense_are_refused(message: CallerMessage, why: str) -> None:
    coordinator, _ = one_node()
    coordinator.handle_message(CALLER, ChangeSettings({"politeness.delay_s": "2m"}, "ada"), 1.0)
    refusal = refusal_of(message, coordinator.status("x", 1.0))
    assert refusal.startswith(why) if why else refusal == ""
    assert decode_from_caller(encode_node_message(message)) == message


def test_a_shard_without_an_owner_waits_for_nothing_and_keeps_its_counts() -> None:
    coordinator, list_ = one_node()
    [(shard, assignment)] = list_.shards.items()
    running = ShardReport(shard, assignment, 1, ShardState.RUNNING)
    coordinator.handle_message("n", report(2, [running]), 1.5)
    waiting = progress_with(discovered=9, running=3, waits_for="Kafka", undelivered="a parcel")
    for message in (WorkerStatus(1, 0, 0, 0), waiting):
        coordinator.handle_message("n", Said(shard, assignment, 1, message), 1.5)
    assert coordinator.status("x", 1.5).progress == waiting
    for second in range(2, 200):  # the node is silent
        coordinator.tick(second, second)
    assert coordinator.owner_of(shard) == ""
    later = coordinator.status("x", 200.0).progress
    assert (later.discovered, later.running) == (9, 0)
    assert (later.waits_for, later.undelivered) == ("", "")
    [lost] = coordinator.status("x", 200.0).nodes
    assert lost.is_lost and lost.shards == [], "another node may have its shard"


def test_a_crawl_that_ended_is_not_paused_but_resumed_first() -> None:
    coordinator, _ = one_node()
    coordinator.handle_message(CALLER, StopCrawl("stopped"), 1.0)
    ended = coordinator.status("x", 1.0)
    assert refusal_of(PauseCrawl(True), ended).endswith("resume it first")
    assert refusal_of(PauseCrawl(False), ended).endswith("call again")
