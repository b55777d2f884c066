"""What a worker posts for others is gathered until its commit is cut."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from lycosa.exchange import PARCEL_URLS, Outbox
from lycosa.kv.memory import MemoryKeyValue
from lycosa.kv.overlay import Overlay
from lycosa.model.discovered import Discovered, LinkKind
from lycosa.worker.departures import Departures


class Sending:
    """A worker's partitions 0 and 2, and what its commits wrote for others."""

    def __init__(self) -> None:
        self.stores = {0: MemoryKeyValue(), 2: MemoryKeyValue()}
        self.overlays = {number: Overlay(store) for number, store in self.stores.items()}
        self.partitions: Any = {number: SimpleNamespace(number=number, table=overlay) for number, overlay in self.overlays.items()}
        failures: list[BaseException] = []
        self.departures = Departures(self.partitions, self.stores, None, asyncio.sleep, failures.append)

    def post(self, source: int, destination: int, *numbers: int) -> None:
        found = [Discovered(f"http://a.test/{n}", b"hosthost", n.to_bytes(8), LinkKind.A, 1) for n in numbers]
        self.departures.post(self.partitions[source], destination, found)

    def commit(self) -> frozenset[tuple[int, int]]:
        posted = self.departures.cut()
        for number, overlay in self.overlays.items():
            self.stores[number].write(overlay.freeze())
            overlay.settle()
        return posted

    def parcels(self, destination: int) -> list[list[str]]:
        """The URLs of each parcel that is committed, from whichever partition."""
        boxes = [Outbox(number, self.overlays[number], self.stores[number]) for number in self.stores]
        return [[found.url[14:] for found in cast(list[Discovered], p.discovered)] for box in boxes for p in box.pending(destination, 100)]


def test_what_the_pages_of_a_partition_have_for_another_is_one_parcel_of_a_commit() -> None:
    sending = Sending()
    sending.post(0, 1, 1, 2)
    sending.post(0, 1, 3)
    sending.post(2, 1, 5)
    sending.post(0, 3, 4)
    assert not sending.departures.is_idle
    assert sending.commit() == {(0, 1), (2, 1), (0, 3)}
    assert sending.parcels(1) == [["1", "2", "3"], ["5"]] and sending.parcels(3) == [["4"]]


def test_what_waits_in_memory_for_a_commit_is_bounded() -> None:
    sending = Sending()
    for start in range(0, 3 * PARCEL_URLS, 100):
        sending.post(0, 1, *range(start, start + 100))
    waiting = sum(overlay.open_writes for overlay in sending.overlays.values())
    assert waiting >= 3  # they are in the open commit already
    sending.commit()
    assert [url for parcel in sending.parcels(1) for url in parcel] == [str(n) for n in range(3 * PARCEL_URLS)]
    assert all(len(parcel) <= PARCEL_URLS for parcel in sending.parcels(1))


def test_the_next_commit_has_only_what_was_posted_since() -> None:
    sending = Sending()
    sending.post(0, 1, 1)
    sending.commit()
    assert sending.commit() == set()
    sending.post(2, 1, 2)
    sending.commit()
    assert sending.parcels(1) == [["1"], ["2"]]
