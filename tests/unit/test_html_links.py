"""Links of pages: their kinds, anchors, bases, duplicates, and what is no link."""

from __future__ import annotations

import pytest

from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import Canonicalizer, hash8
from lycosa.stages.parse.document import DocumentParser

URL = "http://example.org/d/p.html"


def parse(html: str | bytes, *headers: tuple[str, str], url: str = URL, **settings: int) -> Parsed:
    parser = DocumentParser(
        ParseSection(language=False, **settings), Canonicalizer(CanonicalSection()), "lycosa"
    )
    body = html.encode() if isinstance(html, str) else html
    return parser.parse(
        ParseInput(url, 200, [("content-type", "text/html; charset=utf-8"), *headers], body)
    )


def found(html: str, *headers: tuple[str, str]) -> list[tuple[str, LinkKind]]:
    return [
        (link.url.removeprefix("http://example.org"), link.kind)
        for link in parse(html, *headers).links
    ]


@pytest.mark.parametrize(
    ("html", "links"),
    [
        ("<a href=x>y</a>", [("/d/x", LinkKind.A)]),
        ("<map><area href=x alt=y></map>", [("/d/x", LinkKind.AREA)]),
        ("<frameset><frame src=x></frameset>", [("/d/x", LinkKind.FRAME)]),
        ("<iframe src=x></iframe>", [("/d/x", LinkKind.IFRAME)]),
        ("<link rel=canonical href=x>", [("/d/x", LinkKind.CANONICAL)]),
        ("<link rel='ALTERNATE nofollow' href=x>", [("/d/x", LinkKind.ALTERNATE)]),
        (
            "<link rel=next href=x><link rel=prev href=y><link rel=previous href=z>",
            [("/d/x", LinkKind.NEXT), ("/d/y", LinkKind.PREV), ("/d/z", LinkKind.PREV)],
        ),
        (
            "<link rel='alternate stylesheet' href=x><link rel='shortcut icon' href=y>",
            [("/d/x", LinkKind.STYLE), ("/d/y", LinkKind.STYLE)],
        ),
        (
            "<link rel=prefetch href=x><link rel=preconnect href=y><link href=z><link rel=next>",
            [("/d/x", LinkKind.OTHER)],
        ),
        (
            "<link rel=modulepreload href=x><link rel=manifest href=y>",
            [("/d/x", LinkKind.SCRIPT), ("/d/y", LinkKind.STYLE)],
        ),
        (
            "<link rel=preload as=font href=x><link rel=preload href=y>",
            [("/d/x", LinkKind.STYLE), ("/d/y", LinkKind.MEDIA)],
        ),
        ("<link rel='preload stylesheet' as=script href=x>", [("/d/x", LinkKind.STYLE)]),
        (
            "<link rel=preload as=image href=x imagesrcset='x 1x, y 2x'>",
            [("/d/x", LinkKind.IMG), ("/d/y", LinkKind.IMG)],
        ),
        (
            (
                "<svg><script href=a></script><script xlink:href=b></script><script"
                " src=c></script></svg><script href=d></script>"
            ),
            [("/d/a", LinkKind.SCRIPT), ("/d/b", LinkKind.SCRIPT)],
        ),
        ("<svg><script href=a xlink:href=b></script></svg>", [("/d/a", LinkKind.SCRIPT)]),
        (
            (
                "<svg><foreignObject><script src=a></script><script"
                " href=b></script></foreignObject></svg>"
            ),
            [("/d/a", LinkKind.SCRIPT)],
        ),
        (
            "<svg><use href='s.svg#i'/><use href='#i'/><feImage href=f /></svg>",
            [("/d/s.svg", LinkKind.IMG), ("/d/f", LinkKind.IMG)],
        ),
        ("<base href=/b/><svg><use href='#i'/></svg><use href=x>", []),
        ("<meta http-equiv=Refresh content='3; URL=x'>", [("/d/x", LinkKind.REFRESH)]),
        ("<noscript><meta http-equiv=refresh content='0; url=x'></noscript>", []),
        (
            "<img src=a srcset='b 1x, c 2x'>",
            [("/d/a", LinkKind.IMG), ("/d/b", LinkKind.IMG), ("/d/c", LinkKind.IMG)],
        ),
        (
            "<picture><source srcset='b, c 2x'><img src=a></picture>",
            [("/d/b", LinkKind.IMG), ("/d/c", LinkKind.IMG), ("/d/a", LinkKind.IMG)],
        ),
        ("<script src=x></script><script>var a='<a href=z>'</script>", [("/d/x", LinkKind.SCRIPT)]),
        (
            "<video src=a poster=b><source src=c><track src=d></video>",
            [
                ("/d/a", LinkKind.MEDIA),
                ("/d/b", LinkKind.IMG),
                ("/d/c", LinkKind.MEDIA),
                ("/d/d", LinkKind.MEDIA),
            ],
        ),
        (
            "<audio src=a></audio><embed src=b><object data=c></object>",
            [("/d/a", LinkKind.MEDIA), ("/d/b", LinkKind.MEDIA), ("/d/c", LinkKind.MEDIA)],
        ),
        ("<form action=x></form><form></form>", [("/d/x", LinkKind.FORM)]),
        ("<input type=IMAGE src=x><input src=y>", [("/d/x", LinkKind.IMG)]),
        ("<body background=x>", [("/d/x", LinkKind.IMG)]),
        (
            "<svg><a href=x>t</a><a xlink:href=y>t</a><image xlink:href=z /></svg>",
            [("/d/x", LinkKind.A), ("/d/y", LinkKind.A), ("/d/z", LinkKind.IMG)],
        ),
        ("<template><a href=x>t</a></template><!-- <a href=y>t</a> -->", []),
        (
            "<div><template shadowrootmode=open><a href=x>t</a></template></div>",
            [("/d/x", LinkKind.A)],
        ),
        ("<noscript><a href=x>t</a></noscript>", [("/d/x", LinkKind.A)]),
        # In each of these a browser with scripts ends the noscript at its end tag.
        (
            "<noscript><a href=x><p></noscript><a href=y>",
            [("/d/x", LinkKind.A), ("/d/y", LinkKind.A)],
        ),
        ("<noscript><!-- </noscript><a href=y>", [("/d/y", LinkKind.A)]),
        ("<noscript><a title='</noscript><a href=y>", [("/d/y", LinkKind.A)]),
        ("<noscript><table></noscript><base href=/b/><a href=y>", [("/b/y", LinkKind.A)]),
        (
            "<body><noscript><div></noscript><meta http-equiv=refresh content='0; url=y'>",
            [("/d/y", LinkKind.REFRESH)],
        ),
        ("<head><noscript><base href=/b/></noscript><a href=y>", [("/d/y", LinkKind.A)]),
        ("<noscript><a href=x>", [("/d/x", LinkKind.A)]),
        ("<noscript><template><a href=x></template></noscript>", []),
        ("<svg><noscript><a href=x></a></noscript></svg>", [("/d/x", LinkKind.A)]),
        ("<a href='#top'>up</a><a href=''>self</a>", [("/d/p.html", LinkKind.A)]),
        (
            "<svg><iframe src=x /><form action=y /><base href=/z/><a href=w></svg>",
            [("/d/w", LinkKind.A)],
        ),
        (
            (
                "<svg><template><a href=x></template></svg><a xlink:href=y>no link outside of a"
                " drawing</a>"
            ),
            [("/d/x", LinkKind.A)],
        ),
        ("<a href='#top'>up</a><base href=/b/>", [("/b/", LinkKind.A)]),
        ("<iframe src=''></iframe><input type=image src=x srcset=y>", [("/d/x", LinkKind.IMG)]),
        (
            "<link rel=preload as=image imagesrcset='x 1x, y 2x'>",
            [("/d/x", LinkKind.IMG), ("/d/y", LinkKind.IMG)],
        ),
        (
            (
                "<meta name=a http-equiv=refresh content='1;url=x'><meta http-equiv=' refresh'"
                " content='1;url=y'>"
            ),
            [("/d/x", LinkKind.REFRESH)],
        ),
        (
            "<a href=' x '>blanks</a><a href='\ny\t'>blanks</a>",
            [("/d/x", LinkKind.A), ("/d/y", LinkKind.A)],
        ),
    ],
)
def test_kinds(html: str, links: list[tuple[str, LinkKind]]) -> None:
    assert found(html) == links


@pytest.mark.parametrize(
    ("mode", "is_content"), [("open", True), ("CLOSED", True), ("", False), ("hidden", False)]
)
def test_only_a_declarative_shadow_root_is_content(mode: str, is_content: bool) -> None:
    """HTML standard 4.12.3: the attribute's states are open and closed, anything else is none."""
    assert (
        found(f"<div><template shadowrootmode='{mode}'><a href=/a></a></template></div>")
        == [("/a", LinkKind.A)] * is_content
    )


def test_links_in_headers() -> None:
    headers = (
        (
            "link",
            (
                '<../n>; rel="next"; title="a, b", <s.css>; rel=stylesheet, <o>; rel=preconnect,'
                ' <other>; rel=next; anchor="#x"'
            ),
        ),
        ("link", "</c>; rel=canonical"),
        ("refresh", "5; url=r"),
    )
    assert found("<base href=/else/>", *headers) == [
        ("/n", LinkKind.NEXT),
        ("/d/s.css", LinkKind.STYLE),
        ("/c", LinkKind.CANONICAL),
        ("/d/r", LinkKind.REFRESH),
    ]
    assert parse("", *headers).canonical == "http://example.org/c"


@pytest.mark.parametrize(
    ("sent", "asked"),
    [("é".encode().decode("latin-1"), "%C3%A9"), ("é", "%E9"), ("%c3%A9", "%C3%A9")],
)
def test_links_in_headers_keep_the_bytes_that_were_sent(sent: str, asked: str) -> None:
    assert found("", ("link", f"</{sent}>; rel=next"), ("refresh", f"0; url=/r?{sent}")) == [
        (f"/{asked}", LinkKind.NEXT),
        (f"/r?{asked}", LinkKind.REFRESH),
    ]


@pytest.mark.parametrize(
    ("header", "links"),
    [
        (
            "</a.css>; rel=preload; as=style, </b.js>;rel=preload;as=script",
            [("/a.css", LinkKind.STYLE), ("/b.js", LinkKind.SCRIPT)],
        ),
        ("<f>; rel=preload; as=font; crossorigin", [("/d/f", LinkKind.STYLE)]),
        ("<x>; rel=preload", [("/d/x", LinkKind.MEDIA)]),
        ("<m.js>; rel=modulepreload", [("/d/m.js", LinkKind.SCRIPT)]),
        ("<w>; rel=manifest", [("/d/w", LinkKind.STYLE)]),
        (
            '<i>; rel=preload; as=image; imagesrcset="i 1x, j 2x"',
            [("/d/i", LinkKind.IMG), ("/d/j", LinkKind.IMG)],
        ),
        ('<>; rel=preload; as=image; imagesrcset="j 2x"', [("/d/j", LinkKind.IMG)]),
        ("<p>; rel=prefetch", [("/d/p", LinkKind.OTHER)]),
        ("<h>; rel=preconnect", []),
    ],
)
def test_link_headers_name_what_the_page_needs(
    header: str, links: list[tuple[str, LinkKind]]
) -> None:
    assert found("", ("link", header)) == links


@pytest.mark.parametrize(
    "header",
    [
        "<",
        "<x",
        "<x>",
        "<x>; rel",
        "<x>; rel=",
        '<x>; rel="',
        ",,",
        "x; rel=next",
        '<x>; rel="next',
    ],
)
def test_broken_link_headers_are_passed_over(header: str) -> None:
    assert parse("<a href=y>t</a>", ("link", header)).links[-1].url == "http://example.org/d/y"


@pytest.mark.parametrize(
    ("html", "url"),
    [
        ("<base href=/b/><base href=/c/><a href=x>t</a>", "http://example.org/b/x"),
        ("<a href=x>t</a><base href=/b/>", "http://example.org/b/x"),
        ("<base target=_top><base href=/b/><a href=x>t</a>", "http://example.org/b/x"),
        ("<base href='https://other.example/'><a href=x>t</a>", "https://other.example/x"),
        ("<base href='http://[bad'><a href=x>t</a>", "http://example.org/d/x"),
        ("<base href='javascript:alert(1)'><a href=x>t</a>", "http://example.org/d/x"),
        ("<base href='/b/?q'><a href='#f'>t</a>", "http://example.org/b/?q"),
    ],
)
def test_base(html: str, url: str) -> None:
    assert [link.url for link in parse(html).links] == [url]


def test_anchor_is_folded_cut_and_from_the_first_place_that_has_one() -> None:
    link = parse(
        "<a href=x><img src=i alt=y></a><a href=x>  two \n <b>words</b> </a><a href=x>later</a>"
    ).links[0]
    assert (link.url, link.anchor) == ("http://example.org/d/x", "two words")
    assert len(parse(f"<a href=x>{'word ' * 100}</a>").links[0].anchor) <= 200


def test_one_url_is_one_link_of_its_strongest_kind() -> None:
    links = parse("<img src=x><iframe src='./x#f'></iframe><a href='/d/x#g'>text</a>").links
    assert [(link.url, link.kind, link.anchor) for link in links] == [
        ("http://example.org/d/x", LinkKind.A, "text")
    ]


@pytest.mark.parametrize(
    ("rel", "nofollow"),
    [
        ("nofollow", True),
        ("noopener NOFOLLOW", True),
        ("ugc", True),
        ("sponsored", True),
        ("nofollower", False),
        ("", False),
    ],
)
def test_rel_nofollow_and_its_kin(rel: str, nofollow: bool) -> None:
    assert parse(f"<a href=x rel='{rel}'>t</a>").links[0].nofollow is nofollow


def test_a_link_is_nofollow_only_when_every_place_says_so() -> None:
    assert not parse("<a rel=nofollow href=x>t</a><a href=x>t</a>").links[0].nofollow
    assert not parse("<a href=x>t</a><a rel=nofollow href=x#f>t</a>").links[0].nofollow
    assert parse("<a rel=ugc href=x>t</a><a rel=nofollow href=./x>t</a>").links[0].nofollow


def test_what_is_no_crawlable_url_is_counted_by_reason() -> None:
    parsed = parse(
        "<a href='mailto:a@b'>m</a><a href='mailto:a@b'>m</a><a href='javascript:x'>j</a><a"
        " href='data:,x'>d</a><a href='http://[x'>u</a>"
    )
    assert (parsed.links, parsed.refused_links) == ([], {Reason.SCHEME: 3, Reason.UNPARSABLE: 1})


def test_links_beyond_the_maximum_are_left_out() -> None:
    parsed = parse("".join(f"<a href={number}>t</a>" for number in range(20)), max_links=5)
    assert [link.url[-1] for link in parsed.links] == ["0", "1", "2", "3", "4"]


def test_hashes_are_of_host_and_url() -> None:
    link = parse("<a href='http://other.example:8080/x'>t</a>").links[0]
    assert (link.host8, link.url8) == (
        hash8("other.example:8080"),
        hash8("http://other.example:8080/x"),
    )


def test_a_query_is_encoded_in_the_pages_charset() -> None:
    body = "<meta charset=koi8-r><a href='/ж?q=ж'>t</a>".encode("koi8-r")
    parser = DocumentParser(
        ParseSection(language=False), Canonicalizer(CanonicalSection()), "lycosa"
    )
    parsed = parser.parse(ParseInput(URL, 200, [("content-type", "text/html")], body))
    assert [link.url for link in parsed.links] == ["http://example.org/%D0%B6?q=%D6"]
