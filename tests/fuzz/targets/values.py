"""Header values and attributes: each small parser on the same text."""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.judging import vectors
from lycosa.base.model.fetched import FetchRequest
from lycosa.base.urls.link_header import parse_link_header
from lycosa.stages.fetch.headers import build_user_agent, email_of, request_lines
from lycosa.stages.fetch.headers import request_target as origin_form
from lycosa.stages.fetch.server_clocks import date_seconds
from lycosa.stages.parse.charset import charset_name, decode_text
from lycosa.stages.parse.directives import read_directives
from lycosa.stages.parse.language import primary_subtag
from lycosa.stages.parse.markup_values import parse_refresh, srcset_urls
from lycosa.stages.parse.media_type import media_type_of, parse_media_type, root_name, sniff
from lycosa.stages.parse.sitemap import parse_w3c_date
from lycosa.stages.parse.syndication_feed import parse_feed_date
from lycosa.stages.politeness.delay import LONGEST_RETRY_AFTER_S, parse_retry_after

_NOW = 1_790_000_000.0
_LAST_YEAR = 253_402_300_800 + 86_400  # the first second of the year 10000, and the widest zone
_BLANKS = " \t\n\f\r"

WORDS = (
    *(
        "text/html;charset=",
        "1e400x",
        '"\\',
        "<x>; rel=",
        'rel="next canonical"',
        "; anchor=",
        "0;url='",
        "url =",
        "noindex",
        "unavailable_after:",
    ),
    *(
        "max-snippet:-1",
        "googlebot:",
        "lycosa:",
        "none",
        "1.5x",
        "100w",
        "50h",
        "Sun, 06 Nov 1994 08:49:37 GMT",
    ),
    *(
        "2024-02-30T10:00:00+23:59",
        "-0x",
        ",,",
        "(",
        ")",
        "*/*",
        "<?xml ",
        "<!DOCTYPE ",
        "<rss",
        "\ufeff",
        "999999999999",
        "Sunday, 06-Nov-94 08:49:37 GMT",
    ),
)


def check(data: bytes) -> None:
    text = data.decode("latin-1" if len(data) % 2 else "utf-8", "replace")
    _media_types(text)
    for target, relations, loaded_as, imagesrcset, of_type in parse_link_header(text):
        assert relations and target in text and loaded_as in text and imagesrcset in text
        assert of_type in text
    refresh = parse_refresh(text)
    assert refresh is None or (
        0 <= refresh[0] < 10**9 and refresh[1] in text and refresh[1] == refresh[1].strip(_BLANKS)
    )
    urls = srcset_urls(text)
    assert sum(map(len, urls)) <= len(text)
    assert all(
        url in text and url and not set(url) & set(_BLANKS) and url[-1] != "," for url in urls
    )
    _directives(text)
    for moment in (parse_w3c_date(text), parse_feed_date(text)):
        assert 0 <= moment < _LAST_YEAR
    wait_s = parse_retry_after(text, _NOW)
    assert wait_s is None or 0 <= wait_s <= LONGEST_RETRY_AFTER_S
    date = date_seconds(text)
    assert date is None or 0 <= date < _LAST_YEAR
    _charsets(data, text)
    sniff("", data)
    assert root_name(data) == root_name(data).lower()
    assert len(primary_subtag(text)) in (0, 2)
    for line in request_lines([], FetchRequest("http://a/", "", etag=text, last_modified=text)):
        assert b"\n" not in line and b"\r" not in line
    assert origin_form(text).startswith("/")
    email_of(text)
    try:
        assert build_user_agent("lycosa", "1", text).isprintable()
    except ValueError as error:
        assert "contact" in str(error)


def _media_types(text: str) -> None:
    found = parse_media_type(text)
    assert found is None or parse_media_type(str(found)) == found
    combined = media_type_of([("content-type", text), ("content-type", "text/html")])
    # a quoted string that is not closed contains the next field
    assert '"' in text or (combined is not None and combined.essence == "text/html")


def _directives(text: str) -> None:
    strict = read_directives([("robots", text)], [text], "lycosa")
    if text.upper().lower() == text.lower():
        assert strict == read_directives([("ROBOTS ", text.upper())], [text], "Lycosa")
    more = read_directives([("robots", text), ("lycosa", "noindex")], [text], "lycosa")
    assert more.noindex and more.nofollow == strict.nofollow and more.noarchive == strict.noarchive


def _charsets(data: bytes, text: str) -> None:
    named = charset_name(text[:100])
    assert named is None or charset_name(named) is not None
    for label in (None, text[:100], "utf-16", "iso-2022-jp"):
        decoded, charset = decode_text(data, label)
        assert charset and charset == charset.lower()
        decoded.encode()  # no lone surrogates


def samples() -> Iterator[bytes]:
    yield b'text/html; charset="ut\\f-8"; x=y'
    yield b'<http://a/b,c>; rel="canonical next"; title="x, y"; anchor=z, <d>;rel=alternate'
    yield b"5; URL='http://a/b c'"
    yield b"a,b 1x, c 2.5x 100w, d(e,f) 50h, data:,g"
    yield (
        b"googlebot: noindex, max-snippet: 5, unavailable_after: 25 Jun 2030 15:00:00 PST, lycosa:"
        b" none"
    )
    yield b"Sun, 06 Nov 1994 08:49:37 GMT"
    yield b"2024-02-29T23:59:60.5+05:30"
    yield b"-120.5"
    yield b"\xef\xbb\xbf<?xml version='1.0'?><!DOCTYPE rss [<!ENTITY a 'b'>]><!-- c --><rss:feed>"
    yield "\u65e5\u672c\u8a9e \u30c6\u30ad\u30b9\u30c8".encode("euc-jp")
    yield from vectors("html/wpt-srcset.json", "srcset")
    yield from vectors("html/wpt-meta-refresh.json", "content")
    yield from vectors("html/wpt-mime-types.json", "input")
