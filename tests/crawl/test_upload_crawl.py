"""``lycosa crawl --upload`` as a process, into a real S3 server and into a folder: what is there
afterwards, what is told, and what comes of stores that refuse, fail, fill up and go away.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import duckdb
import pytest
from warcio.archiveiterator import ArchiveIterator

import lycosa
from lycosa.cli.main import main
from lycosa.state.folder.upload import PlaceTaken
from lycosa.state.store.layout import closed_segments
from lycosa.synthetic import SyntheticWeb, WebPlan
from s3_server import (
    BUCKET,
    CREDENTIALS,
    KEY,
    SECRET,
    FaultyProxy,
    S3Server,
    needs_s3,
    wait_until_free,
)
from serving import served

WEB = SyntheticWeb(WebPlan(hosts=1, pages=60, distribution="fixed"))
KINDS = ("warc", "cdxj", "pages", "links", "text")
URL = f"s3://{BUCKET}/some/prefix"
QUICK = [
    *("--delay", "0s", "--resolve", "*=127.0.0.1", "--allow-address", "127.0.0.0/8"),
    *("--contact", "test@example.org", "--set", "politeness.adaptive_factor=0"),
    *("--set", "politeness.address_delay_s=0", "--set", "store.segment_bytes=100kB"),
    *("--set", "frontier.finish_wait_s=1", "--set", "parse.language=false"),
]
pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served(WEB) as found:
        yield found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    with S3Server(tmp_path / "s3") as found:
        yield found


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, port: int) -> Path:
    """A crawl that uploaded nothing, to copy."""
    folder = tmp_path_factory.mktemp("finished") / "crawl"
    done = run(crawling(folder, WEB.seed_url(port=port), *QUICK))
    assert done.returncode == 0, done.stderr
    return folder


def crawling(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "lycosa", "crawl", "--dir", str(folder), *arguments]


def to(endpoint: str, wait: str = "30s") -> list[str]:
    options = f"upload.options=endpoint={endpoint}"
    return ["--upload", URL, "--set", options, "--set", f"upload.finish_wait_s={wait}"]


def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **CREDENTIALS}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)
    assert SECRET not in done.stdout + done.stderr
    return done


def command(
    *arguments: str, environment: Mapping[str, str] = CREDENTIALS
) -> subprocess.CompletedProcess[str]:
    """Runs it in this process, which is for what crawls nothing: most of a new one's time is its
    start.
    """
    before, written = dict(os.environ), [io.TextIOWrapper(io.BytesIO()) for _ in range(2)]
    os.environ.update(environment)
    try:
        with contextlib.redirect_stdout(written[0]), contextlib.redirect_stderr(written[1]):
            code = main(list(arguments))
            out, err = map(_text, written)
    finally:
        os.environ.clear()
        os.environ.update(before)
    assert SECRET not in out + err
    return subprocess.CompletedProcess(arguments, code, out, err)


def _text(file: io.TextIOWrapper) -> str:
    file.flush()
    file.seek(0)
    return file.read()


def refused(folder: Path, *arguments: str, environment: Mapping[str, str] = CREDENTIALS) -> str:
    """Why a crawl is not started."""
    done = command("crawl", "--dir", str(folder), *arguments, environment=environment)
    assert (done.returncode, done.stdout) == (2, ""), done
    return done.stderr


def here(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for kind in KINDS
        for path in (folder / kind).glob("*")
    }


def there(server: S3Server) -> dict[str, bytes]:
    """The server keeps each object as a file."""
    return here(server.bucket / "some" / "prefix")


def captures(folder: Path) -> int:
    done = command("sql", str(folder), "SELECT count(*) AS n FROM fetches", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    return int(row["n"])


@needs_s3
def test_a_crawl_s_bucket_is_read_as_its_folder_is(
    tmp_path: Path, port: int, server: S3Server
) -> None:
    folder = tmp_path / "crawl"
    arguments = [WEB.seed_url(port=port), *QUICK, *to(server.endpoint), "--json"]
    done = run(crawling(folder, *arguments))
    assert done.returncode == 0, done.stderr
    stored = there(server)
    assert stored == here(folder)
    uploads = json.loads(done.stdout)["uploads"]
    assert (uploads["files"], uploads["waiting_files"], uploads["url"]) == (len(stored), 0, URL)

    pages = server.bucket / "some" / "prefix" / "pages" / "*.parquet"
    query = f"SELECT warc_filename, warc_record_offset, url FROM read_parquet('{pages}')"
    rows = duckdb.sql(query).fetchall()
    assert len(rows) == captures(folder)
    for name in {row[0] for row in rows}:
        path = tmp_path / Path(name).name
        path.write_bytes(stored[name])  # downloaded
        records = {}
        with path.open("rb") as file:
            records_of = ArchiveIterator(file)
            for record in records_of:
                uri = record.rec_headers.get_header("WARC-Target-URI")
                records[records_of.get_record_offset()] = uri
        for _, offset, url in (row for row in rows if row[0] == name):
            assert records[offset] == url
    lines = b"".join(data for name, data in stored.items() if name.startswith("cdxj/"))
    for line in lines.splitlines():
        entry = json.loads(line.split(b" ", 2)[2])
        assert entry["filename"] in stored

    settings = (folder / "settings.json").read_text()
    assert URL in settings and SECRET not in settings and KEY not in settings
    again = run(crawling(folder))  # the settings are kept
    assert again.returncode == 0
    assert f"uploaded: {len(stored)} files" in again.stdout


@needs_s3
def test_after_removal_every_command_still_answers_and_the_crawl_goes_on(
    tmp_path: Path, port: int, server: S3Server
) -> None:
    folder = tmp_path / "crawl"
    arguments = [WEB.seed_url(port=port), *QUICK, *to(server.endpoint), "--upload-remove"]
    done = run(crawling(folder, *arguments, "--max-pages", "25"))
    assert done.returncode == 3, done.stderr
    assert here(folder) == {}
    first = there(server)
    assert f"{len(first)} files" in done.stdout and "removed here" in done.stdout

    assert captures(folder) >= 25
    status = command("status", str(folder))
    assert f"are in {URL} alone: removed here after their upload" in status.stdout
    assert command("audit", str(folder)).returncode == 0
    assert command("explain", str(folder), WEB.seed_url(port=port)).returncode == 0

    done = run(crawling(folder))
    assert done.returncode == 0, done.stderr
    assert there(server).items() >= first.items()
    assert len(there(server)) > len(first)
    assert here(folder) == {}
    audit = command("audit", str(folder))
    assert audit.returncode == 0, audit.stdout
    assert captures(folder) >= 60

    # without credentials the records cannot be read, which is no breach
    audit = command("audit", str(folder), environment={})
    assert audit.returncode == 0, audit.stdout
    assert "no credentials were given" in audit.stdout


def test_a_folder_is_a_store_too(tmp_path: Path, port: int) -> None:
    folder, target = tmp_path / "crawl", tmp_path / "disk"
    wanted = [WEB.seed_url(port=port), *QUICK, "--upload", target.as_uri()]
    assert "there is no such folder; create it, or mount the disk" in refused(folder, *wanted)
    assert not folder.exists()  # a start that is refused leaves nothing
    target.mkdir()
    wanted += ["--upload-remove", "--set", "upload.kinds=warc,pages,journal"]
    done = run(crawling(folder, *wanted))
    assert done.returncode == 0, done.stderr
    assert sorted({name.partition("/")[0] for name in here(folder)}) == ["cdxj", "links", "text"]
    assert sorted(path.name for path in target.iterdir()) == [
        "crawl.json",
        "journal",
        "pages",
        "warc",
    ]
    assert captures(folder) >= 60
    assert command("audit", str(folder)).returncode == 0
    target.rename(tmp_path / "unmounted")
    done = command("sql", str(folder), "SELECT count(*) FROM fetches")
    assert done.returncode == 1
    assert "was removed here after its upload to file://" in done.stderr


def test_the_crawl_folder_is_refused_as_its_own_store(tmp_path: Path, finished: Path) -> None:
    folder, link = tmp_path / "crawl", tmp_path / "link"
    shutil.copytree(finished, folder)
    link.symlink_to(folder)
    before = here(folder)
    for place in (folder, link, folder / "warc", tmp_path):
        why = refused(folder, "--upload", place.as_uri(), "--upload-remove")
        assert f"this is the crawl folder {folder}, in it, or around it" in why
        assert here(folder) == before
    assert run(crawling(folder)).returncode == 0  # the refused settings are not kept


def test_a_damaged_file_is_kept_and_reported_beside_a_good_object(
    tmp_path: Path, port: int
) -> None:
    folder, disk = tmp_path / "crawl", tmp_path / "disk"
    disk.mkdir()
    upload = ["--upload", disk.as_uri()]
    assert run(crawling(folder, WEB.seed_url(port=port), *QUICK, *upload)).returncode == 0
    good = here(disk)
    path = next((folder / "warc").glob("*.warc.gz"))
    data = bytearray(path.read_bytes())
    # More bytes than the header of a gzip member, whose time no digest covers, so data are hit.
    for at in range(len(data) // 2, len(data) // 2 + 16):
        data[at] ^= 1
    path.write_bytes(data)
    done = run(crawling(folder, "--upload-remove"))
    assert (done.returncode, here(disk) == good) == (1, True), done.stderr
    assert path.exists()
    told = f"warc/{path.name}: the file here is damaged, and {disk.as_uri()} has another content"
    assert told in done.stdout and told in done.stderr
    path.write_bytes(good[f"warc/{path.name}"])  # the advice
    assert run(crawling(folder)).returncode == 0
    assert (here(disk), here(folder)) == (good, {})
    assert command("audit", str(folder)).returncode == 0


def test_removal_without_an_upload_is_refused_and_not_kept(
    tmp_path: Path, port: int, finished: Path
) -> None:
    folder, disk = tmp_path / "crawl", tmp_path / "disk"
    disk.mkdir()
    why = refused(folder, WEB.seed_url(port=port), "--upload-remove")
    assert "--upload-remove: upload.remove: there is no store to upload to" in why
    assert not folder.exists()
    shutil.copytree(finished, folder)
    assert run(crawling(folder, "--upload", disk.as_uri(), "--upload-remove")).returncode == 0
    assert run(crawling(folder, "--upload", "")).returncode == 0
    shown = command("config", "--dir", str(folder), "upload.remove")
    assert "saved with the crawl" not in shown.stdout


# -- stores that fail


def failing(server: S3Server, decide: Callable[[int, str, str], int]) -> FaultyProxy:
    return FaultyProxy(server, decide)


@needs_s3
def test_a_store_that_fails_one_put_in_ten_gets_everything_all_the_same(
    tmp_path: Path, port: int, server: S3Server
) -> None:
    puts, verdicts = 0, cycle([503, -1])  # refused, broken off

    def decide(number: int, method: str, path: str) -> int:
        nonlocal puts
        puts += method == "PUT"
        return next(verdicts) if method == "PUT" and puts % 10 == 3 else 0

    folder = tmp_path / "crawl"
    with failing(server, decide) as proxy:
        arguments = [WEB.seed_url(port=port), *QUICK, *to(proxy.endpoint), "--workers", "2"]
        done = run(crawling(folder, *arguments, "--upload-remove"))
    assert done.returncode == 0, done.stderr
    assert {answer for _, _, answer in proxy.seen} >= {503, -1}
    segments = {Path(name).name.partition(".")[0] for name in there(server)}
    assert len(there(server)) == 5 * len(segments) > 5
    assert here(folder) == {}


@needs_s3
@pytest.mark.parametrize("number", [2, pytest.param(8, marks=pytest.mark.long)])
def test_an_upload_that_was_killed_is_continued(
    tmp_path: Path, port: int, server: S3Server, number: int
) -> None:
    """The crawl is killed when its n-th file is under way."""
    puts, running = 0, list[subprocess.Popen[bytes]]()

    def decide(_: int, method: str, path: str) -> int:
        nonlocal puts
        puts += method == "PUT" and "crawl.json" not in path
        if puts == number and running:
            running[0].kill()
        return 0

    folder = tmp_path / "crawl"
    with failing(server, decide) as proxy:
        arguments = [WEB.seed_url(port=port), *QUICK, *to(proxy.endpoint), "--upload-remove"]
        with subprocess.Popen(
            crawling(folder, *arguments),
            env={**os.environ, **CREDENTIALS},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as started:
            running.append(started)
            assert started.wait(120) == -signal.SIGKILL
        running.clear()
        wait_until_free(folder)
        done = run(crawling(folder))
    assert done.returncode == 0, done.stderr
    assert here(folder) == {}
    segments = {Path(name).name.partition(".")[0] for name in there(server)}
    assert len(there(server)) == 5 * len(segments)


@needs_s3
def test_a_crawl_goes_on_without_its_store_and_the_next_run_uploads_what_is_left(
    tmp_path: Path, port: int, server: S3Server
) -> None:
    folder = tmp_path / "crawl"
    server.end()
    arguments = [WEB.seed_url(port=port), *QUICK, *to(server.endpoint, "1s"), "--upload-remove"]
    done = run(crawling(folder, *arguments))
    assert done.returncode == 4
    assert "cannot be reached (Connection refused)" in done.stderr
    assert "The crawl continues; its files stay here" in done.stderr
    kept = here(folder)
    assert f"NOT UPLOADED: {len(kept)} files" in done.stdout
    assert f"to upload the rest: lycosa crawl --dir {folder}" in done.stdout
    assert command("audit", str(folder)).returncode == 0

    server.start()
    done = run(crawling(folder))
    assert done.returncode == 0, done.stderr
    assert there(server) == kept
    assert here(folder) == {}


@needs_s3
def test_a_store_that_comes_back_while_the_crawl_waits_gets_the_rest(
    tmp_path: Path, port: int, server: S3Server
) -> None:
    puts, folder = 0, tmp_path / "crawl"

    def decide(_: int, method: str, path: str) -> int:
        nonlocal puts
        puts += method == "PUT" and "crawl.json" not in path
        return 507 if method == "PUT" and 0 < puts <= 7 else 0

    with failing(server, decide) as proxy:
        done = run(crawling(folder, WEB.seed_url(port=port), *QUICK, *to(proxy.endpoint), "--json"))
    assert done.returncode == 0, done.stderr
    assert "the store has no room left" in done.stderr
    assert "uploads again, after" in done.stderr
    assert there(server) == here(folder)


@needs_s3
def test_a_full_store_ends_the_run_with_what_is_left_and_nothing_lost(
    tmp_path: Path, port: int, server: S3Server
) -> None:
    folder = tmp_path / "crawl"

    def decide(_: int, method: str, path: str) -> int:
        return 507 if method == "PUT" and "crawl.json" not in path else 0

    with failing(server, decide) as proxy:
        arguments = [WEB.seed_url(port=port), *QUICK, *to(proxy.endpoint, "2s"), "--upload-remove"]
        done = run(crawling(folder, *arguments))
    assert done.returncode == 4
    assert "NOT UPLOADED" in done.stdout
    assert "the store has no room left (507 SlowDown); make room or raise its quota" in done.stdout
    assert len(here(folder)) == 5 * len(list(closed_segments(folder))) > 0


@needs_s3
def test_a_second_signal_breaks_the_upload_off(tmp_path: Path, port: int, server: S3Server) -> None:
    folder, running = tmp_path / "crawl", list[subprocess.Popen[str]]()
    status: list[dict[str, Any]] = []

    def decide(_: int, method: str, path: str) -> int:
        if method != "PUT" or "crawl.json" in path:
            return 0
        found = json.loads((folder / "status.json").read_text())
        is_waiting = found["progress"]["uploads"]["waiting_files"] > 0
        if found["state"] == "uploading" and is_waiting and running:
            status.append(found)
            running.pop().send_signal(signal.SIGINT)
        return 503

    with failing(server, decide) as proxy:
        command = crawling(folder, WEB.seed_url(port=port), *QUICK, *to(proxy.endpoint, "600s"))
        with subprocess.Popen(
            command,
            env={**os.environ, **CREDENTIALS},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as started:
            running.append(started)
            output, _ = started.communicate(timeout=300)
    assert started.returncode == 4
    assert "NOT UPLOADED" in output
    assert status[0]["waiting_for"].startswith("the upload of ")
    assert status[0]["progress"]["uploads"]["waiting_files"] > 0


# -- stores that refuse


@needs_s3
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "does not accept the credentials"),
        ({"AWS_ACCESS_KEY_ID": "unknown"}, "does not accept the credentials"),
        ({"AWS_REGION": "eu-west-1"}, "check endpoint, region"),
    ],
)
def test_wrong_credentials_stop_the_start_before_there_is_a_folder(
    tmp_path: Path, port: int, server: S3Server, change: dict[str, str], told: str
) -> None:
    folder = tmp_path / "crawl"
    start = [WEB.seed_url(port=port), *QUICK, *to(server.endpoint)]
    why = refused(folder, *start, environment={**CREDENTIALS, **change})
    assert told in why and "wrong" not in why
    assert "no credentials were given" in refused(folder, *start, environment={})
    assert not folder.exists()


@needs_s3
def test_a_bucket_that_does_not_exist_stops_the_start(
    tmp_path: Path, port: int, server: S3Server
) -> None:
    arguments = [WEB.seed_url(port=port), *QUICK, *to(server.endpoint), "--upload", "s3://none/x"]
    why = refused(tmp_path / "crawl", *arguments)
    assert "s3://none/x: there is no such bucket" in why


@needs_s3
def test_a_store_that_may_only_be_read_stops_the_start(tmp_path: Path, port: int) -> None:
    with S3Server(tmp_path / "s3", "--readonly") as server:
        arguments = [WEB.seed_url(port=port), *QUICK, *to(server.endpoint)]
        why = refused(tmp_path / "crawl", *arguments)
    assert "creating crawl.json is not permitted" in why


@needs_s3
def test_another_crawl_is_refused_at_the_same_place(
    tmp_path: Path, port: int, server: S3Server
) -> None:
    arguments = [WEB.seed_url(port=port), *QUICK, *to(server.endpoint), "--max-pages", "3"]
    assert run(crawling(tmp_path / "a", *arguments)).returncode == 3
    why = refused(tmp_path / "b", *arguments)
    assert "was uploaded there, and this is a new crawl; give another prefix" in why
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--upload", f"s3://{KEY}:{SECRET}@bucket/x"], "credentials do not belong into the URL"),
        (["--upload", "ftp://x/y"], "is not the URL of a store"),
        (["--upload", "s3:///y"], "names no bucket"),
        (["--upload", "file://relative/x"], "three slashes"),
        (["--set", f"upload.options=secret_access_key={SECRET}"], "is no option of a store"),
        (["--set", "upload.options=endpont=x"], "did you mean endpoint?"),
        (["--set", "upload.kinds=state"], "is not uploaded"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_and_no_secret_is_repeated(
    tmp_path: Path, port: int, arguments: list[str], told: str
) -> None:
    assert told in refused(tmp_path / "crawl", WEB.seed_url(port=port), *arguments)


@needs_s3
def test_the_python_interface_uploads_too(
    tmp_path: Path, port: int, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    config = lycosa.settings(
        {
            "upload.url": URL,
            "upload.options": f"endpoint={server.endpoint}",
            "upload.remove": True,
            "politeness.delay_s": 0.0,
            "politeness.address_delay_s": 0.0,
            "politeness.adaptive_factor": 0.0,
            "dns.pins": "*=127.0.0.1",
            "fetch.allow_addresses": "127.0.0.0/8",
            "limits.max_pages": 5,
        }
    )
    report = lycosa.Crawl([WEB.seed_url(port=port)], tmp_path / "crawl", config).run()
    assert report.progress.uploads is not None
    assert report.progress.uploads.files == len(there(server)) == 5
    assert here(tmp_path / "crawl") == {}
    with pytest.raises(PlaceTaken):
        lycosa.Crawl([WEB.seed_url(port=port)], tmp_path / "other", config).run()
