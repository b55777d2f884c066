"""Whom a crash may be blamed on: what was on the wire, and what was just being stored."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lycosa.base.model.fetched import FetchKind
from lycosa.base.reasons import Reason
from lycosa.state.attempts import AttemptLog, StoringMark, left_storing, suspects

STORED, OPEN = "http://a.test/stored", "http://a.test/open"


def crash(folder: Path, stored: str) -> None:
    """A worker that had two pages, was storing one and waited for a third when it died."""
    log, settling = AttemptLog(folder, 0, 1000.0, 0.0, boot="b"), StoringMark(folder, 0)
    for url in (STORED, "http://a.test/waits", OPEN):
        number = log.begin_attempt("a.test", "192.0.2.1", url, FetchKind.PAGE, 1.0, 1001.0)
        if url != OPEN:
            log.end_attempt(number, Reason.NONE, 200, 0.1, 1.1, 1001.1, 1.0)
    settling.begin_storing("http://a.test/before")
    settling.end_storing()
    if stored:
        settling.begin_storing(stored)


def blamed(folder: Path, owns: bool = True) -> set[str]:
    return {attempt.url for attempt in suspects(folder, lambda host: owns)}


def test_what_was_on_the_wire_and_what_was_being_stored_are_suspects_and_what_waited_is_not(
    tmp_path: Path,
) -> None:
    crash(tmp_path, STORED)
    assert blamed(tmp_path) == {STORED, OPEN}


def test_when_nothing_was_being_stored_only_the_wire_is_suspect(tmp_path: Path) -> None:
    crash(tmp_path, "")
    assert blamed(tmp_path) == {OPEN}


def test_what_belongs_to_another_worker_is_for_that_one_to_judge(tmp_path: Path) -> None:
    crash(tmp_path, STORED)
    assert blamed(tmp_path, owns=False) == set()


def test_a_new_run_forgets_what_an_earlier_one_left(tmp_path: Path) -> None:
    crash(tmp_path, STORED)
    assert left_storing(tmp_path) == {0: STORED}
    StoringMark(tmp_path, 0).close()
    assert left_storing(tmp_path) == {}


@pytest.mark.parametrize(
    "url", ["http://a.test/" + "x" * 9000, "http://a.test/\N{SNOWMAN}", "http://a.test/\udcff"]
)
def test_no_url_breaks_the_file(tmp_path: Path, url: str) -> None:
    settling = StoringMark(tmp_path, 12)
    settling.begin_storing(url)
    assert left_storing(tmp_path)[12].startswith("http://a.test/")
    settling.begin_storing("http://a.test/short")
    assert left_storing(tmp_path) == {12: "http://a.test/short"}
    settling.close()


def test_a_killed_process_leaves_its_name(tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from lycosa.state.attempts import StoringMark
StoringMark(Path({str(tmp_path)!r}), 3).begin_storing({STORED!r})
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == -9
    assert left_storing(tmp_path) == {3: STORED}
