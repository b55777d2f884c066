"""Both ends of the exchange as rows of a partition's table.

As rows they change in the same commit as everything else.

    ===================  ==================================================================
    ``O dest4``          number of the last parcel made for a partition (8 bytes)
    ``O dest4 seq8``     an unacknowledged parcel: its discovered URLs (array), or its other
                         content (map), msgpack
    ``I source4``        number of the last parcel taken from a partition (8 bytes)
    ===================  ==================================================================

Invariant: for each pair, acknowledged ≤ taken ≤ made, and a row exists for every number that is
made and not acknowledged. Two rules keep it through crashes. First, a parcel is sent only when its
row is committed. Otherwise a crash could erase a parcel that the receiver knows, and its number
would be used again. Second, a parcel, also a repeated one, is acknowledged only when the commit
that took it is on disk. Otherwise the receiver could forget it after the sender has deleted it.

A topic holds parcels durably before they are taken. There acknowledged ≤ held ≤ made, where 1 to
"held" are in the topic in order, and everything up to the position in the receiver's commit is
taken (``topic``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from lycosa.base.model.discovered import Discovered
from lycosa.base.model.parcel_items import (
    Answer,
    Errand,
    Fingerprint,
    PostedWant,
    SettledWant,
    Verdict,
)
from lycosa.state.exchange.exchange_errors import ParcelGap, ParcelsLost
from lycosa.state.exchange.exchange_port import Parcel
from lycosa.state.exchange.parcel_rows import ParcelRow, decode_row, encode_row, urls_of

PARCEL_URLS = 500
"""Maximum number of URLs in a parcel: about 100 kB, a fraction of a commit."""

PARCEL_BYTES = 512_000
"""Most bytes of a row that has more than one entry: long URLs with long chains of redirects would
make a parcel of 500 larger than a topic takes.
"""

_OUTBOXES, _OUTBOXES_END = b"O", b"P"
# the fields of a row that may have many entries
_SPLIT = (
    "discovered",
    "contents",
    "errands",
    "answers",
    "fingerprints",
    "verdicts",
    "wants",
    "settled",
)
# of the robots.txt files in the answers of one parcel, unless it has a single answer
_ROBOTS_BYTES = 1_000_000

OwnerItem = Errand | Answer | PostedWant | SettledWant
"""What one partition asks of the owner of a host, or an answer to it."""


class OpenTable(Protocol):
    """A partition's table, including uncommitted writes."""

    def get(self, key: bytes) -> bytes | None: ...
    def put(self, key: bytes, value: bytes) -> None: ...
    def delete(self, key: bytes) -> None: ...


class CommittedTable(Protocol):
    """The committed content of the same table."""

    def get(self, key: bytes) -> bytes | None: ...
    def scan(self, start: bytes, end: bytes, limit: int = 0) -> Iterator[tuple[bytes, bytes]]: ...


class Outbox:
    """The sending end of one partition."""

    def __init__(self, source: int, table: OpenTable, committed: CommittedTable) -> None:
        self.source, self._table, self._committed = source, table, committed
        # where a scan starts: a scan from the prefix would pass the tombstones of all sent rows
        self._acknowledged: dict[int, int] = {}

    def enqueue(self, destination: int, discovered: Sequence[Discovered]) -> None:
        """Add URLs for another partition to the open commit, as one or more parcels."""
        self._add(
            destination,
            [
                ParcelRow(list(discovered[start : start + PARCEL_URLS]))
                for start in range(0, len(discovered), PARCEL_URLS)
            ],
        )

    def enqueue_contents(
        self,
        destination: int,
        rows: Sequence[tuple[bytes, bytes]],
        near: Sequence[Fingerprint | Verdict] = (),
    ) -> None:
        """Add rows of content-seen, fingerprints and verdicts for another partition, in parcels."""
        self._add(
            destination,
            [
                _of_contents(rows[start : start + PARCEL_URLS], near[start : start + PARCEL_URLS])
                for start in range(0, max(len(rows), len(near)), PARCEL_URLS)
            ],
        )

    def enqueue_errands(self, destination: int, items: Sequence[OwnerItem]) -> None:
        """Add errands, wants and answers for another partition to the open commit, as parcels."""
        self._add(destination, [_of_items(part) for part in _parts(items)])

    def enqueue_places(self, destination: int, urls: Sequence[str]) -> None:
        """Add URLs whose places joined the scope to the open commit, as one or more parcels."""
        self._add(
            destination,
            [
                ParcelRow([], places=list(urls[start : start + PARCEL_URLS]))
                for start in range(0, len(urls), PARCEL_URLS)
            ],
        )

    def pending_parcels(self, destination: int, limit: int, after: int = 0) -> list[Parcel]:
        """Committed parcels for a partition that are not acknowledged, in order.

        At most ``limit``, with numbers greater than ``after``.
        """
        start = max(after, self._acknowledged.get(destination, 0)) + 1
        rows = self._committed.scan(_row_key(destination, start), _made_key(destination + 1), limit)
        found = [(number_in(key[5:]), decode_row(value)) for key, value in rows]
        if found and not after:
            self._acknowledged.setdefault(destination, found[0][0] - 1)
        return [self._parcel(destination, sequence, row) for sequence, row in found]

    def destinations(self) -> list[int]:
        """Partitions with committed unacknowledged parcels.

        One lookup for each partition to which parcels were ever sent.
        """
        found, destination = [], 0
        while pairs := list(self._committed.scan(_made_key(destination), _OUTBOXES_END, 1)):
            destination = int.from_bytes(pairs[0][0][1:5])
            if self.pending_parcels(destination, 1):
                found.append(destination)
            destination += 1
        return found

    def acknowledge(self, destination: int, sequence: int) -> None:
        """Delete the rows of this parcel and all before it, in the open commit.

        They are handed over. Further calls do nothing.
        """
        known = self._acknowledged.get(destination, sequence - 1)
        for number in range(known + 1, sequence + 1):
            self._table.delete(_row_key(destination, number))
        self._acknowledged[destination] = max(known, sequence)

    def _add(self, destination: int, parcels: Sequence[ParcelRow]) -> None:
        sequence = number_in(self._table.get(_made_key(destination)))
        for parcel in parcels:
            for row in _rows(parcel):
                sequence += 1
                self._table.put(_row_key(destination, sequence), row)
        if parcels:
            self._table.put(_made_key(destination), _packed(sequence))

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
            row.fingerprints,
            row.verdicts,
            row.wants,
            row.settled,
        )

    def __repr__(self) -> str:
        return f"Outbox(source={self.source}, acknowledged={self._acknowledged})"


class Inbox:
    """The receiving end of one partition."""

    def __init__(self, table: OpenTable, committed: CommittedTable, destination: int = 0) -> None:
        self._table, self._committed, self._destination = table, committed, destination

    def is_new(self, source: int, sequence: int, acknowledged: int = 0) -> bool:
        """Whether this parcel is the next one; false for one that was already taken.

        Raises ``ParcelGap`` for a later one, which will be sent again, and ``ParcelsLost`` when
        those before it will never come.
        """
        taken = number_in(self._table.get(_taken_key(source)))
        # The source knows that they were taken, and here they were not: a commit of this side is
        # lost.
        if acknowledged > taken:
            raise ParcelsLost(source, self._destination, taken, acknowledged)
        if sequence > taken + 1:
            raise ParcelGap(f"parcel {sequence} from partition {source} came after {taken}")
        return sequence == taken + 1

    def accept_parcel(self, source: int, sequence: int) -> None:
        """Record in the open commit that this parcel was taken."""
        self._table.put(_taken_key(source), _packed(sequence))

    def is_committed(self, source: int, sequence: int) -> bool:
        """Whether the commit that took this parcel is on disk.

        If so, it may be acknowledged without waiting for the next commit.
        """
        return sequence <= number_in(self._committed.get(_taken_key(source)))


def urls_in_outboxes(
    scan: Callable[[bytes, bytes], Iterable[tuple[bytes, bytes]]],
) -> Iterator[Discovered]:
    """The URLs in all unacknowledged parcels of one partition's outboxes.

    ``scan`` returns the partition's rows between two keys, in order.
    """
    for key, value in scan(_OUTBOXES, _OUTBOXES_END):
        if len(key) > len(_made_key(0)):
            yield from urls_of(value)


def _rows(parcel: ParcelRow) -> Iterator[bytes]:
    """The parcel as rows of bounded size."""
    row = encode_row(parcel)
    if len(row) > PARCEL_BYTES:
        for name in _SPLIT:
            if len(entries := getattr(parcel, name)) > 1:
                half = len(entries) // 2
                yield from _rows(msgspec.structs.replace(parcel, **{name: entries[:half]}))
                yield from _rows(msgspec.structs.replace(ParcelRow([]), **{name: entries[half:]}))
                return
    yield row


def _of_contents(
    rows: Sequence[tuple[bytes, bytes]], near: Sequence[Fingerprint | Verdict]
) -> ParcelRow:
    return ParcelRow(
        [],
        list(rows),
        fingerprints=[each for each in near if isinstance(each, Fingerprint)],
        verdicts=[each for each in near if isinstance(each, Verdict)],
    )


def _of_items(items: Sequence[OwnerItem]) -> ParcelRow:
    return ParcelRow(
        [],
        [],
        [each for each in items if isinstance(each, Errand)],
        [each for each in items if isinstance(each, Answer)],
        wants=[each for each in items if isinstance(each, PostedWant)],
        settled=[each for each in items if isinstance(each, SettledWant)],
    )


def _parts(items: Sequence[OwnerItem]) -> Iterator[list[OwnerItem]]:
    """Split into parts of bounded size; an answer may contain a long robots.txt."""
    part: list[OwnerItem] = []
    size = 0
    for item in items:
        size += len(item.robots) if isinstance(item, Answer) else 0
        if part and (len(part) >= PARCEL_URLS or size > _ROBOTS_BYTES):
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
    """The number of a parcel in a key or a value; 0 when there is none."""
    return int.from_bytes(value) if value else 0
