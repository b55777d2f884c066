"""The main content of pages: what is kept, what is left out, its Markdown and its metadata."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.page_content import Alternate, Heading, PageContent
from lycosa.base.model.parsed import ParseInput
from lycosa.base.urls.identity import Canonicalizer
from lycosa.stages.parse.content_reader import find_lines
from lycosa.stages.parse.document import DocumentParser
from lycosa.stages.parse.page_metadata import iso_date

URL = "https://news.example/2026/story.html"
PARSER = DocumentParser(ParseSection(), Canonicalizer(CanonicalSection()), "lycosa", True)
ONE = "The council decided on Tuesday to rebuild the old bridge over the river."
TWO = "Work begins in spring and takes two years, said the engineer in charge."
THREE = "Until then a ferry carries pedestrians and bicycles every ten minutes."
STORY = f"<h1>A bridge</h1><p>{ONE}</p><p>{TWO}</p><p>{THREE}</p>"
KEPT = ["A bridge", ONE, TWO, THREE]


def read(body: str, head: str = "") -> tuple[PageContent, list[str]]:
    """The content and the lines of its main text."""
    html = f"<!doctype html><html><head>{head}</head><body>{body}</body></html>".encode()
    parsed = PARSER.parse(
        ParseInput(URL, 200, [("content-type", "text/html; charset=utf-8")], html)
    )
    assert parsed.content is not None
    return parsed.content, parsed.content.main_text(parsed.text).split("\n")


@pytest.mark.parametrize(
    "around",
    [
        "{story}",
        "<nav><a href=/a>News</a> <a href=/b>Sport</a></nav><article>{story}</article>",
        "<div class=content>{story}</div><div class='sidebar'><p>" + 3 * "Buy this now, it is a good thing to have at home. " + "</p></div>",
        "<main>{story}<aside><p>Another story that has nothing to do with the bridge at all.</p></aside></main>",
        "<form id=aspnet>{story}</form><footer><p>All rights reserved by the publisher of this site.</p></footer>",
        "<div class='page-sidebar-wrapper widget'>{story}</div>",
        "<article class='post-7 tag-comments category-share'>{story}</article><div id=comments><p>" + 4 * "I do not believe that this bridge is needed by anyone. " + "</p></div>",
        "<div>{story}</div><div style='display: none'><p>You have cookies turned off, so this is here for you.</p></div>",
        "<div>{story}</div><ul class=list><li><a href=/1>Older story about a road</a></li><li><a href=/2>One about a harbour</a></li></ul>",
        "<table><tr><td width=20%><a href=/a>Home</a><br><a href=/b>About us</a></td><td>{story}</td></tr></table>",
    ],
)  # fmt: skip
def test_the_story_is_found_and_nothing_else(around: str) -> None:
    content, lines = read(around.replace("{story}", STORY))
    assert lines == KEPT
    assert content.headings == (Heading(1, "A bridge"),)
    assert content.markdown.splitlines()[0] == "# A bridge"


def test_an_introduction_above_the_content_belongs_to_it() -> None:
    lead = "A bridge that has stood for a hundred years will be replaced, and the town will have a ferry for two years."
    body = f"<div><h1>A bridge</h1><p>{lead}</p></div><div><p>{ONE}</p><p>{TWO}</p><p>{THREE}</p></div>"
    assert read(f"<div class=a>{body}</div>")[1][-4:] == [lead, ONE, TWO, THREE]


@pytest.mark.parametrize(
    "body", ["", "<p></p>", "<nav><a href=/>Home</a></nav>", "<script>x</script>"]
)
def test_a_page_without_text_has_no_main_content(body: str) -> None:
    content, lines = read(body)
    assert lines == [""] and content.markdown == "" and content.headings == ()


def test_markdown_has_the_structure_of_the_page_and_absolute_links() -> None:
    content, _ = read(
        f"<article><h2>Part</h2><p>{ONE} See <a href='../map?a=1#top'>the map</a>, <b>now</b> and"
        f" <code>x*y</code>.</p><ul><li>first thing<ul><li>below it</li></ul></li><li>second</li></ul>"
        f"<pre>def f():\n    return 1\n</pre><blockquote><p>{TWO}</p></blockquote>"
        "<table><tr><th>Year<th>Cost<tr><td>2026<td>3 million</table>"
        f"<p># {THREE}</p><p><a href='javascript:go()'>Then</a> {ONE}</p></article>"
    )
    assert content.markdown.split("\n\n") == [
        "## Part",
        f"{ONE} See [the map](https://news.example/map?a=1#top), **now** and `x*y`.",
        "- first thing\n  - below it\n- second",
        "```\ndef f():\n    return 1\n```",
        f"> {TWO}",
        "| Year | Cost |\n| --- | --- |\n| 2026 | 3 million |",
        f"\\# {THREE}",
        f"Then {ONE}",
    ]


def test_metadata_come_from_what_the_page_states() -> None:
    article = {
        "@context": "https://schema.org",
        "@graph": [
            {"@type": "WebSite", "name": "News"},
            {
                "@type": "NewsArticle",
                "headline": "A bridge",
                "author": [{"@type": "Person", "name": "Jo  Doe"}],
                "datePublished": "2026-05-03T10:00:00+02:00",
                "dateModified": "2026-05-04",
            },
        ],
    }
    content, _ = read(
        STORY
        + "<div itemscope itemtype='https://schema.org/Place'><b itemprop=name>Town</b></div>",
        f"<script type='application/ld+json'>{json.dumps(article)}</script>"
        "<script type='application/ld+json'>{broken</script>"
        "<meta property=og:title content='A bridge'><link rel=alternate hreflang=DE href=/de/b>"
        "<link rel=alternate hreflang=fr href='javascript:x'>",
    )
    assert content.author == "Jo Doe"
    assert (content.published, content.modified) == ("2026-05-03T10:00:00+02:00", "2026-05-04")
    assert content.alternates == (Alternate("de", "https://news.example/de/b"),)
    structured = json.loads(content.structured)
    assert structured["json_ld"] == [article]
    assert structured["opengraph"] == {"og:title": "A bridge"}
    assert structured["microdata"][0]["properties"] == {"name": ["Town"]}


@pytest.mark.parametrize(
    ("head", "author", "published"),
    [
        ("<meta name=author content='Ann B'><meta name=date content=2020-02-03>", "Ann B", "2020-02-03"),
        ("<meta property=article:published_time content='2020-02-03 04:05'>", "", "2020-02-03T04:05"),
        ("<meta property=article:author content='https://social.example/ann'>", "", ""),
        ("<script type=application/ld+json>[[[[{\"headline\":1,\"author\":7}]]]]</script>", "", ""),
    ],
)  # fmt: skip
def test_metas_count_where_there_is_no_json_ld(head: str, author: str, published: str) -> None:
    content, _ = read(STORY, head)
    assert (content.author, content.published) == (author, published)


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2026-05-03", "2026-05-03"),
        (" 2026-05-03T10:11:12.345Z ", "2026-05-03T10:11:12Z"),
        ("2026-13-03", ""),
        ("yesterday", ""),
        ("", ""),
        ("Sun, 03 May 2026 10:11:12 +0200", ""),
    ],
)
def test_dates_are_iso_8601_or_nothing(text: str, date: str) -> None:
    assert iso_date(text) == date


def test_structured_data_beyond_64_kb_are_left_out() -> None:
    data = json.dumps({"text": "x" * 70_000})
    content, lines = read(STORY, f"<script type='application/ld+json'>{data}</script>")
    assert content.structured == "" and lines == KEPT


def test_deep_nesting_and_endless_structures_take_no_recursion() -> None:
    deep = "[" * 5000 + "]" * 5000
    head = f"<script type='application/ld+json'>{deep}</script>"
    content, lines = read("<div>" * 400 + STORY, head)
    assert lines == KEPT and content.structured == ""
    content, _ = read("<div>" * 5000 + STORY)  # deeper than the parser nests
    assert ONE in content.markdown


def test_lines_are_found_in_order_and_missing_ones_left_out() -> None:
    text = "Menu\nA\nB\nC\nA\nEnd"
    assert [text[b:e] for b, e in _pairs(find_lines(text, "A\nB\nx\nA\nEnd"))] == ["A\nB", "A\nEnd"]
    assert find_lines(text, "") == () == find_lines("", "A")


def _pairs(places: tuple[int, ...]) -> list[tuple[int, int]]:
    return list(zip(places[::2], places[1::2], strict=True))


_TAGS = st.sampled_from(
    [
        "div",
        "p",
        "ul",
        "ol",
        "li",
        "table",
        "tr",
        "td",
        "blockquote",
        "pre",
        "a",
        "b",
        "em",
        "code",
        "h2",
        "article",
        "nav",
        "aside",
        "span",
        "br",
        "section",
    ]
)
_TEXT = st.text(st.sampled_from("ab *_`[]<>#-1.|\\!&~\n\t(é"), max_size=60)


@st.composite
def _pages(draw: st.DrawFn) -> str:
    parts = []
    for _ in range(draw(st.integers(0, 25))):
        tag = draw(_TAGS)
        text = draw(_TEXT).replace("&", "&amp;").replace("<", "&lt;")
        attributes = draw(
            st.sampled_from(["", " href='/x y'", " class=comment", " hidden", " id=content"])
        )
        parts.append(f"<{tag}{attributes}>{text}" + draw(st.sampled_from(["", f"</{tag}>"])))
    return "".join(parts)


@settings(max_examples=150, deadline=None)
@given(_pages())
def test_of_any_page_the_main_text_is_a_part_of_the_visible_text(page: str) -> None:
    html = (STORY + page).encode()
    parsed = PARSER.parse(
        ParseInput(URL, 200, [("content-type", "text/html; charset=utf-8")], html)
    )
    assert parsed.content is not None and not parsed.detail
    lines = parsed.text.split("\n")
    for line in parsed.content.main_text(parsed.text).split("\n"):
        assert not line or line in lines


@settings(max_examples=100, deadline=None)
@given(st.lists(_TEXT.filter(lambda text: bool(text.strip())), min_size=1, max_size=5))
def test_readers_of_markdown_show_the_words_of_the_page(texts: list[str]) -> None:
    escaped = [text.replace("&", "&amp;").replace("<", "&lt;") for text in texts]
    body = "".join(f"<p>{ONE} {text}</p>" for text in escaped)
    content, lines = read(f"<article>{body}</article>")
    shown = MarkdownIt("commonmark").parse(content.markdown)
    words = " ".join(_shown(token) for token in shown if token.type == "inline").split()
    assert words == " ".join(lines).split()


def _shown(token: object) -> str:
    children = getattr(token, "children", None) or []
    return "".join(
        "\n" if each.type in ("softbreak", "hardbreak") else each.content for each in children
    )
