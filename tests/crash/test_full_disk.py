"""A disk that is full under a real worker: the exit code and the file are told, and the same
command goes on when there is room.

The disk is full for whoever may not let a file grow, which is what a limit on the size of files
does.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lycosa.base.messages.worker_messages import Failed, decode_from_worker, encode_worker_message
from lycosa.base.system.durable import DiskFull
from lycosa.cli.output import ExitCode
from lycosa.state.kv.rocks import RocksKeyValue

NOBODY = "http://127.0.0.1:9/"


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def crawl(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    words = [
        "crawl",
        NOBODY,
        "--dir",
        str(folder),
        "--allow-address",
        "127.0.0.0/8",
        "--set",
        "frontier.partitions=1",
        *more,
    ]
    # a file of this crawl, and not one that an earlier test made
    words += [
        "--set",
        "politeness.address_table=crawl",
    ]
    return subprocess.run(
        [sys.executable, "-m", "lycosa", *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_workers_full_disk_is_told_by_file_and_code_and_the_crawl_goes_on_with_room(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "c"
    with largest_file(1_000_000):  # the address table has more
        full = crawl(folder)
        again = crawl(folder)
    for done in (full, again):
        assert done.returncode == ExitCode.INTERRUPTED
        last = done.stderr.splitlines()[-1]
        assert (
            str(folder / "state" / "addresses") in last
            and "no room left on the disk" in last
            and "give the same command again" in last
        )
    assert crawl(folder).returncode == ExitCode.NOTHING_FETCHED


def test_a_full_disk_under_a_table_is_told_as_one_and_harms_nothing(tmp_path: Path) -> None:
    store = RocksKeyValue(tmp_path / "kv")
    store.write([(b"a", b"1")])
    store.flush()
    store.close()
    with largest_file(2_000), pytest.raises(DiskFull) as caught:
        store = RocksKeyValue(tmp_path / "kv")
        store.write([(b"b%d" % n, bytes(range(256)) * 50) for n in range(50)])
        store.flush()
    assert caught.value.filename == str(tmp_path / "kv")
    del store
    again = RocksKeyValue(tmp_path / "kv")
    assert again.get(b"a") == b"1"
    again.close()


def test_what_a_worker_says_of_an_error_reaches_the_supervisor_whole() -> None:
    failed = Failed("lycosa.base.system.durable.DiskFull", "full", "trace", 28, "/x/y")
    assert decode_from_worker(encode_worker_message(failed)) == failed
