"""``lycosa extract`` as processes: killed in the middle, two at once, and code that misbehaves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lycosa.state.store import layout
from shop_crawl import CODE, code_file, extract, rows, some_captures, tables, write_crawl

# The code kills the process that started it, when it comes to a page for the first time.
_KILLS = """
import os, pathlib
def killed(page):
    for number in (8, 16):
        left = pathlib.Path("MARKS") / str(number)
        if page.url.endswith(f"/{number}") and left.exists():
            left.unlink()
            os.kill(os.getppid(), 9)
"""


def command(folder: Path, code: Path, *options: str) -> list[str]:
    given = ["extract", str(folder), f"{code}:products", "--processes", "2", "--json", *options]
    return [sys.executable, "-m", "lycosa", *given]


def report(done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)["extractors"][0]
    return found


def test_after_kills_the_tables_have_the_bytes_of_an_undisturbed_run(tmp_path: Path) -> None:
    folder, undisturbed, marks = (tmp_path / name for name in ("crawl", "other", "marks"))
    marks.mkdir()
    for number in (8, 16):
        (marks / str(number)).touch()
    for each in (folder, undisturbed):
        write_crawl(each, some_captures(20))
    text = _KILLS.replace("MARKS", str(marks)) + CODE.replace(
        "    for box in", "    killed(page)\n    for box in"
    )
    code = code_file(tmp_path, text)
    for _ in range(2):
        killed = subprocess.run(command(folder, code), capture_output=True, check=False)
        assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
        assert list((folder / "claims").rglob("*.json")), "what it held when it died"
    assert report(subprocess.run(command(folder, code), capture_output=True, check=False))
    assert not list(marks.iterdir())
    extract(undisturbed, code)
    assert tables(folder, 1) == tables(undisturbed, 1)
    assert not list((folder / "claims").rglob("*.json"))


def test_code_that_never_returns_or_ends_its_process_costs_its_own_page(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    write_crawl(folder, some_captures(10), segment_bytes=100_000)
    hostile = CODE.replace(
        "    for box in",
        "    import os\n"
        "    if page.url.endswith('/1'):\n        os._exit(3)\n"
        "    if page.url.endswith('/4'):\n        while True: pass\n"
        "    for box in",
    )
    code = code_file(tmp_path, hostile)
    done = report(
        subprocess.run(
            command(folder, code, "--set", "extensions.page_s=0.5"),
            capture_output=True,
            check=False,
        )
    )
    assert (done["failed"], done["items"]) == (2, 6)
    wanted = [f"Lamp {number}" for number in (0, 2, 6, 7, 8, 9)]
    assert [each["name"] for each in rows(folder, 1)] == wanted


@pytest.mark.long
def test_code_that_ends_its_process_at_every_page_ends_the_extraction(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    write_crawl(folder, some_captures(60), segment_bytes=100_000)
    code = code_file(
        tmp_path, CODE.replace("    for box in", "    import os; os._exit(1)\n    for box in")
    )
    done = subprocess.run(command(folder, code), capture_output=True, check=False)
    assert done.returncode == 1 and b"ended its process too often" in done.stderr
    assert not tables(folder, 1) and not list((folder / "claims").rglob("*.json"))


@pytest.mark.parametrize("which", ["folder", "warc"])
def test_a_crawl_and_files_of_other_programs_by_command(tmp_path: Path, which: str) -> None:
    folder, code = tmp_path / "crawl", code_file(tmp_path)
    write_crawl(folder, some_captures(8), segment_bytes=100_000)
    if which == "folder":
        done = subprocess.run(command(folder, code), capture_output=True, check=False)
        assert report(done)["items"] == 6
        return
    (name,) = layout.closed_segments(folder)
    target = tmp_path / "out"
    given = ["--warc", str(folder / layout.file_name(layout.WARC, name)), "--to", str(target)]
    arguments = ["extract", *given, f"{code}:products", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "lycosa", *arguments], capture_output=True, check=False
    )
    assert report(done)["items"] == 6
    extract(folder, code)
    assert tables(target, 1) == tables(folder, 1), "our own files are WARC files like any other"
