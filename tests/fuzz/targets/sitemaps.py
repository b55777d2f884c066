"""Sitemaps and feeds: XML that nobody vouches for, and lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.judging import MAX_BYTES, vectors
from fuzz.targets.html import parts, within_limits
from hostile_documents import SITEMAPS
from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.parsed import ParseInput
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Canonicalizer
from lycosa.stages.parse.document import DocumentParser
from lycosa.stages.parse.sitemap import (
    MAX_URLS,
    Sitemap,
    looks_like_text_sitemap,
    read_sitemap,
    read_text_sitemap,
)
from lycosa.stages.parse.syndication_feed import read_feed

_SECTION = ParseSection(max_links=1000, language=False)
_CANONICALIZER = Canonicalizer(CanonicalSection())
_PARSER = DocumentParser(_SECTION, Canonicalizer(CanonicalSection()), "lycosa")
_GZIP = b"\x1f\x8b"  # packed ones are for the target of bodies
_REASONS = frozenset({Reason.NONE, Reason.DECODE_FAILED, Reason.DECODE_LIMIT, Reason.CONTENT_TYPE})

WORDS = (
    *(
        "<urlset>",
        "<sitemapindex>",
        "<url>",
        "</url>",
        "<loc>",
        "</loc>",
        "<lastmod>",
        "<priority>",
        "<changefreq>",
        "<xhtml:link href=",
    ),
    *(
        "<rss>",
        "<channel>",
        "<item>",
        "<link>",
        "<guid isPermaLink='false'>",
        "<pubDate>",
        "<feed xmlns='http://www.w3.org/2005/Atom'>",
    ),
    *(
        "<entry>",
        "<link rel='alternate' href='",
        "<updated>",
        "<image:image>",
        "<image:loc>",
        "<video:video>",
        "<video:content_loc>",
        "<news:title>",
        "<![CDATA[",
        "]]>",
        "&amp;",
        "&#38;",
        "&x;",
    ),
    *(
        "<!DOCTYPE x [<!ENTITY a '",
        "<?xml ",
        "encoding='",
        "utf-16",
        "http://a.org/",
        "www.",
        "\ufeff",
        "1e999",
        "nan",
        "-0001-01-01",
        "content-type: application/xml\n\n",
    ),
)


def check(data: bytes) -> None:
    headers, body = parts(data, "application/xml")
    charset = (None, "utf-8", "utf-16", "no-such-charset")[len(data) % 4]
    sitemap = read_sitemap(body, charset)
    _of_sitemap(sitemap, body)
    feed = read_feed(body, charset)
    assert len(feed.entries) <= MAX_URLS
    assert all(entry.link and len(entry.title) <= 200 and entry.date >= 0 for entry in feed.entries)
    text = body.decode("utf-8", "replace")
    _of_sitemap(read_text_sitemap(text), body)
    looks_like_text_sitemap(text)
    parsed = _PARSER.parse(
        ParseInput(
            "https://www.example.org/a/sitemap.xml",
            200,
            headers,
            body,
            is_sitemap=len(data) % 2 == 0,
        )
    )
    assert parsed.reason in _REASONS, f"{parsed.reason.label}: {parsed.detail}"
    within_limits(parsed, _SECTION, _CANONICALIZER)


def _of_sitemap(sitemap: Sitemap, body: bytes) -> None:
    assert len(sitemap.entries) <= MAX_URLS
    for entry in sitemap.entries:
        assert (
            entry.loc and entry.lastmod >= 0 and (entry.priority == -1 or 0 <= entry.priority <= 1)
        )
    # No entity is ever resolved, so that what comes out is never much longer than what went in
    # ("&#9;" is shorter inside).
    texts = (
        text
        for entry in sitemap.entries
        for text in (entry.loc, entry.title, *entry.alternates, *entry.images, *entry.media)
    )
    assert sum(map(len, texts)) <= 2 * len(body) + 100


def samples() -> Iterator[bytes]:
    yield (
        b'<?xml version="1.0" encoding="UTF-8"?><urlset'
        b' xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
        b' xmlns:xhtml="http://www.w3.org/1999/xhtml"><url><loc>http://a.org/?x=1&amp;y=2</loc><lastmod>2024-05-06T07:08:09+02:00</lastmod><priority>0.8</priority><xhtml:link'
        b' rel="alternate" hreflang="de" href="http://a.org/de"/></url><url><loc> www.a.org/&b'
        b" <![CDATA[&c]]></loc><changefreq>DAILY</changefreq></url></urlset>"
    )
    yield (
        b"<urlset xmlns:i='i' xmlns:v='v'"
        b" xmlns:n='n'><url><loc>http://a.org/</loc><i:image><i:loc>http://a.org/1.png</i:loc></i:image><v:video><v:thumbnail_loc>/2.png</v:thumbnail_loc><v:player_loc>http://b.org/p</v:player_loc></v:video><n:news><n:title>"
        b" A\n b </n:title></n:news><changefreq>never</changefreq></url></urlset>"
    )
    yield b"<sitemapindex><sitemap><loc>s.xml.gz</loc></sitemap><sitemap>http://a.org/t.xml</sitemap></sitemapindex>"
    yield (
        b"<rss version='2.0'><channel><title>T</title><link>http://a.org/</link><item><title>a\n"
        b" b</title><link>/1</link><pubDate>Sun, 06 Nov 1994 08:49:37"
        b" GMT</pubDate></item><item><guid>http://a.org/2</guid></item></channel></rss>"
    )
    yield (
        b"<feed xmlns='http://www.w3.org/2005/Atom' xml:lang='de'><title>T</title><entry><link"
        b" rel='self' href='x'/><link"
        b" href='y'/><updated>2003-12-13T18:30:02Z</updated></entry></feed>"
    )
    yield b"content-type: text/plain\n\nhttp://a.org/1\r\nhttps://a.org/2\n\xef\xbb\xbfwww.a.org\n"
    yield (
        "<?xml version='1.0'"
        " encoding='utf-16'?><urlset><url><loc>http://a.org/\u00e4</loc></url></urlset>".encode(
            "utf-16"
        )
    )
    for make in SITEMAPS.values():
        body = make("http://www.example.org").body
        if len(body) < MAX_BYTES and not body.startswith(_GZIP):
            yield body
    bodies = vectors("sitemaps/crawler-commons-sitemaps.jsonl", "content", most=60)
    yield from (body for body in bodies if not body.startswith(_GZIP))
