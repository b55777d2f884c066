"""Parcels begin anew: what waits in an outbox is numbered from 1, and nothing counts as taken."""

from __future__ import annotations

from lycosa.state.exchange.renumbering import numbers_of, renumbered
from lycosa.state.kv.memory_table import MemoryKeyValue


def outbox(destination: int, number: int = 0) -> bytes:
    return b"O" + destination.to_bytes(4) + (number.to_bytes(8) if number else b"")


def test_waiting_parcels_keep_their_order_and_get_new_numbers() -> None:
    table = MemoryKeyValue()
    rows = {outbox(2, number): b"parcel %d" % number for number in range(3, 3005)}
    made = {outbox(2): (3004).to_bytes(8), outbox(7): (40).to_bytes(8)}
    table.write({**rows, **made, b"I\0\0\0\5": (9).to_bytes(8), b"J place": b"", b"N": b"x"})
    for writes in renumbered(table.scan):
        table.write(writes)
    numbers = numbers_of(table.scan)
    assert (numbers.made, numbers.taken) == ({2: 3002}, {})
    assert numbers.waiting == {2: set(range(1, 3003))}
    assert table.get(outbox(2, 1)) == b"parcel 3"
    assert table.get(outbox(2, 3002)) == b"parcel 3004"
    assert (table.get(b"J place"), table.get(b"N")) == (b"", b"x")


def test_numbers_that_begin_with_1_stay() -> None:
    table = MemoryKeyValue()
    table.write({outbox(1): (1).to_bytes(8), outbox(1, 1): b"the only one"})
    for _ in range(2):
        for writes in renumbered(table.scan):
            table.write(writes)
    assert table.get(outbox(1, 1)) == b"the only one"
    assert numbers_of(table.scan).made == {1: 1}
