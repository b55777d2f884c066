"""The private folder of a crawl's sockets."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa.base.system.private_folder import private_folder
from lycosa.processes.socket_folder import SocketFolder


def test_the_folder_is_private_and_gone_at_the_end() -> None:
    with SocketFolder() as sockets:
        assert stat.S_IMODE(sockets.path.stat().st_mode) == 0o700
    assert not sockets.path.exists()


@pytest.fixture
def base() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # a short path
        before, tempfile.tempdir = tempfile.tempdir, folder
        yield Path(folder)
        tempfile.tempdir = before


def test_the_folder_of_a_crawl_that_was_killed_is_deleted_by_the_next_one(base: Path) -> None:
    code = (
        "import sys\n"
        "from lycosa.processes.socket_folder import SocketFolder\n"
        "sockets = SocketFolder()\n"
        "print(sockets.path, flush=True)\n"
        "sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = {**os.environ, "TMPDIR": str(base)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, **pipes) as crawl:
        assert crawl.stdout is not None
        left = Path(crawl.stdout.readline().strip())
        (left / "w0").touch()
        foreign = base / "lycosa-foreign"
        foreign.mkdir()
        with SocketFolder() as sockets:
            assert left.exists(), "its crawl runs"
            crawl.kill()
            crawl.wait(30)
            with SocketFolder():
                assert not left.exists()
            assert sockets.path.exists() and foreign.exists()


def test_folders_of_extractions_are_deleted_by_the_next_one_too(base: Path) -> None:
    left = base / "lycosa-extract-left"
    left.mkdir()
    (left / "owner.lock").touch()  # no process holds it
    with private_folder("extract") as first:
        assert not left.exists() and first.name.startswith("lycosa-extract-")
        with private_folder("extract") as second, SocketFolder():
            assert first.exists() and second != first
    assert list(base.iterdir()) == []


def test_a_long_path_of_temporary_files_is_not_used(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    code = (
        "from lycosa.processes.socket_folder import SocketFolder\n"
        "with SocketFolder() as sockets: print(sockets.path)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TMPDIR": str(long)},
    )
    assert len(run.stdout.strip()) < 90
