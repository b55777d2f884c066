"""A table read host by host: keys of one host are adjacent under every prefix."""

from __future__ import annotations

from collections.abc import Iterator

from lycosa.inspect.committed_state import TableView
from lycosa.stages.frontier.visit_state import VisitRecord, decode_visit
from lycosa.state.kv.table_records import prefix_end

Pairs = Iterator[tuple[bytes, bytes]]


class HostSection:
    """One host's part of a table.

    Its visit state, then its records and queue entries, each to be read once in this order.
    """

    def __init__(self, host8: bytes, host: VisitRecord | None, urls: Pairs, queue: Pairs) -> None:
        self.host8, self.visit, self.urls, self.queue = host8, host, urls, queue


def sections_of(view: TableView) -> Iterator[HostSection]:
    """Every host that has a visit state, a record or an entry of a queue."""
    visits, urls, queue = (
        _Stream(view.scan(prefix, prefix_end(prefix))) for prefix in (b"H", b"U", b"Q")
    )
    while True:
        heads = [stream.host8 for stream in (visits, urls, queue) if stream.host8 is not None]
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
        for left in (visits.take_host(host8), host.urls, host.queue):
            for _ in left:
                pass


class _Stream:
    """A scan that is read host by host."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        self._next = next(pairs, None)

    @property
    def host8(self) -> bytes | None:
        """The host of the next pair."""
        return self._next[0][1:9] if self._next else None

    def take_host(self, host8: bytes) -> Pairs:
        """Read the pairs of a host."""
        while self._next is not None and self._next[0][1:9] == host8:
            pair, self._next = self._next, next(self._pairs, None)
            yield pair
