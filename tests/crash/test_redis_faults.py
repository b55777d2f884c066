"""A crawl by two machines, whose hosts share few addresses, while Redis is emptied, stands still,
is killed and fails over. The server's own log must show no address with more requests at once than
slots, nor more starts than its delay allows.

While the pool is shared, two starts lie a delay apart, whichever machine sent them. While it is not,
each of ``nodes`` machines waits ``nodes`` delays, so there are never more than ``nodes`` starts
within ``nodes`` delays; that is what the log must show at every moment.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from clusters import SETTINGS, RealCluster, WatchedLog, real_cluster
from kafka_broker import started as kafka_started
from lycosa.synthetic import SyntheticServer, SyntheticWeb
from lycosa.synthetic.plan import WebPlan
from lycosa.synthetic.synthetic_hosts import host_name
from redis_server import RedisServers
from redis_server import started as redis_started

pytestmark = [pytest.mark.service, pytest.mark.long]
HOSTS, NODES, DELAY_S, SLOTS = 36, 3, 0.3, 3
PLAN = WebPlan(hosts=HOSTS, pages=400, seed=3, latency_s=0.05, page_bytes=1500, links=8)
ADDRESSES = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
LATE_S = 0.04  # the server may read one request so much later than another
SHARED = "Redis is used: all machines share"


@contextmanager
def _served(log: WatchedLog) -> Iterator[int]:
    import asyncio

    loop = asyncio.new_event_loop()
    server = SyntheticServer(SyntheticWeb(PLAN), addresses=ADDRESSES, pace=1.0, log=log)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(60)
        yield server.port
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


def _settings() -> dict[str, str]:
    pins = [f"{host_name(number)}={ADDRESSES[number % len(ADDRESSES)]}" for number in range(HOSTS)]
    quoted = ", ".join(f'"{pin}"' for pin in pins)
    return {
        **SETTINGS,
        "dns.pins": f"[{quoted}]",
        "politeness.delay_s": "0.5",
        "politeness.address_delay_s": str(DELAY_S),
        "politeness.address_slots": str(SLOTS),
    }


class Judge:
    """The server's log, and the times between which the pool was shared by all."""

    def __init__(self, log: WatchedLog) -> None:
        self._log = log
        self.shared: list[tuple[float, float]] = []
        self.told: list[str] = []

    def pass_phase(self, name: str, seconds: float, is_shared: bool) -> None:
        """Let the crawl run for a time, and note what the server saw of it."""
        began = time.monotonic()
        count = len(self._log)
        self._log.await_that(lambda: time.monotonic() >= began + seconds)
        ended = time.monotonic()
        if is_shared:
            self.shared.append((began, ended))
        self.told.append(f"{name}: {(len(self._log) - count) / (ended - began):.1f} requests/s")

    def check(self) -> None:
        """Raises ``AssertionError``."""
        span = []
        gaps = []
        for address in sorted(self._log.addresses()):
            parallel = self._log.max_parallel(address)
            assert parallel <= SLOTS, (address, parallel)
            starts = sorted(each.start for each in self._log.exchanges if each.address == address)
            for first, last in zip(starts, starts[NODES:], strict=False):
                span.append(last - first)
            for began, ended in self.shared:
                within = [start for start in starts if began <= start < ended]
                gaps += [later - earlier for earlier, later in pairwise(within)]
        self.told.append(
            f"{len(self._log)} requests; shared: {len(gaps)} gaps, least {min(gaps):.4f} s of"
            f" {DELAY_S}; always: {NODES + 1} starts in at least {min(span):.4f} s of"
            f" {NODES * DELAY_S:.1f}"
        )
        print(*self.told, sep="\n")
        assert min(gaps) >= DELAY_S - LATE_S, self.told
        assert min(span) >= NODES * DELAY_S - LATE_S, self.told
        assert len(gaps) > 200


def test_redis_is_emptied_stopped_and_fails_over_during_a_crawl(tmp_path: Path) -> None:
    log = WatchedLog()
    with kafka_started(session_s=60.0) as kafka, redis_started(2) as redis, _served(log) as port:
        listed = ", ".join(f'"{address}"' for address in redis.addresses)
        toml = ("", f"[redis]\naddresses = [{listed}]")
        redis.follow(1, 0)
        with real_cluster(tmp_path, kafka, _settings(), 4, toml) as cluster:
            cluster.serve()
            nodes = [cluster.machine(name) for name in "ab"]
            cluster.crawl(*(f"http://{host_name(n)}:{port}/" for n in range(HOSTS)))
            judge = Judge(log)
            log.await_more(50)
            for node in nodes:
                node.await_line(SHARED)
            judge.pass_phase("shared", 12.0, True)
            _misfortunes(redis, nodes, judge)
            assert cluster.status()["progress"]["pool"]["state"] == "shared"
            assert cluster.run("cluster", "stop", "cluster.toml").wait() == 0
            for node in nodes:
                node.await_line("the crawl is over")
            judge.check()
            _is_proven(cluster)


def _misfortunes(redis: RedisServers, nodes: list[object], judge: Judge) -> None:
    """What happens to Redis; the pool is shared again after each."""

    def await_all(pattern: str) -> None:
        for node in nodes:
            node.await_line(pattern)  # type: ignore[attr-defined]

    redis.empty()
    await_all("Redis is not used yet")
    judge.pass_phase("emptied", 6.0, False)
    await_all(SHARED)
    judge.pass_phase("shared", 8.0, True)

    redis.freeze()
    await_all("Redis is away")
    judge.pass_phase("stopped", 12.0, False)
    redis.wake()
    await_all(SHARED)
    judge.pass_phase("shared", 8.0, True)

    # The replica has what the primary had, except the last moments.
    redis.kill(0)
    await_all("Redis is away")
    judge.pass_phase("no primary", 8.0, False)
    redis.promote(1)
    await_all("Redis is not used yet")
    await_all(SHARED)
    judge.pass_phase("failed over", 8.0, True)


def _is_proven(cluster: RealCluster) -> None:
    audit = cluster.run("audit", "--cluster", "cluster.toml")
    assert audit.wait() == 0, str(audit)
    print(*(line for line in audit.lines if "address" in line), sep="\n")
