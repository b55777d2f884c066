"""What the supervisor concludes: that a worker is silent for too long, and that all have nothing
left.
"""

from __future__ import annotations

from lycosa.base.messages.progress import Progress
from lycosa.base.messages.worker_messages import ProbeAnswer, is_over
from lycosa.processes.worker_handle import WorkerSilence
from progress_making import progress_with


def test_silence_is_too_long_after_a_minute_of_looks() -> None:
    silence = WorkerSilence()
    assert [silence.is_too_long() for _ in range(60)] == [False] * 59 + [True]


def test_whatever_is_heard_ends_the_silence() -> None:
    silence = WorkerSilence()
    for _ in range(10):
        assert not any(silence.is_too_long() for _ in range(59))
        silence.note_heard()


def test_a_crawl_is_over_when_all_are_idle() -> None:
    assert is_over([progress_with(is_idle=True), progress_with(is_idle=True)], captures=7)
    assert not is_over([progress_with(is_idle=True), Progress()], captures=7)


def test_hosts_that_nobody_can_reach_are_not_waited_for_when_nothing_was_captured() -> None:
    answers = [
        ProbeAnswer(1, is_idle=True, activity=0),
        ProbeAnswer(1, is_idle=False, activity=3, reaches_nobody=True),
    ]
    assert is_over(answers, captures=0)
    assert not is_over(answers, captures=1)
