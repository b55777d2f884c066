"""The audit's balance of parcels between shards."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.urls.identity import hash8
from lycosa.inspect.audit.parcel_check import ParcelChecks
from lycosa.inspect.committed_state import TableView
from lycosa.state.exchange.exchange_port import Parcel
from lycosa.state.exchange.outbox import Inbox, Outbox
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay


def discovered(number: int) -> Discovered:
    url = f"http://a.test/{number}"
    return Discovered(url, hash8("a.test"), hash8(url), LinkKind.A, 1)


class Shards:
    """Shard 0 has made four parcels for shard 1, which has taken the first."""

    def __init__(self) -> None:
        self.tables = {0: MemoryKeyValue(), 1: MemoryKeyValue()}
        self.sender = Overlay(self.tables[0])
        self.outbox = Outbox(0, self.sender, self.tables[0])
        for number in range(1, 5):
            self.outbox.enqueue(1, [discovered(number)])
        self.commit(0, self.sender)
        self.parcels = self.outbox.pending_parcels(1, 9)
        taker = Overlay(self.tables[1])
        Inbox(taker, self.tables[1], 1).accept_parcel(0, 1)
        self.commit(1, taker)

    def commit(self, number: int, overlay: Overlay) -> None:
        self.tables[number].write(overlay.freeze())
        overlay.settle()

    def acknowledge(self, sequence: int) -> None:
        self.outbox.acknowledge(1, sequence)
        self.commit(0, self.sender)

    def breaches(
        self, topic: list[Parcel], finals: Mapping[int, bool] | None = None
    ) -> tuple[list[str], set[bytes]]:
        views = {number: TableView(number, table) for number, table in self.tables.items()}
        checks = ParcelChecks(views, finals or {})
        checks.run(lambda shard: iter(topic if shard == 1 else []))
        return checks.check.first, checks.in_topics


@pytest.fixture
def shards() -> Shards:
    return Shards()


def test_parcels_in_the_outbox_or_in_the_topic_are_not_lost(shards: Shards) -> None:
    assert shards.breaches([]) == ([], set())
    shards.acknowledge(3)
    found, keys = shards.breaches(shards.parcels[1:3])
    assert found == []
    assert keys == {each.host8 + each.url8 for each in map(discovered, (2, 3))}


def test_a_parcel_that_is_nowhere_is_a_breach(shards: Shards) -> None:
    shards.acknowledge(3)
    (told,), _ = shards.breaches(shards.parcels[2:3])
    assert told == ("1 parcels from shard 0 to shard 1 are lost, the first is 2 (4 made, 1 taken)")


def test_more_taken_than_made_is_a_breach_when_the_sender_has_ended(shards: Shards) -> None:
    taker = Overlay(shards.tables[1])
    Inbox(taker, shards.tables[1], 1).accept_parcel(0, 6)
    shards.commit(1, taker)
    assert shards.breaches([]) == ([], set())  # its table may be older than the receiver's
    (told,), _ = shards.breaches([], {0: True})
    assert "6 parcels were taken, and 4 were made" in told
