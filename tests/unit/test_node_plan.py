"""A node's plan: whom it obeys, what it starts, stops and starts again, and what it reports."""

from __future__ import annotations

import pytest

from lycosa.base.messages.coordinator_messages import (
    Assignments,
    NodeReport,
    Relay,
    Said,
    ShardReport,
    ShardState,
    Superseded,
)
from lycosa.base.messages.progress import Progress
from lycosa.base.messages.worker_messages import (
    Ended,
    Failed,
    NoMoreCalls,
    Probe,
    Stop,
    WorkerStatus,
)
from lycosa.cluster.coordinator.node_acts import (
    Died,
    GiveUp,
    Machine,
    NodeAct,
    Note,
    Reply,
    StartWorker,
    TellCoordinator,
    TellWorker,
)
from lycosa.cluster.coordinator.node_plan import MAX_DEATHS, NodePlan
from lycosa.state.commit import Fenced, OutcomeUnknown
from progress_making import progress_with

MACHINE = Machine(100.0, 1, 2)
KILLED = Died("SIGKILL")


def plan_with(*shards: int) -> NodePlan:
    """A plan that was told to run these shards, shard n under the assignment n + 10, and whose
    workers have spoken.
    """
    plan = NodePlan(1.0)
    plan.tick(0.0, MACHINE)
    plan.handle_message(Assignments(1, 1, 0, {shard: shard + 10 for shard in shards}), 0.0)
    for shard in shards:
        plan.handle_worker_message(shard, WorkerStatus(1, 0, 0, 0), 0.0)
    return plan


def reported(acts: list[NodeAct]) -> list[ShardReport]:
    """The shards of the last report."""
    reports = [
        act.message
        for act in acts
        if isinstance(act, TellCoordinator) and isinstance(act.message, NodeReport)
    ]
    return reports[-1].shards if reports else []


def starts(acts: list[NodeAct]) -> list[StartWorker]:
    return [act for act in acts if isinstance(act, StartWorker)]


def test_what_is_assigned_is_started_once_and_reported() -> None:
    plan = NodePlan(1.0)
    plan.tick(0.0, MACHINE)
    acts = plan.handle_message(Assignments(1, 1, 0, {0: 10, 2: 12}), 0.0)
    assert starts(acts) == [StartWorker(0, 10, 1), StartWorker(2, 12, 1)]
    assert reported(acts) == [
        ShardReport(0, 10, -1, ShardState.STARTING),
        ShardReport(2, 12, -1, ShardState.STARTING),
    ]
    assert (
        plan.handle_message(Assignments(1, 1, 1, {0: 10, 2: 12}), 0.1) == []
    )  # the same list, repeated


def test_an_older_list_of_the_same_coordinator_is_not_followed() -> None:
    plan = plan_with(0)
    plan.handle_message(Assignments(1, 5, 9, {0: 10, 1: 30}), 1.0)
    assert plan.handle_message(Assignments(1, 4, 9, {}), 1.1) == []
    assert plan.alive == [0, 1]


def test_a_lower_coordinator_is_told_so_and_a_greater_one_obeyed() -> None:
    plan = plan_with(0)
    plan.handle_message(Assignments(3, 1, 0, {0: 10}), 1.0)
    assert plan.handle_message(Assignments(1, 99, 99, {}), 2.0) == [Reply(Superseded(3))]
    assert plan.handle_message(Relay(2, 0, 1, NoMoreCalls()), 2.0) == [Reply(Superseded(3))]
    assert plan.handle_message(Relay(3, 0, 1, NoMoreCalls()), 2.0) == [TellWorker(0, NoMoreCalls())]


def test_a_message_for_another_term_is_dropped() -> None:
    plan = plan_with(0)
    assert plan.handle_message(Relay(1, 0, 2, Probe(1)), 1.0) == []
    assert plan.handle_message(Relay(1, 7, 1, Probe(1)), 1.0) == []


def test_a_shard_that_was_taken_away_is_stopped_and_then_no_longer_reported() -> None:
    plan = plan_with(0, 1)
    acts = plan.handle_message(Assignments(1, 2, 99, {1: 11}), 1.0)
    assert TellWorker(0, Stop("stopped")) in acts
    assert [each.state for each in reported(acts)] == [ShardState.STOPPING, ShardState.RUNNING]
    assert [
        each.shard
        for each in reported(plan.handle_worker_end(0, Ended("stopped", Progress()), 2.0))
    ] == [1]


def test_a_shard_that_the_coordinator_did_not_know_of_goes_on() -> None:
    """A new coordinator's first list may be from before a report that names the shard."""
    plan = plan_with(0)
    assert plan.handle_message(Assignments(2, 1, 0, {}), 1.0) != [] and plan.alive == [0]
    acts = plan.handle_message(
        Assignments(2, 1, 99, {}), 2.0
    )  # the same list, by a coordinator that knows
    assert TellWorker(0, Stop("stopped")) in acts


def test_a_process_that_starts_while_its_shard_leaves_is_told_at_once() -> None:
    plan = NodePlan(1.0)
    plan.tick(0.0, MACHINE)
    plan.handle_message(Assignments(1, 1, 0, {0: 10}), 0.0)
    assert plan.greeting(0) is None
    plan.handle_message(Assignments(1, 2, 99, {}), 0.1)
    assert plan.greeting(0) == Stop("stopped")


def test_the_end_is_told_to_all_and_to_those_that_start_later() -> None:
    plan = plan_with(0, 1)
    acts = plan.handle_message(Assignments(1, 2, 99, {0: 10, 1: 11}, "finished"), 1.0)
    assert [act for act in acts if isinstance(act, TellWorker)] == [
        TellWorker(shard, Stop("finished")) for shard in (0, 1)
    ]
    # what it had in flight is to be settled
    assert starts(plan.handle_worker_end(1, KILLED, 2.0)) == [StartWorker(1, 11, 2)]
    assert plan.greeting(1) == Stop("finished")
    assert reported(plan.handle_worker_end(0, Ended("finished", Progress()), 3.0))[
        0
    ] == ShardReport(0, 10, 1, ShardState.ENDED, "finished")
    acts = plan.handle_message(Assignments(1, 3, 99, {0: 10, 1: 11}, "finished", at_once=True), 4.0)
    assert [act for act in acts if isinstance(act, TellWorker)] == [
        TellWorker(1, Stop("finished", at_once=True))
    ]


def test_a_dead_worker_is_started_again_at_once_and_then_after_growing_pauses() -> None:
    plan, now, pauses = plan_with(0), 0.0, []
    for _ in range(MAX_DEATHS):
        acts = plan.handle_worker_end(0, KILLED, now)
        began = now
        while not starts(acts):
            now += 0.5
            acts = plan.tick(now, MACHINE)
        pauses.append(now - began)
        plan.handle_worker_message(0, WorkerStatus(1, 0, 0, 0), now)
    assert pauses == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    acts = plan.handle_worker_end(0, KILLED, now)
    [given_up] = [act for act in acts if isinstance(act, GiveUp)]
    assert given_up.failed.kind == "WorkerDied" and "died 11 times in a row" in given_up.failed.text
    assert reported(acts)[0].state is ShardState.FAILED
    [told] = [act.message for act in acts if isinstance(act, TellCoordinator)]
    assert isinstance(told, NodeReport) and told.deaths == plan.deaths == 11


def test_a_commit_between_two_deaths_begins_the_count_again() -> None:
    plan = plan_with(0)
    for commits in range(30):
        plan.handle_worker_message(0, WorkerStatus(1, 0, 0, 0), 0.0)
        plan.handle_worker_message(0, progress_with(commits=commits + 1), 0.0)
        assert starts(plan.handle_worker_end(0, KILLED, 0.0))


@pytest.mark.parametrize("error", [Fenced, OutcomeUnknown])
def test_a_fenced_worker_is_no_death_and_waits_for_a_greater_number(error: type[Exception]) -> None:
    plan = plan_with(0)
    acts = plan.handle_worker_end(
        0, Failed(f"{error.__module__}.{error.__qualname__}", "why", ""), 1.0
    )
    assert plan.deaths == 0 and not starts(acts) and isinstance(acts[0], Note)
    assert reported(acts)[0] == ShardReport(0, 10, 1, ShardState.ASKING, why="why")
    assert not starts(plan.tick(60.0, MACHINE))
    assert not starts(plan.handle_message(Assignments(1, 2, 99, {0: 10}), 61.0))
    assert starts(plan.handle_message(Assignments(1, 3, 99, {0: 20}), 62.0)) == [
        StartWorker(0, 20, 2)
    ]


def test_a_worker_that_is_fenced_again_and_again_is_given_time() -> None:
    plan, fenced = plan_with(0), Failed("lycosa.state.commit.log_port.Fenced", "why", "")
    plan.handle_worker_end(0, fenced, 0.0)
    assert starts(plan.handle_message(Assignments(1, 2, 99, {0: 20}), 0.0))
    plan.handle_worker_end(0, fenced, 0.0)
    assert not starts(plan.handle_message(Assignments(1, 3, 99, {0: 30}), 0.0))
    assert starts(plan.tick(0.5, MACHINE)) == [StartWorker(0, 30, 3)]


def test_an_error_that_another_try_would_meet_again_is_given_up_and_a_passing_one_is_not() -> None:
    plan = plan_with(0, 1)
    failed = Failed("lycosa.state.store.StoreDamaged", "damaged", "trace")
    assert GiveUp(0, failed) in plan.handle_worker_end(0, failed, 1.0)
    assert starts(
        plan.handle_worker_end(
            1, Failed("builtins.MemoryError", "no memory", "", is_passing=True), 1.0
        )
    )
    assert plan.deaths == 1


AWAY = Failed("builtins.OSError", "[Errno 99] Cannot assign address", "", 99, is_local=True)


def test_a_shard_that_cannot_run_here_is_tried_again_without_end_after_growing_pauses() -> None:
    plan, now, pauses = plan_with(0), 0.0, []
    for _ in range(3 * MAX_DEATHS):
        acts = plan.handle_worker_end(0, AWAY, now)
        [said] = reported(acts)
        assert (said.state, said.is_local, said.why) == (ShardState.WAITING, True, AWAY.text)
        assert not any(isinstance(act, GiveUp) for act in acts)
        began = now
        while not starts(acts):
            now += 0.5
            acts = plan.tick(now, MACHINE)
        assert not reported(acts)[0].is_local
        pauses.append(now - began)
    assert pauses[:6] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0] and set(pauses[5:]) == {30.0}
    assert plan.deaths == 0 and plan.not_running == [0]


def test_the_operator_is_told_once_that_a_shard_cannot_run_here() -> None:
    plan = plan_with(0)
    [note] = [each for each in plan.handle_worker_end(0, AWAY, 0.0) if isinstance(each, Note)]
    assert "cannot run here: [Errno 99]" in note.text
    assert starts(plan.tick(5.0, MACHINE))
    assert not [each for each in plan.handle_worker_end(0, AWAY, 6.0) if isinstance(each, Note)]


def test_a_shard_that_cannot_run_here_is_released_when_it_is_taken_away() -> None:
    plan = plan_with(0)
    plan.handle_worker_end(0, AWAY, 0.0)
    acts = plan.handle_message(Assignments(1, 2, 99, {}), 1.0)
    assert reported(acts) == [] and not plan.has_shard(0)
    assert not starts(plan.tick(60.0, MACHINE))


def test_a_worker_that_died_too_often_may_run_on_another_machine() -> None:
    plan, acts = plan_with(0), list[NodeAct]()
    for now in range(0, 100 * (MAX_DEATHS + 1), 100):
        acts = plan.handle_worker_end(0, KILLED, float(now))
        plan.tick(now + 50.0, MACHINE)
    [said] = reported(acts)
    assert said.state is ShardState.FAILED and said.is_local and "SIGKILL" in said.why


def test_nothing_is_started_again_when_the_operator_kills() -> None:
    plan = plan_with(0, 1)
    plan.handle_worker_end(1, KILLED, 0.0)
    plan.handle_worker_end(1, KILLED, 0.0)  # waits for its pause
    assert [each.state for each in reported(plan.abandon(0.1))] == [
        ShardState.RUNNING,
        ShardState.ENDED,
    ]
    assert [each.end for each in reported(plan.handle_worker_end(0, KILLED, 0.2))] == [
        "stopped",
        "stopped",
    ]
    assert not starts(plan.tick(99.0, MACHINE))


def test_a_report_comes_every_second_and_says_what_the_machine_has_free() -> None:
    plan = plan_with(0)
    assert plan.tick(0.5, MACHINE) == []
    [act] = plan.tick(1.0, MACHINE)
    assert isinstance(act, TellCoordinator) and isinstance(act.message, NodeReport)
    assert (act.message.wall, act.message.free_disk, act.message.free_memory) == (100.0, 1, 2)
    assert (act.message.coordinator, act.message.obeyed) == (1, 1)


def test_nothing_is_reported_before_the_machine_was_looked_at() -> None:
    plan = NodePlan(1.0)
    assert plan.handle_message(Assignments(1, 1, 0, {0: 10}), 0.0) == [StartWorker(0, 10, 1)]
    assert [each.shard for each in reported(plan.tick(0.1, MACHINE))] == [0]


def test_what_a_process_says_before_its_status_is_of_no_owner() -> None:
    plan = NodePlan(1.0)
    plan.tick(0.0, MACHINE)
    plan.handle_message(Assignments(1, 1, 0, {0: 10}), 0.0)
    assert plan.handle_worker_message(0, Progress(), 0.1) == []
    acts = plan.handle_worker_message(0, WorkerStatus(4, 0, 0, 0), 0.2)
    assert acts[0] == TellCoordinator(Said(0, 10, 4, WorkerStatus(4, 0, 0, 0)))
    assert reported(acts) == [ShardReport(0, 10, 4, ShardState.RUNNING)]


def test_the_last_report_of_a_worker_is_told_before_its_end() -> None:
    plan = plan_with(0)
    plan.handle_message(Assignments(1, 2, 99, {0: 10}, "finished"), 1.0)
    last = progress_with(commits=7).with_numbers(
        {"lycosa_urls_discovered_total": 9, "lycosa_damaged_segments": 1}
    )
    assert last.has_counts
    told = [
        act.message
        for act in plan.handle_worker_end(0, Ended("finished", last), 2.0)
        if isinstance(act, TellCoordinator)
    ]
    assert told[0] == Said(0, 10, 1, last)
    assert isinstance(told[1], NodeReport) and told[1].shards[0].state is ShardState.ENDED


def test_a_worker_that_was_stopped_before_its_shard_was_open_has_no_last_report() -> None:
    acts = plan_with(0).handle_worker_end(0, Ended("stopped", Progress()), 2.0)
    assert not any(
        isinstance(act, TellCoordinator) and isinstance(act.message, Said) for act in acts
    )


def test_a_node_that_leaves_stops_its_workers_and_says_when_none_is_left() -> None:
    plan = plan_with(0, 1)
    plan.handle_worker_end(1, KILLED, 0.1)  # restarted at once
    plan.handle_worker_end(1, KILLED, 0.2)  # waits
    acts = plan.leave(0.3)
    assert TellWorker(0, Stop("stopped")) in acts
    assert [(each.shard, each.state) for each in reported(acts)] == [(0, ShardState.STOPPING)]
    assert not starts(plan.tick(99.0, MACHINE)) and not plan.has_left
    acts = plan.handle_worker_end(0, Ended("stopped", Progress()), 99.5)
    [report] = [act.message for act in acts if isinstance(act, TellCoordinator)]
    assert isinstance(report, NodeReport) and report.is_leaving and report.shards == []
    assert not plan.has_left  # the coordinator may not have received it
    # the coordinator may still give it shards until then
    assert not starts(plan.handle_message(Assignments(1, 2, report.serial, {0: 10, 5: 15}), 99.6))
    assert plan.has_left


def test_a_worker_that_fails_while_its_node_leaves_does_not_keep_it() -> None:
    plan = plan_with(0)
    plan.leave(0.1)
    failed = Failed("lycosa.state.store.damage.StoreDamaged", "a part is missing", "")
    acts = plan.handle_worker_end(0, failed, 0.2)
    assert GiveUp(0, failed) in acts
    [report] = [act.message for act in acts if isinstance(act, TellCoordinator)]
    assert isinstance(report, NodeReport)
    plan.handle_message(Assignments(1, 2, report.serial, {}), 0.3)
    assert plan.has_left


def test_a_node_learns_that_the_crawl_is_over() -> None:
    plan = plan_with(0)
    plan.handle_message(Assignments(1, 2, 2, {0: 10}, "finished"), 0.1)
    assert not plan.is_over
    plan.handle_message(Assignments(1, 2, 3, {0: 10}, "finished", is_over=True), 0.2)
    assert plan.is_over
