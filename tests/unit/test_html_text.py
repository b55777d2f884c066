"""Visible text, title, description, language and directives of pages; and that no bytes make the
parser fail.
"""

from __future__ import annotations

import gzip
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costs import run_below
from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.parsed import Directives, Parsed, ParseInput
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Canonicalizer
from lycosa.stages.parse.document import DocumentParser
from lycosa.stages.parse.language import LanguageGuesser, primary_subtag

URL = "http://example.org/"
PARSER = DocumentParser(ParseSection(language=False), Canonicalizer(CanonicalSection()), "lycosa")


def parse(
    body: str | bytes, *headers: tuple[str, str], content_type: str = "text/html; charset=utf-8"
) -> Parsed:
    return PARSER.parse(
        ParseInput(
            URL,
            200,
            [("content-type", content_type), *headers],
            body.encode() if isinstance(body, str) else body,
        )
    )


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>One  <b>t</b>wo\n three<p>four", "One two three\nfour"),
        ("<div>a<div>b</div>c</div>d", "a\nb\nc\nd"),
        ("<span><p>a</p></span>b", "a\nb"),
        ("<a><h3>a</h3></a><span>b</span>c", "a\nbc"),
        ("a<br>b<hr>c", "a\nb\nc"),
        ("<ul><li>a<li>b</ul><ol><li>c</ol>", "a\nb\nc"),
        ("<table><tr><td>a<td>b<tr><th>c</table>", "a\nb\nc"),
        ("<select><option>a<option>b</select><button>c</button>d", "a\nb\nc\nd"),
        ("<pre>a  b\n  c</pre>", "a b\nc"),
        ("a<script>x</script><style>y</style><template>z</template><noscript>n</noscript>b", "ab"),
        # In each of these a browser with scripts ends the noscript at its end tag.
        *(
            (f"<title>t</title><body>a<noscript>{inner}</noscript><p>b", "a\nb")
            for inner in (
                "<div>",
                "<p>Enable scripts.",
                "<table>",
                "<!-- ",
                "<a title='",
                "<div></div>",
            )
        ),
        ("<head><noscript><img src=x></noscript><title>t</title></head><body>b", "b"),
        ("a<noscript>b", "a"),
        ("a<script type=application/ld+json>{}</script>", "a"),
        (
            (
                "<p hidden>x</p><div style='color:red; DISPLAY:"
                " none'>y</div><dialog>z</dialog><dialog open>a</dialog>"
            ),
            "a",
        ),
        ("<title>t</title>body", "body"),
        ("a&nbsp;&nbsp;b", "a b"),
        ("<blockquote><blockquote>a</blockquote></blockquote>", "a"),
        ("", ""),
    ],
)
def test_visible_text(html: str, text: str) -> None:
    assert parse(html).text == text


def test_text_has_a_maximum() -> None:
    parser = DocumentParser(
        ParseSection(language=False, max_text=10), Canonicalizer(CanonicalSection()), "lycosa"
    )
    assert (
        parser.parse(
            ParseInput(URL, 200, [("content-type", "text/html")], b"<p>0123456789abc")
        ).text
        == "0123456789"
    )


def test_title_and_description_are_folded() -> None:
    parsed = parse(
        "<title> A\n &amp;  b </title><title>no</title><meta name=Description content=' c\n d"
        " '><svg><title>s</title></svg>"
    )
    assert (parsed.title, parsed.description) == ("A & b", "c d")


def test_canonical_is_resolved() -> None:
    assert (
        parse("<base href=/x/><link rel=canonical href=y#f><link rel=canonical href=z>").canonical
        == "http://example.org/x/y"
    )
    assert parse("<link rel=canonical href='mailto:x'>").canonical == ""


def test_directives_of_page_and_header_are_merged() -> None:
    parsed = parse(
        "<meta name=robots content=noindex>",
        ("x-robots-tag", "otherbot: noarchive"),
        ("x-robots-tag", "nofollow"),
    )
    assert parsed.directives == Directives(noindex=True, nofollow=True)
    assert parse("<!-- <meta name=robots content=noindex> -->").directives == Directives()


class FixedIdentifier:
    """Always the same answer."""

    def __init__(self, code: str, certainty: float) -> None:
        self.code, self.certainty = code, certainty

    def classify(self, text: str) -> tuple[str, float]:
        return self.code, self.certainty


LONG = "long enough a text to be looked at by the identifier " * 4


@pytest.mark.parametrize(
    ("text", "hint", "answer", "language"),
    [
        (LONG, "en", ("de", 0.99), "de"),
        (LONG, "en-GB", ("de", 0.5), "en"),
        (LONG, "", ("de", 0.5), "de"),
        ("short", "fr_FR", ("de", 0.99), "fr"),
        ("short", "", ("de", 0.99), ""),
    ],
)
def test_language_by_text_and_hint(
    text: str, hint: str, answer: tuple[str, float], language: str
) -> None:
    assert LanguageGuesser(FixedIdentifier(*answer)).guess(text, hint)[0] == language


SIGNS = "\u691c\u7d22\u7d50\u679c\u306e\u4e00\u89a7\u3092\u8868\u793a\u3059\u308b " * 5


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (
            "The spider hunts at night, and none of the webs that it has built are for its prey.",
            "en",
        ),
        (
            (
                "THE SPIDER HUNTS AT NIGHT, AND NONE OF THE WEBS THAT IT BUILDS ARE FOR ITS PREY,"
                " SAYS THE BOOK"
            ),
            "en",
        ),
        # few small words
        (
            (
                "the spider hunts at night, its eyes shine in torch light: a long enough text to be"
                " identified"
            ),
            "de",
        ),
        # another script with English in between
        (
            f"the list of all and for this that {SIGNS}",
            "de",
        ),
        (
            (
                "Den for and i af og til har vi her at det er godt for os alle sammen her i haven i"
                " aften"
            ),
            "de",
        ),
    ],
)
def test_only_texts_full_of_small_english_words_are_english_without_the_model(
    text: str, language: str
) -> None:
    assert LanguageGuesser(FixedIdentifier("de", 0.99)).guess(text, "")[0] == language


@pytest.mark.parametrize(
    ("tag", "code"), [("EN-us", "en"), ("x-klingon", ""), ("deu", ""), ("", ""), (" de ", "de")]
)
def test_primary_subtag(tag: str, code: str) -> None:
    assert primary_subtag(tag) == code


def test_language_is_found_in_real_sentences() -> None:
    guesser = LanguageGuesser()
    german = (
        "Die Spinne jagt in der Nacht und baut kein Netz, sondern lauert am Boden auf ihre Beute.\n"
    )
    french = (
        "L'araignée chasse la nuit et ne construit pas de toile, elle guette sa proie au sol.\n"
    )
    for text, hint, language in ((german, "en", "de"), (french, "", "fr")):
        found, certainty = guesser.guess(text * 3, hint)
        assert found == language and 0.9 < certainty <= 1


@pytest.mark.parametrize(
    ("content_type", "body", "media_type", "reason"),
    [
        ("text/html", b"x", "text/html", Reason.NONE),
        ("application/xhtml+xml", b"<html/>", "application/xhtml+xml", Reason.NONE),
        ("", b"  <!DOCTYPE html><p>", "text/html", Reason.NONE),
        ("", b"just words", "text/plain", Reason.NONE),
        ("", b"%PDF-1.4", "application/pdf", Reason.CONTENT_TYPE),
        ("", b"\x00\x01\x02", "application/octet-stream", Reason.CONTENT_TYPE),
        ("text/plain", b"<html><a href=x>", "text/plain", Reason.NONE),
        ("text/plain", b"\x00\x01", "application/octet-stream", Reason.CONTENT_TYPE),
        (
            "application/xml",
            b"<html xmlns='x'><a href='y'>z</a></html>",
            "application/xhtml+xml",
            Reason.NONE,
        ),
        ("application/xml", b"<other/>", "application/xml", Reason.CONTENT_TYPE),
        (
            "text/html",
            b"<?xml version='1.0'?><rss><channel/></rss>",
            "application/rss+xml",
            Reason.NONE,
        ),
        ("image/png", b"\x89PNG", "image/png", Reason.CONTENT_TYPE),
        ("text/html", b"", "text/html", Reason.NONE),
    ],
)
def test_media_types(content_type: str, body: bytes, media_type: str, reason: Reason) -> None:
    headers = [("content-type", content_type)] if content_type else []
    parsed = PARSER.parse(ParseInput(URL, 200, headers, body))
    assert (parsed.media_type, parsed.reason) == (media_type, reason)


def _box(size: int, *brands: bytes) -> bytes:
    return size.to_bytes(4, "big") + b"ftyp" + b"".join(brands)


MP4, MP4_LATER = _box(16, b"mp42", b"\0\0\0\0"), _box(24, b"isom", b"\0\0\2\0", b"isommp41")
WEBM = b"\x1a\x45\xdf\xa3\x9fB\x86\x81\x01B\xf7\x81\x01B\x82\x84webmB\x87\x81\x04"


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        # MIME Sniffing 6.1, images
        (b"\0\0\1\0\1\0", "image/x-icon"),
        (b"\0\0\2\0\1\0", "image/x-icon"),
        (b"BM6\0\0\0\0\0", "image/bmp"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a\1\0", "image/gif"),
        (b"RIFF\x1a\0\0\0WEBPVP8 ", "image/webp"),
        (b"\x89PNG\r\n\x1a\n\0", "image/png"),
        (b"\xff\xd8\xff\xe0\0", "image/jpeg"),
        # 6.2, sound and films
        (b"FORM\0\0\0\0AIFF", "audio/aiff"),
        (b"ID3\x04\0\0", "audio/mpeg"),
        (b"OggS\0", "application/ogg"),
        (b"MThd\0\0\0\6\0", "audio/midi"),
        (b"RIFF\0\0\0\0AVI LIST", "video/avi"),
        (b"RIFF\0\0\0\0WAVE", "audio/wave"),
        (MP4 + b"\0\0", "video/mp4"),  # 6.2.1
        (MP4_LATER, "video/mp4"),
        (MP4[:-1], "application/octet-stream"),  # shorter than its box
        (_box(18, b"mp42", b"\0\0\0\0\0\0"), "application/octet-stream"),  # no multiple of four
        (_box(24, b"isom", b"mp41", b"isomiso2"), "application/octet-stream"),  # the version
        (WEBM, "video/webm"),  # 6.2.2
        (WEBM.replace(b"\x84webm", b"\x40\x06\0\0webm"), "video/webm"),
        (WEBM.replace(b"webm", b"matr"), "application/octet-stream"),  # Matroska
        # 6.4, archives
        (b"PK\3\4", "application/zip"),
        (b"Rar!\x1a\x07\0", "application/x-rar-compressed"),
        (b"Rar!\x1a\x07\1\0", "application/x-rar-compressed"),
        # 6.3, fonts
        (b"wOFF\0", "font/woff"),
        (b"wOF2\0", "font/woff2"),
        # 7.1: what begins alike
        (b"RIFF\0\0\0\0CDDA", "application/octet-stream"),
        (b"RIFF\0\0\0\0WEBP", "application/octet-stream"),
        (b"GIF88a\0", "application/octet-stream"),
        (b"BMW builds cars", "text/plain"),
        (b"ID3 is a kind of tag", "text/plain"),
        (b"<HTML", "text/plain"),  # cut, so no tag
        (b"<html>", "text/html"),
        (b"<rss", "text/plain"),
        (b"<rss>", "application/rss+xml"),
        (b"<?xml version='1.0'?><feed", "text/xml"),
        (b"%!PS-Adobe-3.0", "application/postscript"),
    ],
)
def test_a_body_without_a_type_is_known_by_its_first_bytes(body: bytes, media_type: str) -> None:
    parsed = PARSER.parse(ParseInput(URL, 200, [], body))
    assert parsed.media_type == media_type


@pytest.mark.parametrize(
    ("values", "media_type", "charset"),
    [
        # Fetch standard, "extract a MIME type" and "get, decode, and split"; from WPT fetch/content-type
        (('text/html;x="', "text/plain"), "text/html", "utf-8"),
        (('text/html;" "', "text/plain;charset=gbk"), "text/plain", "gbk"),
        (("text/html;charset=gbk", "text/html"), "text/html", "gbk"),
        (("text/html;charset=gbk", "text/plain", "text/html"), "text/html", "utf-8"),
        (("text/html", "*/*"), "text/html", "utf-8"),
        (("text/html;charset=gbk", "*/*;charset=utf-8"), "text/html", "gbk"),
        (("text/html, text/plain",), "text/plain", "utf-8"),
        (("text/plain", "x"), "text/plain", "utf-8"),
    ],
)
def test_several_content_types_are_one_list(
    values: tuple[str, ...], media_type: str, charset: str
) -> None:
    headers = [("content-type", value) for value in values]
    parsed = PARSER.parse(ParseInput(URL, 200, headers, "<p>é".encode()))
    assert (parsed.media_type, parsed.charset) == (media_type, charset)


def test_content_encoding_is_undone() -> None:
    parsed = parse(gzip.compress(b"<title>packed</title>"), ("content-encoding", "gzip"))
    assert (parsed.title, parsed.decoded_bytes) == ("packed", 21)


def test_a_body_that_breaks_is_read_as_far_as_it_goes() -> None:
    html = b"<title>packed</title>" + b"".join(b"<p>%d" % number for number in range(20_000))
    parsed = parse(gzip.compress(html)[:-20_000], ("content-encoding", "gzip"))
    assert (parsed.reason, parsed.title) == (Reason.DECODE_FAILED, "packed")
    assert 0 < parsed.decoded_bytes < len(html)


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 100_000,
        "<table><tr><td>" * 5_000 + "x",
        "<table>" + "<tr><td>x<td>y" * 2_000 + "<tr><td>" + "z" * 100_000,
        "<ul><li>x" * 5_000,
        "<blockquote>x" * 5_000,
        "<dl><dd>x" * 5_000,
        "<ol><li>x" * 5_000,
        "<font><p>" * 3_000,
        "<a href=x><table><tr><td>" * 1_000 + "x" * 1_000,
        "<option>" * 20_000,
        "<select>" + "<option>x" * 8_000,
        "<a " + " ".join(f"a{number}" for number in range(20_000)) + ">",
        "<img srcset='" + "a (" * 50_000 + "'>",
        "<svg>" * 20_000,
        "<fieldset><legend>x" * 3_000,
    ],
)
def test_hostile_markup_costs_a_bounded_amount(html: str) -> None:
    parsed = parse(html)
    assert parsed.reason is Reason.NONE
    assert len(parsed.text) <= 2 * len(html) + 10
    assert parsed.elapsed_s < 3.0


PIECES = """<a href=|<base href=|<link rel=canonical href=|<meta name=robots content=|<img srcset=|<table>|<td>|</p>|<b>|</a>|<template>
<svg>|<math>|x|>|'|"|http://[|//|&#0;|&amp|<!--|-->|<![CDATA[|<script>|</script>|<frameset>|<select>| 1x, |é|漢字"""
MARKUP = st.sampled_from(["\x00", *re.split(r"[|\n]", PIECES)])


@settings(deadline=None, max_examples=150)
@given(st.lists(MARKUP, max_size=60))
def test_any_mixture_of_markup_is_parsed(pieces: list[str]) -> None:
    assert parse("".join(pieces)).reason is Reason.NONE


@settings(deadline=None, max_examples=150)
@given(
    st.binary(max_size=500),
    st.sampled_from(
        ["text/html", "text/html; charset=utf-16", "text/xml", "text/plain", "", "application/gzip"]
    ),
)
def test_any_bytes_are_parsed(body: bytes, content_type: str) -> None:
    assert parse(body, content_type=content_type).reason is not Reason.INTERNAL


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["link", "refresh", "x-robots-tag", "content-type", "content-encoding"]
            ),
            st.text(max_size=60),
        )
    )
)
def test_any_headers_are_parsed(headers: list[tuple[str, str]]) -> None:
    assert PARSER.parse(ParseInput(URL, 200, headers, b"<p>x")).reason is not Reason.INTERNAL


@pytest.mark.parametrize(
    "content",
    ["<a href={}>", "<div class={}>", "<!-- ={}", "<a title='{}=", "<table><a href={}>"],
)
def test_many_noscript_elements_cost_in_proportion_and_hide_nothing(content: str) -> None:
    number = 40_000
    noscripts = "".join(f"<noscript>{content.format(each)}</noscript>" for each in range(number))
    body = f"<body>{noscripts}<a href=last>last</a>"
    parsed = run_below(4000, lambda: parse(body))
    assert parsed.text == "last"
    assert f"{URL}last" in [link.url for link in parsed.links]


def test_each_of_a_thousand_noscript_elements_is_read() -> None:
    noscripts = "".join(f"<noscript><a href={n}><!-- </noscript>" for n in range(1000))
    assert len(parse(noscripts).links) == 1000


def test_text_in_shadow_roots_is_text_and_that_in_other_templates_is_not() -> None:
    """HTML standard 4.12.3; so are documents written whose components a browser has drawn."""
    inner = "<x-b><template shadowrootmode=closed><p>two</p></template></x-b>"
    page = f"<x-a><template shadowrootmode=open><style>p{{}}</style>one{inner}<i><slot></i></template>three</x-a>"
    assert parse(f"<body>{page}<template>four</template>").text == "one\ntwo\nthree"
    # without a slot the component's own children are not shown; their links are in the document
    hidden = parse(f"<body>{page.replace('<slot>', '')}<x-a>").text
    assert hidden == "one\ntwo"
