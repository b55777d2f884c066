"""Both ends of the exchange as rows of a partition's own table, so that they change in the same
commit as everything else.

===================  ==================================================================
``O dest4``          number of the last parcel made for a partition (8 bytes)
``O dest4 seq8``     a parcel that is not acknowledged yet: its discovered URLs (array), or what
                     else it has (map), msgpack
``I source4``        number of the last parcel taken from a partition (8 bytes)
===================  ==================================================================

Invariant: for each pair, acknowledged ≤ taken ≤ made, and a row exists for every number that is
made and not acknowledged. Two rules keep it through crashes. A parcel is sent only when its row is
committed: else a crash could forget a parcel that the receiver knows, and give its number to
another. And it is acknowledged only when the commit that took it is on disk, a repeated one too:
else the receiver could forget it after the sender did. A topic holds parcels durably before they
are taken: there acknowledged ≤ held ≤ made, where 1 to "held" lie in the topic in order, and
everything up to the position in the receiver's commit is taken (``topic``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from lycosa.exchange.errors import ParcelGap, ParcelsLost
from lycosa.exchange.parcel_rows import ParcelRow, decode_row, encode_row, urls_of
from lycosa.exchange.port import Parcel
from lycosa.model.discovered import Discovered
from lycosa.model.errand import Answer, Errand

PARCEL_URLS = 500
"""Most URLs of a parcel: about 100 kB, a fraction of a commit."""

_OUTBOXES, _OUTBOXES_END = b"O", b"P"
# of robots.txt files that are in the answers of one parcel, unless it is a single one
_PARCEL_BYTES = 1_000_000


class Table(Protocol):
    """A partition's table, uncommitted writes included."""

    def get(self, key: bytes) -> bytes | None: ...
    def put(self, key: bytes, value: bytes) -> None: ...
    def delete(self, key: bytes) -> None: ...


class Committed(Protocol):
    """The same table, only what is committed."""

    def get(self, key: bytes) -> bytes | None: ...
    def scan(self, start: bytes, end: bytes, limit: int = 0) -> Iterator[tuple[bytes, bytes]]: ...


class Outbox:
    """The sending end of one partition."""

    def __init__(self, source: int, table: Table, committed: Committed) -> None:
        self.source, self._table, self._committed = source, table, committed
        self._acknowledged: dict[
            int,
            int,
            # where a scan starts: from the prefix it would pass the tombstones of all that was sent
        ] = {}

    def enqueue(self, destination: int, discovered: Sequence[Discovered]) -> None:
        """Puts URLs for another partition into the open commit, as one or more parcels."""
        self._add(
            destination,
            [
                ParcelRow(list(discovered[start : start + PARCEL_URLS]))
                for start in range(0, len(discovered), PARCEL_URLS)
            ],
        )

    def enqueue_contents(self, destination: int, rows: list[tuple[bytes, bytes]]) -> None:
        """Puts rows of content-seen for another partition into the open commit, as one or more
        parcels.
        """
        self._add(
            destination,
            [
                ParcelRow([], rows[start : start + PARCEL_URLS])
                for start in range(0, len(rows), PARCEL_URLS)
            ],
        )

    def enqueue_errands(self, destination: int, items: Sequence[Errand | Answer]) -> None:
        """Puts errands and answers for another partition into the open commit, in their order,
        as one or more parcels.
        """
        self._add(destination, [_of_items(part) for part in _parts(items)])

    def enqueue_places(self, destination: int, urls: Sequence[str]) -> None:
        """Puts URLs whose places joined the scope into the open commit, as one or more parcels."""
        self._add(
            destination,
            [
                ParcelRow([], places=list(urls[start : start + PARCEL_URLS]))
                for start in range(0, len(urls), PARCEL_URLS)
            ],
        )

    def pending(self, destination: int, limit: int, after: int = 0) -> list[Parcel]:
        """Committed parcels for a partition that are not acknowledged, in order, with a number
        greater than ``after``.
        """
        start = max(after, self._acknowledged.get(destination, 0)) + 1
        rows = self._committed.scan(_row_key(destination, start), _made_key(destination + 1), limit)
        found = [(number_in(key[5:]), decode_row(value)) for key, value in rows]
        if found and not after:
            self._acknowledged.setdefault(destination, found[0][0] - 1)
        return [self._parcel(destination, sequence, row) for sequence, row in found]

    def destinations(self) -> list[int]:
        """Partitions with committed parcels that are not acknowledged. One look-up per partition
        that was ever sent to.
        """
        found, destination = [], 0
        while pairs := list(self._committed.scan(_made_key(destination), _OUTBOXES_END, 1)):
            destination = int.from_bytes(pairs[0][0][1:5])
            if self.pending(destination, 1):
                found.append(destination)
            destination += 1
        return found

    def acknowledged(self, destination: int, sequence: int) -> None:
        """This parcel and all before it are handed over: their rows go with the open commit.
        Harmless when repeated.
        """
        known = self._acknowledged.get(destination, sequence - 1)
        for number in range(known + 1, sequence + 1):
            self._table.delete(_row_key(destination, number))
        self._acknowledged[destination] = max(known, sequence)

    def _add(self, destination: int, parcels: Sequence[ParcelRow]) -> None:
        sequence = number_in(self._table.get(_made_key(destination)))
        for number, parcel in enumerate(parcels, sequence + 1):
            self._table.put(_row_key(destination, number), encode_row(parcel))
        if parcels:
            self._table.put(_made_key(destination), _packed(sequence + len(parcels)))

    def _parcel(self, destination: int, sequence: int, row: ParcelRow) -> Parcel:
        acknowledged = self._acknowledged.get(destination, 0)
        return Parcel(
            self.source,
            destination,
            sequence,
            row.discovered,
            row.contents,
            acknowledged,
            row.errands,
            row.answers,
            row.places,
        )

    def __repr__(self) -> str:
        return f"Outbox(source={self.source}, acknowledged={self._acknowledged})"


class Inbox:
    """The receiving end of one partition."""

    def __init__(self, table: Table, committed: Committed, destination: int = 0) -> None:
        self._table, self._committed, self._destination = table, committed, destination

    def is_new(self, source: int, sequence: int, acknowledged: int = 0) -> bool:
        """Whether this parcel is the next one; false for one that was taken before.

        Raises ``ParcelGap`` for one beyond the next, which comes again, and ``ParcelsLost`` when
        those in front of it never will.
        """
        taken = number_in(self._table.get(_taken_key(source)))
        if acknowledged > taken:
            raise ParcelsLost(source, self._destination, taken, acknowledged)
        if sequence > taken + 1:
            raise ParcelGap(f"parcel {sequence} from partition {source} came after {taken}")
        return sequence == taken + 1

    def accept(self, source: int, sequence: int) -> None:
        """Notes in the open commit that this parcel was taken, together with what it caused."""
        self._table.put(_taken_key(source), _packed(sequence))

    def is_committed(self, source: int, sequence: int) -> bool:
        """Whether the commit that took this parcel is on disk, so that it may be acknowledged
        without waiting for the next one.
        """
        return sequence <= number_in(self._committed.get(_taken_key(source)))


def waiting_urls(
    scan: Callable[[bytes, bytes], Iterable[tuple[bytes, bytes]]],
) -> Iterator[Discovered]:
    """The URLs in all parcels of one partition's outboxes that are not acknowledged. ``scan``
    gives its rows between two keys, in order.
    """
    for key, value in scan(_OUTBOXES, _OUTBOXES_END):
        if len(key) > len(_made_key(0)):
            yield from urls_of(value)


def _of_items(items: Sequence[Errand | Answer]) -> ParcelRow:
    return ParcelRow(
        [],
        [],
        [each for each in items if isinstance(each, Errand)],
        [each for each in items if isinstance(each, Answer)],
    )


def _parts(items: Sequence[Errand | Answer]) -> Iterator[list[Errand | Answer]]:
    """Parts of bounded number and size: an answer may bring a long robots.txt."""
    part: list[Errand | Answer] = []
    size = 0
    for item in items:
        size += len(item.robots) if isinstance(item, Answer) else 0
        if part and (len(part) >= PARCEL_URLS or size > _PARCEL_BYTES):
            yield part
            part, size = [], len(item.robots) if isinstance(item, Answer) else 0
        part.append(item)
    if part:
        yield part


def _made_key(destination: int) -> bytes:
    return b"O" + destination.to_bytes(4)


def _row_key(destination: int, sequence: int) -> bytes:
    return b"O" + destination.to_bytes(4) + sequence.to_bytes(8)


def _taken_key(source: int) -> bytes:
    return b"I" + source.to_bytes(4)


def _packed(number: int) -> bytes:
    return number.to_bytes(8)


def number_in(value: bytes | None) -> int:
    """A parcel's number in a key or a value; 0 when there is none."""
    return int.from_bytes(value) if value else 0
