"""The processes that a crawl starts import nothing from the current folder, which is the user's."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from lycosa.cli.crawl_feeds import CrawlFeeds, FeedTarget
from lycosa.processes.api_keeper import ApiKeeper, ApiListener
from lycosa.processes.worker_handle import WorkerHandle
from lycosa.serve.api_job import ApiJob, ApiSettings


def start_feed(folder: Path) -> None:
    with CrawlFeeds([FeedTarget("pages", "-")], lambda line: None) as feeds:
        feeds.start(folder)


def start_worker(folder: Path) -> None:
    process, ours = WorkerHandle(0, (0,), (), lambda handle, message: None)._spawn()
    ours.close()
    process.wait(30)


def start_api(folder: Path) -> None:
    listener = ApiListener("127.0.0.1:0", has_tls=False)
    job = ApiJob(ApiSettings("127.0.0.1:0"), listener.socket.fileno())
    ours, theirs = socket.socketpair()
    with theirs:
        process = ApiKeeper(job, listener, lambda line: None)._spawn(theirs)
    ours.close()
    process.wait(30)
    listener.close()


@pytest.mark.parametrize("start", [start_feed, start_worker, start_api])
def test_nothing_is_imported_from_the_current_folder(
    start: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name in ("click", "msgspec"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from here')")
    monkeypatch.chdir(tmp_path)
    start(tmp_path)
    assert "imported from here" not in capfd.readouterr().err


def test_the_command_that_writes_the_rest_of_a_feed_can_be_pasted(tmp_path: Path) -> None:
    folder, told = tmp_path / "my crawl", list[str]()
    folder.mkdir()
    with CrawlFeeds([FeedTarget("pages", str(tmp_path / "rows"))], told.append) as feeds:
        feeds.start(folder)  # it is no crawl
    assert f"`lycosa feed pages '{folder}' --output {tmp_path / 'rows'}`" in told[-1]
