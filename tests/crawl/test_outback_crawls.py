"""Crawls with OutbackCDX: index lines go there, and it is asked for earlier captures."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from crawling import QUICK, Pages, crawl_folder, page
from lycosa.base.config.feature_sections import EarlierSection
from lycosa.base.config.sections import Config, FrontierSection
from lycosa.base.model.fetched import Fetched
from lycosa.base.reasons import Reason
from lycosa.inspect.audit.folder_audit import audit
from lycosa.inspect.committed_state import read_folder
from lycosa.processes.index_push import cdx_line
from lycosa.state.store.journal_rows import JournalRow
from lycosa.worker.capture_server import OutbackServer as Asked
from outback_server import JAR, OutbackServer, jar_server

HOME = "https://site.example/"
LOOPBACK = ("127.0.0.0/8",)
ONE = msgspec.structs.replace(QUICK, frontier=FrontierSection(partitions=1))


def site() -> Pages:
    return Pages(
        {
            HOME: page("/a", "/b", text="home"),
            f"{HOME}a": page(text="some words " * 30),
            f"{HOME}b": page("/c", text="other words " * 30),
            f"{HOME}c": page(text="last words " * 30),
        }
    )


def with_earlier(**settings: object) -> Config:
    section = EarlierSection(allow_addresses=LOOPBACK, timeout_s=5.0, **settings)  # type: ignore[arg-type]
    return msgspec.structs.replace(ONE, earlier=section)


def rows_of(folder: Path) -> dict[str, JournalRow]:
    source = read_folder(folder).source
    try:
        return {row.url: row for each in source.list_segments() for row in source.read_rows(each)}
    finally:
        source.close()


@contextmanager
def collection(kind: str, folder: Path) -> Iterator[str]:
    if kind == "real":
        with jar_server(folder) as url:
            yield url
    else:
        with OutbackServer().running() as server:
            yield server.url


@pytest.mark.parametrize(
    "kind", ["ours", pytest.param("real", marks=pytest.mark.skipif(not JAR, reason="no jar"))]
)
def test_what_one_crawl_pushes_the_next_one_finds(kind: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with collection(kind, tmp_path) as url:
        crawl_folder(first, site(), [HOME], with_earlier(push=url))
        asking = with_earlier(outbackcdx=url, warcs=(str(first),), check_every=1)
        crawl_folder(second, site(), [HOME], asking, start=86400.0)
    before, rows = rows_of(first), rows_of(second)
    for url in (HOME, f"{HOME}a", f"{HOME}b"):
        original, row = before[url], rows[url]
        assert row.original is not None
        named = row.original.url, row.original.date_us, row.original.record_id
        assert named == (url, original.date_us, original.record_id)
        assert row.body_segment == f"@{original.segment}"
    report = audit(second)
    assert report.is_clean, report.first_breaches()


@pytest.mark.parametrize("way", ["answers 500", "does not answer", "is forbidden"])
def test_a_server_that_fails_costs_three_questions_and_no_page(way: str, tmp_path: Path) -> None:
    with OutbackServer().running() as server:
        server.broken = 500 if way == "answers 500" else 0
        server.slow = threading.Event() if way == "does not answer" else None
        section = EarlierSection(
            outbackcdx=server.url,
            timeout_s=0.1 if server.slow else 5.0,
            allow_addresses=() if way == "is forbidden" else LOOPBACK,
        )
        config = msgspec.structs.replace(ONE, earlier=section)
        crawl_folder(tmp_path / "crawl", site(), [HOME], config)
        assert len(server.questions) == (0 if way == "is forbidden" else 3)
    rows = rows_of(tmp_path / "crawl")
    assert all(row.original is None for row in rows.values()) and len(rows) == 5


def found(asked: Asked, server: OutbackServer, fetched: Fetched, **changed: str) -> bool:
    import hashlib
    from base64 import b32encode

    digest = hashlib.sha1(fetched.body, usedforsecurity=False).digest()
    fields = {
        "time": "20260101000000",
        "mime": "text/html",
        "status": "200",
        "digest": b32encode(digest).decode(),
        "length": "900",
        "offset": "77",
        "file": "x.warc.gz",
        **changed,
    }
    line = "- {time} {url} {mime} {status} {digest} - - {length} {offset} {file}\n"
    line = line.format(url=fetched.url, **fields)
    server.lines = {("/web", "example,site)/"): {line.encode()}}
    return asked.find(fetched, digest) is not None


def test_status_type_size_and_digest_must_agree() -> None:
    fetched = Fetched(
        HOME,
        Reason.NONE,
        status=200,
        header_block=b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n",
        body=b"a body",
        body_bytes=6,
    )
    with OutbackServer().running() as server:
        asked = Asked(EarlierSection(outbackcdx=server.url, allow_addresses=LOOPBACK))
        assert found(asked, server, fetched)
        for name, other in (
            ("status", "404"),
            ("mime", "warc/revisit"),
            ("digest", "A" * 32),
            ("length", "90000"),
            ("length", "-"),
            ("offset", "0"),
            ("file", "x.arc.gz"),
        ):
            assert not found(asked, server, fetched, **{name: other}), name
        assert asked.counts["found"] == 1 and asked.counts["unlike"] == 5
        for _ in range(3):
            assert found(asked, server, fetched)
            asked.note(is_right=False)
        assert not found(asked, server, fetched) and asked.counts["unasked"] == 1
        asked.close()


def test_it_is_asked_again_after_a_rest() -> None:
    now = 100.0
    fetched = Fetched(HOME, Reason.NONE, status=200, body=b"x", body_bytes=1)
    with OutbackServer().running() as server:
        section = EarlierSection(outbackcdx=server.url, allow_addresses=LOOPBACK)
        asked = Asked(section, lambda: now)
        server.broken = 503
        for _ in range(5):
            assert asked.find(fetched, b"\0" * 20) is None
        assert (asked.counts["silent"], asked.counts["unasked"]) == (3, 2)
        assert "503" in asked.why
        server.broken, now = 0, 701.0
        asked.find(fetched, b"\0" * 20)
        assert asked.counts["none"] == 1
        asked.close()


def test_what_was_not_pushed_is_pushed_by_the_next_run_once(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    with OutbackServer().running() as server:
        server.broken = 503
        crawl_folder(folder, site(), [HOME], with_earlier(push=server.url))
        assert server.posts >= 1 and not server.lines
        server.broken = 0
        crawl_folder(folder, site(), [], with_earlier(push=server.url), start=99.0)
        assert {line.split(b" ")[2] for each in server.lines.values() for line in each} >= {
            HOME.encode(),
            f"{HOME}a".encode(),
        }
        posts = server.posts
        crawl_folder(folder, site(), [], with_earlier(push=server.url), start=199.0)
        assert server.posts == posts


def test_a_line_of_cdx_has_eleven_fields() -> None:
    line = (
        b'org,example)/a 20260102030405 {"url":"https://example.org/a","mime":"text/html",'
        b'"status":"301","digest":"ABC","length":"12","offset":"34","filename":"warc/n.warc.gz",'
        b'"redirect":"https://example.org/b c"}\n'
    )
    assert cdx_line(line) == (
        b"org,example)/a 20260102030405 https://example.org/a text/html 301 ABC"
        b" https://example.org/b%20c - 12 34 n.warc.gz\n"
    )
    with pytest.raises(ValueError, match="not a line of CDXJ"):
        cdx_line(b"a b c\n")


def test_a_server_whose_archive_is_away_is_asked_on_and_samples_are_stored(tmp_path: Path) -> None:
    first = tmp_path / "first"
    with OutbackServer().running() as server:
        crawl_folder(first, site(), [HOME], with_earlier(push=server.url))
        shutil.rmtree(first)
        server.questions.clear()
        # All are to be compared: more than the failures after which a server is not asked.
        crawl_folder(
            tmp_path / "second", site(), [HOME], with_earlier(outbackcdx=server.url, check_every=1)
        )
        assert len(server.questions) == 4
        asking = with_earlier(outbackcdx=server.url, check_every=2)
        crawl_folder(tmp_path / "third", site(), [HOME], asking)
    assert all(row.original is None for row in rows_of(tmp_path / "second").values())
    rows = rows_of(tmp_path / "third")
    assert sum(row.original is not None for row in rows.values()) == 2, "every second is stored"
