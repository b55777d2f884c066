"""Hostile strings cost the small readers time in proportion to their length: no pattern may try
its choices again and again.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from costs import run_below
from lycosa.base.urls.link_header import parse_link_header
from lycosa.stages.parse.directives import read_directives
from lycosa.stages.parse.markup_values import parse_refresh, srcset_urls
from lycosa.stages.parse.media_type import media_type_of, parse_media_type, root_name
from lycosa.stages.parse.sitemap import read_sitemap

MANY = 20_000
PIECES = [
    " ",
    ";",
    ",",
    '"',
    '\\"',
    '"\\',
    "<",
    "; a",
    "; a = ",
    "=",
    ";a=b",
    "max-",
    ":",
    "1",
    ".",
    "'",
    "(",
    ") ",
    "a (",
    "a ,",
    "max-a :",
    "<x>",
]
READERS: dict[str, Callable[[str], object]] = {
    "directives": lambda text: read_directives([("robots", text)], [text], "lycosa"),
    "link_header": lambda text: parse_link_header(f"<x>{text}\x01"),
    "media_type": lambda text: (
        parse_media_type(f"a/b;{text}"),
        media_type_of([("content-type", text)]),
    ),
    "refresh": lambda text: (parse_refresh(text), parse_refresh(f"1;url={text}")),
    "srcset": lambda text: (srcset_urls(text), srcset_urls(f"a {text}y")),
}


@pytest.mark.parametrize("reader", READERS)
def test_repetition_is_read_in_proportion(reader: str) -> None:
    for piece in PIECES:
        text = piece * MANY
        run_below(1000, lambda: READERS[reader](text))  # noqa: B023 (called at once)


@pytest.mark.parametrize(
    "piece",
    [
        b"<?a?>",
        b"<!--a-->",
        b"<!DOCTYPE a []>",
        b"<!DOCTYPE ",
        b"<!DOCTYPE a [",
        b"] ",
        b"<?a",
        b" ",
    ],
)
def test_prologs_are_read_in_proportion(piece: bytes) -> None:
    beginning = (piece * MANY)[:8192]
    assert run_below(1000, lambda: root_name(beginning)) == ""


@pytest.mark.parametrize(
    "piece", [b"&", b"<![CDATA[", b"<![CDATA[&]]>", b"&a", b"<url>", b"<url><loc>a</loc>", b"<loc>"]
)
def test_sitemaps_are_read_in_proportion(piece: bytes) -> None:
    body = b"<urlset>&" + piece * MANY
    run_below(2000, lambda: read_sitemap(body))
