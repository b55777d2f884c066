"""``lycosa crawl --feed``: files, pipes and standard output get every row, whatever reads them."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa.cli.crawl_feeds import CrawlFeeds, FeedTarget, pause_before_start
from lycosa.cli.main import main
from lycosa.cli.output import ExitCode
from lycosa.feeds.folder_lines import FolderLines
from lycosa.feeds.page_feed import PageFeed
from lycosa.synthetic import SyntheticWeb, WebPlan
from proofs.crawls import children, command_of
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


def wait_a_moment() -> None:
    """Leave the processor to the processes that the test waits for."""
    select.select([], [], [], 0.05)


def test_a_file_and_standard_output_get_each_capture_once(tmp_path: Path, port: int) -> None:
    folder, pages = tmp_path / "c", tmp_path / "pages.jsonl"
    letters = tmp_path / "dlq.jsonl"
    feeds = ["--feed", str(pages), "--feed", f"dlq={letters}", "--feed", "pages=-"]
    done = subprocess.run(
        command(folder, port, *feeds), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == ExitCode.FINISHED, done.stderr
    found = rows(done.stdout)
    assert len(found) > 20
    assert len(set(found)) == len(found)
    assert rows(pages.read_text()) == found
    assert "lycosa status" in done.stderr  # the summary, because rows have standard output
    assert letters.exists()

    again = subprocess.run(command(folder, port, *feeds[:2]), timeout=300)
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
    stored = [json.loads(row) for row in PageFeed(FolderLines(folder)).new_rows()]
    assert given == [(row["url8"], row["fetch_number"]) for row in stored]


def test_a_pipe_that_nobody_reads_holds_no_crawl_up(tmp_path: Path, port: int) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = subprocess.run(
        command(tmp_path / "c", port, "--feed", str(pipe)),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == ExitCode.INTERRUPTED
    assert f"nothing reads the pipe {pipe}" in done.stderr
    assert (
        f"`lycosa feed pages {tmp_path / 'c'} --output {pipe}` writes all rows again" in done.stderr
    )


def test_a_feed_of_a_file_that_is_killed_is_started_again(tmp_path: Path, port: int) -> None:
    folder, pages = tmp_path / "c", tmp_path / "pages.jsonl"
    slow = command(folder, port, "--delay", "1s", "--feed", str(pages))  # it outlives the feed
    with subprocess.Popen(slow, stderr=subprocess.PIPE, text=True) as crawl:
        while not (pages.exists() and pages.stat().st_size) and crawl.poll() is None:
            wait_a_moment()
        (feed,) = (pid for pid in children(crawl.pid) if f"feed pages {folder}" in command_of(pid))
        os.kill(feed, signal.SIGKILL)
        _, told = crawl.communicate(timeout=300)
    assert crawl.returncode == ExitCode.FINISHED, told
    assert f"the feed pages to {pages} was killed by signal 9, and starts again in 1 s" in told
    stored = [json.loads(row) for row in PageFeed(FolderLines(folder)).new_rows()]
    assert rows(pages.read_text()) == [(row["url8"], row["fetch_number"]) for row in stored]


def test_a_feed_that_does_not_run_is_named_until_it_runs_again(tmp_path: Path, port: int) -> None:
    folder, pages, pipe = tmp_path / "c", tmp_path / "pages.jsonl", tmp_path / "pipe"
    subprocess.run(command(folder, port), timeout=300, check=True)
    os.mkfifo(pipe)
    told: list[str] = []
    targets = [FeedTarget("pages", str(pages)), FeedTarget("dlq", str(pipe))]
    with CrawlFeeds(targets, told.append) as feeds:
        feeds.start(folder)
        assert feeds.check() == ()
        for feed in feeds._feeds:
            assert feed.process is not None
            feed.process.kill()
            feed.process.wait()
        away = feeds.check()
        assert away == (
            f"pages to {pages}: was killed by signal 9, and starts again in 1 s",
            f"dlq to {pipe}: was killed by signal 9, and is not started again",
        )
        assert told == [f"the feed {each.replace(': ', ' ')}" for each in away]
        while feeds.check() == away or len(feeds.check()) > 1:
            wait_a_moment()
        assert feeds.check() == away[1:]  # the file's process runs again
    assert feeds.incomplete == [f"dlq to {pipe}"]
    assert len(rows(pages.read_text())) == len(list(PageFeed(FolderLines(folder)).new_rows()))


def test_the_last_rows_of_a_file_are_given_although_its_process_died(
    tmp_path: Path, port: int
) -> None:
    folder, pages = tmp_path / "c", tmp_path / "pages.jsonl"
    subprocess.run(command(folder, port), timeout=300, check=True)
    with CrawlFeeds([FeedTarget("pages", str(pages))], lambda line: None) as feeds:
        feeds.start(folder)
        (feed,) = feeds._feeds
        assert feed.process is not None
        feed.process.kill()
    assert feeds.incomplete == []
    assert len(rows(pages.read_text())) == len(list(PageFeed(FolderLines(folder)).new_rows()))


def test_a_crawl_whose_feed_lacks_rows_is_not_finished(tmp_path: Path, port: int) -> None:
    folder, pages = tmp_path / "c", tmp_path / "pages.jsonl"
    feed = ["--feed", str(pages), "--json"]
    subprocess.run(command(folder, port, "--max-pages", "5"), timeout=300, check=False)
    (folder / "journal" / "lost").mkdir()
    for path in (folder / "journal").glob("*.zst"):
        path.rename(folder / "journal" / "lost" / path.name)
    done = subprocess.run(command(folder, port, *feed), capture_output=True, text=True, timeout=300)
    assert done.returncode == ExitCode.INTERRUPTED
    assert json.loads(done.stdout)["incomplete_feeds"] == [f"pages to {pages}"]
    assert "is missing, and its rows with it" in done.stderr
    assert f"the feed pages to {pages} is not complete" in done.stderr
    for path in (folder / "journal" / "lost").iterdir():
        path.rename(folder / "journal" / path.name)
    done = subprocess.run(command(folder, port, *feed), timeout=300)
    assert done.returncode == ExitCode.FINISHED
    assert len(rows(pages.read_text())) == len(list(PageFeed(FolderLines(folder)).new_rows()))


def test_the_pauses_before_a_feed_is_started_again_grow_to_a_minute() -> None:
    pauses = [pause_before_start(-9, True, starts) for starts in range(1, 10)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    for code, is_file in ((0, True), (ExitCode.USAGE, True), (1, False), (-9, False)):
        assert pause_before_start(code, is_file, 1) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--feed", "dlq="], "give a file, a pipe, or - after dlq="),
        (["--feed", "x", "--feed", "dlq=x"], "two feeds cannot be written to x"),
        (["--feed", "x", "--feed", "./x"], "two feeds cannot be written to ./x"),
        (["--feed", "none/x"], "there is no folder none; create it"),
        (["--feed", "dlq=/dev/full"], "it cannot be written (No space left on device)"),
        (["--feed", "/"], "this is a folder; give a file in it"),
        (["--feed", "/dev/null/x"], "it cannot be written (Not a directory)"),
        (["--feed", "/dev/fd/999"], "no file with this number is open"),
        (["--feed", "dlq=/dev/fd/99999999999"], "no file with this number is open"),
        (["--feed", "-", "--json"], "both need standard output"),
        (["--feed", "sqlite:x.db"], "run `lycosa feed pages DIR --follow --to sqlite:x.db`"),
        (["--feed", "items.goods=csv:x"], "`lycosa feed items.goods DIR --follow --to csv:x`"),
        (["--feed", "items.goods="], "give a file, a pipe, or - after items.goods="),
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
