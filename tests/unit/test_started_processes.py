"""The processes that a crawl starts: what they import, and which secrets they are given."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from lycosa.base.config.sections import AgentSection, Config, UploadSection
from lycosa.cli.crawl_feeds import CrawlFeeds, FeedTarget
from lycosa.processes.api_keeper import ApiKeeper, ApiListener
from lycosa.processes.session import open_session
from lycosa.processes.worker_handle import WorkerHandle, _uses_services
from lycosa.service.api.api_job import ApiJob, ApiSettings
from lycosa.stages.parse.running_child import start_child
from lycosa.state.store.removed_files import RemovedFile, note_removed


def start_feed(folder: Path) -> None:
    with CrawlFeeds([FeedTarget("pages", "-")], lambda line: None) as feeds:
        feeds.start(folder)


def start_worker(folder: Path) -> None:
    process, ours = WorkerHandle(0, (0,), (), lambda handle, message: None)._spawn()
    ours.close()
    process.wait(30)


def start_api(folder: Path) -> None:
    of_api()


def of_api(cluster_file: str = "") -> set[str]:
    listener = ApiListener("127.0.0.1:0", has_tls=False)
    settings = ApiSettings("127.0.0.1:0")
    job = ApiJob(settings, listener.socket.fileno(), cluster_file=cluster_file)
    ours, theirs = socket.socketpair()
    with theirs:
        process = ApiKeeper(job, listener, lambda line: None)._spawn(theirs)
    found = names_of(process.pid)
    ours.close()
    process.wait(30)
    listener.close()
    return found


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


SECRETS = {
    "LYCOSA_API_TOKENS": "alice operate 0123456789abcdef",
    "AWS_SECRET_ACCESS_KEY": "aws-secret",
    "GOOGLE_SERVICE_ACCOUNT_KEY": "{}",
    "LYCOSA_REDIS_PASSWORD": "redis-secret",
}


def names_of(pid: int) -> set[str]:
    """The variables with which the process was started."""
    environ, deadline = b"", time.monotonic() + 30
    while not environ and time.monotonic() < deadline:  # the kernel is still starting it
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    return {entry.partition(b"=")[0].decode() for entry in environ.split(b"\0") if entry}


def of_worker(uses_services: bool) -> set[str]:
    handle = WorkerHandle(0, (0,), (), lambda handle, message: None)
    process, ours = handle._spawn(uses_services)
    found = names_of(process.pid)
    ours.close()
    process.wait(30)
    return found


def test_secrets_go_to_processes_that_use_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**SECRETS, "OTHER": "x", "LC_ALL": "C.UTF-8"}.items():
        monkeypatch.setenv(name, value)
    assert of_worker(uses_services=True) & {*SECRETS, "OTHER"} == (
        SECRETS.keys() - {"LYCOSA_API_TOKENS"} | {"OTHER"}
    )
    assert of_worker(uses_services=False) & {*SECRETS, "OTHER"} == {"OTHER"}
    assert of_api() & {*SECRETS, "OTHER"} == {"LYCOSA_API_TOKENS"}
    assert of_api("cluster.toml") >= SECRETS.keys()
    child = start_child(0.0)
    found = names_of(child.process.pid)
    child.process.kill()
    child.process.wait(30)
    child.sock.close()
    assert not found & {*SECRETS, "OTHER"} and {"LC_ALL", "PATH"} <= found


def test_a_worker_gets_the_credentials_of_a_store_from_which_it_reads(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    config = Config(agent=AgentSection(contact="test@example.org"))
    with open_session(folder, config) as session:
        job = session.job(0, (0,))
    assert not _uses_services(job)
    upload = UploadSection(url="s3://b", remove=True)
    removing = msgspec.structs.replace(config, upload=upload)
    assert _uses_services(msgspec.structs.replace(job, config=removing))
    note_removed(folder, [RemovedFile("warc/x.warc.gz", 1, "0" * 64, "s3://b")])
    assert _uses_services(job), "an earlier run removed files"
