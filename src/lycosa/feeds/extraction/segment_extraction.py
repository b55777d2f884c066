"""Makes the table of one segment: user code reads its captures, some at a time.

Rows are in the order of the captures, whichever answer comes first. So a table has the same bytes
on every machine, with any number of processes, as long as the code gives the same items.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from lycosa.base.config.patterns import compile_pattern
from lycosa.base.model.item_schema import MAX_ITEM_BYTES, ItemSchema
from lycosa.feeds.extraction.extraction_source import SourceCapture
from lycosa.stages.extract.code_messages import ExtensionAnswer, GivenDocument
from lycosa.state.store.items_table import ItemsBuilder
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.stored_data import RecordError

AskCode = Callable[[GivenDocument], Awaitable[ExtensionAnswer]]
"""What user code says of a page."""
KeptItems = Callable[[JournalRow], "list[list[Any]] | None"]
"""The items of a capture that are kept; ``None`` for one that is extracted."""

_Found = GivenDocument | list[list[Any]] | str
"""The page for user code, items that are kept, or why it cannot be read."""
_NO_ANSWER = "user code gave no answer"
_READ_CAPTURES, _READ_BYTES = 32, 8 << 20  # read at a time, in a thread


class CaptureFailure(msgspec.Struct, frozen=True):
    """A capture that has no items in a version, because reading it or user code failed."""

    capture: str
    url: str
    error: str


class SegmentResult(msgspec.Struct, frozen=True):
    """What was made of a segment. ``captures`` are those that user code was asked about."""

    captures: int = 0
    items: int = 0
    failures: tuple[CaptureFailure, ...] = ()


class ExtractionBuilder:
    """Makes tables of one version of an extractor. ``ask`` may be called ``at_once`` times.

    ``match`` is the pattern that URLs must match, empty for all. ``note`` is called after each
    capture that was extracted.
    """

    def __init__(
        self,
        schema: ItemSchema,
        match: str,
        ask: AskCode,
        at_once: int,
        note: Callable[[int, int, bool], object] = lambda captures, items, has_error: None,
    ) -> None:
        self._schema, self._ask, self._at_once, self._note = schema, ask, at_once, note
        self._search = compile_pattern(match).search if match else None

    async def make_table(
        self,
        path: Path,
        captures: Iterable[SourceCapture],
        kept: KeptItems = lambda row: None,
    ) -> SegmentResult:
        """Write the table of the captures of a segment. Raises ``OSError`` or ``JournalError``."""
        made = _TableInProgress(ItemsBuilder(path, self._schema))
        waiting: deque[tuple[JournalRow, _Found | asyncio.Task[ExtensionAnswer]]] = deque()
        source = self._wanted(captures, kept)
        reading = asyncio.create_task(asyncio.to_thread(_read_some, source))
        try:
            while batch := await reading:
                # One batch is read while user code has the one before.
                reading = asyncio.create_task(asyncio.to_thread(_read_some, source))
                for row, found in batch:
                    if isinstance(found, GivenDocument):
                        waiting.append((row, asyncio.create_task(self._asked(found))))
                    else:
                        waiting.append((row, found))
                    if len(waiting) > self._at_once:
                        await self._settle(*waiting.popleft(), made)
            while waiting:
                await self._settle(*waiting.popleft(), made)
        finally:
            tasks = [each for _, each in waiting if isinstance(each, asyncio.Task)]
            for task in tasks:
                task.cancel()
            await asyncio.gather(reading, *tasks, return_exceptions=True)
            made.builder.close()
        return SegmentResult(made.captures, made.items, tuple(made.failures))

    async def _asked(self, given: GivenDocument) -> ExtensionAnswer:
        return await self._ask(given)

    async def _settle(
        self,
        row: JournalRow,
        found: _Found | asyncio.Task[ExtensionAnswer],
        made: _TableInProgress,
    ) -> None:
        """Add the items of a capture, when they are known."""
        error = found if isinstance(found, str) else ""
        items = found if isinstance(found, list) else []
        if isinstance(found, asyncio.Task):
            items, error = judged_items(await found, self._schema)
        if not isinstance(found, list):
            made.captures += 1
            self._note(1, len(items), bool(error))
        if error:
            made.failures.append(CaptureFailure(row.record_id, row.url, error))
        if items:
            made.items += len(items)
            made.builder.add_row(msgspec.structs.replace(row, items={self._schema.name: items}))

    def _wanted(
        self, captures: Iterable[SourceCapture], kept: KeptItems
    ) -> Iterator[tuple[JournalRow, _Found]]:
        """The captures of which there may be items, with what was found. Blocks."""
        for each in captures:
            if self._search is not None and self._search(each.row.url.encode()) is None:
                continue
            items = kept(each.row)
            if items is not None:
                yield each.row, items
                continue
            try:
                yield each.row, each.load()
            except (RecordError, OSError) as error:
                # One record that cannot be read is no reason to give up all others.
                yield each.row, f"the stored capture cannot be read: {error}"


def judged_items(answer: ExtensionAnswer, schema: ItemSchema) -> tuple[list[list[Any]], str]:
    """The items of an answer, and what failed. The process of user code is not trusted."""
    items = answer.items.get(schema.name)
    if items is None:
        return [], answer.failures[0].error if answer.failures else _NO_ANSWER
    for each in items:
        if why := schema.misfit(each):
            return [], f"an item does not fit: {why}"
    if len(msgspec.json.encode(items)) > MAX_ITEM_BYTES:
        return [], f"more than {MAX_ITEM_BYTES:,} bytes of items"
    return items, ""


class _TableInProgress:
    """A table and what is counted meanwhile."""

    def __init__(self, builder: ItemsBuilder) -> None:
        self.builder = builder
        self.captures = self.items = 0
        self.failures: list[CaptureFailure] = []


def _read_some(source: Iterator[tuple[JournalRow, _Found]]) -> list[tuple[JournalRow, _Found]]:
    """The next captures, read from the store; none at the end."""
    batch, size = list[tuple[JournalRow, _Found]](), 0
    for row, found in source:
        batch.append((row, found))
        size += len(found.body) if isinstance(found, GivenDocument) else 0
        if len(batch) >= _READ_CAPTURES or size >= _READ_BYTES:
            break
    return batch
