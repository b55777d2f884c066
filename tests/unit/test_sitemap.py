"""Sitemaps and feeds: entries, broken XML, limits, and that nothing outside the document is
read.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costs import run_below
from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Canonicalizer
from lycosa.stages.parse.document import DocumentParser
from lycosa.stages.parse.sitemap import (
    MAX_URLS,
    SitemapEntry,
    parse_w3c_date,
    read_sitemap,
    read_text_sitemap,
)
from lycosa.stages.parse.syndication_feed import parse_feed_date, read_feed

URLSET = b"""<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="urn:image" xmlns:xhtml="http://www.w3.org/1999/xhtml">
<url><loc>http://example.org/a?x=1&amp;y=2</loc><lastmod>2024-03-01</lastmod><priority>0.8</priority><changefreq>Daily</changefreq>
<image:image><image:loc>http://example.org/i.png</image:loc></image:image><xhtml:link rel="alternate" hreflang="de" href="http://example.org/de"/></url>
<url><loc> http://example.org/b </loc><priority>7</priority></url></urlset>"""


def parse(
    body: bytes,
    content_type: str = "application/xml",
    url: str = "http://example.org/sitemap.xml",
    **settings_: int,
) -> Parsed:
    parser = DocumentParser(
        ParseSection(language=False, **settings_), Canonicalizer(CanonicalSection()), "lycosa"
    )
    return parser.parse(ParseInput(url, 200, [("content-type", content_type)], body))


def test_entries_keep_their_hints() -> None:
    assert read_sitemap(URLSET).entries == [
        SitemapEntry(
            "http://example.org/a?x=1&y=2",
            1709251200,
            0.8,
            "daily",
            ("http://example.org/de",),
            ("http://example.org/i.png",),
        ),
        SitemapEntry("http://example.org/b", 0, 1.0),
    ]


def test_a_sitemap_becomes_links_with_hints() -> None:
    parsed = parse(URLSET)
    assert [(link.url, link.kind) for link in parsed.links] == [
        ("http://example.org/a?x=1&y=2", LinkKind.SITEMAP),
        ("http://example.org/b", LinkKind.SITEMAP),
        ("http://example.org/de", LinkKind.ALTERNATE),
        ("http://example.org/i.png", LinkKind.IMG),
    ]
    assert parsed.hints == {
        "http://example.org/a?x=1&y=2": (1709251200, 0.8),
        "http://example.org/b": (0, 1.0),
    }
    assert parsed.changes == {"http://example.org/a?x=1&y=2": 86_400}
    assert (parsed.is_sitemap, parsed.is_sitemap_index) == (True, False)


def test_an_index_is_told_apart() -> None:
    parsed = parse(
        b"<sitemapindex><sitemap><loc>/s1.xml</loc></sitemap></sitemapindex>", "text/html"
    )
    assert (parsed.is_sitemap, parsed.is_sitemap_index) == (True, True)
    assert [(link.url, link.kind) for link in parsed.links] == [
        ("http://example.org/s1.xml", LinkKind.SITEMAP_FILE)
    ]


def test_images_videos_and_news_belong_to_their_page() -> None:
    """Google's extensions, with the names of their documentation; prefixes and namespaces may be
    any.
    """
    parsed = parse(b"""<urlset xmlns:image="i" xmlns:v="v" xmlns:news="n"><url><loc>/a</loc>
    <image:image><image:loc>/1.png</image:loc><image:caption>x</image:caption></image:image>
    <image:image><image:loc>/2.png</image:loc><image:license>/licence</image:license></image:image>
    <v:video><v:thumbnail_loc>/t.jpg</v:thumbnail_loc><v:title>V</v:title><v:content_loc>/v.mp4</v:content_loc>
    <v:player_loc allow_embed="yes">/p?v=1</v:player_loc><v:publication_date>2001-01-01</v:publication_date></v:video>
    <news:news><news:publication><news:name>N</news:name><news:language>en</news:language></news:publication>
    <news:publication_date>2024-03-01</news:publication_date><news:title> All  of it </news:title></news:news>
    </url><url><loc>/b</loc></url></urlset>""")
    assert [
        (link.url.removeprefix("http://example.org"), link.kind, link.anchor)
        for link in parsed.links
    ] == [
        ("/a", LinkKind.SITEMAP, "All of it"),
        ("/b", LinkKind.SITEMAP, ""),
        ("/1.png", LinkKind.IMG, ""),
        ("/2.png", LinkKind.IMG, ""),
        ("/t.jpg", LinkKind.IMG, ""),
        ("/v.mp4", LinkKind.MEDIA, ""),
        ("/p?v=1", LinkKind.MEDIA, ""),
    ]
    assert parsed.hints == {}


def test_what_belongs_to_pages_takes_no_room_from_them() -> None:
    alternates = b"".join(
        b'<xhtml:link rel="alternate" hreflang="x%d" href="/x%d"/>' % (n, n) for n in range(50)
    )
    body = (
        b"<urlset xmlns:xhtml='x'>"
        + b"".join(b"<url><loc>/%d</loc>%b</url>" % (n, alternates) for n in range(20))
        + b"</urlset>"
    )
    kinds = [link.kind for link in parse(body, max_links=30).links]
    assert kinds == [LinkKind.SITEMAP] * 20 + [LinkKind.ALTERNATE] * 10


@pytest.mark.parametrize(
    ("changefreq", "seconds"),
    [
        ("always", 900),
        ("Hourly", 3600),
        ("daily", 86_400),
        (" weekly ", 604_800),
        ("never", 315_360_000),
        ("often", 0),
        ("", 0),
    ],
)
def test_change_frequencies_are_intervals(changefreq: str, seconds: int) -> None:
    body = f"<urlset><url><loc>http://e.org/</loc><changefreq>{changefreq}</changefreq></url></urlset>".encode()
    assert parse(body).changes.get("http://e.org/", 0) == seconds


@pytest.mark.parametrize(
    ("content_type", "is_compressed"),
    [
        ("application/xml", True),
        ("text/plain", False),
        ("application/octet-stream", True),
        ("text/html", False),
    ],
)
def test_a_sitemap_that_was_asked_for_may_be_as_large_as_the_protocol_allows(
    content_type: str, is_compressed: bool
) -> None:
    """50,000 URLs, more bytes than are read of other documents; a text has no other mark of
    being one.
    """
    if content_type == "text/plain":
        body = b"".join(b"http://example.org/%d?%b\n" % (n, b"x" * 200) for n in range(50_000))
    else:
        body = b"<urlset>" + b"".join(
            b"<url><loc>http://example.org/%d?%b</loc></url>" % (n, b"x" * 200)
            for n in range(50_000)
        )
    assert len(body) > ParseSection().max_bytes
    headers = [("content-type", content_type)]
    if is_compressed:
        headers.append(("content-encoding", "gzip"))
        body = gzip.compress(body, 1)
    document = ParseInput("http://example.org/s", 200, headers, body, is_sitemap=True)
    parsed = DocumentParser(
        ParseSection(language=False), Canonicalizer(CanonicalSection()), "lycosa"
    ).parse(document)
    assert (parsed.reason, len(parsed.links), parsed.is_sitemap) == (Reason.NONE, 50_000, True)


@pytest.mark.parametrize("layers", [1, 2])
def test_gzip_files_are_unpacked_even_twice(layers: int) -> None:
    body = URLSET
    for _ in range(layers):
        body = gzip.compress(body)
    assert len(parse(body, "application/x-gzip", "http://example.org/sitemap.xml.gz").links) == 4


def test_a_gzip_file_may_be_gzip_encoded_too() -> None:
    """``Content-Encoding`` for the wire around a file that is compressed itself: three layers in
    all.
    """
    body = gzip.compress(gzip.compress(gzip.compress(URLSET)))
    headers = [("content-type", "application/x-gzip"), ("content-encoding", "gzip")]
    parser = DocumentParser(
        ParseSection(language=False), Canonicalizer(CanonicalSection()), "lycosa"
    )
    assert (
        len(parser.parse(ParseInput("http://example.org/sitemap.xml.gz", 200, headers, body)).links)
        == 4
    )


@pytest.mark.parametrize("content_type", ["application/bogus", "image/png", ""])
def test_what_was_asked_for_as_a_sitemap_is_read_by_its_content(content_type: str) -> None:
    parser = DocumentParser(
        ParseSection(language=False), Canonicalizer(CanonicalSection()), "lycosa"
    )
    for body in (
        URLSET,
        URLSET[URLSET.index(b"<urlset") :],
        gzip.compress(URLSET),
        b"http://example.org/1\nhttp://example.org/2",
    ):
        for asked_for in (True, False):
            document = ParseInput(
                "http://example.org/s",
                200,
                [("content-type", content_type)],
                body,
                is_sitemap=asked_for,
            )
            assert parser.parse(document).is_sitemap == (asked_for or not content_type)


def test_a_bomb_is_cut_at_the_limit() -> None:
    bomb = gzip.compress(b"<urlset><url><loc>http://example.org/1</loc></url>" + b" " * 60_000_000)
    parsed = parse(bomb, "application/gzip")
    assert (parsed.reason, len(parsed.links)) == (Reason.DECODE_LIMIT, 1)


def test_broken_xml_gives_what_can_be_read() -> None:
    broken = b"<urlset><url><loc>http://e.org/?a&b</loc></url><url><x></y><loc>http://e.org/?c=1&amp;d=2</loc></url><url><loc>http://e.org/3"
    assert [entry.loc for entry in read_sitemap(broken).entries] == [
        "http://e.org/?a&b",
        "http://e.org/?c=1&d=2",
    ]


@pytest.mark.parametrize(
    "tags",
    [b"<pu" * 300_000 + b">", b"<pu" * 300_000 + b">" * 300_000, b"<a b='<a b=\"" * 60_000 + b">"],
)
def test_tags_that_do_not_end_cost_nothing_and_what_stands_before_them_is_read(tags: bytes) -> None:
    before = b"<urlset><url><loc>http://example.org/</loc></url>"
    read = run_below(1000, lambda: read_sitemap(before + tags))
    assert [entry.loc for entry in read.entries] == ["http://example.org/"]


def test_texts_inside_each_other_are_given_once() -> None:
    nested = b"<urlset>" + b"<url><loc>http://example.org/a " * 100
    assert sum(len(entry.loc) for entry in read_sitemap(nested).entries) < len(nested)


def test_no_entity_and_no_file_is_ever_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("http://example.org/secret")
    evil = (
        "<!DOCTYPE urlset [<!ENTITY e SYSTEM"
        f' "{secret.as_uri()}">]><urlset><url><loc>&e;</loc></url><url><loc>/ok</loc></url></urlset>'
    )
    assert [entry.loc for entry in read_sitemap(evil.encode()).entries] == ["/ok"]


def test_exponential_entities_cost_nothing() -> None:
    lines = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 30))
    evil = (
        f'<!DOCTYPE urlset [<!ENTITY e0 "x">{lines}]>'
        + "<urlset><url><loc>&e29;</loc></url></urlset>"
    )
    assert read_sitemap(evil.encode()).entries == []


def test_more_entries_than_the_protocol_allows_are_left_out() -> None:
    many = b"<urlset>" + b"<url><loc>http://e.org/</loc></url>" * (MAX_URLS + 10) + b"</urlset>"
    assert len(read_sitemap(many).entries) == MAX_URLS
    assert len(read_text_sitemap("http://e.org/\n" * (MAX_URLS + 10)).entries) == MAX_URLS


def test_plain_text_is_a_sitemap_only_when_it_is_all_urls() -> None:
    assert [
        link.kind for link in parse(b"http://e.org/1\r\nhttps://e.org/2\n", "text/plain").links
    ] == [LinkKind.SITEMAP] * 2
    prose = parse(b"See http://e.org/1\nand more", "text/plain")
    assert (prose.links, prose.text) == ([], "See http://e.org/1\nand more")


RSS = b"""<rss version="2.0"><channel>
<title>News</title><link>http://e.org/</link><description>All of it</description><language>en-us</language>
<item><title>One  &amp; only</title><link>/1</link><pubDate>Fri, 01 Mar 2024 00:00:00 GMT</pubDate></item>
<item><guid>http://e.org/2</guid></item>
<item><guid isPermaLink="false">id-3</guid></item>
</channel></rss>"""
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><link rel="self" href="/feed"/><link href="/"/>
<entry><title>One</title><link rel="enclosure" href="/1.mp3"/><link rel="alternate" href="/1"/>
<updated>2024-03-01T00:00:00Z</updated></entry></feed>"""


@pytest.mark.parametrize(
    ("body", "media_type", "urls"),
    [(RSS, "application/rss+xml", 3), (ATOM, "application/atom+xml", 2)],
)
def test_feeds_give_the_pages_of_their_entries(body: bytes, media_type: str, urls: int) -> None:
    parsed = parse(body, "text/xml", "http://e.org/feed")
    assert (parsed.media_type, parsed.title, len(parsed.links)) == (media_type, "News", urls)
    assert {(link.url, link.kind) for link in parsed.links} >= {
        ("http://e.org/1", LinkKind.FEED),
        ("http://e.org/", LinkKind.ALTERNATE),
    }
    assert parsed.hints == {"http://e.org/1": (1709251200, -1.0)}


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://other.org/blog/", "http://other.org/blog/1"),
        ("/blog/", "http://e.org/blog/1"),
        ("http://[", "http://e.org/f/1"),
        ("", "http://e.org/f/1"),
    ],
)
def test_references_are_under_the_base_that_the_feed_names(base: str, url: str) -> None:
    """RFC 4287 section 2: ``xml:base`` of the feed, of the entry, or of both."""
    for outer, inner in ((base, ""), ("", base), (base, "")):
        bases = [f' xml:base="{each}"' if each else "" for each in (outer, inner)]
        feed = f'<feed{bases[0]}><entry{bases[1]}><link href="1"/></entry></feed>'
        assert [
            link.url
            for link in parse(feed.encode(), "application/atom+xml", "http://e.org/f/feed").links
        ] == [url]
    both = (
        b'<feed xml:base="http://other.org/a/"><entry xml:base="b/"><link href="1"/></entry></feed>'
    )
    assert [link.url for link in parse(both, "application/atom+xml").links] == [
        "http://other.org/a/b/1"
    ]


def test_a_feed_describes_itself() -> None:
    feed = read_feed(RSS)
    assert (feed.title, feed.description, feed.language, feed.entries[0].title) == (
        "News",
        "All of it",
        "en-us",
        "One & only",
    )


def test_what_a_feed_says_of_itself_is_bounded() -> None:
    fields = (b"title", b"description", b"language")
    body = b"".join(b"<%s>%s</%s>" % (name, b"x " * 9999, name) for name in fields)
    feed = read_feed(b"<rss><channel>%s</channel></rss>" % body)
    assert (len(feed.title), len(feed.description), len(feed.language)) == (2000, 2000, 100)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-02", 86400),
        ("2024", 1704067200),
        ("2024-03", 1709251200),
        ("2024-03-01T12:30+01:00", 1709292600),
        ("2024-03-01T12:30:15.123Z", 1709296215),
        ("2024-13-01", 0),
        ("yesterday", 0),
        ("", 0),
        ("1950-01-01", 0),
    ],
)
def test_w3c_dates(text: str, seconds: int) -> None:
    assert parse_w3c_date(text) == seconds


def test_feed_dates_may_be_rfc_822() -> None:
    assert (
        parse_feed_date("Fri, 01 Mar 2024 01:00:00 +0100")
        == parse_feed_date("2024-03-01")
        == 1709251200
    )
    assert parse_feed_date("Fri, 99 Mar") == 0


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.sampled_from(
            [
                b"<urlset>",
                b"<url>",
                b"<loc>",
                b"http://e.org/&amp;",
                b"</loc>",
                b"</url>",
                b"&",
                b"\xff",
                b"<![CDATA[",
                b"]]>",
                b"<rss>",
                b"<item>",
                b"<link>",
                b"<!--",
                b"\x00",
            ]
        )
    )
)
def test_any_mixture_of_markup_is_read(pieces: list[bytes]) -> None:
    body = b"".join(pieces)
    read_sitemap(body)
    read_feed(body)


# -- plain text


def read_as_sitemap(
    body: bytes, content_type: str = "text/plain", *headers: tuple[str, str], is_cut: bool = False
) -> list[str]:
    """What is listed by a file that was asked for as a sitemap."""
    parser = DocumentParser(
        ParseSection(language=False), Canonicalizer(CanonicalSection()), "lycosa"
    )
    url = "http://example.org/s"
    parsed = parser.parse(
        ParseInput(
            url,
            200,
            [("content-type", content_type), *headers],
            body,
            is_sitemap=True,
            is_cut=is_cut,
        )
    )
    return [link.url.removeprefix("http://example.org/") for link in parsed.links]


@pytest.mark.parametrize(
    "line",
    [
        "# made by hand",
        "",
        "example.org/no-scheme",
        "<!-- x -->",
        "ftp://example.org/f",
        "Sitemap of us",
    ],
)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_line_that_is_no_url_costs_only_itself(line: str, at: int) -> None:
    lines = ["http://example.org/a", "http://example.org/b"]
    lines.insert(at, line)
    assert read_as_sitemap("\n".join(lines).encode()) == ["a", "b"]


def test_text_without_any_url_is_no_sitemap() -> None:
    assert parse(b"not here\nnor here\n", "text/plain").is_sitemap is False
    assert read_as_sitemap(b"not here\nnor here\n") == []


def test_a_text_that_nobody_calls_a_sitemap_must_be_urls_throughout() -> None:
    assert parse(
        b"http://example.org/a\t2024-03-01\nhttp://example.org/b 2024-03-01\n", "text/plain"
    ).is_sitemap
    assert not parse(b"http://example.org/a\nsee also\n", "text/plain").is_sitemap
    assert not parse(b"http://example.org/a is where it was\n", "text/plain").is_sitemap


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("http://example.org/a\t2024-03-01", SitemapEntry("http://example.org/a", 1709251200)),
        (
            "http://example.org/a \t 2024-03-01T01:00:00+01:00\tweekly",
            SitemapEntry("http://example.org/a", 1709251200),
        ),
        ("http://example.org/a\tyesterday", SitemapEntry("http://example.org/a")),
        ("http://example.org/a\t", SitemapEntry("http://example.org/a")),
        ("http://example.org/a 2024-03-01", SitemapEntry("http://example.org/a", 1709251200)),
        (
            "http://example.org/a  2024-03-01 00:00",
            SitemapEntry("http://example.org/a", 1709251200),
        ),
        ("http://example.org/a b", SitemapEntry("http://example.org/a b")),
        (
            "\ufeffwww.example.org/a\t2024-03-01\r",
            SitemapEntry("http://www.example.org/a", 1709251200),
        ),
    ],
)
def test_a_date_may_stand_behind_the_url(line: str, entry: SitemapEntry) -> None:
    assert read_text_sitemap(line + "\n").entries == [entry]


# -- files that are cut


def test_a_url_at_the_end_of_a_text_that_is_cut_is_not_taken() -> None:
    body = b"http://example.org/a\nhttp://example.org/b\nhttp://example.org/long-na"
    assert read_as_sitemap(body) == ["a", "b", "long-na"]
    assert read_as_sitemap(body, is_cut=True) == ["a", "b"]
    assert read_as_sitemap(body + b"me\n", is_cut=True) == ["a", "b", "long-name"]
    packed = gzip.compress(body, mtime=0)
    assert read_as_sitemap(packed, "text/plain", ("content-encoding", "gzip")) == [
        "a",
        "b",
        "long-na",
    ]
    assert read_as_sitemap(packed[:-9], "text/plain", ("content-encoding", "gzip"))[:2] == [
        "a",
        "b",
    ]
    assert "long-na" not in read_as_sitemap(packed[:-9], "text/plain", ("content-encoding", "gzip"))


WHOLE = [f"http://example.org/page/{number}?x={number}&y=%2F" for number in range(8)]
FORMS = {
    "urlset": (
        "<urlset>"
        + "".join(f"<url><loc>{url}</loc><lastmod>2024-03-01</lastmod></url>\n" for url in WHOLE)
        + "</urlset>"
    ),
    "escaped": (
        "<urlset>"
        + "".join(f"<url><loc> {url.replace('&', '&amp;')} </loc></url>" for url in WHOLE)
        + "</urlset>"
    ),
    "cdata": (
        "<urlset>"
        + "".join(f"<url><loc><![CDATA[{url}]]></loc></url>" for url in WHOLE)
        + "</urlset>"
    ),
    "attributes": (
        "<urlset>"
        + "".join(
            f'<url><link href="{url.replace("&", "&amp;")}"/><loc>{WHOLE[0]}</loc></url>'
            for url in WHOLE
        )
        + "</urlset>"
    ),
    "rss": (
        "<rss><channel>"
        + "".join(f"<item><link>{url}</link></item>" for url in WHOLE)
        + "</channel></rss>"
    ),
    "atom": "<feed>" + "".join(f'<entry><link href="{url}"/></entry>' for url in WHOLE) + "</feed>",
}


@pytest.mark.parametrize("form", FORMS)
def test_xml_that_is_cut_anywhere_lists_no_half_urls(form: str) -> None:
    text = FORMS[form].encode()
    wanted = [url.removeprefix("http://example.org/") for url in WHOLE]
    assert sorted(set(read_as_sitemap(text, "application/xml"))) == wanted
    for end in range(len(text)):
        listed = read_as_sitemap(text[:end], "application/xml")
        assert set(listed) <= set(wanted), text[max(0, end - 60) : end]
    assert len(set(read_as_sitemap(text[: text.index(b"page/5")], "application/xml"))) >= 4
