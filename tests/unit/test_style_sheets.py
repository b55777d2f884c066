"""What a style sheet loads, clause by clause, and what a hostile one costs."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.model.discovered import LinkKind
from lycosa.stages.parse.style_sheets import MAX_STYLE_BYTES, read_style_file, style_urls

IMG, STYLE = LinkKind.IMG, LinkKind.STYLE


@pytest.mark.parametrize(
    ("sheet", "loaded"),
    [
        # CSS Values 4.5: a URL token, url() with a string, src()
        ("a{b:url(c.png)}", [("c.png", IMG)]),
        ("a{b:url( 'c d.png' )}", [("c d.png", IMG)]),
        ('a{b:url("c.png" x-modifier)}', [("c.png", IMG)]),
        ("a{b:src('c.png')}", [("c.png", IMG)]),
        ("a{b:URL(c.png),x url(d.png)}", [("c.png", IMG), ("d.png", IMG)]),
        # CSS Syntax 4.3.7: escapes, also in the name of the function
        ("a{b:\\75 rl(c\\29 .png)}", [("c).png", IMG)]),
        # CSS Cascade 5, 3: imports, with layers and conditions
        ("@import 'a.css';@import url(b.css) layer(x) supports(c: url(no)) print;", None),
        ('@IMPORT"a.css"', [("a.css", STYLE)]),
        ("@media print{a{b:url(c)}}", [("c", IMG)]),
        # CSS Fonts 4, 4.3
        (
            "@font-face{font-family:f;src:url(f.woff2) format('woff2'),url(f.ttf)}a{b:url(c)}",
            [("f.woff2", STYLE), ("f.ttf", STYLE), ("c", IMG)],
        ),
        # CSS Images 4, 2: strings in image-set, but not those of type()
        (
            "a{b:image-set('c.avif' type('image/avif') 1x, url(d.png) 2x)}",
            [("c.avif", IMG), ("d.png", IMG)],
        ),
        ("a{b:-webkit-image-set('c' 1x)}", [("c", IMG)]),
        # what loads nothing
        ("@namespace svg url(http://www.w3.org/2000/svg);a{b:url(c)}", [("c", IMG)]),
        ("a{fill:url(#p);b:url();c:url('');d:url(data:image/gif;base64,AA)}", []),
        ("/* url(c) @import 'd' */ a{content:'url(e)'}", []),
        ("a{b:url(c", [("c", IMG)]),
        ("", []),
    ],
)
def test_a_sheet_loads(sheet: str, loaded: list[tuple[str, LinkKind]] | None) -> None:
    if loaded is None:
        assert style_urls(sheet)[:2] == [("a.css", STYLE), ("b.css", STYLE)]
    else:
        assert style_urls(sheet) == loaded


@pytest.mark.parametrize(
    ("body", "label", "charset", "url"),
    [
        (b"\xef\xbb\xbfa{b:url(\xc3\xa4)}", "latin-1", "utf-8", "ä"),
        (b"a{b:url(\xe4)}", "iso-8859-1", "windows-1252", "ä"),
        (b'@charset "koi8-r";a{b:url(\xc1)}', None, "koi8-r", "а"),
        (b"a{b:url(\xc3\xa4)}", None, "utf-8", "ä"),
        (b"a{b:url(x)}", "no-such-charset", "utf-8", "x"),
    ],
)
def test_the_charset_of_a_sheet(body: bytes, label: str | None, charset: str, url: str) -> None:
    assert read_style_file(body, label) == (charset, [(url, IMG)])


@pytest.mark.parametrize(
    "piece",
    ["a{b:url(x)}", "((((((((((", "@import ", "url(", '"\\', "\\", "/*", "@font-face{", "[{("],
)
def test_a_hostile_sheet_costs_its_size(piece: str) -> None:
    started = time.process_time()
    style_urls((piece * MAX_STYLE_BYTES)[:300_000])
    assert time.process_time() - started < 5


@given(st.lists(st.sampled_from(["url(", ")", "'x'", '"', "@import", " ", ";", "{", "}", "image-set(", "\\", "a"]), max_size=40))  # fmt: skip
def test_any_sheet_gives_urls_that_it_has(pieces: list[str]) -> None:
    sheet = "".join(pieces)
    assert all(url and not url.startswith("#") for url, _ in style_urls(sheet))
