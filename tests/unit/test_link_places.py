"""Where the links of a page stand, and which places it has."""

from __future__ import annotations

import pytest

from html_pages import NASTY
from lycosa.base.config.sections import CanonicalSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.linked_page import LinkedPage, LinkPlace
from lycosa.base.urls.identity import Canonicalizer
from lycosa.inspect.linked.link_survey import LinkSurvey, has_place, place_in
from lycosa.stages.parse.html import read_html
from lycosa.stages.parse.link_places import read_link_places


def read(body: bytes, url: str = "https://e.org/dir/page") -> LinkedPage:
    return read_link_places(body, url, Canonicalizer(CanonicalSection()))


def places(body: str) -> list[LinkPlace]:
    return read(body.encode()).places


def test_a_link_has_its_line_text_and_fragment() -> None:
    found = places('<p>\n<a href=" /a#b ">first  link</a>\n\n<img src=i.png alt=x>')
    assert found == [
        LinkPlace("/a#b", LinkKind.A, "first link", 2, "https://e.org/a"),
        LinkPlace("i.png", LinkKind.IMG, "x", 4, "https://e.org/dir/i.png"),
    ]


def test_each_occurrence_counts() -> None:
    found = places("<a href=a>1</a>\n<a href=a>2</a>\n<a href=a#x>3</a>")
    assert [(each.text, each.line) for each in found] == [("1", 1), ("2", 2), ("3", 3)]


def test_styles_and_noscripts_have_the_line_of_their_element() -> None:
    found = places(
        "<style>b{background:url(b.png)}</style>\n<p style='background:url(p.png)'>\n"
        "<noscript><a href=n>n</a></noscript>"
    )
    assert {(each.raw, each.line) for each in found} == {("b.png", 1), ("p.png", 2), ("n", 3)}


def test_templates_and_forms_have_no_links_that_are_checked() -> None:
    assert places("<template><a href=t>t</a></template><form action=f></form>") == []


def test_anchors_are_ids_and_names_of_links() -> None:
    page = read(b"<p id=a><a name=b></a><img name=c><p id=''>")
    assert page.anchors == {"a", "b"}


def test_the_base_is_that_of_the_page() -> None:
    (place,) = places("<base href=/sub/><a href=x>x</a>")
    assert place.url == "https://e.org/sub/x"


@pytest.mark.parametrize("name", NASTY)
def test_it_finds_what_the_crawl_finds(name: str) -> None:
    """Without what no check requests."""
    body = NASTY[name].encode()
    crawled = {
        raw
        for raw, link in read_html(body).links.items()
        if link.kind not in (LinkKind.FORM, LinkKind.OTHER)
    }
    page = read(body, "https://e.org/")
    found = {each.raw.partition("#")[0].strip() for each in page.places}
    assert {raw.strip() for raw in crawled} - {""} == found - {""}


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        ("page", ""),
        ("page#a", "a"),
        ("#a%20b", "a%20b"),
        ("#top", ""),
        ("#TOP", ""),
        ("#", ""),
        ("#:~:text=words", ""),
        ("#a:~:text=words", "a"),
        ("#/route", ""),
        ("#!state", ""),
    ],
)
def test_a_fragment_names_a_place_or_not(raw: str, place: str) -> None:
    assert place_in(raw) == place


@pytest.mark.parametrize("fragment", ["a b", "a%20b", "c%3A-d", "heading"])
def test_a_place_is_compared_as_written_and_decoded(fragment: str) -> None:
    assert has_place(frozenset({"a b", "c%3A-d", "user-content-heading"}), fragment)


@pytest.mark.parametrize("fragment", ["A b", "c:-d", "head"])
def test_a_place_is_compared_with_its_letter_case(fragment: str) -> None:
    assert not has_place(frozenset({"a b", "c%3A-d", "user-content-heading"}), fragment)


def surveyed(body: str, ignored: tuple[str, ...] = ()) -> LinkSurvey:
    survey = LinkSurvey(ignored)
    survey.add_page("https://e.org/dir/page", read(body.encode()))
    return survey


def test_references_of_other_programs_are_counted_and_skipped() -> None:
    survey = surveyed("<a href=mailto:a@b.c>m</a><a href='tel:1'>t</a><a href=javascript:x>j</a>")
    assert survey.skipped == {"mailto": 1, "tel": 1, "javascript": 1}
    assert survey.links == survey.bad == []


@pytest.mark.parametrize("raw", ["htp://e.org/", "http://e xample/", "file:///a", "C:\\a.html"])
def test_what_no_browser_opens_is_bad(raw: str) -> None:
    (bad,) = surveyed(f"<p>\n<a href='{raw}'>x</a>").bad
    assert bad.place.raw == raw
    assert bad.place.line == 2


def test_ignored_urls_are_neither_links_nor_bad() -> None:
    survey = surveyed("<a href=/a>a</a><a href=/b>b</a>", ("/a$",))
    assert list(survey.targets()) == ["https://e.org/b"]


def test_a_link_is_kept_as_the_crawl_knows_it() -> None:
    (link,) = surveyed("<a href='../X?utm_source=a&b=1#c'>x</a>").links
    assert (link.url, link.fragment) == ("https://e.org/X?b=1", "c")
