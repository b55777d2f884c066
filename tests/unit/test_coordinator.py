"""The coordinator, clause by clause: assignments, permits, requests, settings, and the
end.
"""

from __future__ import annotations

import msgspec
import pytest

from coordinating import RULES, World
from lycosa.base.config.sections import LimitSection
from lycosa.base.messages.control_records import (
    AsksSaved,
    Control,
    CrawlAction,
    EndSaved,
    PermitSaved,
    SettingsSaved,
    folded,
)
from lycosa.base.messages.coordinator_messages import (
    CALLER,
    CONTROL,
    Answered,
    Ask,
    Assignments,
    ChangeSettings,
    Drain,
    MoreAsks,
    Move,
    NodeReport,
    NoMoreAsks,
    OutgoingMessage,
    PauseCrawl,
    Relay,
    Said,
    ShardReport,
    ShardState,
    StopCrawl,
    Superseded,
    decode_to_coordinator,
    decode_to_node,
    encode_node_message,
)
from lycosa.base.messages.progress import ProcessMemory
from lycosa.base.messages.timeouts import ONE_PROCESS
from lycosa.base.messages.worker_messages import (
    LiveSettings,
    NoMoreCalls,
    Permit,
    Probe,
    ProbeAnswer,
    Seeds,
    SeedsTaken,
    WorkerStatus,
)
from lycosa.base.model.end import End
from lycosa.cluster.coordinator.coordinator import Coordinator
from lycosa.cluster.coordinator.crawl_metrics import crawl_metrics
from lycosa.cluster.coordinator.end_rounds import EndRounds
from lycosa.cluster.coordinator.permit_book import PermitBook
from progress_making import progress_with


class OneShard:
    """A coordinator of one process, and what the owner of its only shard says."""

    def __init__(self, limits: LimitSection | None = None, control: Control | None = None) -> None:
        self.coordinator = Coordinator(1, 1, limits or LimitSection(), ONE_PROCESS, 0.0, control)
        self.coordinator.handle_message("n", report([]), 0.0)
        [given] = [each.message for each in self.coordinator.tick(0.0, 0.0)]
        assert isinstance(given, Assignments)
        self.assignment = given.shards[0]

    def says(self, message: object, term: int = 1, now: float = 1.0) -> list[object]:
        out = self.coordinator.handle_message("n", Said(0, self.assignment, term, message), now)  # type: ignore[arg-type]
        return [told(each) for each in out]

    def asks(self, message: object, now: float = 1.0) -> list[object]:
        return [told(each) for each in self.coordinator.handle_message(CALLER, message, now)]  # type: ignore[arg-type]

    def tick(self, now: float) -> list[object]:
        return [told(each) for each in self.coordinator.tick(now, now)]


def told(outgoing: OutgoingMessage) -> object:
    """What a worker, a caller or the record gets."""
    return outgoing.message.message if isinstance(outgoing.message, Relay) else outgoing.message


def report(
    shards: list[ShardReport],
    serial: int = 1,
    coordinator: int = 0,
    obeyed: int = 0,
    **other: float,
) -> NodeReport:
    values = {"began": 1.0, "wall": 0.0, "free_disk": 1 << 40, "free_memory": 1 << 40, **other}
    return NodeReport(
        serial=serial, coordinator=coordinator, obeyed=obeyed, shards=shards, **values
    )  # type: ignore[arg-type]


def status(
    term: int = 1, counted: int = 0, serial: int = 0, may: int | None = None, **other: object
) -> WorkerStatus:
    return WorkerStatus(term, counted, serial, counted if may is None else may, **other)  # type: ignore[arg-type]


# -- assignments


def test_a_coordinator_that_starts_assigns_nothing_for_one_time_out() -> None:
    world = World(nodes=2, shards=4)
    world.start_coordinator()
    world.settle(RULES.node_timeout_s - 1)
    assert not any(node.workers for node in world.nodes.values())
    world.settle(2)
    assert [sorted(node.workers) for node in world.nodes.values()] == [[0, 2], [1, 3]]


def test_what_nodes_run_is_the_assignment_of_the_next_coordinator() -> None:
    world = World(nodes=2, shards=4)
    world.start_coordinator()
    world.settle(25)
    claims = [list(log.claims) for log in world.logs]
    world.stop_coordinator(1)
    world.start_coordinator()
    world.settle(60)
    assert [log.claims for log in world.logs] == claims


def test_a_silent_node_loses_its_shards_to_the_others_under_new_numbers() -> None:
    world = World(nodes=2, shards=4)
    world.start_coordinator()
    world.settle(25)
    lost = world.nodes.pop("n0")
    world.settle(25)
    assert sorted(world.nodes["n1"].workers) == [0, 1, 2, 3]
    world.nodes["n0"] = lost  # it was only cut off, and runs them still
    world.settle(5)
    assert {shard for node in world.nodes.values() for shard in node.workers} == {0, 1, 2, 3}
    assert all(len(places) == 1 for places in world.told.values())


def test_a_coordinator_that_was_stopped_itself_accuses_no_node_of_silence() -> None:
    world = World(nodes=2, shards=2)
    world.start_coordinator()
    world.settle(25)
    claims = [list(log.claims) for log in world.logs]
    world.now += 3600
    world.tick_coordinator(1)
    world.settle(30)
    assert [log.claims for log in world.logs] == claims


@pytest.mark.parametrize("ahead_s", [5.0, -5.0])
def test_a_node_whose_clock_is_off_gets_no_shard(ahead_s: float) -> None:
    world = World(nodes=2, shards=2)
    world.nodes["n0"].ahead_s = ahead_s
    world.start_coordinator()
    world.settle(30)
    assert not world.nodes["n0"].workers and sorted(world.nodes["n1"].workers) == [0, 1]


def test_a_node_without_room_gets_no_shard_and_one_with_next_to_none_loses_them() -> None:
    rules = msgspec.structs.replace(RULES, low_disk=1000, balances=False)
    world = World(nodes=2, shards=2, rules=rules)
    world.start_coordinator()
    world.nodes["n0"].free = 900
    world.settle(30)
    assert sorted(world.nodes["n1"].workers) == [0, 1]
    world.nodes["n0"].free = 5000
    world.nodes["n1"].free = 400
    world.settle(30)
    assert sorted(world.nodes["n0"].workers) == [0, 1] and not world.nodes["n1"].workers


def test_shards_move_when_an_operator_says_so_and_never_run_twice() -> None:
    world = World(nodes=2, shards=2)
    world.start_coordinator()
    world.settle(25)
    world.network.append((CALLER, "c1", Drain("n0")))
    world.settle(5)
    assert not world.nodes["n0"].workers and sorted(world.nodes["n1"].workers) == [0, 1]
    world.network.append((CALLER, "c1", Drain("n0", is_over=True)))
    world.network.append((CALLER, "c1", Move(1, "n0")))
    world.settle(5)
    assert 1 in world.nodes["n0"].workers and 0 in world.nodes["n1"].workers


def test_a_node_that_joins_later_gets_its_share() -> None:
    world = World(nodes=1, shards=4)
    world.start_coordinator()
    world.settle(25)
    other = World(nodes=2).nodes["n1"]
    other.world = world
    world.nodes["n1"] = other
    other.start()
    world.settle(20)
    assert sorted(len(node.workers) for node in world.nodes.values()) == [2, 2]


def test_a_node_gets_no_more_shards_than_it_can_run() -> None:
    one = Coordinator(1, 3, LimitSection(), ONE_PROCESS, 0.0)
    one.handle_message("n", report([], most_shards=2), 0.0)
    [given] = [told(each) for each in one.tick(0.0, 0.0)]
    assert isinstance(given, Assignments) and len(given.shards) == 2
    one.handle_message("m", report([], most_shards=2), 0.1)
    assert [len(each.shards) for each in map(told, one.tick(0.1, 0.1))] == [1]  # type: ignore[attr-defined]


def test_a_node_that_leaves_loses_its_shards_even_if_no_other_can_have_them() -> None:
    one = Coordinator(1, 1, LimitSection(), ONE_PROCESS, 0.0)
    one.handle_message("n", report([]), 0.0)
    [given] = [told(each) for each in one.tick(0.0, 0.0)]
    assert isinstance(given, Assignments)
    one.handle_message("n", report([], serial=2, is_leaving=True), 0.1)
    [taken] = [told(each) for each in one.tick(0.1, 0.1)]
    assert isinstance(taken, Assignments) and not taken.shards
    one.handle_message("m", report([]), 0.2)
    one.handle_message(
        "n", report([], serial=3, is_leaving=True, coordinator=1, obeyed=taken.version), 0.2
    )
    [moved] = [told(each) for each in one.tick(0.3, 0.3)]
    assert isinstance(moved, Assignments) and list(moved.shards) == [0]
    assert moved.shards[0] > given.shards[0]


def test_a_fenced_worker_starts_only_under_a_greater_number() -> None:
    world = World(nodes=1, shards=1)
    world.start_coordinator()
    world.settle(25)
    [first] = world.logs[0].claims
    world.logs[0].claims.append(first)  # somebody else claimed the log
    world.settle(5)
    assert world.logs[0].claims[-1] > first and not world.nodes["n0"].workers[0].is_fenced
    assert world.nodes["n0"].plan.deaths == 0


def test_a_late_report_of_an_earlier_run_of_a_node_says_nothing() -> None:
    coordinator = Coordinator(1, 1, LimitSection(), ONE_PROCESS, 0.0)
    coordinator.handle_message("n", report([], serial=1, began=200.0), 0.0)
    running = [ShardReport(0, 7, 1, ShardState.RUNNING)]
    coordinator.handle_message("n", report(running, serial=9, began=100.0), 0.1)
    assert coordinator.owner_of(0) == ""
    [given] = [each.message for each in coordinator.tick(0.2, 0.2)]
    assert isinstance(given, Assignments) and given.shards[0] > 7


def test_deaths_of_workers_are_counted_over_nodes_and_coordinators_without_a_leap() -> None:
    coordinator = Coordinator(2, 1, LimitSection(), ONE_PROCESS, 0.0)

    def after(node: str, serial: int, deaths: int, began: float = 1.0) -> float:
        told = report([], serial=serial, deaths=deaths, began=began)
        coordinator.handle_message(node, told, float(serial))
        found = crawl_metrics(coordinator.status("crawl", float(serial)))
        return found.number("lycosa_worker_deaths_total")

    assert after("a", 1, 40) == 0, "an earlier coordinator may have counted them"
    assert after("b", 1, 0) == 0
    assert after("a", 2, 42) == 2
    assert after("a", 2, 42) == after("a", 1, 40) == 2
    assert after("b", 2, 1, began=90.0) == 3, "its program was started again"


def test_the_metrics_have_the_memory_of_nodes_and_of_processes_beside_the_crawl() -> None:
    coordinator = Coordinator(1, 1, LimitSection(), ONE_PROCESS, 0.0)
    node = ProcessMemory("node", 5_000_000, 0, 2.5)
    coordinator.handle_message("n1", msgspec.structs.replace(report([]), memory=node), 0.0)
    beside = [ProcessMemory("api", 7_000_000, 0, 0.5)]
    found = crawl_metrics(coordinator.status("crawl", 0.0), beside)
    assert found.table("lycosa_process_memory_bytes") == {"node n1": 5_000_000, "api": 7_000_000}


def test_a_coordinator_ends_when_it_hears_of_a_greater_one() -> None:
    for message in (Superseded(2), report([], coordinator=2)):
        one = OneShard()
        assert one.coordinator.handle_message("n", message, 1.0) == []
        assert one.coordinator.superseded_by == 2
        assert one.asks(Ask(Seeds("a", []))) == [] and one.tick(9.0) == []


# -- permits


def test_nothing_is_granted_while_a_shard_is_not_counted() -> None:
    book = PermitBook(LimitSection(max_pages=10), 2, {})
    assert [each.captures for each in book.record_status(0, status(wants=True))] == [0]
    granted = book.record_status(1, status(counted=9))
    assert [(each.shard, each.captures) for each in granted] == [(1, 9), (0, 1)]


def test_a_permit_is_recorded_before_it_is_told() -> None:
    one = OneShard(LimitSection(max_pages=10), Control({0: PermitSaved(0, 0, 0, 0)}))
    said = one.says(status(wants=True))
    assert isinstance(said[-1], Permit)
    assert [type(each) for each in said] == [PermitSaved, PermitSaved, Permit]
    assert said[-1] == Permit(said[-2].serial, said[-2].captures)  # type: ignore[attr-defined]


def test_a_permit_is_lowered_by_the_owner_that_knows_the_last_one_and_by_no_other() -> None:
    book = PermitBook(LimitSection(max_pages=100), 1, {0: PermitSaved(0, 1, 5, 60)})
    assert book.record_status(0, status(1, serial=4, may=20)) == []  # from before the last permit
    assert book.record_status(0, status(0, serial=5, may=20)) == []  # from an earlier owner
    assert book.record_status(0, status(1, serial=5, may=20)) == [PermitSaved(0, 1, 6, 20)]
    assert book.record_status(0, status(1, serial=5, may=10)) == []  # the same word, late


def test_a_new_owner_counts_and_a_late_word_of_the_one_before_says_nothing() -> None:
    book = PermitBook(LimitSection(max_pages=100), 1, {0: PermitSaved(0, 1, 5, 60)})
    assert book.record_status(0, status(2, counted=31)) == [PermitSaved(0, 2, 6, 31)]
    assert book.record_status(0, status(1, serial=5, may=10)) == []
    assert book.left == 69


def test_a_worker_that_began_under_a_limit_gets_permits_when_there_is_none_any_more() -> None:
    one = OneShard(LimitSection(max_pages=0))
    said = one.says(status(counted=50, wants=True))
    assert isinstance(said[-1], Permit) and said[-1].captures > 50
    one.says(progress_with(captures=10**9))
    assert one.coordinator.crawl_end is None


def test_a_limit_that_is_reached_ends_the_crawl() -> None:
    one = OneShard(LimitSection(max_pages=3, max_bytes=0))
    one.says(status())
    one.says(progress_with(captures=2))
    assert one.coordinator.crawl_end is None
    ended = one.says(progress_with(captures=3))
    assert (
        ended[0] == EndSaved("limit", False)
        and isinstance(ended[1], Assignments)
        and ended[1].end == "limit"
    )


# -- requests, settings


def test_a_request_waits_for_an_owner_and_is_told_to_each_until_it_is_answered() -> None:
    one = OneShard()
    assert one.asks(Ask(Seeds("a", ["x"]))) == []
    assert Seeds("a", ["x"]) in one.says(status())
    assert Seeds("a", ["x"]) not in one.says(status(), now=2.0)
    # another owner, which may know nothing of it
    assert Seeds("a", ["x"]) in one.says(status(term=2), term=2, now=3.0)
    assert one.says(SeedsTaken("a", [("y", "no")]), term=1, now=4.0) == [
        Answered("a", [("y", "no")])
    ]
    assert one.asks(Ask(Seeds("a", ["x"]))) == [Answered("a", [("y", "no")])]


def test_a_request_to_all_is_answered_when_all_have() -> None:
    world = World(nodes=2, shards=3)
    world.start_coordinator()
    world.ask("a", 2)
    world.settle(10)
    assert not world.answered  # no shard has an owner yet
    world.settle(20)
    assert world.answered == {"a"}


def test_no_more_calls_is_told_when_the_last_request_is_answered() -> None:
    one = OneShard()
    one.says(status())
    one.asks(Ask(Seeds("a", [])))
    assert one.asks(NoMoreAsks()) == [AsksSaved(True)]
    assert NoMoreCalls() in one.says(SeedsTaken("a", []))


def test_live_settings_are_recorded_numbered_and_told() -> None:
    one = OneShard()
    one.says(status())
    first = CrawlAction("1/1", "ada", 1_000_000, "set", "politeness.delay_s=2")
    assert one.asks(ChangeSettings({"politeness.delay_s": "2"}, "ada")) == [
        SettingsSaved(1, {"politeness.delay_s": "2"}, False, [first]),
        LiveSettings(1, {"politeness.delay_s": "2"}, False, [first]),
    ]
    told = one.asks(ChangeSettings({"politeness.delay_s": "3"}))[-1]
    assert isinstance(told, LiveSettings)
    assert (told.version, told.values["politeness.delay_s"], len(told.actions)) == (2, "3", 2)
    assert not any(isinstance(each, LiveSettings) for each in one.says(status(settings=2)))


def test_nodes_are_told_the_settings_of_rendering() -> None:
    """By them a machine keeps a renderer, also one without shards."""
    one = OneShard()
    one.says(status())
    asked = one.asks(ChangeSettings({"render.mode": "auto", "politeness.delay_s": "2"}))
    (listed,) = [each for each in asked if isinstance(each, Assignments)]
    assert listed.render == {"render.mode": "auto"}


def test_a_pause_is_recorded_told_and_outlives_the_coordinator_but_not_the_end() -> None:
    one = OneShard()
    one.says(status())
    saved, told = one.asks(PauseCrawl(True, "ada"))
    assert isinstance(saved, SettingsSaved) and isinstance(told, LiveSettings)
    assert saved.is_paused and told.is_paused and told.actions[0].action == "pause_crawl"
    control = folded([saved, EndSaved("stopped", False)])
    later = Coordinator(2, 1, LimitSection(), ONE_PROCESS, 0.0, control)
    assert later.settings.is_paused
    later.handle_message(CALLER, MoreAsks(), 1.0)  # the crawl continues
    assert not later.settings.is_paused and later.settings.version == 2
    assert not [each for each in one.asks(PauseCrawl(False)) if getattr(each, "is_paused", False)]


def test_records_add_up_to_what_the_next_coordinator_knows() -> None:
    permits = [PermitSaved(0, 1, 1, 10), PermitSaved(1, 1, 1, 5), PermitSaved(0, 1, 2, 20)]
    control = folded(
        [
            *permits,
            SettingsSaved(3, {"x": "y"}),
            EndSaved("stopped", True),
        ]
    )
    assert control.permits == {0: permits[2], 1: permits[1]}
    coordinator = Coordinator(2, 2, LimitSection(), ONE_PROCESS, 0.0, control)
    assert coordinator.crawl_end is End.STOPPED and coordinator.settings.version == 3


# -- the end


def idle(
    term: int = 1, commits: int = 5, activity: int = 9, is_idle: bool = True
) -> tuple[tuple[int, int], ProbeAnswer]:
    return (1, term), ProbeAnswer(0, is_idle, activity, False, commits)


def rounds_of(*rounds: dict[int, tuple[tuple[int, int], ProbeAnswer]]) -> list[bool]:
    """What the look after each round concludes."""
    ending, found = EndRounds(), []
    for number, answers in enumerate(rounds, 1):
        owners = {shard: owner for shard, (owner, _) in answers.items()}
        assert len(ending.probes_due(owners)) == len(owners)
        for shard, (owner, answer) in answers.items():
            ending.record_answer(shard, owner, msgspec.structs.replace(answer, round=number))
        found.append(ending.completes_proof(owners, 1))
    return found


def test_the_end_takes_two_rounds_with_the_same_answers() -> None:
    same = {0: idle(), 1: idle(commits=8)}
    assert rounds_of(same, same) == [False, True]
    assert rounds_of(same, {0: idle(), 1: idle(commits=9)}, same) == [False, False, False]
    assert rounds_of(same, {0: idle(), 1: idle(commits=8, activity=10)}) == [False, False]
    assert rounds_of(same, {0: idle(), 1: idle(term=2, commits=8)}) == [False, False]
    assert rounds_of(same, {0: idle(), 1: idle(commits=8, is_idle=False)}, same, same) == [
        False,
        False,
        False,
        True,
    ]


def test_a_first_capture_that_is_not_committed_lets_the_crawl_wait_for_unreachable_hosts() -> None:
    def is_proved(captures: int) -> bool:
        ending, owners = EndRounds(), {0: (1, 1), 1: (1, 1)}
        for _ in range(2):
            [(_, probe), _] = ending.probes_due(owners)
            ending.record_answer(0, (1, 1), ProbeAnswer(probe.round, True, 9, captures=captures))
            ending.record_answer(1, (1, 1), ProbeAnswer(probe.round, False, 2, True))
            is_proof = ending.completes_proof(owners, 0)  # no owner has reported any
        return is_proof

    assert is_proved(0) and not is_proved(1)


def test_an_answer_of_another_round_or_owner_does_not_count() -> None:
    ending, owners = EndRounds(), {0: (1, 1)}
    [(_, probe)] = ending.probes_due(owners)
    ending.record_answer(0, (1, 1), ProbeAnswer(probe.round - 1, True, 0))
    assert not ending.completes_proof(owners, 1) and ending.probes_due(owners) == [
        (0, Probe(probe.round))
    ]
    ending.record_answer(0, (1, 1), ProbeAnswer(probe.round, True, 0))
    assert not ending.completes_proof({0: (1, 2)}, 1) and ending.probes_due({0: (1, 2)}) == [
        (0, Probe(probe.round))
    ]


def test_a_crawl_is_not_finished_before_its_caller_says_that_no_more_is_asked() -> None:
    one = OneShard()
    one.says(status())
    one.says(progress_with(is_idle=True))
    assert one.tick(2.0) == []
    one.asks(NoMoreAsks())
    [probe] = one.tick(3.0)
    assert isinstance(probe, Probe)
    one.says(ProbeAnswer(probe.round, True, 0))
    [probe] = one.tick(4.0)
    assert isinstance(probe, Probe)
    one.asks(Ask(Seeds("late", [])))  # between the rounds
    one.says(ProbeAnswer(probe.round, True, 0))
    assert one.tick(5.0) == [] and one.coordinator.crawl_end is None
    one.says(SeedsTaken("late", []))
    for now in (6.0, 7.0):
        [probe] = one.tick(now)
        assert isinstance(probe, Probe)
        one.says(ProbeAnswer(probe.round, True, 0))
    ended = one.tick(8.0)
    assert ended[0] == EndSaved("finished", False) and one.coordinator.crawl_end is End.FINISHED
    assert not one.coordinator.is_over
    one.coordinator.handle_message(
        "n",
        report([ShardReport(0, one.assignment, 1, ShardState.ENDED, "finished")], serial=2),
        9.0,
    )
    assert one.coordinator.is_over and one.coordinator.worker_ends() == ["finished"]


def test_a_stop_is_recorded_and_told_and_a_second_one_breaks_off() -> None:
    one = OneShard()
    first = one.asks(StopCrawl("stopped"))
    assert (
        first[0] == EndSaved("stopped", False)
        and isinstance(first[1], Assignments)
        and not first[1].at_once
    )
    assert one.asks(StopCrawl("limit")) == []
    second = one.asks(StopCrawl("stopped", at_once=True))
    assert (
        second[0] == EndSaved("stopped", True)
        and isinstance(second[1], Assignments)
        and second[1].at_once
    )


def test_an_operators_stop_is_logged_with_name_and_remark_before_the_end() -> None:
    one = OneShard()
    one.says(status())
    saved, told, end, *_ = one.asks(StopCrawl("stopped", by="ada", why="new disk"))
    done = CrawlAction("1/1", "ada", 1_000_000, "stop_crawl", "", "new disk")
    assert saved == SettingsSaved(1, {}, False, [done])
    assert told == LiveSettings(1, {}, False, [done])
    assert end == EndSaved("stopped", False)
    assert one.asks(StopCrawl("stopped", by="bob")) == [], "nothing was decided"
    later = one.asks(StopCrawl("stopped", True, "bob"))[0]
    assert isinstance(later, SettingsSaved)
    assert [(each.by, each.subject) for each in later.actions] == [("ada", ""), ("bob", "at once")]


def test_a_failed_shard_does_not_keep_a_stopped_crawl_from_its_end() -> None:
    one = OneShard()
    failed = ShardReport(0, one.assignment, 1, ShardState.FAILED, why="a part is missing")
    one.coordinator.handle_message("n", report([failed], serial=2), 1.0)
    assert not one.coordinator.is_over
    one.asks(StopCrawl("stopped"))
    assert one.coordinator.is_over
    [given] = [
        each.message
        for each in one.coordinator.handle_message("n", report([failed], serial=3), 2.0)
    ]
    assert isinstance(given, Assignments) and given.is_over


def test_messages_survive_the_wire() -> None:
    said = Said(1, 2, 3, progress_with(captures=4))
    assert decode_to_coordinator(encode_node_message(said)) == said
    reported = report([ShardReport(1, 2 << 32, 3, ShardState.ASKING, why="fenced")])
    assert decode_to_coordinator(encode_node_message(reported)) == reported
    relayed = Relay(1, 2, 3, Seeds("a", ["b"]))
    assert decode_to_node(encode_node_message(relayed)) == relayed
    assert decode_to_node(encode_node_message(Assignments(1, 2, 3, {4: 5 << 32}))) == Assignments(
        1, 2, 3, {4: 5 << 32}
    )


def test_only_records_go_to_control() -> None:
    one = OneShard(LimitSection(max_pages=10), Control({0: PermitSaved(0, 0, 0, 0)}))
    out = one.coordinator.handle_message("n", Said(0, one.assignment, 1, status(wants=True)), 1.0)
    assert [each.receiver for each in out] == [CONTROL, CONTROL, "n"]
