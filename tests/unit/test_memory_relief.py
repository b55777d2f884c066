"""What a worker is told to do when the crawl's memory comes near its bound."""

from __future__ import annotations

from lycosa.base.system.memory_relief import CLOSE, FAR, NEAR, MemoryGuard, ReliefStep

_BOUND, _SHARE = 1000, 400


def _guard() -> MemoryGuard:
    return MemoryGuard(_BOUND, _SHARE)


def test_far_from_the_bound_nothing_is_done() -> None:
    guard = _guard()
    assert all(
        guard.choose_step(now, int(FAR * _BOUND) - 1, _SHARE, 5) is ReliefStep.NONE
        for now in range(100)
    )


def test_the_steps_follow_each_other_with_time_to_show() -> None:
    guard, near = _guard(), int(NEAR * _BOUND) + 1
    reliefs = [guard.choose_step(now / 2, near, _SHARE, 5) for now in range(40)]
    assert list(dict.fromkeys(reliefs)) == [
        ReliefStep.TRIM,
        ReliefStep.CACHES,
        ReliefStep.WORKBENCH,
        ReliefStep.PARSER,
        ReliefStep.STOP,
    ]
    assert (
        reliefs.count(ReliefStep.TRIM) == reliefs.count(ReliefStep.CACHES) == 4
    )  # two seconds each


def test_those_that_hold_less_than_their_share_wait_until_it_is_close() -> None:
    guard = _guard()
    assert guard.choose_step(1.0, int(NEAR * _BOUND) + 1, _SHARE // 2, 5) is ReliefStep.NONE
    assert guard.choose_step(1.5, int(CLOSE * _BOUND) + 1, _SHARE // 2, 5) is ReliefStep.STOP


def test_close_to_the_bound_all_is_done_at_once_whatever_went_before() -> None:
    guard = _guard()
    assert guard.choose_step(1.0, int(NEAR * _BOUND) + 1, _SHARE, 5) is ReliefStep.TRIM
    assert guard.choose_step(1.1, int(CLOSE * _BOUND) + 1, _SHARE, 5) is ReliefStep.STOP


def test_it_stays_until_the_memory_is_far_below_and_begins_anew_then() -> None:
    guard = _guard()
    guard.choose_step(1.0, _BOUND, _SHARE, 5)
    assert guard.choose_step(5.0, int(FAR * _BOUND) + 1, _SHARE, 0) is ReliefStep.STOP
    assert guard.choose_step(6.0, int(FAR * _BOUND) - 1, _SHARE, 0) is ReliefStep.NONE
    assert guard.choose_step(7.0, int(NEAR * _BOUND) + 1, _SHARE, 5) is ReliefStep.TRIM


def test_a_worker_that_has_nothing_left_to_give_goes_on_with_one_page_at_a_time() -> None:
    guard = _guard()
    assert guard.choose_step(1.0, _BOUND, _SHARE, 5) is ReliefStep.STOP
    assert (
        guard.choose_step(60.0, _BOUND, _SHARE, 3) is ReliefStep.STOP
    )  # what is in flight may still end
    assert guard.choose_step(5.0, _BOUND, _SHARE, 0) is ReliefStep.STOP
    assert guard.choose_step(61.0, _BOUND, _SHARE, 0) is ReliefStep.NARROW
    assert guard.choose_step(62.0, _BOUND, _SHARE, 1) is ReliefStep.NARROW
    assert guard.choose_step(63.0, 0, _SHARE, 1) is ReliefStep.NONE


def test_every_step_is_said_in_words() -> None:
    assert not ReliefStep.NONE.meaning
    assert len({relief.meaning for relief in ReliefStep}) == len(ReliefStep)
