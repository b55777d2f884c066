"""What every ``Post`` promises, by whatever it hands over: each parcel takes effect once and in
order, and a row goes only when its parcel and all before it are durable. The suite is shown to find
the mistakes that would break this.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.model.parcel_items import Asker, Errand
from lycosa.cluster.kafka.inbound import KafkaInbound
from lycosa.cluster.kafka.kafka_post import KafkaPost
from lycosa.cluster.network.sockets import SocketExchange
from lycosa.state.exchange.exchange_errors import ExchangeError, ParcelsLost, PositionLost
from lycosa.state.exchange.exchange_port import Handover, Inbound, Lateness, Parcel, Post
from lycosa.state.exchange.local import InProcessExchange
from lycosa.state.exchange.outbox import Outbox
from lycosa.state.exchange.outbox_sender import OutboxSender
from lycosa.state.exchange.topic import MemoryTopics, TopicPost
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.synthetic import run_virtual
from post_histories import (
    DESTINATION,
    KINDS,
    PARTIES,
    Target,
    Wrap,
    found,
    random_steps,
    run_history,
)

if TYPE_CHECKING:
    from kafka_broker import Broker

CRAWL = "2f0cf3d2"
STEPS = st.one_of(
    st.tuples(st.sampled_from(["enqueue", "commit"]), st.sampled_from(PARTIES)),
    st.tuples(st.sampled_from(["crash", "replace"]), st.sampled_from(PARTIES)),
    st.tuples(st.just("wait"), st.integers(0, 60)),
    st.tuples(st.just("fault"), st.integers(0, len(KINDS) - 1)),
)


def parcels(first: int, last: int, acknowledged: int = 0) -> list[Parcel]:
    return [
        Parcel(0, DESTINATION, number, [found(0, number)], [], acknowledged)
        for number in range(first, last + 1)
    ]


def urls(last: int) -> list[str]:
    return [f"http://0.test/{number}" for number in range(1, last + 1)]


class Way:
    """A ``Post``, and how its destination begins to receive."""

    def __init__(self, post: Post, attach: Callable[[MemoryKeyValue], Target]) -> None:
        self.post, self.attach = post, attach

    async def posted(self, target: Target, what: Sequence[Parcel], wants: int) -> Handover:
        """Posts, while the target commits all the time; ``wants`` effects are waited for."""
        task = asyncio.create_task(self.post.post_parcels(what))
        async with asyncio.timeout(60):
            while not task.done() or len(target.effects()) < wants:
                target.commit()
                await asyncio.sleep(0.001)
        return task.result()


@asynccontextmanager
async def by_topic(post: Post, inbound: Callable[[], Inbound]) -> AsyncIterator[Way]:
    targets: list[Target] = []

    def read(store: MemoryKeyValue) -> Target:
        targets.append(Target(store, inbound()))
        return targets[-1]

    yield Way(post, read)
    for target in targets:
        assert target.reading is not None
        target.reading.cancel()
        await asyncio.gather(target.reading, return_exceptions=True)
    await post.close()


@asynccontextmanager
async def by_kafka(broker: Broker) -> AsyncIterator[Way]:
    topics = broker.topics(shards=DESTINATION + 1)
    inbounds: list[KafkaInbound] = []

    def inbound() -> Inbound:
        inbounds.append(KafkaInbound(broker.client, topics, CRAWL, DESTINATION))
        return inbounds[-1]

    async with by_topic(KafkaPost(broker.client, topics, CRAWL, deadline_s=60.0), inbound) as way:
        yield way
    for each in inbounds:
        await each.close()


@pytest.fixture(
    params=["in_process", "sockets", "topic", pytest.param("kafka", marks=pytest.mark.service)]
)
async def way(request: pytest.FixtureRequest) -> AsyncIterator[Way]:
    if request.param == "topic":
        topics = MemoryTopics()
        async with by_topic(
            TopicPost(topics.append_parcel), lambda: topics.inbound(DESTINATION)
        ) as topic_way:
            yield topic_way
        return
    if request.param == "kafka":
        async with by_kafka(request.getfixturevalue("kafka")) as kafka_way:
            yield kafka_way
        return
    with tempfile.TemporaryDirectory(prefix="ly") as folder:
        route = lambda partition: Path(folder) / f"w{partition}"  # noqa: E731
        ends: list[InProcessExchange] | list[SocketExchange]
        if request.param == "sockets":
            ends = [SocketExchange(route(number), route, "c", 2.0) for number in (0, DESTINATION)]
            for end in ends:
                await end.open()
        else:
            ends = [InProcessExchange(2.0)]

        def register(store: MemoryKeyValue) -> Target:
            target = Target(store, None)
            ends[-1].receivers.register_partition(DESTINATION, target.receive_parcel)
            return target

        yield Way(ends[0], register)
        for end in ends:
            await end.close()


async def test_parcels_take_effect_in_order_and_all_count(way: Way) -> None:
    target = way.attach(MemoryKeyValue())
    assert await way.posted(target, parcels(1, 8), 8) == Handover(8)
    assert target.effects() == urls(8)


async def test_parcels_that_are_posted_again_change_nothing_and_count(way: Way) -> None:
    target = way.attach(MemoryKeyValue())
    await way.posted(target, parcels(1, 3), 3)
    assert await way.posted(target, parcels(2, 5), 5) == Handover(4)
    assert target.effects() == urls(5)


async def test_a_parcel_beyond_the_next_one_is_not_taken_and_comes_again_behind_the_missing_one(
    way: Way,
) -> None:
    target = way.attach(MemoryKeyValue())
    early = await way.posted(target, parcels(2, 2), 0)
    # a topic holds it; its reader steps over it
    assert early.count == 0 or isinstance(way.post, TopicPost | KafkaPost)
    assert await way.posted(target, parcels(1, 2), 2) == Handover(2)
    assert target.effects() == urls(2)


async def test_a_receiver_that_starts_again_from_its_last_commit_takes_what_it_lost_and_nothing_twice(
    way: Way,
) -> None:
    target = way.attach(MemoryKeyValue())
    await way.posted(target, parcels(1, 2), 2)
    posting = asyncio.create_task(way.post.post_parcels(parcels(3, 4)))
    async with asyncio.timeout(60):
        while int.from_bytes(target.table.get(b"E") or b"") < 4:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    if target.reading is not None:
        target.reading.cancel()
    posting.cancel()
    await asyncio.gather(posting, return_exceptions=True)
    again = way.attach(target.store)  # 3 and 4 were taken and not committed
    await way.posted(again, parcels(3, 4), 4)
    assert again.effects() == urls(4)


async def test_parcels_whose_forerunners_were_handed_over_and_are_lost_are_told_from_early_ones(
    way: Way,
) -> None:
    target = way.attach(MemoryKeyValue())
    handed = await way.posted(target, parcels(4, 4, acknowledged=3), 0)
    if target.reading is not None:
        await asyncio.wait({target.reading}, timeout=300)
        assert [type(error) for error in target.failures] == [ParcelsLost]
    else:
        assert handed.count == 0 and "of which 3 were acknowledged" in str(handed.failure)
    assert target.effects() == []


# -- the rule of a sender


@settings(deadline=None, max_examples=150)
@given(st.lists(STEPS, max_size=60))
def test_whatever_fails_and_whoever_is_replaced_each_parcel_in_a_topic_takes_effect_once(
    steps: list[tuple[str, int]],
) -> None:
    run_history("topic", steps)


@settings(deadline=None, max_examples=60)
@given(st.lists(STEPS, max_size=60))
def test_whatever_fails_each_parcel_that_is_delivered_takes_effect_once(
    steps: list[tuple[str, int]],
) -> None:
    run_history("in_process", steps)


@pytest.mark.parametrize("kind", ["topic", "in_process"])
@pytest.mark.parametrize("seed", range(30))
def test_long_histories_of_faults_end_with_everything_taken_once(kind: str, seed: int) -> None:
    run_history(kind, random_steps(random.Random(seed), 200))


class Early:
    """Counts a parcel as handed over when it was sent."""

    def __init__(self, post: Post) -> None:
        self._post, self._running = post, set[asyncio.Task[Handover]]()

    async def post_parcels(self, parcels: Sequence[Parcel]) -> Handover:
        self._running.add(asyncio.get_running_loop().create_task(self._post.post_parcels(parcels)))
        await asyncio.sleep(0)
        return Handover(len(parcels))

    async def close(self) -> None:
        """The tasks end by themselves."""


class Beyond(Early):
    """Deletes row n when n + 1 was acknowledged: each parcel is posted alone, and the last that
    counts is taken for all before it.
    """

    async def post_parcels(self, parcels: Sequence[Parcel]) -> Handover:
        handed = await asyncio.gather(*(self._post.post_parcels([parcel]) for parcel in parcels))
        count = max((number for number, each in enumerate(handed, 1) if each.count), default=0)
        return Handover(
            count,
            (
                None
                if count == len(parcels)
                else next(each.failure for each in handed if each.failure)
            ),
        )


class Forgetful(Early):
    """Posts a parcel that was acknowledged behind a missing one not again."""

    def __init__(self, post: Post) -> None:
        super().__init__(post)
        self._known: set[int] = set()

    async def post_parcels(self, parcels: Sequence[Parcel]) -> Handover:
        failure = None
        for parcel in parcels:
            if parcel.sequence not in self._known:
                handed = await self._post.post_parcels([parcel])
                failure = failure or handed.failure
                self._known |= {parcel.sequence} if handed.count else set()
        count = next(
            (number for number, each in enumerate(parcels) if each.sequence not in self._known),
            len(parcels),
        )
        return Handover(count, failure)


@pytest.mark.parametrize(
    ("kind", "wrap"),
    [("topic", Early), ("in_process", Early), ("topic", Beyond), ("topic", Forgetful)],
)
def test_the_mistakes_of_a_post_are_found(kind: str, wrap: Wrap) -> None:
    finds = 0
    for seed in range(30):
        try:
            run_history(kind, random_steps(random.Random(seed), 200), wrap)
        except AssertionError:
            finds += 1
    assert finds >= 10


def posted(answers: Sequence[int | None]) -> Handover:
    """What becomes of as many parcels as there are answers: the position of each, ``None`` when
    it was lost.
    """

    async def append(parcel: Parcel) -> int:
        position = answers[parcel.sequence - 1]
        if position is None:
            raise ExchangeError("lost")
        await asyncio.sleep(10.0 - parcel.sequence)  # the last is acknowledged first
        return position

    return run_virtual(TopicPost(append).post_parcels(parcels(1, len(answers))))


def test_a_parcel_counts_when_it_and_all_before_it_are_acknowledged_in_that_order() -> None:
    assert posted([3, 4, 9]) == Handover(3)
    assert posted([None, 4, 9]).count == 0
    assert posted([3, None, 9]).count == 1
    assert posted(
        [4, 3, 9]
    ).count == 1 and "parcel 2 was placed before the one in front of it" in str(
        posted([4, 3, 9]).failure
    )


def test_a_topic_that_does_not_answer_is_told_of_and_posted_to_again() -> None:
    async def main() -> tuple[Handover, float]:
        async def append(parcel: Parcel) -> int:
            await asyncio.Event().wait()
            return 1

        handed = await TopicPost(append, deadline_s=30.0).post_parcels(parcels(1, 3))
        return handed, round(asyncio.get_running_loop().time(), 3)

    handed, time = run_virtual(main())
    assert (handed.count, str(handed.failure), time) == (
        0,
        "no acknowledgement within 30.0 s",
        30.0,
    )


async def test_closing_ends_what_is_under_way_and_counts_nothing() -> None:
    post = TopicPost(lambda parcel: asyncio.get_running_loop().create_future())
    posting = asyncio.create_task(post.post_parcels(parcels(1, 2)))
    await asyncio.sleep(0)
    await post.close()
    assert (await posting).count == 0


# -- the topic


async def test_a_topic_is_read_from_a_position_and_waits_for_what_is_behind_its_end() -> None:
    topics = MemoryTopics()
    inbound = topics.inbound(DESTINATION)
    waiting = asyncio.create_task(inbound.read_parcels(0))
    await asyncio.sleep(0)
    assert not waiting.done() and topics.last_position(DESTINATION) == 0
    assert [await topics.append_parcel(parcel) for parcel in parcels(1, 3)] == [1, 2, 3]
    assert [(position, parcel.sequence) for position, parcel in await waiting] == [
        (1, 1),
        (2, 2),
        (3, 3),
    ]
    assert [position for position, _ in await inbound.read_parcels(2)] == [3]
    topics.trim(DESTINATION, 2)
    assert (
        [position for position, _ in await inbound.read_parcels(2)],
        topics.last_position(DESTINATION),
    ) == (
        [3],
        3,
    )


@pytest.mark.parametrize("after", [1, 4])
async def test_a_position_that_a_topic_does_not_hold_is_an_error(after: int) -> None:
    topics = MemoryTopics()
    for parcel in parcels(1, 3):
        await topics.append_parcel(parcel)
    topics.trim(DESTINATION, 2)
    with pytest.raises(
        PositionLost, match=f"up to position {after}, and the topic holds positions 3 to 3"
    ):
        await topics.inbound(DESTINATION).read_parcels(after)


# -- late on purpose


def sent_at(
    lateness: Lateness | None,
    *commits: tuple[float, int],
    errand: bool = False,
    send_without_delay: tuple[float, float] = (999.0, 999.0),
) -> list[tuple[float, int]]:
    """When, and with how many URLs, posts leave; ``commits`` are times and URLs,
    ``send_without_delay`` is from when to when the sender delays nothing.
    """

    async def main() -> list[tuple[float, int]]:
        loop, store, posts = asyncio.get_running_loop(), MemoryKeyValue(), list[tuple[float, int]]()
        table = Overlay(store)
        outbox = Outbox(0, table, store)

        class Noting:
            async def post_parcels(self, parcels: Sequence[Parcel]) -> Handover:
                posts.append(
                    (round(loop.time(), 3), sum(len(parcel.discovered) for parcel in parcels))
                )
                return Handover(len(parcels))

            async def close(self) -> None:
                """Nothing is held."""

        sender = OutboxSender(outbox, Noting(), asyncio.sleep, lateness=lateness)
        for at, is_on in zip(send_without_delay, (True, False), strict=True):
            loop.call_at(at, sender.send_without_delay, is_on)
        for time, number in commits:
            await asyncio.sleep(time - loop.time())
            outbox.enqueue(DESTINATION, [found(0, each) for each in range(number)])
            if errand:
                outbox.enqueue_errands(
                    DESTINATION,
                    [Errand("http://a.test/robots.txt", (Asker(0, b"hosthost", False, 1),))],
                )
            store.write(table.freeze())
            table.settle()
            sender.send_to([DESTINATION])
        await asyncio.sleep(30.0)
        assert sender.is_idle
        return posts

    return run_virtual(main())


def test_little_is_posted_late_and_together_and_much_at_once() -> None:
    late = Lateness(fewer_than=100, seconds=10.0)
    assert sent_at(None, (0.0, 3), (4.0, 3)) == [(0.0, 3), (4.0, 3)]
    assert sent_at(late, (0.0, 3), (4.0, 3)) == [(10.0, 6)]
    assert sent_at(late, (0.0, 3), (4.0, 97)) == [(4.0, 100)]
    assert sent_at(late, (0.0, 100)) == [(0.0, 100)]
    assert sent_at(late, (0.0, 3), errand=True) == [(0.0, 3)]


def test_nothing_is_late_while_the_sender_delays_nothing() -> None:
    late = Lateness(fewer_than=100, seconds=10.0)
    send_without_delay = (2.0, 6.0)
    assert sent_at(late, (0.0, 3), send_without_delay=send_without_delay) == [(2.0, 3)]
    assert sent_at(late, (4.0, 3), (5.0, 3), send_without_delay=send_without_delay) == [
        (4.0, 3),
        (5.0, 3),
    ]
    assert sent_at(late, (7.0, 3), send_without_delay=send_without_delay) == [(17.0, 3)]
