"""Links, bases and metas of pages are what html5lib and lexbor find in them: real pages, nasty
ones, and random tag soup.

``script/prove links`` does the same with every page of Debian's documentation, a hundred times as
many.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from html_pages import ENCODED, NASTY, soup
from html_trees import differences, is_beyond_turbohtml, of_page
from lycosa.stages.parse.charset import decode_whatwg
from lycosa.stages.parse.html import read_html
from proofs.links import pages_of_debian

DATA = Path(__file__).parents[2].parent / "shared" / "data"
SAMPLE = 120
SHORT = 100_000  # bytes

_ISINDEX = "html5lib 1.1 makes a form of <isindex>, which the standard dropped in 2016"
_OLD = (
    "html5lib 1.1 is of 2020: it has no <template>, which here makes another tree of what follows"
)
_SELECT = (
    "html5lib 1.1 is of 2020: since then the standard keeps other elements in a <select> instead of"
    " dropping their tags"
)
NASTY_MISSES: dict[tuple[str, str], str] = {
    ("misnested: isindex", "html5lib"): _ISINDEX,
    ("table: select in a table", "html5lib"): _SELECT,
    ("table: style and template in a table", "html5lib"): _OLD,
    ("hidden: template unclosed", "html5lib"): _OLD,
}
SHARED_MISSES = {("tree <isindex nam", "html5lib"): _ISINDEX}


def report(
    name: str, pages: Iterable[tuple[str, str, bytes | str]], misses: dict[tuple[str, str], str]
) -> None:
    """``pages`` are (case, text, what our reader gets). Each difference must be listed with its
    reason, and each listed one must be one.
    """
    found: dict[tuple[str, str], str] = {}
    cases, links = 0, 0
    for case, text, body in pages:
        page = read_html(body)
        cases, links = cases + 1, links + len(page.links)
        found.update({(case, parser): told for parser, told in differences(page, text).items()})
    print(f"{name}: passed {cases - len({case for case, _ in found})} of {cases}")
    for case, parser in sorted(found.keys() & misses.keys()):
        print(f"  {case}: {misses[case, parser]}")
    print(f"links by three parsers, {name}: {cases} pages, {links} links, differ {len(found)}")
    unlisted = {case: told for case, told in found.items() if case not in misses}
    assert not unlisted, "\n".join(f"{case}: {told}" for case, told in unlisted.items())
    assert not misses.keys() - found.keys(), "listed differences that are none"
    assert links > cases / 2


def _decoded(body: bytes) -> str:
    """As our reader decodes; which encoding it takes is held against other vectors, and below."""
    return decode_whatwg(body, read_html(body).charset).lstrip("\ufeff")


def test_nasty_pages() -> None:
    report("nasty pages", ((name, html, html) for name, html in NASTY.items()), NASTY_MISSES)


@pytest.mark.parametrize("name", NASTY)
def test_a_page_says_the_same_as_bytes_and_as_text(name: str) -> None:
    html = NASTY[name]
    assert of_page(read_html(html.encode(), "utf-8")) == of_page(read_html(html))


def test_encodings_decide_what_is_markup() -> None:
    report(
        "encoded pages",
        (
            (name, body.decode(codec, "replace").lstrip("\ufeff"), body)
            for name, (body, codec) in ENCODED.items()
        ),
        {},
    )


def test_documentation_that_others_wrote() -> None:
    pages = pages_of_debian()
    if not pages:
        pytest.skip("Debian's documentation packages are not installed")
    sample = Random(1).sample(pages, min(SAMPLE, len(pages)))
    bodies = [(path, body) for path in sample if len(body := path.read_bytes()) < SHORT]
    report(
        "Debian's documentation", ((str(path), _decoded(body), body) for path, body in bodies), {}
    )


def _shared_pages() -> Iterator[tuple[str, bytes]]:
    """Every page that stands in the vectors, whatever they are for."""
    for line in (DATA / "html" / "tree-construction-links.jsonl").read_text().splitlines():
        html = json.loads(line)["html"]
        yield f"tree {html[:12]}", html.encode()
    for number, line in enumerate(
        (DATA / "html" / "encoding-sniffing.jsonl").read_text().splitlines()
    ):
        yield f"encoding {number}", base64.b64decode(json.loads(line)["data_b64"])
    for number, line in enumerate(
        (DATA / "html" / "scrapy-linkextractor.jsonl").read_text().splitlines()
    ):
        yield f"scrapy {number}", base64.b64decode(json.loads(line)["body_b64"])
    for number, line in enumerate((DATA / "html" / "meta-robots.jsonl").read_text().splitlines()):
        yield f"robots {number}", json.loads(line)["html"].encode()
    for number, line in enumerate(
        (DATA / "html" / "w3lib-encoding-base-refresh.jsonl").read_text().splitlines()
    ):
        yield from (
            (f"w3lib {number}", body)
            for body in map(_bytes, json.loads(line)["args"])
            if b"<" in body
        )
    for path in (DATA / "http" / "compressed").glob("*.gz"):
        yield path.name, _unpacked(path)
    with (DATA / "warc" / "example.warc.gz").open("rb") as file:
        yield from (
            (record.rec_headers["WARC-Record-ID"], record.content_stream().read())
            for record in ArchiveIterator(file)
        )


def _bytes(value: Any) -> bytes:
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else str(value).encode()


def _unpacked(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes())
    except (EOFError, gzip.BadGzipFile):
        return b""


@pytest.mark.shared_data
@pytest.mark.skipif(not DATA.is_dir(), reason="no conformance vectors beside the checkout")
def test_pages_of_the_vectors() -> None:
    report(
        "pages of all vectors",
        ((name, _decoded(body), body) for name, body in _shared_pages()),
        SHARED_MISSES,
    )


@settings(deadline=None, max_examples=400)
@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_any_soup_of_tags_gives_the_links_that_lexbor_gives(random: Random, pieces: int) -> None:
    html = soup(random, pieces)
    assume(not is_beyond_turbohtml(html))
    assert differences(read_html(html), html, html5lib_too=False) == {}
