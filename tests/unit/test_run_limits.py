"""The end of a run by its clocks, and which limit would end a further run at once."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lycosa.base.config.sections import LimitSection
from lycosa.processes.run_limits import RunLimits, lasting_limit


@pytest.mark.parametrize(
    ("limits", "reached"),
    [
        (LimitSection(), ""),
        (LimitSection(max_time_s=1.0), ""),  # a further run has its own time
        (LimitSection(until="2020-01-31T18:00"), "limits.until = 2020-01-31T18:00 is past"),
        (LimitSection(until="2999-01-31"), ""),
        (LimitSection(until="18:00"), ""),  # the next time of that hour
        (LimitSection(max_time_s=1.0, until="2999-01-31"), ""),
        (LimitSection(max_pages=10), "limits.max_pages = 10 is reached"),
        (LimitSection(max_pages=11), ""),
        (LimitSection(max_bytes=500), "limits.max_bytes = 500 is reached"),
        (LimitSection(max_bytes=501), ""),
        (LimitSection(max_disk_bytes=300), "limits.max_disk_bytes = 300 is reached"),
        (LimitSection(max_disk_bytes=301), ""),
    ],
)
def test_a_limit_lasts_if_a_further_run_would_end_at_once(
    limits: LimitSection, reached: str, tmp_path: Path
) -> None:
    (tmp_path / "warc").mkdir()
    (tmp_path / "warc" / "a").write_bytes(bytes(300))
    assert lasting_limit(limits, tmp_path, captures=10, received=500) == reached


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
