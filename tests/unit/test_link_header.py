"""``Link`` headers by RFC 8288 (sections 3 and B.2 to B.4) and RFC 9110 5.6.1.2, clause by clause."""

from __future__ import annotations

import pytest

from lycosa.base.urls.link_header import parse_link_header

A, B = ("/a", ["next"]), ("/b", ["prev"])


def links(value: str) -> list[tuple[str, list[str]]]:
    return [(link.target, link.relations) for link in parse_link_header(value)]


@pytest.mark.parametrize(
    "value",
    [
        ",, </a>; rel=next ,",
        ",</a>;rel=next",
        "</a>; rel=next,,,",
        " , ,\t, </a>; rel=next",
    ],
)
def test_empty_elements_of_a_list_are_ignored(value: str) -> None:
    """RFC 9110 5.6.1.2: a recipient must parse and ignore a reasonable number of them."""
    assert links(value) == [A]


@pytest.mark.parametrize(
    "value",
    [
        "</a>; rel=next;",
        "</a>; rel=next ; ;",
        "</a>;; rel=next",
        "</a>; =x; rel=next",
        "</a>; ; rel=next; title=",
    ],
)
def test_a_parameter_may_be_empty(value: str) -> None:
    """RFC 8288 B.3: a name is what stands before BWS, "=", ";" or ",", also nothing."""
    assert links(f"{value}, </b>; rel=prev") == [A, B]
    assert links(value) == [A]


@pytest.mark.parametrize(
    "value",
    [
        "</a>;rel=next",
        "  </a>  ;  rel  =  next  ",
        "</a>; REL=NEXT",
        '</a>; rel="next"',
        '</a>; title="a, b; c"; rel=next',
        '</a>; title="a\\"b, <x>; rel=prev"; rel=next',
        "</a>; rel=next; rel=prev",
        "</a>; rel",
        "</a>; rel=",
    ],
)
def test_parameters(value: str) -> None:
    """RFC 8288 B.3 and B.4; of repeated relations the first counts (3.3)."""
    assert links(value) == ([A] if "next" in value.lower() else [])


@pytest.mark.parametrize(
    ("value", "relations"),
    [
        ("</a>; rel=next prev", ["next", "prev"]),
        ('</a>; rel="next prev"', ["next", "prev"]),
        ("</a>; rel=", []),
        ('</a>; rel="next', ["next"]),  # B.4 gives what there is
    ],
)
def test_a_value_ends_at_a_semicolon_or_a_comma(value: str, relations: list[str]) -> None:
    assert links(value) == ([("/a", relations)] if relations else [])


def test_a_comma_in_a_target_or_a_quoted_string_separates_nothing() -> None:
    assert links('</a,b>; rel=next; title=", </c>; rel=prev"') == [("/a,b", ["next"])]


@pytest.mark.parametrize(
    "value",
    [
        "</a>; rel=next </b>; rel=prev",  # a comma is missing
        'x, </a>; rel=next, y="</c>; rel=x", </b>; rel=prev',
        '</a>; rel="next"x, </b>; rel=prev',
        '</a>; rel=next; "x", </b>; rel=prev',
    ],
)
def test_what_is_no_link_costs_no_other_link(value: str) -> None:
    assert links(value) == [A, B]


@pytest.mark.parametrize("value", ["", " ", "<", "</a", "</a>", "x; rel=next", ",;,", '"'])
def test_what_is_no_link_gives_none(value: str) -> None:
    assert links(value) == []


def test_a_link_of_another_document_is_left_out() -> None:
    """RFC 8288 3.2: ``anchor`` names another context."""
    assert links('</a>; rel=next; anchor="#x", </b>; rel=prev') == [B]
