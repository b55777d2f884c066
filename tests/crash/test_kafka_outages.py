"""Brokers that are killed and come back: what the log and the post promise holds, and they go on by
themselves.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from kafka_broker import PATIENCE_S, Broker, started
from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.cluster.kafka.inbound import KafkaInbound
from lycosa.cluster.kafka.kafka_log import KafkaLog
from lycosa.cluster.kafka.kafka_post import KafkaPost
from lycosa.cluster.kafka.topics import TRANSACTION_TIMEOUT_MS, Topics
from lycosa.cluster.kafka.transactions import OutgoingRecord
from lycosa.cluster.kafka.upkeep import check_topics
from lycosa.state.commit import Commit, Fenced, OutcomeUnknown, PartitionBatch, RolledBack
from lycosa.state.exchange.exchange_port import Handover, Parcel

pytestmark = [pytest.mark.service]
CRAWL, SHARD = "2f0cf3d2", 1
LOGS: list[KafkaLog] = []


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with started() as broker:
        yield broker


@pytest.fixture
def topics(broker: Broker) -> Topics:
    broker.start()
    return broker.topics()


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool
        for log in LOGS:  # ends what waits: a test that fails must not wait for it
            log.close()
        LOGS.clear()


class Told:
    """What a call waits for, as it was told."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.waits = threading.Event()

    def __call__(self, text: str) -> None:
        self.texts.append(text)
        if text:
            self.waits.set()

    def forget(self) -> None:
        """What was told so far: a broker that just started lets a claim wait as well."""
        self.texts.clear()
        self.waits.clear()

    def await_wait(self) -> None:
        assert self.waits.wait(PATIENCE_S), "nothing was said"


def commit(term: int, sequence: int, size: int = 3) -> Commit:
    batch = PartitionBatch(0, {b"key": random.Random(sequence).randbytes(size)})
    return Commit(term=term, sequence=sequence, wall=1.0, batches=[batch], crawl=CRAWL, shard=SHARD)


def owner(broker: Broker, topics: Topics, told: Told | None = None) -> KafkaLog:
    LOGS.append(KafkaLog(broker.new_client(), topics, CRAWL, SHARD, tell=told or Told()))
    return LOGS[-1]


def until_safe(log: KafkaLog, made: Commit) -> int:
    """Appends as the committer does; gives how often it was rolled back."""
    for rolled_back in range(100):
        try:
            log.append(made)
        except RolledBack:
            continue
        return rolled_back
    raise AssertionError("rolled back for ever")


class Interrupting(list[OutgoingRecord]):
    """Records of a transaction; what happens before one of them is written."""

    def __init__(self, records: list[OutgoingRecord], at: int, event: Callable[[], None]) -> None:
        super().__init__(records)
        self._at, self._event = at, event

    def __iter__(self) -> Iterator[OutgoingRecord]:
        for number, record in enumerate(list.__iter__(self)):
            if number == self._at:
                self._event()
            yield record


def test_a_broker_killed_in_the_middle_of_a_transaction_leaves_all_of_it_or_nothing(
    broker: Broker, topics: Topics, background: ThreadPoolExecutor
) -> None:
    told = Told()
    log = owner(broker, topics, told)
    log.claim()
    log.append(commit(1, 1))
    told.forget()
    producer = log._transactions._producer
    assert producer is not None

    def kill() -> None:
        producer.flush(PATIENCE_S)  # half of the records are in the topic
        broker.kill()

    rows = [OutgoingRecord(topics.named("pages"), SHARD, b"%d" % number) for number in range(10)]
    running = background.submit(log._transactions.run, Interrupting(rows, 5, kill))
    told.await_wait()
    broker.start()
    try:
        running.result(PATIENCE_S)
        was_committed = True
    except RolledBack:
        was_committed = False
    assert len(broker.values(topics.named("pages"), SHARD)) == (10 if was_committed else 0)
    until_safe(log, commit(1, 2))
    assert list(log.read()) == [commit(1, 1), commit(1, 2)]
    assert told.texts[-1] == ""
    log.close()


def test_an_append_waits_for_a_broker_that_is_away_says_so_and_goes_on(
    broker: Broker, topics: Topics, background: ThreadPoolExecutor
) -> None:
    told = Told()
    log = owner(broker, topics, told)
    log.claim()
    told.forget()
    broker.kill()
    running = background.submit(until_safe, log, commit(1, 1, size=2_000_000))
    told.await_wait()
    assert "writing a commit" in told.texts[0]
    assert not running.done()
    broker.start()
    running.result(PATIENCE_S)
    assert list(log.read()) == [commit(1, 1, size=2_000_000)]
    log.close()


@pytest.mark.long
def test_an_owner_regains_its_log_when_kafka_was_away_longer_than_a_transaction_may_last(
    broker: Broker, topics: Topics, background: ThreadPoolExecutor
) -> None:
    log = owner(broker, topics)
    log.claim()
    log.append(commit(1, 1))
    broker.kill()
    running = background.submit(until_safe, log, commit(1, 2))
    with pytest.raises(TimeoutError):
        running.result(TRANSACTION_TIMEOUT_MS / 1000 + 10)
    broker.start()
    running.result(PATIENCE_S)
    log.append(commit(1, 3))
    assert list(log.read()) == [commit(1, 1), commit(1, 2), commit(1, 3)]
    assert owner(broker, topics).claim().term == 2
    with pytest.raises(Fenced):
        log.append(commit(1, 4))
    log.close()


@pytest.mark.long
def test_an_owner_that_kafka_was_away_for_loses_its_log_to_one_that_claims_it(
    broker: Broker, topics: Topics, background: ThreadPoolExecutor
) -> None:
    log = owner(broker, topics)
    log.claim()
    log.append(commit(1, 1))
    after = owner(broker, topics)
    broker.kill()
    running = background.submit(until_safe, log, commit(1, 2))
    with pytest.raises(TimeoutError):
        running.result(TRANSACTION_TIMEOUT_MS / 1000 + 10)
    claiming = background.submit(after.claim)
    broker.start()
    claim = claiming.result(PATIENCE_S)
    assert claim.term == 2 and claim.latest is not None
    try:
        running.result(PATIENCE_S)
    except Fenced:
        assert claim.latest == commit(1, 1)
    else:
        assert claim.latest == commit(1, 2)  # it was quicker
    with pytest.raises(Fenced):
        log.append(commit(1, 3))
    after.append(commit(2, claim.latest.sequence + 1))
    assert [each.term for each in after.read()] == [1] * claim.latest.sequence + [2]


@pytest.mark.long
def test_a_claim_and_a_read_wait_for_a_broker_that_is_away(
    broker: Broker, topics: Topics, background: ThreadPoolExecutor
) -> None:
    log = owner(broker, topics)
    log.claim()
    log.append(commit(1, 1))
    told = Told()
    after = owner(broker, topics, told)
    broker.kill()
    claiming = background.submit(after.claim)
    told.await_wait()
    broker.start()
    assert claiming.result(PATIENCE_S).latest == commit(1, 1)
    broker.kill()
    told.forget()
    reading = background.submit(lambda: list(after.read()))
    told.await_wait()
    broker.start()
    assert reading.result(PATIENCE_S) == [commit(1, 1)]
    for each in (log, after):
        each.close()


def test_an_append_that_is_given_up_has_an_unknown_outcome_which_the_next_claim_reads(
    broker: Broker, topics: Topics, background: ThreadPoolExecutor
) -> None:
    told = Told()
    log = owner(broker, topics, told)
    log.claim()
    log.append(commit(1, 1))
    told.forget()
    broker.kill()
    running = background.submit(log.append, commit(1, 2))
    told.await_wait()
    log.close()
    with pytest.raises(OutcomeUnknown):
        running.result(PATIENCE_S)
    broker.start()
    after = owner(broker, topics)
    claim = after.claim()
    assert claim.term == 2 and claim.latest in (commit(1, 1), commit(1, 2))
    assert claim.latest is not None
    after.append(commit(2, claim.latest.sequence + 1))
    assert [each.sequence for each in after.read()] == list(range(1, claim.latest.sequence + 2))
    after.close()


@pytest.mark.long
def test_what_was_acknowledged_is_there_although_the_broker_is_killed_at_once(
    broker: Broker, topics: Topics
) -> None:
    log = owner(broker, topics)
    log.claim()
    for sequence in range(1, 7):
        until_safe(log, commit(1, sequence))
        broker.kill()
        broker.start()
        found = [each.sequence for each in owner(broker, topics).read()]
        assert found == list(range(1, sequence + 1))


@pytest.mark.long
def test_whatever_is_killed_each_commit_is_in_the_log_once_and_in_order(
    broker: Broker, topics: Topics, background: ThreadPoolExecutor
) -> None:
    ends = threading.Event()
    chance = random.Random(13)

    def kills() -> None:
        for _ in range(4):
            ends.wait(chance.uniform(0.2, 1.5))
            broker.kill()
            ends.wait(chance.uniform(0, 1))
            broker.start()
        ends.set()

    killing: Future[None] = background.submit(kills)
    log = owner(broker, topics)
    term, sequence, told = log.claim().term, 0, list[Commit]()
    while not ends.is_set() or sequence < 20:
        made = commit(term, sequence + 1, size=chance.choice([10, 10, 1_500_000]))
        try:
            log.append(made)
        except RolledBack:
            continue
        except (OutcomeUnknown, Fenced):  # the process ends, and another one claims
            log.close()
            log = owner(broker, topics)
            claim = log.claim()
            term = claim.term
            if claim.latest == made:
                told.append(made)
        else:
            told.append(made)
        sequence = len(told)
    killing.result(PATIENCE_S)
    assert list(log.read()) == told
    assert [each.sequence for each in told] == list(range(1, sequence + 1))
    log.close()


def parcels(first: int, last: int) -> list[Parcel]:
    found = [Discovered("http://0.test/", b"hosthost", b"urlsurls", LinkKind.A, 1)]
    return [Parcel(0, SHARD, number, found) for number in range(first, last + 1)]


async def test_a_post_says_that_kafka_is_away_and_writes_nothing_twice(
    broker: Broker, topics: Topics
) -> None:
    client = broker.new_client()
    post, inbound = (
        KafkaPost(client, topics, CRAWL, deadline_s=1.0),
        KafkaInbound(client, topics, CRAWL, SHARD),
    )
    async with asyncio.timeout(PATIENCE_S):
        while await post.post_parcels(parcels(1, 2)) != Handover(2):
            pass  # a broker that just started takes longer than the deadline
    broker.kill()
    for _ in range(3):
        handed = await post.post_parcels(parcels(3, 4))
        assert handed.count == 0 and "no acknowledgement within 1.0 s" in str(handed.failure)
    reading = asyncio.create_task(inbound.read_parcels(1))  # waits as long
    await asyncio.to_thread(broker.start)
    async with asyncio.timeout(PATIENCE_S):
        while (handed := await post.post_parcels(parcels(3, 5))).failure is not None:
            assert handed.count == 0 or handed.count == 2
            if handed.count:
                break
        assert [each.sequence for _, each in await reading][:2] == [3, 4]
    at, taken = 0, list[int]()
    async with asyncio.timeout(PATIENCE_S):
        while at < await inbound.last_position():
            for position, parcel in await inbound.read_parcels(at):
                at = position
                taken.append(parcel.sequence)
    assert taken == [1, 2, 3, 4, 5]
    await post.close()
    await inbound.close()


@pytest.mark.long
def test_of_three_brokers_any_may_be_killed(background: ThreadPoolExecutor) -> None:
    with started(3) as three:
        topics = three.topics()
        assert check_topics(three.client, topics) == []
        log = owner(three, topics)
        term, sequence, told = log.claim().term, 0, list[Commit]()
        for number in range(30):
            if number in (5, 15):
                three.kill(number % 3)
            if number in (10, 20):
                three.start()
            made = commit(term, sequence + 1)
            try:
                until_safe(log, made)
            except (OutcomeUnknown, Fenced):
                log.close()
                log = owner(three, topics)
                claim = log.claim()
                term = claim.term
                if claim.latest != made:
                    continue
            told.append(made)
            sequence += 1
        assert list(log.read()) == told
        log.close()
