"""The private folder of a crawl's sockets."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

from lycosa.processes.called_crawl import CallSockets


def test_the_folder_is_private_and_gone_at_the_end() -> None:
    with CallSockets() as sockets:
        assert stat.S_IMODE(sockets.path.stat().st_mode) == 0o700
    assert not sockets.path.exists()


def test_a_long_path_of_temporary_files_is_not_used(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    code = (
        "from lycosa.processes.called_crawl import CallSockets\n"
        "with CallSockets() as sockets: print(sockets.path)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TMPDIR": str(long)},
    )
    assert len(run.stdout.strip()) < 90
