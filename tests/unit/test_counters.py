"""Sums of the counters of several partitions."""

from __future__ import annotations

from lycosa.state.shard.counters import Counters, total_of


def test_the_counters_of_partitions_are_added() -> None:
    one = Counters(discovered=3, states={0: 2, 1: 1}, reasons={5: 1}, leased=1)
    other = Counters(discovered=4, states={0: 4}, captures=2, reasons={5: 2, 6: 1})
    assert total_of([one, other]) == Counters(
        discovered=7, states={0: 6, 1: 1}, captures=2, reasons={5: 3, 6: 1}, leased=1
    )
    assert (one.states, total_of([])) == ({0: 2, 1: 1}, Counters())
