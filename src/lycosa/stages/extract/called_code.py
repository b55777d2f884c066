"""Which pages a code of the crawl wants, what it may say of them, and when it is suspended."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from lycosa.base.config.patterns import compile_pattern
from lycosa.base.model.code_failure import CodeFailure
from lycosa.base.model.item_schema import MAX_ITEM_BYTES, ItemSchema
from lycosa.base.model.known_code import KnownCode
from lycosa.stages.extract.code_messages import ExtensionAnswer

MOST_OVERRUNS, OF_PAGES = 20, 1000
_MAX_FAILURES = 100


class ExtensionCounts(msgspec.Struct):
    """What the child did since the start. ``elapsed_s`` is processor time of user code."""

    pages: int = 0
    rows: int = 0
    children: int = 0
    overruns: int = 0
    elapsed_s: float = 0.0


class CalledCode:
    """One code of the crawl, and how often it ended its process."""

    def __init__(self, known: KnownCode) -> None:
        self.known = known
        self.schemas: dict[str, ItemSchema] = {each.name: each for each in known.schemas}
        self.others = frozenset(each.kind for each in known.parts) - {"extractor"}
        matches = {each.match for each in known.parts}
        self._searches = [] if "" in matches else [compile_pattern(each).search for each in matches]
        self.pages = 0
        self._overruns: deque[int] = deque(maxlen=MOST_OVERRUNS)

    def is_for(self, url: bytes) -> bool:
        """Whether one of its functions wants the page with this URL."""
        return not self._searches or any(search(url) is not None for search in self._searches)

    def note_overrun(self) -> None:
        """Its process ended at a page, or something was left behind."""
        self._overruns.append(self.pages)

    @property
    def is_suspended(self) -> bool:
        """Whether it is not called any more: ``MOST_OVERRUNS`` of its last ``OF_PAGES`` pages."""
        overruns = self._overruns
        return len(overruns) == MOST_OVERRUNS and self.pages - overruns[0] < OF_PAGES


def checked_answer(
    codes: Sequence[CalledCode], answer: ExtensionAnswer, max_links: int
) -> ExtensionAnswer:
    """The answer with what the codes of the page may say; the child may have been spoiled."""
    schemas = {name: schema for code in codes for name, schema in code.schemas.items()}
    may = frozenset[str]().union(*(code.others for code in codes))
    items: dict[str, list[list[Any]]] = {}
    failures, room = list(answer.failures[:100]), MAX_ITEM_BYTES
    for name, rows in answer.items.items():
        schema = schemas.get(name)
        wrong = next(filter(None, map(schema.misfit, rows)), "") if schema else "not asked for"
        room -= len(msgspec.json.encode(rows)) if not wrong else 0
        if wrong or room < 0:
            said = wrong or f"more than {MAX_ITEM_BYTES:,} bytes"
            failures.append(CodeFailure("extractor", name[:100], "BadRows", said))
        else:
            items[name] = rows
    limit = max_links if "links" in may else 0
    scores = {url: number for url, number in answer.scores.items() if 0 <= number <= 255}
    return ExtensionAnswer(items, answer.links[:limit], scores if "score" in may else {}, failures)


def failed_answer(code: CalledCode, error: str, message: str) -> ExtensionAnswer:
    """The answer of a code that was not called, or did not return."""
    return ExtensionAnswer(failures=[CodeFailure("extension", code.known.name, error, message)])


def joined_answer(parts: Sequence[ExtensionAnswer]) -> ExtensionAnswer:
    """One answer from those of several codes."""
    if len(parts) == 1:
        return parts[0]
    return ExtensionAnswer(
        {name: rows for each in parts for name, rows in each.items.items()},
        [link for each in parts for link in each.links],
        {url: value for each in parts for url, value in sorted(each.scores.items())},
        [failure for each in parts for failure in each.failures],
    )
