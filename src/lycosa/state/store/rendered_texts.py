"""Which fetches have a better text in a render, for readers that read a crawl row by row.

So each fetch comes once: at the place of its render if it was rendered, else at its own. A later
fetch that found the same body was not rendered, and gets the text of the render all the same.
Memory: about 200 bytes for each render that has the better text, and at most ``_MOST_CHARACTERS``
of texts. Nothing is read of a segment without renders but the first line of its journal.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import msgspec

from lycosa.base.urls.identity import hash8
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.render_facts import RENDER_LINE
from lycosa.state.store.segments_port import StoredSegment

_MOST_CHARACTERS = 32_000_000
_CHOSEN = (
    "title",
    "description",
    "canonical",
    "language",
    "simhash",
    "text",
    "text_characters",
    "links",
    "outlinks",
    "content",
)


class RowReader(Protocol):
    """The part of a view that this needs."""

    def list_segments(self) -> list[StoredSegment]: ...
    def read_rows(self, segment: StoredSegment, having: bytes = b"") -> Iterator[JournalRow]: ...


class ShownRow(NamedTuple):
    """A row as readers get it; ``is_rendered`` says that text and links are those of a render."""

    row: JournalRow
    is_rendered: bool


class _Newest(NamedTuple):
    date_us: int
    fetch_number: int
    segment: StoredSegment


class BetterRenders:
    """The newest render with the better text of each URL and body.

    Raises ``JournalError`` or ``OSError``.
    """

    def __init__(self, source: RowReader) -> None:
        self._source = source
        self._newest: dict[tuple[bytes, str], _Newest] = {}
        self._rows: OrderedDict[tuple[bytes, str], JournalRow] = OrderedDict()
        self._characters = 0
        for segment in source.list_segments():
            if segment.journal_length is None:
                continue
            for row in self._better_rows(segment):
                key, old = _key(row), self._newest.get(_key(row))
                if old is None or row.date_us >= old.date_us:
                    self._newest[key] = _Newest(row.date_us, row.fetch_number, segment)

    def __repr__(self) -> str:
        return f"<BetterRenders {len(self._newest)} kept={len(self._rows)}>"

    def shown(self, row: JournalRow) -> ShownRow | None:
        """The row as readers get it; ``None`` if another row of its fetch has the text."""
        if not self._newest:
            return ShownRow(row, False) if row.render is None else None
        newest = self._newest.get(_key(row))
        if row.render is not None:
            is_shown = newest is not None and newest.date_us == row.date_us
            return ShownRow(row, True) if is_shown else None
        if newest is None:
            return ShownRow(row, False)
        if newest.fetch_number == row.fetch_number:
            return None
        render = self._find(_key(row), newest)
        if render is None:
            return ShownRow(row, False)
        values = {name: getattr(render, name) for name in _CHOSEN}
        return ShownRow(msgspec.structs.replace(row, **values), True)

    def _better_rows(self, segment: StoredSegment) -> Iterator[JournalRow]:
        for row in self._source.read_rows(segment, RENDER_LINE):
            if row.render is not None and row.render.is_better:
                yield row

    def _find(self, key: tuple[bytes, str], newest: _Newest) -> JournalRow | None:
        """The row of a render. Fetches of one time found bodies of one time, so those of its
        segment are kept."""
        if key not in self._rows:
            found = None
            for row in self._better_rows(newest.segment):
                if _key(row) == key and row.date_us == newest.date_us:
                    found = row
                else:
                    self._keep(row)
            if found is not None:
                self._keep(found)  # last, so that it is not the first to go
        return self._rows.get(key)

    def _keep(self, row: JournalRow) -> None:
        key = _key(row)
        newest = self._newest.get(key)
        if key in self._rows or newest is None or newest.date_us != row.date_us:
            return
        self._rows[key] = row
        self._characters += len(row.text)
        while self._characters > _MOST_CHARACTERS and len(self._rows) > 1:
            _, gone = self._rows.popitem(last=False)
            self._characters -= len(gone.text)


def _key(row: JournalRow) -> tuple[bytes, str]:
    """The URL, and the record that has the body.

    Pages of an application have one body and are rendered each, so the record alone is not enough.
    """
    is_other = row.original is not None and (row.render is not None or bool(row.revisit))
    record_id = row.original.record_id if is_other and row.original else row.record_id
    return hash8(row.url), record_id
