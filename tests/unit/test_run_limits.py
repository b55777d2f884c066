"""The end of a run by its clocks."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lycosa.base.config.sections import LimitSection
from lycosa.processes.run_limits import RunLimits


@pytest.mark.parametrize("has_date", [True, False])
async def test_a_run_ends_once_at_its_time(tmp_path: Path, has_date: bool) -> None:
    soon = (datetime.now().astimezone() + timedelta(seconds=0.3)).isoformat()
    section = LimitSection(until=soon) if has_date else LimitSection(max_time_s=0.3)
    loop, ended, at = asyncio.get_running_loop(), asyncio.Event(), list[float]()

    def end() -> None:
        at.append(loop.time())
        ended.set()

    begun = loop.time()
    with RunLimits(section, tmp_path, end):
        await asyncio.wait_for(ended.wait(), 10)
    assert len(at) == 1 and at[0] - begun > 0.2


async def test_a_date_that_has_passed_ends_the_run_in_the_loop(tmp_path: Path) -> None:
    ended = asyncio.Event()
    with RunLimits(LimitSection(until="2020-01-01"), tmp_path, ended.set):
        assert not ended.is_set()  # the run has begun before it ends
        await asyncio.wait_for(ended.wait(), 10)
