"""Pages beyond a limit: what fits is parsed, the record says that it is not all, and the cut
makes no link that the page does not have.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import brotli
import duckdb
import msgspec
import pytest

from crawling import HTML, QUICK, Pages, crawl_folder, page
from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.reasons import Reason
from lycosa.base.system.clock import SystemClock
from lycosa.inspect.audit.folder_audit import audit
from lycosa.stages.parse.child_parser import ChildParser
from lycosa.stages.parse.html import read_html
from lycosa.stages.parse.inline_parser import build_parser
from lycosa.stages.parse.parser_config import ParserConfig
from lycosa.stages.parse.syndication_feed import read_feed
from lycosa.state.store.journal import read_rows
from lycosa.synthetic import Response

URL = "http://example.org/"
LIMIT = 100_000


def large(links: int) -> bytes:
    return b"<!DOCTYPE html><title>large</title>" + b"".join(
        b'<p><a href="/page/%07d">page</a></p>\n' % number for number in range(links)
    )


def parse(body: bytes, encoding: str = "", content_type: str = "text/html") -> Parsed:
    parser = build_parser(
        ParserConfig(ParseSection(language=False, max_bytes=LIMIT), CanonicalSection(), "lycosa")
    )
    encodings = [("content-encoding", encoding)] if encoding else []
    return parser.parse(ParseInput(URL, 200, [("content-type", content_type), *encodings], body))


@pytest.mark.parametrize("content_type", ["text/html", "application/xhtml+xml"])
@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("", large(10_000)),
        ("gzip", gzip.compress(large(10_000))),
        ("gzip", gzip.compress(large(5_000)) + gzip.compress(large(5_000))),
        ("deflate", zlib.compress(large(10_000))),
        ("br", brotli.compress(large(10_000))),
    ],
    ids=["plain", "gzip", "gzip-members", "deflate", "br"],
)
def test_what_fits_is_parsed_and_marked(content_type: str, encoding: str, body: bytes) -> None:
    parsed = parse(body, encoding, content_type)
    assert parsed.is_cut
    assert parsed.reason in (Reason.DECODE_LIMIT, Reason.BODY_TRUNCATED)
    whole = large(10_000)[:LIMIT].rpartition(b"<p>")[0].count(b"<a ")
    assert len(parsed.links) in (whole, whole + 1)
    assert [link.url for link in parsed.links] == [
        f"{URL}page/{number:07d}" for number in range(len(parsed.links))
    ]


def test_a_page_within_the_limit_is_not_marked() -> None:
    parsed = parse(gzip.compress(large(100)), "gzip")
    assert (parsed.is_cut, parsed.reason, len(parsed.links)) == (False, Reason.NONE, 100)


MARKUP = b"""<!DOCTYPE html><html><head><base href="/base/"><title>t</title><link rel=canonical href="/canonical">
<meta http-equiv=refresh content="5; url=/refresh/long"></head><body><a href="/double/quoted" rel=nofollow>x</a><a href='/single/quoted'>
</a><a href=/unquoted/path>z</a> <a href="/a?x=1&amp;y=22">q</a><area href=/area/long>
<img src="/i/one.png" srcset="/i/two.png 1x, /i/three 2x">
<form action=/form/action><iframe src="/iframe/src"></iframe><svg><a xlink:href="/svg/link">s</a></svg><!-- <a href="/comment"> -->
<template><a href="/template">x</a></template><noscript><a href="/noscript/x">n</a></noscript><textarea><a href="/text"></textarea>
<script>var a = '<a href="/script/x">'</script><a
href="/last/one"
>end</a></body></html>"""


def test_no_cut_of_a_page_makes_a_link_that_the_page_does_not_have() -> None:
    whole = read_html(MARKUP)
    assert len(whole.links) == 15
    for end in range(len(MARKUP)):
        cut = read_html(MARKUP[:end])
        assert cut.links.keys() <= whole.links.keys(), MARKUP[:end]
        assert cut.canonical in (None, "/canonical") and cut.base in (None, "/base/")


FEED = b"""<?xml version="1.0"?><rss version="2.0"><channel><link>http://a.example/site/home</link><title>t</title><item><title>x</title>
<link>http://a.example/one/long</link><pubDate>Mon, 06 Sep 2010 00:01:00 +0000</pubDate></item>
<item><guid>http://a.example/two/long</guid></item></channel></rss>"""


def test_no_cut_of_a_feed_makes_a_link_that_the_feed_does_not_have() -> None:
    def links(body: bytes) -> set[str]:
        feed = read_feed(body)
        return {feed.link, *(entry.link for entry in feed.entries)} - {""}

    assert len(links(FEED)) == 3
    for end in range(len(FEED)):
        assert links(FEED[:end]) <= links(FEED), FEED[:end]


async def test_a_page_that_memory_has_no_room_for_is_parsed_as_far_as_it_has() -> None:
    section = ParseSection(language=False, memory_bytes=370_000_000)
    parser = ChildParser(ParserConfig(section, CanonicalSection(), "lycosa"), SystemClock())
    try:
        body = b"".join(
            b'<li><a href="/p/%d"><b>x</b></a><i>y</i>' % number for number in range(350_000)
        )
        parsed = await parser.parse(
            ParseInput(
                URL,
                200,
                [("content-type", "text/html"), ("content-encoding", "gzip")],
                gzip.compress(body),
            )
        )
        assert parsed.is_cut and parsed.reason is Reason.DECODE_LIMIT
        assert len(parsed.links) == section.max_links
        assert parser.health().tried_again == 1
        small = await parser.parse(ParseInput(URL, 200, [("content-type", "text/html")], large(10)))
        assert (small.reason, len(small.links)) == (Reason.NONE, 10)
    finally:
        await parser.close()


def test_the_row_is_marked_and_the_record_is_whole(tmp_path: Path) -> None:
    body = large(5_000)
    root = Response(200, [HTML, ("Content-Encoding", "gzip")], gzip.compress(body))
    config = msgspec.structs.replace(QUICK, parse=ParseSection(language=False, max_bytes=2_000))
    web = Pages(
        {URL: root, **{f"{URL}page/{number:07d}": page(text=str(number)) for number in range(5)}}
    )
    crawl_folder(tmp_path / "c", web, [URL], config)
    journal = next((tmp_path / "c" / "journal").iterdir())
    row = next(row for row in read_rows(journal) if row.url == URL)
    assert (row.is_cut, row.truncated, row.parse_reason) == (True, "", Reason.DECODE_LIMIT)
    assert row.outlinks > 40
    table = next((tmp_path / "c" / "pages").iterdir())
    told = duckdb.sql(f"SELECT content_truncated FROM '{table}' WHERE url = '{URL}'").fetchall()
    assert told == [("length",)]
    cdxj = next((tmp_path / "c" / "cdxj").iterdir()).read_text()
    assert "truncated" not in cdxj  # the record holds all that was received
    assert audit(tmp_path / "c").is_clean
