"""``lycosa crawl --feed``: files, pipes and standard output get every row, whatever reads them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa.cli.main import main
from lycosa.cli.output import ExitCode
from lycosa.project import PageFeed
from lycosa.synthetic import SyntheticWeb, WebPlan
from serving import served

pytestmark = pytest.mark.service
WEB = SyntheticWeb(WebPlan(hosts=3, pages=8, distribution="fixed", gone=0.1))
QUICK = ["--delay", "0s", "--set", "politeness.adaptive_factor=0"]
QUICK += ["--set", "politeness.address_delay_s=0", "--contact", "test@example.org"]
QUICK += ["--resolve", "*=127.0.0.1", "--allow-address", "127.0.0.0/8", "--scope", "any"]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served(WEB) as found:
        yield found


def command(folder: Path, port: int, *arguments: str) -> list[str]:
    seed = WEB.seed_url(port=port)
    return [sys.executable, "-m", "lycosa", "crawl", seed, "--dir", str(folder), *QUICK, *arguments]


def rows(text: str) -> list[tuple[str, int]]:
    found = [json.loads(line) for line in text.splitlines()]
    return [(row["url8"], row["fetch_number"]) for row in found]


def test_a_file_and_standard_output_get_each_capture_once(tmp_path: Path, port: int) -> None:
    folder, pages = tmp_path / "c", tmp_path / "pages.jsonl"
    letters = tmp_path / "dlq.jsonl"
    feeds = ["--feed", str(pages), "--feed", f"dlq={letters}", "--feed", "pages=-"]
    done = subprocess.run(
        command(folder, port, *feeds), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == ExitCode.FINISHED, done.stderr
    found = rows(done.stdout)
    assert len(found) > 20
    assert len(set(found)) == len(found)
    assert rows(pages.read_text()) == found
    assert "lycosa status" in done.stderr  # the summary, because rows have standard output
    assert letters.exists()

    again = subprocess.run(command(folder, port, *feeds[:2]), timeout=120)
    assert again.returncode == ExitCode.FINISHED
    assert rows(pages.read_text()) == found


def test_rows_that_were_committed_before_a_kill_are_given(tmp_path: Path, port: int) -> None:
    folder = tmp_path / "c"
    slow = command(folder, port, "--delay", "0.2s", "--feed", "-")
    crawl = subprocess.Popen(slow, stdout=subprocess.PIPE, text=True)
    assert crawl.stdout is not None
    with crawl.stdout as out:
        first = out.readline()
        crawl.kill()
        crawl.wait(30)
        given = rows(first + out.read())  # to its end: the feed has ended by itself
    stored = [json.loads(row) for row in PageFeed(folder).new_rows()]
    assert given == [(row["url8"], row["fetch_number"]) for row in stored]


def test_a_pipe_that_nobody_reads_holds_no_crawl_up(tmp_path: Path, port: int) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = subprocess.run(
        command(tmp_path / "c", port, "--feed", str(pipe)),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == ExitCode.FINISHED
    assert f"nothing reads the pipe {pipe}" in done.stderr
    assert (
        f"`lycosa feed pages {tmp_path / 'c'} --output {pipe}` writes all rows again" in done.stderr
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--feed", "dlq="], "give a file, a pipe, or - after dlq="),
        (["--feed", "x", "--feed", "dlq=x"], "two feeds cannot be written to x"),
        (["--feed", "/dev/fd/999"], "no file with this number is open"),
        (["--feed", "dlq=/dev/fd/99999999999"], "no file with this number is open"),
        (["--feed", "-", "--json"], "both need standard output"),
        (["--feed", "x", "--cluster", "none.toml"], "the topics NAME.pages and NAME.dlq"),
    ],
)
def test_bad_feeds_are_refused_before_anything_is_written(
    tmp_path: Path,
    given: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["crawl", "http://a.example/", *given]) == ExitCode.USAGE
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
