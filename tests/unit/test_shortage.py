"""Shortages that pass: which errors they are, and that work waits for a thread."""

from __future__ import annotations

import asyncio
import errno
import threading

import pytest

from lycosa.base.model.parsed import ParserHealth
from lycosa.base.system.clock import ThreadOffload
from lycosa.base.system.shortage import in_thread, is_shortage, pause_s
from lycosa.processes.worker_group import ParserNotes

_TOO_MUCH = 1 << 46  # bytes of stack that no system gives to a thread


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (BlockingIOError(errno.EAGAIN, "fork"), True),
        (OSError(errno.ENOMEM, "fork"), True),
        (MemoryError(), True),
        (RuntimeError("can't start new thread"), True),
        (RuntimeError("no running event loop"), False),
        (OSError(errno.ENOENT, "no such file"), False),
        (OSError(errno.EMFILE, "too many open files"), False),
    ],
)
def test_what_is_a_shortage(error: Exception, passes: bool) -> None:
    assert is_shortage(error) is passes


def test_pauses_grow_to_a_bound() -> None:
    assert [pause_s(attempt) for attempt in (1, 2, 3, 4, 5, 1000)] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


async def test_work_in_a_thread_gives_its_result_or_its_error() -> None:
    assert await in_thread(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 // 0)


async def test_work_waits_until_a_thread_can_be_started_and_is_done_once() -> None:
    done: list[int] = []
    waits: list[int] = []
    before = threading.stack_size(_TOO_MUCH)
    try:
        with pytest.raises(RuntimeError, match="can't start new thread"):
            threading.Thread(target=done.clear).start()
        working = asyncio.ensure_future(in_thread(lambda: done.append(1), lambda: waits.append(1)))
        await asyncio.sleep(0)
        assert not done
    finally:
        threading.stack_size(before)
    await working
    assert (done, waits) == ([1], [1])


async def test_the_threads_of_an_offload_are_there_before_there_is_work() -> None:
    offload = ThreadOffload(3)
    before = threading.stack_size(_TOO_MUCH)
    try:
        assert await asyncio.gather(*(offload.run(threading.get_ident) for _ in range(5)))
    finally:
        threading.stack_size(before)
        offload.close()


def test_an_offload_without_threads_says_so_at_once() -> None:
    before = threading.stack_size(_TOO_MUCH)
    try:
        with pytest.raises(RuntimeError, match="can't start new thread"):
            ThreadOffload(2)
    finally:
        threading.stack_size(before)


def test_the_operator_hears_when_a_parser_goes_away_and_when_it_is_back() -> None:
    notes, there = ParserNotes(), ParserHealth()
    assert notes.receive(1, there) == ""
    # over in a moment, perhaps
    assert notes.receive(1, ParserHealth(away_s=0.5, away_why="no memory", away_total_s=0.5)) == ""
    said = notes.receive(1, ParserHealth(away_s=1.5, away_why="no memory", away_total_s=1.5))
    assert said.startswith("worker 1 cannot start its parse child (no memory)")
    assert notes.receive(1, ParserHealth(away_s=9.0, away_why="no memory", away_total_s=9.0)) == ""
    assert notes.receive(0, there) == ""
    assert "has a parse child again, after 10 s" in notes.receive(
        1, ParserHealth(away_total_s=10.2)
    )
    assert notes.receive(1, ParserHealth(away_total_s=10.2)) == ""
