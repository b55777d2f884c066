"""The lock of a crawl folder."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from lycosa.state.folder.lock import CrawlInUse, CrawlLock, LockHolder

HOLD = """
import sys
from pathlib import Path
from lycosa.state.folder.lock import CrawlLock
lock = CrawlLock(Path(sys.argv[1])).acquire(1.7e9)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_crawl_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    with (
        CrawlLock(tmp_path).acquire(1.7e9),
        pytest.raises(
            CrawlInUse,
            match=rf"in use by process {os.getpid()}, since 2023-11-1\d .*; stop that crawl first",
        ) as caught,
    ):
        CrawlLock(tmp_path).acquire(1.8e9)
    assert caught.value.holder == LockHolder(os.getpid(), socket.gethostname(), 1.7e9)
    CrawlLock(tmp_path).acquire(1.9e9).release()


def test_the_lock_goes_with_its_last_holder_however_that_dies(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    with pytest.raises(CrawlInUse, match=f"process {process.pid}"):
        CrawlLock(tmp_path).acquire(1.8e9)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()
    lock = CrawlLock(tmp_path).acquire(1.8e9)
    assert lock.note == ""
    lock.release()


def test_a_child_that_was_given_the_descriptor_holds_the_lock_too(tmp_path: Path) -> None:
    lock = CrawlLock(tmp_path).acquire(1.7e9)
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        pass_fds=lock.filenos(),
    )
    lock.release()
    with pytest.raises(CrawlInUse):
        CrawlLock(tmp_path).acquire(1.8e9)
    child.communicate()
    CrawlLock(tmp_path).acquire(1.8e9).release()


ORPHAN = """
import os, subprocess, sys, time
from pathlib import Path
from lycosa.state.folder.lock import CrawlLock
lock = CrawlLock(Path(sys.argv[1])).acquire(time.time())
wait = "import sys; sys.stdin.read()"
subprocess.Popen([sys.executable, "-c", wait], pass_fds=lock.filenos(), stdout=subprocess.DEVNULL)
print("held", flush=True)
os._exit(0)  # as after a kill: the lock is not released in order
"""


def test_a_start_waits_for_the_workers_of_a_run_that_was_killed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    process.wait()
    with pytest.raises(CrawlInUse, match=f"process {process.pid}"):
        CrawlLock(tmp_path).take_lock()
    with pytest.raises(CrawlInUse, match=f"process {process.pid}"):
        CrawlLock(tmp_path).take_lock(patience_s=0.1)
    ending = threading.Timer(0.3, process.stdin.close)
    ending.start()
    lock = CrawlLock(tmp_path)
    lock.take_lock(patience_s=30.0)
    lock.release()
    ending.join()
    process.stdout.close()


def test_a_start_does_not_wait_for_a_crawl_that_runs(tmp_path: Path) -> None:
    with CrawlLock(tmp_path).acquire(1.7e9):
        begun = time.monotonic()
        with pytest.raises(CrawlInUse):
            CrawlLock(tmp_path).take_lock(patience_s=60.0)
        assert time.monotonic() - begun < 30


def test_a_deleted_lock_file_opens_the_folder_to_nobody(tmp_path: Path) -> None:
    with CrawlLock(tmp_path).acquire(1.7e9):
        (tmp_path / "lock").unlink()
        with pytest.raises(CrawlInUse, match="in use by another process; stop that crawl first"):
            CrawlLock(tmp_path).acquire(1.8e9)
        assert not (tmp_path / "lock").exists()
    CrawlLock(tmp_path).acquire(1.9e9).release()


def test_taking_the_lock_changes_no_file(tmp_path: Path) -> None:
    lock = CrawlLock(tmp_path)
    lock.take_lock()
    assert list(tmp_path.iterdir()) == []
    lock.release()
    CrawlLock(tmp_path).acquire(1.7e9).release()
    before = (tmp_path / "lock").stat().st_mtime_ns, (tmp_path / "lock").read_bytes()
    lock.take_lock()
    with pytest.raises(CrawlInUse):
        CrawlLock(tmp_path).take_lock()
    lock.release()
    assert ((tmp_path / "lock").stat().st_mtime_ns, (tmp_path / "lock").read_bytes()) == before


def test_a_holder_on_another_machine_that_did_not_give_back_is_noted(tmp_path: Path) -> None:
    left = LockHolder(17, "elsewhere.test", 1.7e9)
    (tmp_path / "lock").write_bytes(msgspec.json.encode(left))
    lock = CrawlLock(tmp_path).acquire(1.8e9)
    assert "last used on elsewhere.test (process 17" in lock.note
    lock.release()
    (tmp_path / "lock").write_bytes(
        msgspec.json.encode(msgspec.structs.replace(left, released=True))
    )
    lock = CrawlLock(tmp_path).acquire(1.8e9)
    assert lock.note == ""
    lock.release()
    lock.release()


@pytest.mark.parametrize("data", [b"\x00\x01", b'{"pid": 1, "host": "\xff"}'])
def test_an_unreadable_lock_file_is_only_a_lock_without_a_name(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "lock").write_bytes(data)
    CrawlLock(tmp_path).acquire(1.8e9).release()


def test_a_folder_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        CrawlLock(tmp_path / "none").acquire(1.8e9)
    assert str(tmp_path / "none") in str(caught.value)
