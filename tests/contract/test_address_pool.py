"""The address pool in Redis and the one in memory answer the same calls alike."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import msgspec
import pytest

from lycosa.base.config.sections import PolitenessSection
from lycosa.base.system.clock import SystemClock
from lycosa.cluster.redis.pool import RedisPool
from lycosa.cluster.redis.redis_check import check_redis
from lycosa.stages.politeness.address_pool import (
    MICRO,
    FreedSlot,
    PoolAnswer,
    PoolAway,
    PoolCall,
    PoolMember,
    PoolRequest,
    PoolWorker,
    StartedSlot,
    WantedSlot,
)
from memory_pool import PoolServer
from redis_server import RedisServers, started

pytestmark = pytest.mark.service
SECTION = PolitenessSection(address_delay_s=0.5, address_slots=2)
A = "192.0.2.1"


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServers]:
    with started(2) as servers:
        yield servers


@pytest.fixture
async def pool(redis: RedisServers) -> AsyncIterator[RedisPool]:
    redis.empty()
    first = msgspec.structs.replace(redis.section, addresses=redis.addresses[:1])
    pool = RedisPool(first, SystemClock())
    yield pool
    await pool.close()


def _member(shard: int = 0, shards: int = 1, crawl: str = "x", settle_s: float = 0.0) -> PoolMember:
    member = PoolWorker("w", crawl, shard, shards, 2, SECTION, 5.0).member()
    return msgspec.structs.replace(member, settle_us=int(settle_s * MICRO))


async def answered(pool: RedisPool, call: PoolCall) -> PoolAnswer:
    """The answer to a call, which is repeated when a busy machine took longer than it may take."""
    for _ in range(20):
        with suppress(PoolAway):
            return await pool.exchange(call)
    return await pool.exchange(call)


async def test_slots_and_delays_are_those_of_the_memory_pool(
    pool: RedisPool, redis: RedisServers
) -> None:
    """Both get the same calls of a chance; the memory pool's clock shows Redis' time."""
    for _ in range(5):
        try:
            shared = await _compared(pool, redis)
        except PoolAway:  # the machine stood still for longer than a call may take
            continue
        assert shared > 100  # how many depends on the time that the calls take
        return
    pytest.fail("calls are not answered in time")


async def _compared(pool: RedisPool, redis: RedisServers) -> int:
    """How many answers say that the pool is shared."""
    first = await pool.exchange(PoolCall(_member(7, 1, "before")))
    now = [first.now_us]
    twin = PoolServer(first.server, lambda: now[0])
    chance = random.Random(5)
    redis.empty()
    slots: list[tuple[str, str]] = []
    members = [
        msgspec.structs.replace(
            _member(shard, shards, crawl, settle_s=0.01), delay_us=chance.randrange(9000)
        )
        for crawl, shards in (("x", 2), ("y", 1))
        for shard in range(shards)
    ]
    shared = 0
    for number in range(1500):
        requests = [_request(chance, slots, f"{number}-{each}") for each in range(3)]
        call = PoolCall(
            chance.choice(members), requests, chance.random() < 0.02, chance.random() < 0.02
        )
        found = await pool.exchange(call)
        now[0] = found.now_us
        expected = twin.answer(call, now[0])
        assert found == expected, (number, call)
        shared += found.is_shared
    return shared


def _request(chance: random.Random, slots: list[tuple[str, str]], name: str) -> PoolRequest:
    kind = chance.randrange(3)
    if kind == 0 or not slots:
        address = f"192.0.2.{chance.randrange(4)}"
        slots.append((address, name))
        return WantedSlot(address, name)
    address, slot = chance.choice(slots)
    if kind == 1:
        return StartedSlot(address, slot, chance.randrange(3000))
    slots.remove((address, slot))
    return FreedSlot(address, slot, chance.random() < 0.7)


async def test_a_call_after_its_deadline_has_no_effect(pool: RedisPool) -> None:
    await answered(pool, PoolCall(_member()))
    pool._times.note_answer(1, time.monotonic(), time.monotonic())
    assert (await pool.exchange(PoolCall(_member(5)))).is_late
    assert (await answered(pool, PoolCall(_member()))).present == 1


async def test_a_pool_that_was_emptied_has_to_learn_all_requests_again(
    pool: RedisPool, redis: RedisServers
) -> None:
    member = _member(settle_s=0.05)
    first = await answered(pool, PoolCall(member))
    assert not first.is_shared
    await asyncio.sleep(first.unsettled_us / MICRO)
    assert (await answered(pool, PoolCall(member))).is_shared
    redis.empty()
    redis.ask("SCRIPT", "FLUSH")
    assert not (await answered(pool, PoolCall(member))).is_shared


async def test_a_replica_is_passed_over_and_a_promoted_one_knows_nothing(
    pool: RedisPool, redis: RedisServers
) -> None:
    redis.follow(1, 0)
    member = _member()
    assert (await answered(pool, PoolCall(member))).is_shared
    other = RedisPool(
        msgspec.structs.replace(redis.section, addresses=redis.addresses[::-1]), SystemClock()
    )
    assert (await answered(other, PoolCall(member))).is_shared  # by the second address
    redis.ask("WAIT", "1", "5000")
    redis.promote(1)
    await other.close()
    kept = _member(settle_s=60.0)
    answer = await answered(other, PoolCall(kept))
    assert answer.server != (await answered(pool, PoolCall(member))).server
    assert not answer.is_shared
    assert "several servers are primaries" in (await check_redis(redis.section))[0].what
    await other.close()


async def test_a_server_that_stands_still_is_away_within_the_limit(
    pool: RedisPool, redis: RedisServers
) -> None:
    server = (await answered(pool, PoolCall(_member()))).server
    redis.freeze()
    try:
        began = time.monotonic()
        with pytest.raises(PoolAway, match="no answer in time") as away:
            await pool.exchange(PoolCall(_member(), [WantedSlot(A, "a")]))
        assert away.value.server == server
        with pytest.raises(PoolAway, match="no answer in time") as away:
            await pool.exchange(PoolCall(_member()))
        assert not away.value.server
        assert time.monotonic() - began < 30
    finally:
        redis.wake()
    assert (await answered(pool, PoolCall(_member()))).server == server


async def test_a_call_whose_writes_are_refused_has_no_effect(
    pool: RedisPool, redis: RedisServers
) -> None:
    redis.ask("CONFIG", "SET", "min-replicas-to-write", "2")
    try:
        with pytest.raises(PoolAway, match="NOREPLICAS") as refused:
            await pool.exchange(PoolCall(_member()))
    finally:
        redis.ask("CONFIG", "SET", "min-replicas-to-write", "0")
    assert not refused.value.server  # so the worker need not wait until it counts as absent
    assert redis.ask("EXISTS", "{lycosa}:present") == "0"


async def test_everything_expires_when_it_is_not_used(pool: RedisPool, redis: RedisServers) -> None:
    await answered(pool, PoolCall(_member(settle_s=1.0), [WantedSlot(A, "a")]))
    for key in ("present", "state", "crawls", f"address:{A}"):
        assert 0 < int(redis.ask("PTTL", f"{{lycosa}}:{key}")) < 3000
    await pool.close()


async def test_a_check_finds_nothing_wrong_and_what_is_wrong(redis: RedisServers) -> None:
    alone = msgspec.structs.replace(redis.section, addresses=redis.addresses[:1])
    assert await check_redis(alone) == []
    redis.ask("CONFIG", "SET", "maxmemory", "100mb")
    redis.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    redis.ask("CONFIG", "SET", "requirepass", "secret")
    try:
        [refused, _] = await check_redis(alone)
        assert "redis.password_file" in refused.fix
    finally:
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("LYCOSA_REDIS_PASSWORD", "secret")
            [deletes] = await check_redis(alone)
            assert "noeviction" in deletes.fix
            assert "secret" not in repr(alone)
        host, port = redis.addresses[0].split(":")
        _reset(host, int(port))
    away = msgspec.structs.replace(redis.section, addresses=("127.0.0.1:1",))
    assert [each.is_warning for each in await check_redis(away)] == [True, True]


def _reset(host: str, port: int) -> None:
    import socket

    with socket.create_connection((host, port)) as connection:
        connection.sendall(
            b"AUTH secret\r\nCONFIG SET requirepass ''\r\nCONFIG SET maxmemory 0\r\n"
            b"CONFIG SET maxmemory-policy noeviction\r\nPING\r\n"
        )
        found = b""
        while b"PONG" not in found:
            found += connection.recv(1000)
