"""Statements of headers and markup: which fields are read, whom they address, what is kept."""

from __future__ import annotations

import pytest

from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.parsed import ParseInput
from lycosa.base.preferences.page_statements import (
    header_statements,
    markup_statements,
    price_header,
)
from lycosa.base.preferences.preference_model import (
    MAX_STATEMENT_CHARACTERS,
    PreferenceSource,
    Statement,
    combine,
)
from lycosa.base.urls.identity import Canonicalizer
from lycosa.stages.parse.document import DocumentParser

S = PreferenceSource
NO_AI = {"ai-train": False, "ai-input": False}


def of(*headers: tuple[str, str]) -> tuple[Statement, ...]:
    return header_statements(headers, "Lycosa")


def test_an_answer_without_such_fields_states_nothing() -> None:
    assert of(("content-type", "text/html"), ("x-robots-tag", "noindex"), ("link", "<a>")) == ()


def test_content_usage_in_two_lines_is_one_dictionary() -> None:
    found = of(("content-usage", "train-ai=y"), ("content-usage", "train-ai=n, search=y"))
    assert found == (
        Statement(
            S.USAGE_HEADER,
            "train-ai=y, train-ai=n, search=y",
            0,
            {"ai-train": False, "search": True},
        ),
    )


def test_content_signal_is_read_and_kept() -> None:
    assert of(("content-signal", "ai-train=yes, search=yes, ai-input=no")) == (
        Statement(
            S.SIGNAL_HEADER,
            "ai-train=yes, search=yes, ai-input=no",
            0,
            {"search": True, "ai-train": True, "ai-input": False},
        ),
    )


@pytest.mark.parametrize(
    ("value", "answers"),
    [
        ("noai", NO_AI),
        ("noindex, NoAI", NO_AI),
        ("lycosa: noai", NO_AI),
        ("otherbot: noai", None),
        ("otherbot: noindex, lycosa: noai", NO_AI),
        ("*: noai", NO_AI),
        ("noimageai", {}),
        ("unavailable_after: 25 Jun 2030 15:00:00 PST, noai", NO_AI),
        ("available", None),
    ],
)
def test_x_robots_tag(value: str, answers: dict[str, bool] | None) -> None:
    expected = () if answers is None else (Statement(S.ROBOTS_TAG, value, 0, answers),)
    assert of(("x-robots-tag", value)) == expected


def test_noimageai_in_the_header_of_an_image_answers() -> None:
    (found,) = of(("content-type", "image/png"), ("x-robots-tag", "noimageai"))
    assert found.answers == NO_AI


def test_headers_of_tdmrep() -> None:
    """The two examples of TDMRep, "TDM Header Field in HTTP Responses"."""
    policy = "https://provider.com/policies/policy.json"
    assert of(("tdm-reservation", "1")) == (
        Statement(S.TDM_HEADER, "tdm-reservation: 1", 0, {"tdm": False}),
    )
    assert of(("tdm-reservation", "1"), ("tdm-policy", policy)) == (
        Statement(S.TDM_HEADER, f"tdm-reservation: 1; tdm-policy: {policy}", 0, {"tdm": False}),
    )
    assert of(("tdm-policy", policy)) == (Statement(S.TDM_HEADER, f"tdm-policy: {policy}"),)
    assert combine(of(("tdm-reservation", "0"), ("tdm-reservation", "1")))["tdm"] is False


@pytest.mark.parametrize(
    ("value", "address"),
    [
        (
            '<https://example.com/license.xml>; rel="license"; type="application/rsl+xml"',
            "https://example.com/license.xml",
        ),
        ("</l.xml>; rel=license", "/l.xml"),
        ('<a.css>; rel=preload, <b.xml>; REL="LICENSE"', "b.xml"),
        ("<c.html>; rel=license; type=text/html", ""),
        ("<d>; rel=licenses", ""),
        (f"<{'x' * 1001}>; rel=license", ""),
    ],
)
def test_link_header_with_a_licence(value: str, address: str) -> None:
    expected = (Statement(S.LICENSE_HEADER, address),) if address else ()
    assert of(("link", value)) == expected


def test_a_long_text_is_cut_and_read_whole() -> None:
    text = "x=1, " * 300 + "train-ai=n"
    (found,) = of(("content-usage", text))
    assert found.text == text[:MAX_STATEMENT_CHARACTERS] and found.answers == {"ai-train": False}


def test_the_price_of_a_402_is_kept() -> None:
    assert price_header([("date", "x"), ("crawler-price", "USD 0.01")]) == "USD 0.01"
    assert price_header([("crawler-price", "9" * 500)]) == "9" * 200
    assert price_header([]) == ""


def test_metas() -> None:
    """TDMRep, "TDM Metadata in HTML Content", and meta robots."""
    policy = "https://provider.com/policies/policy.json"
    found = markup_statements(
        [
            ("tdm-reservation", "1"),
            ("tdm-policy", policy),
            ("robots", "noai, noimageai"),
            ("lycosa", "noai"),
            ("otherbot", "noai"),
            ("description", "noai"),
        ],
        ["https://a.org/l.xml"],
        "Lycosa",
    )
    assert found == (
        Statement(S.ROBOTS_META, "noai, noimageai", 0, NO_AI),
        Statement(S.ROBOTS_META, "noai", 0, NO_AI),
        Statement(S.TDM_META, f"tdm-reservation: 1; tdm-policy: {policy}", 0, {"tdm": False}),
        Statement(S.LICENSE_MARKUP, "https://a.org/l.xml"),
    )


def parsed(markup: str) -> tuple[Statement, ...]:
    parser = DocumentParser(
        ParseSection(language=False), Canonicalizer(CanonicalSection()), "lycosa"
    )
    body = markup.encode()
    headers = [("content-type", "text/html"), ("content-usage", "search=n")]
    return parser.parse(ParseInput("https://a.org/b/", 200, headers, body)).statements


def test_the_parse_stage_gives_the_statements_of_the_markup_alone() -> None:
    assert parsed("<title>x</title><p>noai") == ()
    assert parsed(
        "<base href=/c/><meta name=Robots content=noai><META NAME=tdm-reservation CONTENT=0>"
        "<link rel='license' type='application/rsl+xml' href='l.xml'>"
        "<link rel=license type=text/html href=cc.html>"
    ) == (
        Statement(S.ROBOTS_META, "noai", 0, NO_AI),
        Statement(S.TDM_META, "tdm-reservation: 0", 0, {"tdm": True}),
        Statement(S.LICENSE_MARKUP, "https://a.org/c/l.xml"),
    )


def test_ten_thousand_metas_give_few_statements_and_lose_no_denial() -> None:
    metas = "".join(f"<meta name=tdm-reservation content=0{n}>" for n in range(10_000))
    found = parsed(metas + "<meta name=tdm-reservation content=1>")
    assert len(found) <= 20 and combine(found)["tdm"] is False
