"""A crawl folder with items of user code, whose captures a test writes down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from lycosa.base.model.capture import StoredOriginal
from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.item_schema import ItemColumn, ItemSchema
from lycosa.state.store import layout
from lycosa.state.store.journal import (
    encode_header,
    encode_journal_frame,
    encode_line,
    read_header,
    read_rows,
)
from lycosa.state.store.journal_rows import Extractor
from lycosa.state.store.segment_recovery import rebuild
from sample_crawl import SampleCrawl
from store_samples import START, capture, close_all, fetched

PRODUCTS = ItemSchema(
    "products", 1, (ItemColumn("name", "text"), ItemColumn("price", "number", optional=True))
)
SECOND = ItemSchema("products", 2, (ItemColumn("name", "list[text]"), ItemColumn("new", "text")))
SITE = "https://www.example.org"


class ItemCrawl(SampleCrawl):
    """A crawl whose store has an extractor; pages are written down by their URL."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.store.use_extractors([Extractor.of(PRODUCTS)])
        self.segments: list[str] = []

    def page(
        self,
        path: str,
        at: float,
        *items: list[Any],
        status: int = 200,
        original: StoredOriginal | None = None,
        is_304: bool = False,
        **changes: Any,
    ) -> StoredOriginal:
        """A capture at a time after the start; gives what a later revisit refers to."""
        answer = fetched(f"{SITE}/{path}", path.encode(), started=START + at, status=status)
        made = capture(answer, items={"products": list(items)} if items else {}, **changes)
        made = self.last = msgspec.structs.replace(made, original=original, not_modified=is_304)
        place = self.store.append_capture(made)
        return StoredOriginal(
            answer.url,
            int(answer.started * 1_000_000),
            place.record_id,
            place.segment,
            place.offset,
        )

    def close_segments(self) -> None:
        self.commit([])
        self.segments += [each.name for each in close_all(self.store)]
        self.commit([])


def plant_items(folder: Path, schema: ItemSchema = PRODUCTS) -> int:
    """Let a finished crawl have items: each page one row, as if an extractor had made them.

    Gives the number of items. Journals are written again, so their recorded lengths are too.
    """
    planted = 0
    for name in layout.closed_segments(folder):
        path = folder / layout.file_name(layout.JOURNAL, name)
        header = msgspec.structs.replace(read_header(path), extractors=(Extractor.of(schema),))
        lines = [encode_header(header)]
        for row in read_rows(path):
            if row.status == 200 and row.kind is FetchKind.PAGE and not row.revisit:
                row = msgspec.structs.replace(row, items={schema.name: [[row.title, row.depth]]})
                planted += 1
            lines.append(encode_line(row))
        path.write_bytes(encode_journal_frame(lines))
    for each in (folder / "log").glob("closed-w*"):
        each.unlink()
    rebuild(folder)
    return planted
