"""What a worker posts for others is gathered until its commit is cut."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lycosa.base.model.capture import Original
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.parcel_items import Asker, Errand, Fingerprint, Verdict
from lycosa.state.exchange.exchange_errors import InboxDamaged, PositionLost
from lycosa.state.exchange.exchange_port import Parcel
from lycosa.state.exchange.outbox import PARCEL_URLS, Outbox
from lycosa.state.exchange.topic import MemoryTopics
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.worker.calls.incoming_parcels import IncomingParcels, ParcelReceivers
from lycosa.worker.intake.inbox_topic import InboxTopic
from lycosa.worker.intake.outgoing_parcels import OutgoingParcels


class Sending:
    """A worker's partitions 0 and 2, and what its commits wrote for others."""

    def __init__(self) -> None:
        self.stores = {0: MemoryKeyValue(), 2: MemoryKeyValue()}
        self.overlays = {number: Overlay(store) for number, store in self.stores.items()}
        self.partitions: Any = {
            number: SimpleNamespace(number=number, table=overlay)
            for number, overlay in self.overlays.items()
        }
        failures: list[BaseException] = []
        self.outgoing = OutgoingParcels(
            self.partitions, self.stores, None, asyncio.sleep, failures.append, 4
        )

    def post(self, source: int, destination: int, *numbers: int) -> None:
        found = [
            Discovered(f"http://a.test/{n}", b"hosthost", n.to_bytes(8), LinkKind.A, 1)
            for n in numbers
        ]
        self.outgoing.post_urls(self.partitions[source], destination, found)

    def commit(self) -> frozenset[tuple[int, int]]:
        posted = self.outgoing.cut_parcels()
        for number, overlay in self.overlays.items():
            self.stores[number].write(overlay.freeze())
            overlay.settle()
        return posted

    def parcels(self, destination: int) -> list[list[str]]:
        """The URLs of each parcel that is committed, from whichever partition."""
        boxes = [
            Outbox(number, self.overlays[number], self.stores[number]) for number in self.stores
        ]
        return [
            [found.url[14:] for found in cast(list[Discovered], p.discovered)]
            for box in boxes
            for p in box.pending_parcels(destination, 100)
        ]


def test_what_pages_of_one_commit_have_for_a_partition_is_one_parcel_from_the_partition_that_found_most_of_it() -> (
    None
):
    sending = Sending()
    sending.post(0, 1, 1)
    sending.post(2, 1, 2, 3)
    sending.post(0, 1, 4)
    sending.post(2, 1, 5)
    sending.post(0, 3, 6)
    assert not sending.outgoing.is_idle
    assert sending.commit() == {(2, 1), (0, 3)}
    assert sending.parcels(1) == [["1", "4", "2", "3", "5"]] and sending.parcels(3) == [["6"]]


def test_what_is_enough_for_a_parcel_leaves_from_the_partition_that_found_it() -> None:
    sending = Sending()
    sending.post(0, 1, *range(100))
    sending.post(2, 1, *range(100, 220))
    assert sending.commit() == {(0, 1), (2, 1)}
    assert [len(parcel) for parcel in sending.parcels(1)] == [100, 120]
    sending.post(0, 1, *range(300, 400))
    sending.post(2, 1, 400)
    assert sending.commit() == {(0, 1), (2, 1)}


def test_what_was_stored_under_keys_of_others_leaves_from_one_partition_in_the_commit() -> None:
    sending = Sending()
    sending.outgoing.tell_owner(1, b"Cdigest", b"first")
    sending.outgoing.tell_owner(3, b"Cother", b"second")
    assert not sending.outgoing.is_idle
    assert sending.commit() == {(0, 1), (0, 3)}
    box = Outbox(0, sending.overlays[0], sending.stores[0])
    assert [parcel.contents for parcel in box.pending_parcels(1, 9)] == [[(b"Cdigest", b"first")]]


def test_errands_leave_from_the_partition_whose_host_asks_or_was_asked() -> None:
    sending = Sending()
    sending.outgoing.post_errand(
        2, 1, Errand("http://a.test/robots.txt", (Asker(2, b"hosthost", False, 1),))
    )
    assert not sending.outgoing.is_idle
    assert sending.commit() == {(2, 1)}


def test_a_place_that_joined_the_scope_goes_to_every_partition_of_others_before_what_is_found() -> (
    None
):
    sending = Sending()
    sending.post(0, 1, 1)
    sending.outgoing.post_place("http://a.test/")
    sending.post(2, 3, *range(PARCEL_URLS))  # enough for a parcel before the commit is cut
    assert not sending.outgoing.is_idle
    assert sending.commit() == {(0, 1), (0, 3), (2, 1), (2, 3)}
    for number, store in sending.stores.items():
        box = Outbox(number, sending.overlays[number], store)
        firsts = [box.pending_parcels(destination, 1)[0] for destination in (1, 3)]
        assert [each.places for each in firsts] == 2 * [["http://a.test/"]]
    assert sending.commit() == set()


def test_what_waits_in_memory_for_a_commit_is_bounded() -> None:
    sending = Sending()
    for start in range(0, 3 * PARCEL_URLS, 100):
        sending.post(0, 1, *range(start, start + 100))
    waiting = sum(overlay.open_writes for overlay in sending.overlays.values())
    assert waiting >= 3  # they are in the open commit already
    sending.commit()
    assert [url for parcel in sending.parcels(1) for url in parcel] == [
        str(n) for n in range(3 * PARCEL_URLS)
    ]
    assert all(len(parcel) <= PARCEL_URLS for parcel in sending.parcels(1))


def test_the_next_commit_has_only_what_was_posted_since() -> None:
    sending = Sending()
    sending.post(0, 1, 1)
    sending.commit()
    assert sending.commit() == set()
    sending.post(2, 1, 2)
    sending.commit()
    assert sending.parcels(1) == [["1"], ["2"]]


class Receiving:
    """A worker that owns partition 1 and reads its topic; it commits when the test says so."""

    def __init__(
        self, topics: MemoryTopics, store: MemoryKeyValue | None = None, after: int = 0
    ) -> None:
        self.store = store or MemoryKeyValue()
        self.overlay = Overlay(self.store)
        self.taken: list[str] = []
        self.failures: list[BaseException] = []
        self.waiters: list[asyncio.Future[None]] = []
        partitions: Any = {1: SimpleNamespace(number=1, table=self.overlay)}
        worker: Any = SimpleNamespace(
            committer=SimpleNamespace(waiters=self.waiters, commit=self._append),
            wake=lambda: None,
            fail=self.failures.append,
            next_commit=self._next_commit,
        )
        nobody: Any = None
        tables = {1: self.store}
        self.topic = InboxTopic(topics.inbound(1), after, self.failures.append)
        self.incoming = IncomingParcels(
            partitions,
            tables,
            ParcelReceivers(cast(Any, self), nobody, nobody, nobody, nobody),
            worker,
            self.topic,
        )

    def receive_urls(self, partition: Any, found: list[Discovered]) -> None:
        self.taken += [each.url[14:] for each in found]

    async def _next_commit(self) -> None:
        self.waiters.append(asyncio.get_running_loop().create_future())
        await self.waiters[-1]

    async def _append(self, is_forced: bool) -> None:
        """The shard has no later owner, so a commit of nothing succeeds."""
        assert is_forced

    def commit(self) -> int:
        position = self.topic.position
        self.store.write(self.overlay.freeze())
        self.overlay.settle()
        waiters = self.waiters[:]
        self.waiters.clear()
        for waiter in waiters:
            waiter.set_result(None)
        self.topic.note_committed(position)
        return position


def parcel(number: int, acknowledged: int = 0) -> Parcel:
    return Parcel(
        0,
        1,
        number,
        [Discovered(f"http://a.test/{number}", b"hosthost", bytes(8), LinkKind.A, 1)],
        [],
        acknowledged,
    )


async def settled() -> None:
    for _ in range(1000):
        await asyncio.sleep(0)


async def test_a_commit_names_the_position_up_to_which_everything_read_is_taken() -> None:
    topics = MemoryTopics()
    for number in (2, 1, 2, 1, 3):
        await topics.append_parcel(parcel(number))
    receiving = Receiving(topics)
    receiving.incoming.start()
    await settled()
    assert (receiving.taken, receiving.incoming.stepped_over, receiving.topic.uncommitted) == (
        ["1", "2", "3"],
        1,
        5,
    )
    assert (receiving.commit(), receiving.topic.uncommitted) == (5, 0)
    await receiving.incoming.close()


async def test_what_was_read_and_not_committed_is_read_again_from_the_position_of_the_last_commit() -> (
    None
):
    topics = MemoryTopics()
    await topics.append_parcel(parcel(1))
    first = Receiving(topics)
    first.incoming.start()
    await settled()
    position = first.commit()
    await topics.append_parcel(parcel(2))
    await settled()
    assert first.taken == ["1", "2"]
    await first.incoming.close()
    topics.trim(1, position)
    second = Receiving(topics, first.store, position)
    second.incoming.start()
    await settled()
    assert second.taken == ["2"] and second.failures == []
    await second.incoming.close()


async def test_a_reader_that_is_far_ahead_of_its_commits_waits_for_them() -> None:
    topics = MemoryTopics()
    for number in range(1, 501):
        await topics.append_parcel(parcel(number))
    receiving = Receiving(topics)
    receiving.incoming.start()
    await settled()
    assert 100 < len(receiving.taken) < 200
    for _ in range(5):
        receiving.commit()
        await settled()
    assert len(receiving.taken) == 500
    await receiving.incoming.close()


async def test_foreign_records_are_stepped_over_and_counted_as_read() -> None:
    topics = MemoryTopics()
    topics.append_foreign(1)
    await topics.append_parcel(parcel(1))
    topics.append_foreign(1)
    await topics.append_parcel(parcel(2, 1))
    topics.append_foreign(1)
    receiving = Receiving(topics)
    receiving.incoming.start()
    await settled()
    assert (receiving.taken, receiving.failures) == (["1", "2"], [])
    assert (receiving.commit(), receiving.topic.uncommitted) == (5, 0)
    assert await receiving.topic.lag() == 0
    await receiving.incoming.close()


async def test_a_foreign_record_in_the_place_of_a_parcel_is_missed_at_the_next_one() -> None:
    topics = MemoryTopics()
    await topics.append_parcel(parcel(1))
    topics.append_foreign(1)
    await topics.append_parcel(parcel(3, 2))
    receiving = Receiving(topics)
    receiving.incoming.start()
    await settled()
    assert receiving.taken == ["1"]
    assert str(receiving.failures[0]).startswith(
        "the parcels of shard 0 from number 2 on are missing in the inbox topic"
    )
    await receiving.incoming.close()


@pytest.mark.parametrize(
    ("records", "after", "error"),
    [([parcel(1)], 3, PositionLost), ([parcel(4, 3)], 0, InboxDamaged)],
)
async def test_a_topic_that_lacks_what_was_handed_over_ends_the_worker(
    records: list[Parcel], after: int, error: type
) -> None:
    topics = MemoryTopics()
    for each in records:
        await topics.append_parcel(each)
    receiving = Receiving(topics, after=after)
    receiving.incoming.start()
    await settled()
    assert [type(each) for each in receiving.failures] == [error]
    assert "cluster rescue" in str(receiving.failures[0])
    assert (receiving.commit(), receiving.taken) == (after, [])
    await receiving.incoming.close()


def test_rows_and_fingerprints_for_one_partition_share_a_parcel() -> None:
    sending, original = Sending(), Original("http://a.test/", 1)
    verdict = Verdict("http://b.test/", 7, 1, original)
    sending.outgoing.tell_owner(1, b"C" * 21, b"value")
    for item in (Fingerprint(7, original), verdict):
        sending.outgoing.post_near(1, item)
    assert not sending.outgoing.is_idle
    sending.commit()
    boxes = [Outbox(n, sending.overlays[n], sending.stores[n]) for n in sending.stores]
    (parcel,) = [parcel for box in boxes for parcel in box.pending_parcels(1, 100)]
    assert (parcel.contents, parcel.fingerprints, parcel.verdicts) == (
        [(b"C" * 21, b"value")],
        [Fingerprint(7, original)],
        [verdict],
    )
