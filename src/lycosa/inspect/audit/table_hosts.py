"""A table read host by host: keys of one host are adjacent under every prefix."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Generic, TypeVar

from lycosa.inspect.committed_state import TableView
from lycosa.stages.frontier.visit_state import VisitRecord, decode_visit
from lycosa.state.cold.whole_table import MarkedRecord
from lycosa.state.kv.merged_table import KeyValuePair
from lycosa.state.kv.table_records import prefix_end

_Row = TypeVar("_Row", MarkedRecord, KeyValuePair)


class HostSection:
    """One host's part of a table.

    Its visit state, then its records and queue entries, each to be read once in this order.
    """

    def __init__(
        self,
        host8: bytes,
        host: VisitRecord | None,
        urls: Iterator[MarkedRecord],
        queue: Iterator[KeyValuePair],
    ) -> None:
        self.host8, self.visit, self.urls, self.queue = host8, host, urls, queue


def sections_of(view: TableView) -> Iterator[HostSection]:
    """Every host that has a visit state, a record or an entry of a queue."""
    visits, queue = (_Stream(view.scan(prefix, prefix_end(prefix))) for prefix in (b"H", b"Q"))
    urls = _Stream(view.marked_records())
    while True:
        heads = [each for each in (visits.host8, urls.host8, queue.host8) if each is not None]
        if not heads:
            return
        host8 = min(heads)
        value = next((value for _, value in visits.take_host(host8)), None)
        host = HostSection(
            host8,
            decode_visit(value) if value is not None else None,
            urls.take_host(host8),
            queue.take_host(host8),
        )
        yield host
        for _ in chain(visits.take_host(host8), host.urls, host.queue):
            pass


class _Stream(Generic[_Row]):
    """A scan that is read host by host; a row begins with its key."""

    def __init__(self, rows: Iterator[_Row]) -> None:
        self._rows: Iterator[_Row] = rows
        self._next: _Row | None = next(rows, None)

    @property
    def host8(self) -> bytes | None:
        """The host of the next row."""
        return self._next[0][1:9] if self._next else None

    def take_host(self, host8: bytes) -> Iterator[_Row]:
        """Read the rows of a host."""
        while self._next is not None and self._next[0][1:9] == host8:
            row, self._next = self._next, next(self._rows, None)
            yield row
