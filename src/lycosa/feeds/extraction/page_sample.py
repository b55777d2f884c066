"""A sample of stored pages, on which user code is tried while it is written. Nothing is stored.

The sample is the same each time, as long as the crawl has the same closed segments and the code the
same patterns; so two runs can be compared.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import xxhash

from lycosa.base.config.patterns import compile_pattern
from lycosa.base.model.known_code import KnownCode
from lycosa.feeds.extraction.extraction_source import ExtractionSource, SourceCapture
from lycosa.feeds.extraction.segment_extraction import AskCode, judged_items
from lycosa.stages.extract.code_messages import ExtensionAnswer, GivenDocument
from lycosa.state.store.stored_data import RecordError

_MAX_SEGMENTS = 8  # that are read for a sample


class SampledPage(msgspec.Struct, frozen=True):
    """What code said of a page: items by extractor, links it added, scores of links in [0, 1].

    ``errors`` are those of the code, or why the page cannot be read.
    """

    url: str
    items: dict[str, list[dict[str, Any]]] = {}
    links: list[str] = []
    scores: dict[str, float] = {}
    errors: list[str] = []


def choose_sample(source: ExtractionSource, code: KnownCode, size: int) -> list[SourceCapture]:
    """Up to ``size`` captures whose URLs a part of the code matches; one of each URL.

    They are those with the smallest hashes of their URLs, in up to eight segments from all parts of
    the crawl. Raises ``JournalError`` or ``OSError``.
    """
    patterns = [part.match for part in code.parts]
    searches = [compile_pattern(each).search for each in patterns] if all(patterns) else None
    names = source.closed_segments()
    step = max(1, -(-len(names) // _MAX_SEGMENTS))

    def matching() -> Iterator[tuple[int, SourceCapture]]:
        seen = set[int]()
        for name in names[::step]:
            for each in source.captures(name):
                url = each.row.url.encode()
                place = xxhash.xxh3_64_intdigest(url)
                is_wanted = searches is None or any(search(url) for search in searches)
                if is_wanted and place not in seen:
                    seen.add(place)
                    yield place, each

    chosen = heapq.nsmallest(size, matching(), key=lambda each: each[0])
    return [each for _, each in chosen]


def load_sample(captures: Sequence[SourceCapture]) -> list[tuple[str, GivenDocument | str]]:
    """URL and page of each capture; of one that cannot be read, the reason."""
    return [(each.row.url, _load(each)) for each in captures]


def _load(capture: SourceCapture) -> GivenDocument | str:
    try:
        return capture.load()
    except (RecordError, OSError) as error:
        return f"the stored capture cannot be read: {error}"


async def try_code(
    code: KnownCode, pages: Sequence[tuple[str, GivenDocument | str]], ask: AskCode
) -> list[SampledPage]:
    """What the code says of each page, in their order."""

    async def of_page(url: str, page: GivenDocument | str) -> SampledPage:
        if isinstance(page, str):
            return SampledPage(url, errors=[page])
        return _sampled(code, url, await ask(page))

    return await asyncio.gather(*(of_page(url, page) for url, page in pages))


def _sampled(code: KnownCode, url: str, answer: ExtensionAnswer) -> SampledPage:
    items = dict[str, list[dict[str, Any]]]()
    errors = [f"{each.name}: {each.error}: {each.message}" for each in answer.failures]
    for schema in code.schemas:
        if schema.name not in answer.items:
            continue  # its pattern does not match, or it has failed
        rows, error = judged_items(answer, schema)
        names = [column.name for column in schema.columns]
        items[schema.name] = [dict(zip(names, row, strict=True)) for row in rows]
        if error:
            errors.append(f"{schema.name}: {error}")
    scores = {link: score / 255 for link, score in sorted(answer.scores.items())}
    return SampledPage(url, items, [link.url for link in answer.links], scores, errors)
