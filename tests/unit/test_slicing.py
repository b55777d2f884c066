"""Long work in slices: others have their turn, a commit waits, and nothing is left half done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa.state.attempts import StoringMark
from lycosa.synthetic import VirtualClock, run_virtual
from lycosa.worker.visit.slicing import Slices


def steps(done: list[str], name: str, count: int) -> Iterator[None]:
    for number in range(count):
        done.append(f"{name}{number}")
        yield


def test_others_have_their_turn_between_steps_and_a_commit_waits_for_the_end(
    tmp_path: Path,
) -> None:
    done: list[str] = []

    async def commit(slices: Slices) -> None:
        await slices.wait_until_done()
        done.append("commit")

    async def other() -> None:
        done.append("other")

    async def run() -> None:
        slices = Slices(VirtualClock(), StoringMark(tmp_path, 0))
        work = asyncio.create_task(slices.run("u", lambda: steps(done, "a", 3)))
        await asyncio.sleep(0)
        await asyncio.gather(work, commit(slices), other())

    run_virtual(run(), seed=None)
    assert done[0] == "a0" and done.index("other") < done.index("a2") < done.index("commit")


def test_a_second_page_waits_for_the_first(tmp_path: Path) -> None:
    done: list[str] = []

    async def run() -> None:
        slices = Slices(VirtualClock(), StoringMark(tmp_path, 0))
        await asyncio.gather(
            *(slices.run(name, lambda name=name: steps(done, name, 2)) for name in "ab")
        )  # type: ignore[misc]  # bound by default

    run_virtual(run(), seed=None)
    assert done == ["a0", "a1", "b0", "b1"]


def test_what_is_cancelled_is_done_to_its_end(tmp_path: Path) -> None:
    done: list[str] = []

    async def run() -> None:
        slices = Slices(VirtualClock(), StoringMark(tmp_path, 0))
        work = asyncio.create_task(slices.run("u", lambda: steps(done, "a", 5)))
        await asyncio.sleep(0)
        assert len(done) < 5
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        await slices.wait_until_done()

    run_virtual(run(), seed=None)
    assert done == [f"a{number}" for number in range(5)]


def test_nothing_is_waited_for_when_nothing_is_half_done(tmp_path: Path) -> None:
    async def run() -> None:
        slices = Slices(VirtualClock(), StoringMark(tmp_path, 0))
        with pytest.raises(StopIteration):
            slices.wait_until_done().send(None)

    run_virtual(run(), seed=None)
