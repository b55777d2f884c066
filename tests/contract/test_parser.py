"""What every implementation of the parser port promises, in process and in the child."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lycosa.base.config.sections import CanonicalSection, ParseSection
from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.parsed import Parsed, ParseInput
from lycosa.base.ports import Parser
from lycosa.base.reasons import Reason
from lycosa.base.system.clock import SystemClock
from lycosa.stages.parse.child_parser import ChildParser
from lycosa.stages.parse.inline_parser import InlineParser
from lycosa.stages.parse.parser_config import ParserConfig

PAGE = b"""<!DOCTYPE html><html lang=en><title>Wolves &amp; spiders</title><meta name=robots content=noarchive>
<link rel=canonical href=/wolf><p>Spiders hunt at night. <a href="../b#x" rel=nofollow>The  next</a>
<img src=i.png> <a href="mailto:x@y">mail</a>"""


def config(**settings: object) -> ParserConfig:
    section = {"language": False, "recycle_documents": 4, **settings}
    return ParserConfig(ParseSection(**section), CanonicalSection(), "lycosa")  # type: ignore[arg-type]


def page(url: str = "http://example.org/a/p", body: bytes = PAGE) -> ParseInput:
    return ParseInput(url, 200, [("content-type", "text/html; charset=utf-8")], body)


@pytest.fixture(params=["inline", "child"])
async def parser(request: pytest.FixtureRequest) -> AsyncIterator[Parser]:
    made: Parser = (
        InlineParser(config())
        if request.param == "inline"
        else ChildParser(config(), SystemClock())
    )
    yield made
    await made.close()


async def test_a_page_comes_back_as_what_it_says(parser: Parser) -> None:
    parsed = await parser.parse(page())
    assert parsed.reason is Reason.NONE
    assert (parsed.media_type, parsed.charset, parsed.title, parsed.language) == (
        "text/html",
        "utf-8",
        "Wolves & spiders",
        "en",
    )
    assert parsed.canonical == "http://example.org/wolf"
    assert parsed.text == "Spiders hunt at night. The next mail"
    assert parsed.directives.noarchive and not parsed.directives.noindex
    assert [(link.url, link.kind, link.anchor, link.nofollow) for link in parsed.links] == [
        ("http://example.org/wolf", LinkKind.CANONICAL, "", False),
        ("http://example.org/b", LinkKind.A, "The next", True),
        ("http://example.org/a/i.png", LinkKind.IMG, "", False),
    ]
    assert parsed.refused_links == {Reason.SCHEME: 1}
    assert parsed.decoded_bytes == len(PAGE)


async def test_documents_at_once_get_their_own_answers(parser: Parser) -> None:
    documents = [page(f"http://example.org/{number}/p", b"<a href=x>y</a>") for number in range(30)]
    answers = await asyncio.gather(*map(parser.parse, documents))
    assert [answer.links[0].url for answer in answers] == [
        f"http://example.org/{number}/x" for number in range(30)
    ]


async def test_bytes_that_are_no_document_give_a_reason(parser: Parser) -> None:
    parsed = await parser.parse(
        ParseInput(
            "http://example.org/p.pdf", 200, [("content-type", "application/pdf")], b"%PDF-1.7"
        )
    )
    assert (parsed.reason, parsed.media_type, parsed.links) == (
        Reason.CONTENT_TYPE,
        "application/pdf",
        [],
    )


async def test_a_spooled_body_is_read_from_its_file(parser: Parser, tmp_path: Path) -> None:
    spool = tmp_path / "body"
    spool.write_bytes(PAGE)
    parsed = await parser.parse(
        ParseInput("http://example.org/", 200, [("content-type", "text/html")], b"", str(spool))
    )
    assert parsed.title == "Wolves & spiders"


async def test_a_spool_that_is_gone_is_an_internal_reason(parser: Parser, tmp_path: Path) -> None:
    parsed = await parser.parse(
        ParseInput("http://example.org/", 200, [], b"", str(tmp_path / "none"))
    )
    assert parsed.reason is Reason.INTERNAL


async def test_large_bodies_pass(parser: Parser) -> None:
    body = b"<p>word</p>" * 100_000
    answers: list[Parsed] = await asyncio.gather(*(parser.parse(page(body=body)) for _ in range(3)))
    assert [answer.decoded_bytes for answer in answers] == [len(body)] * 3


async def test_text_that_is_no_unicode_is_an_internal_reason_at_most(parser: Parser) -> None:
    parsed = await parser.parse(
        ParseInput(
            "http://example.org/", 200, [("content-type", "text/html"), ("x", "\ud800")], b"<p>x"
        )
    )
    assert parsed.reason in (Reason.NONE, Reason.INTERNAL)
    assert (await parser.parse(page())).reason is Reason.NONE


async def test_closing_twice_is_harmless(parser: Parser) -> None:
    await parser.parse(page())
    await parser.close()
    await parser.close()


async def test_a_page_that_can_crash_the_html_parser_is_recorded_and_the_next_one_is_read() -> None:
    """turbohtml 1.15.4 crashes when a table ends at its greatest depth, 512 elements, with a
    link open around it.
    """
    deep = b"<x>" * 506 + b"<a><table><td><table><td></table><noscript><a>"
    parser = ChildParser(config(), SystemClock())
    try:
        # a crash is no promise
        assert (await parser.parse(page(body=deep))).reason in (
            Reason.PARSE_KILLED,
            Reason.NONE,
        )
        assert (await parser.parse(page())).reason is Reason.NONE
    finally:
        await parser.close()
