"""Requisites of pages beyond plain attributes, files that load others, and pages that need scripts."""

from __future__ import annotations

import base64

import pytest

from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Canonicalizer
from lycosa.stages.parse.document import DocumentParser
from lycosa.stages.parse.style_sheets import MAX_STYLE_BYTES

URL = "http://example.org/d/p.html"
IMG, SCRIPT, STYLE, MEDIA = LinkKind.IMG, LinkKind.SCRIPT, LinkKind.STYLE, LinkKind.MEDIA
_DRAWING = "<svg xmlns:xlink='x'><image xlink:href='x'/></svg>"
_ENCODED = base64.b64encode(_DRAWING.encode()).decode()


def parse(body: str | bytes, media_type: str = "text/html", url: str = URL, reads: bool = True) -> Parsed:  # fmt: skip
    parser = DocumentParser(
        ParseSection(language=False),
        Canonicalizer(CanonicalSection()),
        "lycosa",
        reads_requisites=reads,
    )
    raw = body.encode() if isinstance(body, str) else body
    return parser.parse(ParseInput(url, 200, [("content-type", media_type)], raw))


def found(body: str | bytes, media_type: str = "text/html", **more: str) -> list[tuple[str, LinkKind]]:  # fmt: skip
    return [
        (link.url.removeprefix("http://example.org"), link.kind)
        for link in parse(body, media_type, **more).links
    ]


@pytest.mark.parametrize(
    ("html", "links"),
    [
        ("<style>@import 'x';a{b:url(y)}</style>", [("/d/x", STYLE), ("/d/y", IMG)]),
        ("<style type=text/less>@import 'x'</style>", []),
        ("<p style='background:url(x)'>", [("/d/x", IMG)]),
        ("<base href=/e/><p style=\"b:image-set('x' 1x)\">", [("/e/x", IMG)]),
        ("<svg><style>a{fill:url(x.svg#y)}</style></svg>", [("/d/x.svg", IMG)]),
        ("<table background=x><tr background=y><td background=z>", [("/d/x", IMG), ("/d/y", IMG), ("/d/z", IMG)]),
        ("<img lowsrc=x dynsrc=y>", [("/d/x", IMG), ("/d/y", MEDIA)]),
        ("<bgsound src=x>", [("/d/x", MEDIA)]),
        ("<applet archive='x,y'></applet>", [("/d/x", SCRIPT), ("/d/y", SCRIPT)]),
        ("<object><param name=Movie value=x><param name=no value=y></object>", [("/d/x", MEDIA)]),
        ("<html manifest=x>", [("/d/x", STYLE)]),
        ("<meta name=msapplication-config content=x>", [("/d/x", STYLE)]),
        ("<link rel=prefetch href=x><link rel='prerender y' href=z>", [("/d/x", MEDIA), ("/d/z", MEDIA)]),
        ("<link rel=dns-prefetch href=x>", []),
        ("<iframe srcdoc='<img src=x><a href=y>z</a>'></iframe>", [("/d/x", IMG)]),
        ("<iframe srcdoc='<iframe srcdoc=&quot;<img src=x>&quot;>'></iframe>", [("/d/x", IMG)]),
        ("<iframe srcdoc='<style>a{b:url(x)}</style>'></iframe>", [("/d/x", IMG)]),
        (f'<img src="data:image/svg+xml,{_DRAWING}">', [("/d/x", IMG)]),
        (f'<object data="data:image/svg+xml;base64,{_ENCODED}"></object>', [("/d/x", IMG)]),
        ("<img src='data:image/svg+xml;base64,%%%'>", []),
        ("<!--[if lt IE 9]><script src=x></script><a href=y>z</a><![endif]-->", [("/d/x", SCRIPT)]),
        ("<!--[if IE]><link rel=stylesheet href=x>", []),
        ("<!-- <img src=x> -->", []),
        ("<script type=module>import './x.js'</script>", [("/d/x.js", SCRIPT)]),
        ("<script>import './x.js'</script>", []),
        (
            '<script type=importmap>{"imports":{"a":"./x.js","b/":"/b/","c":1},'
            '"scopes":{"/s/":{"a":"/y.js"}}}</script>',
            [("/d/x.js", SCRIPT), ("/y.js", SCRIPT)],
        ),
        ("<script type=importmap>[1]</script><script type=importmap>{</script>", []),
        ("<svg><rect fill='url(x.svg#p)' mask='url(#m)'/></svg>", [("/d/x.svg", IMG)]),
        ("<svg><linearGradient href='x#g'/><textPath xlink:href='#t'/></svg>", [("/d/x", IMG)]),
        ("<?xml-stylesheet href='x' type='text/css'?><p>", [("/d/x", STYLE)]),
        ("<template><p style='background:url(x)'></template>", []),
    ],
)  # fmt: skip
def test_a_page_loads(html: str, links: list[tuple[str, LinkKind]]) -> None:
    assert sorted(each for each in found(html) if not each[0].startswith("data:")) == sorted(links)


def test_a_crawl_without_requisites_reads_none_of_it() -> None:
    html = "<style>@import 'x'</style><table background=y><link rel=prefetch href=z><img src=i>"
    links = parse(html, reads=False).links
    assert [(link.url, link.kind) for link in links] == [
        ("http://example.org/d/z", LinkKind.OTHER),
        ("http://example.org/d/i", IMG),
    ]
    sheet = parse("@import 'x'", "text/css", reads=False)
    assert (sheet.links, sheet.reason) == ([], Reason.CONTENT_TYPE)


@pytest.mark.parametrize(
    ("body", "media_type", "links"),
    [
        ("@import 'x';@font-face{src:url(y)}a{b:url(z)}", "text/css; charset=utf-8",
         [("/d/x", STYLE), ("/d/y", STYLE), ("/d/z", IMG)]),
        ("import './x.js'", "text/javascript", [("/d/x.js", SCRIPT)]),
        ("export * from '/x.js'", "application/x-javascript", [("/x.js", SCRIPT)]),
        ("var a = 1", "text/javascript", []),
        ('{"icons":[{"src":"x"},{"src":1},2],"screenshots":[{"src":"y"}],'
         '"shortcuts":[{"icons":[{"src":"z"}]}],"start_url":"/no"}', "application/manifest+json",
         [("/d/x", IMG), ("/d/y", IMG), ("/d/z", IMG)]),
        ("[" * 100_000, "application/manifest+json", []),
        ('{"icons":{"src":"x"}}', "application/manifest+json", []),
        ('<?xml version="1.0"?><?xml-stylesheet href="s.css"?><svg xmlns="http://www.w3.org/2000/svg"'
         ' xmlns:xlink="http://www.w3.org/1999/xlink"><style><![CDATA[a{b:url(y)}]]></style>'
         '<image xlink:href="x"/><text>words</text></svg>', "image/svg+xml",
         [("/d/s.css", STYLE), ("/d/x", IMG), ("/d/y", IMG)]),
    ],
)  # fmt: skip
def test_a_file_loads(body: str, media_type: str, links: list[tuple[str, LinkKind]]) -> None:
    parsed = parse(body, media_type)
    assert sorted(found(body, media_type)) == sorted(links)
    assert (parsed.reason, parsed.text) == (Reason.NONE, "")


def test_a_manifest_is_known_by_its_name_where_the_server_says_json() -> None:
    body = '{"icons":[{"src":"x"}]}'
    assert found(body, "application/json", url="http://example.org/site.webmanifest") == [("/x", IMG)]  # fmt: skip
    assert found(body, "application/json") == []


def test_only_the_beginning_of_a_long_style_sheet_is_read() -> None:
    body = "a{b:url(x)}".ljust(MAX_STYLE_BYTES + 1) + "a{b:url(y)}"
    parsed = parse(body, "text/css")
    assert [link.url for link in parsed.links] == ["http://example.org/d/x"]
    assert (parsed.reason, parsed.is_cut) == (Reason.BODY_TRUNCATED, True)


@pytest.mark.parametrize(
    "html",
    [
        "<iframe srcdoc='" + "<iframe srcdoc=" * 3000 + "'></iframe>",
        "<p style='b:url(x)'>" * 8000,
        "<!--[if IE]>" * 8000,
        "<img src='data:image/svg+xml,<svg><image href=x>'>" * 3000,
        "<table background=x>" * 3000,
        "<svg>" * 3000 + "<rect fill='url(x)'/>" * 2000,
        "<style>" + "@import 'x';" * 10_000,
    ],
)
def test_a_hostile_page_is_read_within_bounds(html: str) -> None:
    assert parse(html).reason is Reason.NONE


@pytest.mark.parametrize(
    ("html", "scripted"),
    [
        ("<div id=root></div><script src=/main.js></script>", True),
        ("<app-root>Loading…</app-root><script type=module src=m.js></script>", True),
        ("<noscript>You need to enable JavaScript to run this app.</noscript><p>Hi<script>x()</script>", True),
        ("<title>App</title><body><script src=m.js></script>", True),
        ("<div id=root></div>", False),  # nothing runs
        ("<div id=root></div><script type=application/ld+json>{}</script>", False),
        ("<p>A short page with a sentence of sixty characters or a few more of them.<script src=m.js></script>", False),
        (f"<div id=root></div><p>{'words of a page ' * 40}</p><script src=m.js></script>", False),
        ("<script src=m.js></script>" + "<a href=/1>1</a><a href=/2>2</a><a href=/3>3</a>", False),
        ("<iframe src=/x></iframe><script src=m.js></script>", False),
        ("<meta http-equiv=refresh content='0;url=/x'><script src=m.js></script>", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("reads", [True, False])
def test_a_page_that_needs_its_scripts_has_a_remark(html: str, scripted: bool, reads: bool) -> None:
    parsed = parse(html, reads=reads)
    assert (parsed.reason is Reason.LOOKS_SCRIPTED) == scripted
