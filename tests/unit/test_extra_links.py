"""What else of a page counts as a link: URLs that it names, and texts that look like URLs."""

from __future__ import annotations

import time

import pytest

from lycosa.base.config.sections import CanonicalSection, LinkRule, ParseSection, ScopeRule
from lycosa.base.config.sources import contradictions
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.parsed import ParseInput
from lycosa.base.urls.identity import Canonicalizer
from lycosa.stages.parse.document import DocumentParser
from lycosa.stages.parse.extra_links import MAX_GUESSES

SITE = "http://example.org"
HTML = ("content-type", "text/html; charset=utf-8")
DOCUMENT, GUESS = LinkKind.DOCUMENT, LinkKind.SPECULATIVE


def test_guesses_are_refused_where_any_host_is_in_scope() -> None:
    values = {"parse.links": LinkRule.ALL, "scope.rule": ScopeRule.ANY}
    (told,) = contradictions(values)
    assert told.startswith("parse.links: all requests texts that look like URLs")
    assert not list(contradictions({**values, "parse.links": LinkRule.DOCUMENT}))
    assert not list(contradictions({**values, "scope.rule": ScopeRule.SITE}))


def links(
    html: str | bytes, how: LinkRule, *headers: tuple[str, str], url: str = f"{SITE}/d/p"
) -> dict[str, LinkKind]:
    section = ParseSection(language=False, links=how)
    parser = DocumentParser(section, Canonicalizer(CanonicalSection()), "lycosa")
    body = html.encode() if isinstance(html, str) else html
    parsed = parser.parse(ParseInput(url, 200, [HTML, *headers], body))
    assert not parsed.reason, parsed.detail
    return {link.url.removeprefix(SITE): link.kind for link in parsed.links}


@pytest.mark.parametrize(
    "html",
    [
        "<blockquote cite=x></blockquote>",
        "<q cite=x></q><del cite=x></del><ins cite=x></ins>",
        "<img longdesc=x>",
        "<head profile=x></head>",
        "<html manifest=x>",
        "<applet codebase=x></applet>",
        "<object codebase=x></object>",
        "<object archive='x x'></object>",
        "<object><param name=movie value=x></object>",
        "<object><param name=any valuetype=ref value=x></object>",
        "<isindex action=x>",
        "<link rel=help href=x>",
        "<p>text<frameset><frame src=x></frameset>",
        "<form action=x></form>",
        "<form action=x><input type=submit name=go><input value=1></form>",
        "<form action='x?old=query'></form>",
        "<form><button formaction=x></button></form>",
        "<form id=f method=post></form><button form=f formaction=x formmethod=get></button>",
    ],
)
def test_a_url_that_a_document_names_is_a_link_if_that_is_wanted(html: str) -> None:
    assert links(html, LinkRule.DOCUMENT).get("/d/x") is DOCUMENT
    assert links(html, LinkRule.ALL).get("/d/x") is DOCUMENT
    kinds = links(html, LinkRule.A)
    assert kinds.get("/d/x") in (None, LinkKind.FORM, LinkKind.OTHER)


def test_the_base_and_the_document_type_and_content_location_are_named() -> None:
    html = "<!DOCTYPE html SYSTEM '/dtd'><base href='/b/'><a href=x>y</a>"
    found = links(html, LinkRule.DOCUMENT, ("content-location", "en"))
    assert found == {"/d/en": DOCUMENT, "/dtd": DOCUMENT, "/b/": DOCUMENT, "/b/x": LinkKind.A}


@pytest.mark.parametrize(
    "html",
    [
        "<form action=x method=post></form>",
        "<form action=x><input name=q></form>",
        "<form action=x id=f></form><input name=q form=f>",
        "<form method=post><button formaction=x></button></form>",
        "<form><input name=q><button formaction=x></button></form>",
        "<form><button formaction=x formmethod=post></button></form>",
        "<button formaction=x></button>",
        "<form action=x></form><form action=x method=post></form>",
        "<a ping=x>y</a>",
        "<meta http-equiv=content-security-policy content='report-uri /d/x'>",
    ],
)
def test_what_is_sent_with_data_is_not_named(html: str) -> None:
    assert links(html, LinkRule.DOCUMENT).get("/d/x") in (None, LinkKind.FORM)
    assert links(html, LinkRule.ALL).get("/d/x") in (None, LinkKind.FORM, GUESS)


@pytest.mark.parametrize(
    ("html", "wanted"),
    [
        ("<!-- <a href='/old/page'>x</a> see ../up.html -->", ["/old/page", "/up.html"]),
        ("<!--[if IE]><link href=/ie.css><![endif]-->", ["/ie.css"]),
        ("<p data-href=/next data-more='{\"u\":\"\\/api\\/all\"}'>", ["/next", "/api/all"]),
        ("<script>go('/s/a'); x = \"./b/c\"; y = 'c/d.html#e'</script>", ["/s/a", "/d/b/c"]),
        ("<script>y = 'c/d.html#e'</script>", ["/d/c/d.html"]),
        ('<script type="application/ld+json">{"@id":"http:\\/\\/example.org\\/ld"}</script>',
         ["/ld"]),
        ("<p onclick=\"location='/clicked'\">", ["/clicked"]),
        ("<a href=\"javascript:open('/opened')\">x</a>", ["/opened"]),
        ("<meta property=og:url content=http://example.org/og>", ["/og"]),
        ("<p>Our report is at http://example.org/report, or /files/a.pdf.", ["/report",
         "/files/a.pdf"]),
        ("<form action=/search><input name=q></form>", ["/search"]),
    ],
)  # fmt: skip
def test_a_text_that_looks_like_a_url_is_a_guess(html: str, wanted: list[str]) -> None:
    found = links(html, LinkRule.ALL)
    for url in wanted:
        assert found.get(url) is GUESS, (url, found)
    assert GUESS not in links(html, LinkRule.DOCUMENT).values()


@pytest.mark.parametrize(
    "html",
    [
        "<!-- and/or 1/2 </p> // text a/b -->",
        "<!-- /with/a?query=1 http://example.org/x?y -->",
        "<!-- http://elsewhere.example/x //cdn.example/y https://sub.example.org/z -->",
        "<p>Files are below /etc and /usr/local, and/or on a disk.",
        "<script>a = b /c/ d; r = /x\\/y/g; s = 'text/plain; charset'; t = '/'</script>",
        "<script>'/x' + id; u = '/search?q='</script>".replace("'/x' + id;", ""),
        "<p data-a=12/24/26 data-b='a / b' data-c=true>",
        "<template><!-- /in/template --></template>",
    ],
)
def test_ordinary_texts_and_foreign_urls_and_queries_are_no_guesses(html: str) -> None:
    assert links(html, LinkRule.ALL) == {}


def test_a_guess_never_changes_what_is_known_of_a_link() -> None:
    html = "<a href=/x rel=nofollow>A</a><img src=/y.png><!-- /x /y.png /z -->"
    assert links(html, LinkRule.ALL) == {"/x": LinkKind.A, "/y.png": LinkKind.IMG, "/z": GUESS}
    section = ParseSection(language=False, links=LinkRule.ALL)
    parser = DocumentParser(section, Canonicalizer(CanonicalSection()), "lycosa")
    parsed = parser.parse(ParseInput(f"{SITE}/d/p", 200, [HTML], html.encode()))
    assert [link.nofollow for link in parsed.links] == [True, False, False]


def test_a_page_gives_a_bounded_number_of_guesses() -> None:
    html = "<!-- " + " ".join(f"/c/{at}" for at in range(10_000)) + " -->"
    assert len(links(html, LinkRule.ALL)) == MAX_GUESSES


@pytest.mark.parametrize(
    "piece",
    ["!/", "/a?", "./", "a.html", "/a.b", "http://", "//a:1", "'/a", "\"a.htm'", "-/x=", "/a/../"],
)
@pytest.mark.parametrize("frame", ["<!--{}-->", "<script>{}</script>", "<p>{}", "<p data-a='{}'>"])
def test_the_time_is_linear_in_a_hostile_text(piece: str, frame: str) -> None:
    text = frame.format((piece * 400_000)[:400_000])
    began = time.process_time()
    links(text, LinkRule.ALL)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ('var url = "/reports/a";', {"/reports/a"}),
        ("// see http://example.org/notes", {"/notes"}),
        ("fetch(`/data/b.json`); go('http://other.example/c')", {"/data/b.json"}),
        ('location = "\\/escaped\\/d"', {"/escaped/d"}),
        ('get("/search?q=" + word)', set()),
        ("ratio = width / height; pattern = /ab+c/g;", set()),
    ],
)
def test_script_files_have_guesses_in_strings_and_complete_urls_in_comments(
    script: str, found: set[str]
) -> None:
    for how in LinkRule:
        parser = DocumentParser(
            ParseSection(language=False, links=how),
            Canonicalizer(CanonicalSection()),
            "lycosa",
            reads_requisites=True,
        )
        headers = [("content-type", "text/javascript")]
        parsed = parser.parse(ParseInput(f"{SITE}/a.js", 200, headers, script.encode()))
        urls = {link.url.removeprefix(SITE): link.kind for link in parsed.links}
        assert urls == dict.fromkeys(found if how is LinkRule.ALL else (), GUESS)
