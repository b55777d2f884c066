"""The feed ``items.NAME``: every item that an extractor made while the crawl ran, once.

An item is in the journal row of its page, so it is committed with the page, and nothing else. The
feed reads the rows as the feed ``pages`` does, and gives an object for each item: the crawler's
columns ``_url``, ``_fetched``, ``_capture``, ``_version`` and ``_item``, then those of the
extractor. Items of pages that the purpose of the crawl may not use are left out. An item is
identified by ``_capture`` and ``_item``.

A capture has any number of items, so a position also says how many of the next row were given.
What `lycosa extract` made again later is in tables and not in the feed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from lycosa.base.model.fetched import Privacy
from lycosa.base.model.item_schema import ItemSchema, check_item_name
from lycosa.base.preferences.preference_model import NOTHING_STATED, Preferences
from lycosa.feeds.feed_position import position_text, read_position
from lycosa.feeds.journal_lines import JournalLines, LinePosition
from lycosa.state.store import layout
from lycosa.state.store.derived_files import ITEMS
from lycosa.state.store.journal_rows import SegmentHeader

_HAVING = b'"items":'
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_encode = msgspec.json.Encoder().encode


class ItemFeed:
    """The items of one extractor after a position, as a ``RowFeed``.

    Raises ``BadPosition``, or ``BadSchema`` for a name that no extractor can have.
    """

    def __init__(self, lines: JournalLines, name: str, after: str = "") -> None:
        check_item_name(name)
        self._lines, self.name = lines, name
        given = read_position(self._feed, lines.crawl, after, 4)
        lines.begin({worker: LinePosition(*numbers[:3]) for worker, numbers in given.items()})
        # Items that were given of the row behind those that were given whole, by worker.
        self._partly = {worker: numbers[3] for worker, numbers in given.items() if numbers[3]}
        self._waiting = deque[bytes]()  # the other items of the row of `_worker`
        self._worker = -1
        self._schemas: dict[str, ItemSchema | None] = {}  # by segment

    @property
    def _feed(self) -> str:
        return f"{ITEMS}.{self.name}"

    @property
    def position(self) -> str:
        """The position after the item that was given last."""
        parts: dict[int, tuple[int, ...]] = {
            worker: (*read, 0) for worker, read in self._lines.read().items()
        }
        for worker, items in self._partly.items():
            term, number, rows, _ = parts[worker]
            # The lines count a row from its first item on.
            parts[worker] = term, number, rows - (worker == self._worker), items
        return position_text(self._feed, self._lines.crawl, parts)

    @property
    def is_behind(self) -> bool:
        """Whether there are commits of which the items were not given yet."""
        return self._lines.is_behind

    def new_rows(self) -> Iterator[bytes]:
        """See ``RowFeed``. Raises ``BadSchema`` too, if a header is damaged."""
        yield from self._give()  # of a row in which the reader stopped
        for line, header in self._lines.new_lines():
            worker = layout.segment_worker(header.segment)
            given = self._partly.pop(worker, 0)
            if _HAVING in line and (items := self._items(line, header)[given:]):
                self._waiting.extend(items)
                self._worker, self._partly[worker] = worker, given
                yield from self._give()

    def _give(self) -> Iterator[bytes]:
        while self._waiting:
            item = self._waiting.popleft()
            self._partly[self._worker] += 1
            if not self._waiting:
                del self._partly[self._worker]
                self._worker = -1
            yield item

    def schema(self) -> ItemSchema | None:
        """The columns of the newest version in the journals; ``None`` if no segment has one."""
        for header in self._lines.headers():
            if (found := self._schema(header)) is not None:
                return found
        return None

    def names(self) -> list[str]:
        """The extractors that segments name."""
        return sorted({x.name for each in self._lines.headers() for x in each.extractors})

    def _schema(self, header: SegmentHeader) -> ItemSchema | None:
        if header.segment not in self._schemas:
            found = [each for each in header.extractors if each.name == self.name and each.fields]
            self._schemas[header.segment] = found[0].columns() if found else None
        return self._schemas[header.segment]

    def _items(self, line: bytes, header: SegmentHeader) -> Sequence[bytes]:
        """The items of a row, as they are given."""
        schema = self._schema(header)
        if schema is None:
            return ()
        row = _decode(line)
        if row.privacy is Privacy.PRIVATE or not header.policy.allows(row.preferences):
            return ()
        return [
            _encode(_item(row, schema, number, values))
            for number, values in enumerate(row.items.get(self.name, ()))
            if not schema.misfit(values)
        ]


class _Line(msgspec.Struct):
    """What the feed needs of a ``JournalRow``."""

    url: str
    date_us: int
    record_id: str
    items: dict[str, list[list[Any]]] = {}
    preferences: Preferences = NOTHING_STATED
    privacy: Privacy = Privacy.PUBLIC


_decode = msgspec.json.Decoder(_Line).decode


def _item(row: _Line, schema: ItemSchema, number: int, values: Sequence[Any]) -> dict[str, Any]:
    columns = {
        each.name: _text_of(each.type, value)
        for each, value in zip(schema.columns, values, strict=True)
    }
    return {
        "_url": row.url,
        "_fetched": _time(row.date_us),
        "_capture": row.record_id,
        "_version": schema.version,
        "_item": number,
        **columns,
    }


def _text_of(kind: str, value: Any) -> Any:
    """A value as in exported JSON lines: times in ISO 8601 and UTC."""
    if value is None or kind not in ("time", "list[time]"):
        return value
    return [_time(each) for each in value] if kind == "list[time]" else _time(value)


def _time(us: int) -> str:
    moment = _EPOCH + timedelta(microseconds=us)
    text = moment.replace(tzinfo=None).isoformat(
        timespec="microseconds" if moment.microsecond else "seconds"
    )
    return text + "Z"
