"""What the post over Kafka does beyond what every post must: records of several parcels, what is
under way when time is over, positions, and damage that only a topic can have.
"""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from kafka_broker import PATIENCE_S, Broker
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.base.model.foreign_record import ForeignRecord
from lycosa.cluster.kafka.inbound import KafkaInbound
from lycosa.cluster.kafka.kafka_post import KafkaPost
from lycosa.cluster.kafka.parcel_records import GATHERED_BYTES
from lycosa.cluster.kafka.topics import Topics
from lycosa.state.commit import ShardLease
from lycosa.state.exchange.exchange_errors import InboxDamaged, PositionLost
from lycosa.state.exchange.exchange_port import Handover, Parcel

pytestmark = pytest.mark.service
CRAWL, DESTINATION = "2f0cf3d2", 1


def parcels(first: int, last: int, size: int = 10) -> list[Parcel]:
    return [
        Parcel(
            0,
            DESTINATION,
            number,
            [Discovered("http://0.test/" + "x" * size, b"hosthost", b"urlsurls", LinkKind.A, 1)],
        )
        for number in range(first, last + 1)
    ]


@pytest.fixture
def topics(kafka: Broker) -> Topics:
    return kafka.topics()


def posting(kafka: Broker, topics: Topics) -> KafkaPost:
    return KafkaPost(kafka.client, topics, CRAWL, deadline_s=PATIENCE_S)


async def read(inbound: KafkaInbound, after: int, count: int) -> list[tuple[int, Parcel | None]]:
    found: list[tuple[int, Parcel | None]] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            found += await inbound.read_parcels(found[-1][0] if found else after)
    return found


async def test_parcels_that_are_posted_together_are_one_record_and_come_back_whole(
    kafka: Broker, topics: Topics
) -> None:
    post, inbound = (
        posting(kafka, topics),
        KafkaInbound(kafka.client, topics, CRAWL, DESTINATION),
    )
    assert await post.post_parcels(parcels(1, 8)) == Handover(8)
    assert len(kafka.values(topics.inbox, DESTINATION)) == 1
    assert await inbound.last_position() == 1
    assert await read(inbound, 0, 8) == [
        (int(parcel.sequence == 8), parcel) for parcel in parcels(1, 8)
    ]
    await post.close()
    await inbound.close()


async def test_parcels_beyond_the_size_of_a_record_are_several_and_count_in_order(
    kafka: Broker, topics: Topics
) -> None:
    post, inbound = (
        posting(kafka, topics),
        KafkaInbound(kafka.client, topics, CRAWL, DESTINATION),
    )
    large = parcels(1, 5, size=GATHERED_BYTES // 2 - 1000)
    assert await post.post_parcels(large) == Handover(5)
    assert [position for position, _ in await read(inbound, 0, 5)] == [0, 1, 1, 2, 3]
    alone = parcels(6, 6, size=3_500_000)
    assert await post.post_parcels(alone) == Handover(1)
    assert await read(inbound, 3, 1) == [(4, alone[0])]
    await post.close()
    await inbound.close()


async def test_a_record_that_is_refused_for_good_fails_and_the_next_post_has_a_new_producer(
    kafka: Broker, topics: Topics
) -> None:
    post = posting(kafka, topics)
    assert await post.post_parcels(parcels(1, 1)) == Handover(1)
    before = post._producer
    handed = await post.post_parcels(parcels(2, 2, size=5_000_000))
    assert handed.count == 0 and "too large" in str(handed.failure).lower()
    assert await post.post_parcels(parcels(2, 3)) == Handover(2)
    assert post._producer is not before
    assert len(kafka.values(topics.inbox, DESTINATION)) == 2
    await post.close()


async def test_reading_waits_at_the_end_and_a_cancelled_read_loses_nothing(
    kafka: Broker, topics: Topics
) -> None:
    post, inbound = (
        posting(kafka, topics),
        KafkaInbound(kafka.client, topics, CRAWL, DESTINATION),
    )
    for _ in range(2):
        waiting = asyncio.create_task(inbound.read_parcels(0))
        await asyncio.wait({waiting}, timeout=0.3)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    reading = asyncio.create_task(read(inbound, 0, 1))
    await post.post_parcels(parcels(1, 1))
    assert await reading == [(1, parcels(1, 1)[0])]
    assert await read(inbound, 0, 1) == [(1, parcels(1, 1)[0])]  # from an earlier position again
    await post.close()
    await inbound.close()


async def test_trimmed_and_never_written_positions_are_lost(kafka: Broker, topics: Topics) -> None:
    post, inbound = (
        posting(kafka, topics),
        KafkaInbound(kafka.client, topics, CRAWL, DESTINATION),
    )
    for number in range(1, 5):
        await post.post_parcels(parcels(number, number))
    await inbound.trim(2)
    assert [each.sequence for _, each in await read(inbound, 2, 2)] == [3, 4]
    for after in (1, 9):
        with pytest.raises(
            PositionLost, match=f"up to position {after}, and the topic holds positions 3 to 4"
        ):
            await inbound.read_parcels(after)
    await post.close()
    await inbound.close()


async def test_a_foreign_record_is_stepped_over_and_reported_once(
    kafka: Broker, topics: Topics
) -> None:
    noted: list[ForeignRecord] = []
    post, another, inbound = (
        posting(kafka, topics),
        KafkaPost(kafka.client, topics, "another"),
        KafkaInbound(kafka.client, topics, CRAWL, DESTINATION, on_foreign=noted.append),
    )
    await post.post_parcels(parcels(1, 1))
    await another.post_parcels(parcels(1, 1))
    kafka.write(topics.inbox, DESTINATION, [b"\xc1junk", b""])
    await post.post_parcels(parcels(2, 2))
    for _ in range(2):
        found = await read(inbound, 0, 5)
        assert found == [
            (1, parcels(1, 1)[0]),
            (2, None),
            (3, None),
            (4, None),
            (5, parcels(2, 2)[0]),
        ]
    assert [(each.kind, each.partition, each.offset) for each in noted] == [
        ("inbox", DESTINATION, offset) for offset in (1, 2, 3)
    ]
    assert noted[0].why == "of the crawl another" and noted[1].data == b"\xc1junk"
    kafka.write(topics.inbox, DESTINATION, [b"\xc1junk"])  # at the end, with no parcel behind it
    assert await inbound.read_parcels(5) == [(6, None)]
    assert await inbound.last_position() == 6
    for each in (post, another, inbound):
        await each.close()


async def test_a_record_of_this_crawl_that_cannot_be_read_is_damage(
    kafka: Broker, topics: Topics
) -> None:
    inbound = KafkaInbound(kafka.client, topics, CRAWL, DESTINATION)
    kafka.write(topics.inbox, DESTINATION, [msgspec.msgpack.encode(["newer", CRAWL, 1, []])])
    with pytest.raises(InboxDamaged, match=r"offset 0 .* a newer program wrote it"):
        await inbound.read_parcels(0)
    await inbound.close()


async def test_a_closed_post_counts_nothing(kafka: Broker, topics: Topics) -> None:
    post = posting(kafka, topics)
    await post.post_parcels(parcels(1, 1))
    await post.close()
    assert (await post.post_parcels(parcels(2, 2))).count == 0


async def test_an_owner_whose_lease_has_ended_posts_nothing_until_it_is_renewed(
    kafka: Broker, topics: Topics
) -> None:
    lease = ShardLease()
    post = KafkaPost(
        kafka.client, topics, CRAWL, deadline_s=PATIENCE_S, may_post=lambda: lease.holds(1.0)
    )
    handed = await post.post_parcels(parcels(1, 2))
    assert handed.count == 0 and "lease of the shard has ended" in str(handed.failure)
    assert kafka.values(topics.inbox, DESTINATION) == []
    lease.renew(0.5)
    assert await post.post_parcels(parcels(1, 2)) == Handover(2)
    await post.close()
