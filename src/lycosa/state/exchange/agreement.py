"""Whether the partitions of a crawl agree about the parcels between them.

The numbers are read from the partitions' tables before a start. The check is valid where parcels
are delivered to their receiver. In a topic a parcel may be acknowledged and not yet taken, because
the topic holds it.

For each pair of partitions acknowledged <= taken <= made, and a row exists for every parcel that is
made and not acknowledged (module ``outbox``). Each number is committed before the other side
receives it, so no crash can violate this; only a log or a table that lost committed data can.
Existing rows are sent again at every start. A number that contradicts another cannot be repaired:
the receiver would wait for a parcel that no longer exists, or drop a new one as already known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from lycosa.state.exchange.outbox import number_in

_PARTITION_KEY, _ROW_KEY = 5, 13  # bytes: prefix and partition; the same and a number


class ParcelNumbers(msgspec.Struct):
    """The parcel numbers in one partition's table.

    ``made`` is the last parcel made for each other partition, ``waiting`` the rows of these that
    still exist, ``taken`` the last parcel taken from each other partition.
    """

    made: dict[int, int] = {}
    waiting: dict[int, set[int]] = {}
    taken: dict[int, int] = {}

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Add a row of the table, or a write to it (``None`` deletes).

        Rows that are not of the exchange are ignored.
        """
        partition = int.from_bytes(key[1:_PARTITION_KEY])
        if key[:1] == b"I" and len(key) == _PARTITION_KEY:
            self.taken[partition] = number_in(value)
        elif key[:1] == b"O" and len(key) == _PARTITION_KEY:
            self.made[partition] = number_in(value)
        elif key[:1] == b"O" and len(key) == _ROW_KEY:
            rows = self.waiting.setdefault(partition, set())
            if value is None:
                rows.discard(number_in(key[_PARTITION_KEY:]))
            else:
                rows.add(number_in(key[_PARTITION_KEY:]))


class Disagreement(msgspec.Struct, frozen=True):
    """Contradictory numbers of one pair of partitions.

    ``loser`` is the partition whose table or log lost committed data.
    """

    source: int
    destination: int
    made: int
    acknowledged: int
    taken: int
    loser: int
    what: str

    def __str__(self) -> str:
        numbers = f"{self.made} made, {self.acknowledged} acknowledged, {self.taken} taken"
        return (
            f"parcels from partition {self.source} to partition {self.destination} disagree"
            f" ({numbers}): {self.what}"
        )


def disagreements(tables: Mapping[int, ParcelNumbers]) -> Iterator[Disagreement]:
    """The pairs of partitions that contradict each other, each with its first contradiction."""
    for source, numbers in sorted(tables.items()):
        pairs = (
            numbers.made.keys()
            | numbers.waiting.keys()
            | {n for n, each in tables.items() if source in each.taken}
        )
        for destination in sorted(pairs & tables.keys()):
            taken = tables[destination].taken.get(source, 0)
            found = _judge(
                source,
                destination,
                numbers.made.get(destination, 0),
                numbers.waiting.get(destination, set()),
                taken,
            )
            if found is not None:
                yield found


def _judge(
    source: int, destination: int, made: int, waiting: set[int], taken: int
) -> Disagreement | None:
    acknowledged = min(waiting) - 1 if waiting else made
    if taken > made:
        what, loser = (
            f"partition {source} lost the commits that made {_span(made + 1, taken)}",
            source,
        )
    elif taken < acknowledged:
        what, loser = (
            f"partition {destination} lost the commits that took {_span(taken + 1, acknowledged)}",
            destination,
        )
    elif waiting and waiting != set(range(acknowledged + 1, made + 1)):
        what, loser = f"partition {source} lost parcels that were never taken", source
    else:
        return None
    return Disagreement(source, destination, made, acknowledged, taken, loser, what)


def _span(first: int, last: int) -> str:
    return f"parcel {first}" if first == last else f"parcels {first} to {last}"
