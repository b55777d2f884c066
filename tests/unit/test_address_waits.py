"""The addresses of a crawl that are worst off, for the status."""

from __future__ import annotations

from lycosa.inspect.status_parts import MOST_LISTED, AddressWait, AddressWaits
from lycosa.stages.frontier.visit_state import VisitRecord


def test_hosts_that_wait_for_an_address_are_counted_and_the_latest_addresses_are_first() -> None:
    waits = AddressWaits(0.2)
    for number in range(100):
        waits.add_host(VisitRecord(f"h{number}.example", line="192.0.2.1" if number else ""))
    waits.add_host(VisitRecord("other.example", line="192.0.2.2"))
    waits.add_prices({"192.0.2.1": 3.0, "192.0.2.3": 2.0})
    assert waits.worst(2.0) == [
        AddressWait("192.0.2.1", 99, 19.8, 1.5),
        AddressWait("192.0.2.2", 1, 0.2),
        AddressWait("192.0.2.3", 0, 0.0, 1.0),
    ]


def test_the_list_is_bounded() -> None:
    waits = AddressWaits(1.0)
    waits.add_prices({f"192.0.2.{number}": float(number) for number in range(1, 50)})
    assert len(waits.worst(1.0)) == MOST_LISTED
    assert waits.worst(1.0)[0].address == "192.0.2.49"
