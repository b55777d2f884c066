"""Which limit would end a further run of a crawl at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.base.config.sections import LimitSection
from lycosa.processes.run_limits import lasting_limit


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
