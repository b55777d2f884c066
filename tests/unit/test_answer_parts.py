"""An answer about a document with very many links comes over whole, in parts."""

from __future__ import annotations

import asyncio

import msgspec

from lycosa.base.model.discovered import LinkKind
from lycosa.base.model.parsed import Link, Parsed
from lycosa.base.urls.identity import hash8
from lycosa.stages.parse.answer_parts import PART_LINKS, in_parts, put_together


def _parsed(count: int) -> Parsed:
    urls = [f"http://h.test/{number}" for number in range(count)]
    links = [Link(url, b"h" * 8, hash8(url), LinkKind.SITEMAP) for url in urls]
    hints = {url: (number, 0.5) for number, url in enumerate(urls) if number % 3}
    return Parsed(
        title="Many",
        links=links,
        hints=hints,
        changes=dict.fromkeys(urls[::2], 60),
        is_sitemap=True,
    )


def _round_trip(parsed: Parsed) -> tuple[Parsed, int]:
    turns = 0

    async def give_way() -> None:
        nonlocal turns
        turns += 1

    packed = msgspec.msgpack.decode(msgspec.msgpack.encode(in_parts(parsed)), type=Parsed)
    return asyncio.run(put_together(packed, give_way)), turns


def test_many_links_come_over_in_parts_with_a_turn_for_each() -> None:
    parsed = _parsed(3 * PART_LINKS + 7)
    assert len(in_parts(parsed).more) == 4 and in_parts(parsed).links == []
    assert _round_trip(parsed) == (parsed, 4)


def test_an_ordinary_answer_is_one_piece() -> None:
    parsed = _parsed(PART_LINKS)
    assert in_parts(parsed) is parsed
    assert _round_trip(parsed) == (parsed, 0)
