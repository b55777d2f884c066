"""Whether two partitions agree about the parcels between them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.state.exchange.agreement import ParcelNumbers, disagreements
from lycosa.state.exchange.outbox import Inbox, Outbox
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay


def told(source: ParcelNumbers, destination: ParcelNumbers) -> list[str]:
    return [str(each) for each in disagreements({1: source, 2: destination})]


@pytest.mark.parametrize(
    ("made", "waiting", "taken"),
    [
        (0, (), 0),
        (3, (), 3),
        (3, (3,), 2),
        (3, (3,), 3),
        (3, (2, 3), 3),
        (3, (1, 2, 3), 0),
        (3, (1, 2, 3), 3),
    ],
)
def test_what_crashes_leave_agrees(made: int, waiting: tuple[int, ...], taken: int) -> None:
    assert told(ParcelNumbers({2: made}, {2: set(waiting)}), ParcelNumbers(taken={1: taken})) == []


@pytest.mark.parametrize(
    ("made", "waiting", "taken", "what"),
    [
        (
            3,
            (),
            4,
            "3 made, 3 acknowledged, 4 taken): partition 1 lost the commits that made parcel 4",
        ),
        (
            3,
            (2, 3),
            4,
            "3 made, 1 acknowledged, 4 taken): partition 1 lost the commits that made parcel 4",
        ),
        (
            3,
            (),
            1,
            (
                "3 made, 3 acknowledged, 1 taken): partition 2 lost the commits that took parcels 2"
                " to 3"
            ),
        ),
        (
            5,
            (4, 5),
            2,
            "5 made, 3 acknowledged, 2 taken): partition 2 lost the commits that took parcel 3",
        ),
        (
            5,
            (3, 5),
            2,
            "5 made, 2 acknowledged, 2 taken): partition 1 lost parcels that were never taken",
        ),
        (
            5,
            (3, 4),
            2,
            "5 made, 2 acknowledged, 2 taken): partition 1 lost parcels that were never taken",
        ),
    ],
)
def test_numbers_that_no_crash_leaves_are_told_with_the_partition_that_lost_them(
    made: int, waiting: tuple[int, ...], taken: int, what: str
) -> None:
    [text] = told(ParcelNumbers({2: made}, {2: set(waiting)}), ParcelNumbers(taken={1: taken}))
    assert text == f"parcels from partition 1 to partition 2 disagree ({what}"


def test_a_source_that_lost_everything_is_told_by_those_who_took() -> None:
    [text] = told(ParcelNumbers(), ParcelNumbers(taken={1: 7}))
    assert "(0 made, 0 acknowledged, 7 taken)" in text


@given(
    st.lists(
        st.sampled_from(["make", "commit source", "take", "commit target", "acknowledge"]),
        max_size=40,
    )
)
def test_no_order_of_commits_makes_two_tables_disagree(steps: list[str]) -> None:
    stores = {1: MemoryKeyValue(), 2: MemoryKeyValue()}
    tables = {number: Overlay(store) for number, store in stores.items()}
    outbox, inbox = Outbox(1, tables[1], stores[1]), Inbox(tables[2], stores[2], 2)
    for step in steps:
        if step == "make":
            outbox.enqueue(2, [Discovered("http://a.test/", b"hosthost", bytes(8), LinkKind.A, 1)])
        elif step.startswith("commit"):
            number = 1 if step == "commit source" else 2
            stores[number].write(tables[number].freeze())
            tables[number].settle()
        for parcel in outbox.pending_parcels(2, 2):
            if step == "take" and inbox.is_new(1, parcel.sequence, parcel.acknowledged):
                inbox.accept_parcel(1, parcel.sequence)
            if step == "acknowledge" and inbox.is_committed(1, parcel.sequence):
                outbox.acknowledge(2, parcel.sequence)
        assert (
            list(disagreements({number: numbers(store) for number, store in stores.items()})) == []
        )


def numbers(store: MemoryKeyValue) -> ParcelNumbers:
    found = ParcelNumbers()
    for key, value in store.scan(b"A", b"Z"):
        found.apply(key, value)
    return found
