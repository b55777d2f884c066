"""Numbers parcels from 1 again between shards whose states are of different times.

When logs are lost, a shard's newest snapshot may know parcels that the snapshot of another shard
does not, and the topics that held them are gone. The numbers of such a pair would never agree
again. So all numbers are dropped, and what waits in an outbox is numbered from 1 again. A parcel
may then be taken twice; that changes nothing, because its content is known then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from lycosa.state.exchange.agreement import ParcelNumbers

_ROW_KEY = 13  # bytes: prefix, partition and number
_AT_ONCE = 1000

Scan = Callable[[bytes, bytes], Iterable[tuple[bytes, bytes]]]
"""The rows of a table between two keys, in order."""


def row_key(destination: int, number: int) -> bytes:
    """The key of a parcel's row in the table of its sender."""
    return b"O" + destination.to_bytes(4) + number.to_bytes(8)


def numbers_of(scan: Scan) -> ParcelNumbers:
    """The parcel numbers in one partition's table."""
    numbers = ParcelNumbers()
    for start, end in ((b"I", b"J"), (b"O", b"P")):
        for key, value in scan(start, end):
            numbers.apply(key, value)
    return numbers


def renumbered(scan: Scan) -> Iterator[dict[bytes, bytes | None]]:
    """The writes, in batches, after which one partition's parcels begin with number 1.

    ``scan`` must give the rows as they were before the first of them.
    """
    writes: dict[bytes, bytes | None] = {key: None for key, _ in scan(b"I", b"J")}
    made: dict[bytes, int] = {}
    for key, value in scan(b"O", b"P"):
        if len(key) < _ROW_KEY:
            writes[key] = None
            continue
        outbox = key[:5]
        number = made[outbox] = made.get(outbox, 0) + 1
        moved = outbox + number.to_bytes(8)
        if moved != key:  # rows move to the front, so a new number is never that of a later row
            writes |= {key: None, moved: value}
        if len(writes) >= _AT_ONCE:
            yield writes
            writes = {}
    yield {**writes, **{outbox: number.to_bytes(8) for outbox, number in made.items()}}
