"""A crawl behind a login and a proxy: no file of it has a secret, and what was fetched with
credentials is in no feed, export or replay, and equals nothing of another site.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from logging_proxy import logging_proxy
from lycosa.base.calls import AskedCapture, place_text
from lycosa.base.system.clock import ThreadOffload
from lycosa.cli.main import cli
from lycosa.state.store.segment_files import SegmentFiles
from lycosa.worker.calls.capture_finder import CaptureFinder

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LOGIN, KEY, COOKIE, PROXY_LOGIN = "hedda:Zk7-a", "Zk7-b", "Zk7-c", "runner:Zk7-d"
SECRETS = (b"Zk7-", *(base64.b64encode(each.encode()) for each in (LOGIN, PROXY_LOGIN)))
_BASIC = "Basic " + base64.b64encode(LOGIN.encode()).decode()
_SAME = "<title>Same</title><p>a page of two sites with the same words, and enough of them</p>"


class _Site(BaseHTTPRequestHandler):
    """``in.test`` wants a login; both hosts have one page in common."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name = self.headers["Host"].partition(":")[0]
        sent = {each.lower() for each in self.headers}
        self.server.seen.append((name, self.path, sent))  # type: ignore[attr-defined]
        is_in = name == "in.test"
        has_login = self.headers.get("Authorization") == _BASIC and "x-key" in sent
        status, body = 200, ""
        if is_in and not has_login:
            status = 401
        elif self.path == "/robots.txt":
            status = 404
        elif self.path == "/same":
            body = _SAME
        elif self.path == "/out":
            status = 302
        elif self.path == "/":
            host = self.headers["Host"]
            other = host.replace("in.test", "out.test")
            body = f"<title>Home of {name}</title><a href=/same>s</a><a href=/out>o</a>"
            body += f"<a href=http://{other}/same>t</a>"
        data = body.encode()
        self.send_response(status)
        if status == 302:
            host = self.headers["Host"].replace("in.test", "out.test")
            self.send_header("Location", f"http://{host}/target")
        self.send_header("Content-Type", "text/html")
        self.send_header("Set-Cookie", f"session={COOKIE}")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


async def no_commit() -> None:
    """Everything is on disk."""


@contextmanager
def site() -> Iterator[tuple[int, list[tuple[str, str, set[str]]]]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        server.seen = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server.server_port, server.seen  # type: ignore[attr-defined]
        finally:
            server.shutdown()


def lycosa(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "lycosa", *map(str, arguments)],
        capture_output=True,
        timeout=120,
    )


def printed(*arguments: object) -> bytes:
    """What a reading command prints, run in this process."""
    done = CliRunner().invoke(cli, [*map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert not any(each in done.output_bytes for each in SECRETS)
    return done.stdout_bytes


def everything(folder: Path) -> Iterator[tuple[str, bytes]]:
    """All files below a folder as they are and decompressed, Parquet also as its rows."""
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        data = path.read_bytes()
        yield str(path), data
        if path.suffix == ".parquet":
            yield f"{path} (rows)", repr(pq.read_table(path).to_pylist()).encode()
        elif data[:2] == b"\x1f\x8b":
            yield f"{path} (plain)", gzip.decompress(data)
        elif data[:4] == b"\x28\xb5\x2f\xfd":
            yield f"{path} (plain)", zstd.decompress(data)


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The folder of a crawl of two hosts with two workers, and what the server and proxy saw."""
    work = tmp_path_factory.mktemp("private")
    secrets = {"login": LOGIN, "key": KEY, "proxy": PROXY_LOGIN}
    secrets["cookies"] = f"in.test\tFALSE\t/\tFALSE\t0\tsession\t{COOKIE}\n"
    for name, text in secrets.items():
        (work / name).write_text(text)
        (work / name).chmod(0o600)
    with site() as (port, seen), logging_proxy(login=PROXY_LOGIN) as proxy:
        host, folder = f"in.test:{port}", work / "crawl"
        done = lycosa(
            *("crawl", f"http://{host}/", f"http://out.test:{port}/", "--dir", folder),
            *("--auth", f"host:{host} file:{work}/login"),
            *("--header", f"host:{host} X-Key: file:{work}/key"),
            *("--cookies-from", f"host:{host} {work}/cookies"),
            *("--proxy", f"{proxy.url} file:{work}/proxy"),
            *("--resolve", "*.test=127.0.0.1", "--allow-address", "127.0.0.0/8"),
            *("--delay", "0s", "--set", "politeness.address_delay_s=0"),
            *("--set", "politeness.address_table=crawl", "--set", "store.content=true"),
            *("--workers", "2", "--feed", work / "pages.jsonl"),
        )
        assert done.returncode == 0, done.stderr
        assert not any(each in done.stdout + done.stderr for each in SECRETS)
        yield {"folder": folder, "work": work, "port": port, "seen": seen, "proxy": proxy}


def test_only_the_host_of_the_rules_gets_what_they_say(crawl: dict[str, Any]) -> None:
    ours = {"authorization", "x-key", "cookie"}
    inside = [sent for name, _, sent in crawl["seen"] if name == "in.test"]
    outside = [sent for name, _, sent in crawl["seen"] if name == "out.test"]
    assert len(inside) == 4 and all(ours <= sent for sent in inside)  # robots.txt too
    assert ("out.test", "/target") in [(name, path) for name, path, _ in crawl["seen"]]
    assert outside and not any(ours & sent for sent in outside)
    assert set(crawl["proxy"].asked) == {f"127.0.0.1:{crawl['port']}"}


def test_no_file_of_the_crawl_has_a_secret(crawl: dict[str, Any]) -> None:
    found = dict(everything(crawl["folder"]))
    assert any(b"Authorization: [" in data for data in found.values())  # it was looked into
    for name, data in found.items():
        # The host that is public sets its cookie itself.
        public = data.replace(b"Set-Cookie: session=Zk7-c", b"")
        assert not any(each in public for each in SECRETS), name
    printed("status", crawl["folder"])
    printed("explain", crawl["folder"], f"http://in.test:{crawl['port']}/")
    assert b"file:" in printed("config", "--dir", crawl["folder"])
    compared = lycosa("diff", crawl["folder"], f"http://in.test:{crawl['port']}/same")
    assert b"fetch 1 is the first capture of this URL" in compared.stderr  # it is found


def test_the_audit_passes(crawl: dict[str, Any]) -> None:
    assert b"Every check passed" in printed("audit", crawl["folder"], "--all")


def test_captures_with_credentials_are_marked_and_equal_nothing_elsewhere(
    crawl: dict[str, Any],
) -> None:
    rows = {
        each["url"]: each
        for each in map(
            json.loads, printed("export", crawl["folder"], "fetches", "--private").splitlines()
        )
    }
    base = f"http://in.test:{crawl['port']}"
    private = {url for url, row in rows.items() if row["privacy"] == "private"}
    assert private == {url for url in rows if url.startswith(base)} and f"{base}/same" in private
    same = [row for url, row in rows.items() if url.endswith("/same")]
    assert len(same) == 2 and not any(row["revisit_profile"] for row in same)
    # So they are for pages that are rendered, whatever the rules are then.
    asked = [
        AskedCapture(row["url"], row["warc_record_id"], place=place_text(segment, offset))
        for row in same
        for segment in [row["warc_filename"].removeprefix("warc/")]
        for offset in [row["warc_record_offset"]]
    ]
    finder = CaptureFinder(SegmentFiles(crawl["folder"], 0), ThreadOffload(), no_commit)  # type: ignore[arg-type]
    found = asyncio.run(finder.find_captures(None, asked))  # type: ignore[arg-type]
    assert {each.is_private for each in found} == {True, False}


def test_a_query_leaves_them_out_if_it_is_told(crawl: dict[str, Any]) -> None:
    base = f"http://in.test:{crawl['port']}"
    tables = (
        "SELECT url FROM pages UNION ALL SELECT url FROM fetches UNION ALL SELECT url FROM texts"
        " UNION ALL SELECT source_url FROM links UNION ALL SELECT url FROM ccindex"
        " UNION ALL SELECT url FROM urls UNION ALL SELECT url FROM main.pages"
    )

    def found(*options: str) -> set[str]:
        rows = json.loads(printed("sql", crawl["folder"], "--json", *options, tables))
        return {row["url"] for row in rows}

    everything_there, public = found(), found("--without-private")
    hidden = {url for url in everything_there if url.startswith(base)}
    assert hidden and public == everything_there - hidden
    named = "SELECT view_name FROM duckdb_views() WHERE NOT internal AND schema_name <> 'main'"
    for statement in (named, "SELECT * FROM choice.private_urls"):
        done = lycosa("sql", crawl["folder"], "--json", "--without-private", statement)
        assert base.encode() not in done.stdout and (
            done.returncode or json.loads(done.stdout) == []
        )


def test_no_feed_export_or_replay_has_them(crawl: dict[str, Any]) -> None:
    folder, work = crawl["folder"], crawl["work"]
    name = f"in.test:{crawl['port']}".encode()
    fed = (work / "pages.jsonl").read_bytes()
    assert b"out.test" in fed and f'"url":"http://{name.decode()}'.encode() not in fed
    for table in ("pages", "links", "texts"):
        given = printed("export", folder, table).replace(b'": "', b'":"')
        column = b'"source_url":"http://' if table == "links" else b'"url":"http://'
        assert column + name not in given, table
        assert table == "links" or column + b"out.test" in given
    shown = printed("export", folder, "links", "--private").replace(b'": "', b'":"')
    assert b'"source_url":"http://' + name in shown
    log = printed("export", folder, "crawl-log").decode().splitlines()
    assert not [line for line in log if line.split()[3].startswith(f"http://{name.decode()}")]
    indexes = b"".join(path.read_bytes() for path in folder.rglob("*.cdxj"))
    assert b"out.test" in indexes and b'"url":"http://in.test' not in indexes
    report = json.loads(printed("export", folder, "wacz", "-o", work / "a.wacz", "--json"))
    assert report["private"] > 0 and report["left_out"] == 0
    told = lycosa("export", folder, "wacz", "-o", work / "a.wacz").stderr
    assert f"{report['private']} captures left out: private".encode() in told
    assert b"purpose" not in told
    with zipfile.ZipFile(work / "a.wacz") as archive:
        packed = [archive.read(each) for each in archive.namelist()]
    plain = b"".join(each if each[:2] != b"\x1f\x8b" else gzip.decompress(each) for each in packed)
    assert b"http://out.test" in plain and b"WARC-Target-URI: http://in.test" not in plain
    refused = lycosa("export", folder, "commoncrawl", "-o", work / "release")
    assert refused.returncode and b"fetched with credentials" in refused.stderr
