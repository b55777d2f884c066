"""Shards of a simulated cluster: their post leaves when the crawler's own sender would post, and
what is scarce decides.
"""

from __future__ import annotations

import asyncio
import json

import pytest

from lycosa.base.model.discovered import Discovered, LinkKind
from lycosa.cli.main import main
from lycosa.simulate.cluster_means import ClusterMeans
from lycosa.simulate.resources import Resources
from lycosa.simulate.shards import ShardsOutcome, simulate_shards
from lycosa.simulate.simulated_post import STEP_S, SimulatedPost
from lycosa.simulate.simulation_run import Model
from lycosa.simulate.web_model import Web
from lycosa.state.exchange.exchange_port import Lateness, Parcel
from lycosa.state.exchange.outbox import Outbox
from lycosa.state.exchange.outbox_sender import OutboxSender
from lycosa.state.exchange.topic import MemoryTopics, TopicPost
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay
from lycosa.synthetic import run_virtual

APPEND_S = 0.25
COMMITS = 60


def sent_by_the_crawler(rows: int) -> list[float]:
    """When its sender posts, with a commit of so many rows for one destination every second."""
    times: list[float] = []

    async def crawl() -> None:
        loop, topics = asyncio.get_running_loop(), MemoryTopics()
        store = MemoryKeyValue()
        table = Overlay(store)
        outbox = Outbox(0, table, store)

        async def append(parcel: Parcel) -> int:
            if not times or loop.time() > times[-1] + 0.01:
                times.append(loop.time())
            position = await topics.append_parcel(parcel)
            await asyncio.sleep(APPEND_S)
            return position

        sender = OutboxSender(outbox, TopicPost(append), asyncio.sleep, lateness=Lateness())
        for commit in range(1, COMMITS + 1):
            await asyncio.sleep(commit - loop.time())
            outbox.enqueue(
                1,
                [
                    Discovered(f"http://a.test/{commit}/{n}", b"hosthost", b"u" * 8, LinkKind.A, 1)
                    for n in range(rows)
                ],
            )
            store.write(table.freeze())
            table.settle()
            sender.send_to([1])
        await sender.close()

    run_virtual(crawl())
    return times


def sent_by_the_model(rows: int) -> list[float]:
    means = ClusterMeans(append_s=0.0, commit_us=0.0, broker_us=0.0, broker_kb_us=0.0)
    post = SimulatedPost(2, means, Lateness(), 1)
    # each of two shards is drawn equally often, and what is drawn for the source stays
    times = []
    for step in range(1, int(COMMITS / STEP_S) + 1):
        now = step * STEP_S
        if now == int(now):
            post.commit(0, {step: 2 * rows}, 0.0, now)
        _, pairs = post.post_due(now)
        times += [now] * len(pairs)
    return times


@pytest.mark.parametrize("rows", [3, 40, 400])
def test_posts_leave_as_often_as_the_crawlers_own_sender_posts(rows: int) -> None:
    """By lateness or many parcels, by rows of some commits, and with each commit."""
    real, model = sent_by_the_crawler(rows), sent_by_the_model(rows)
    assert len(real) == pytest.approx(len(model), abs=1), (real, model)


def cluster(shards: int, seconds: float = 60.0, **means: float) -> ShardsOutcome:
    web = Web(hosts=20_000 * shards, pages=400_000 * shards)
    resources = Resources(cores=shards, bandwidth_bytes_per_s=125_000_000 * shards)
    model = Model(
        web=web,
        means=resources,
        cluster=ClusterMeans(**means),
        days=seconds / 86_400,
        sample=60 * shards,
    )
    return simulate_shards(model, shards)


def test_every_row_for_another_shard_is_counted_and_arrives() -> None:
    found = cluster(4)
    pages = sum(found.pages)
    assert found.post.rows / pages == pytest.approx(15 * 3 / 4, rel=0.05)
    # those of the last moments have not arrived yet
    assert sum(found.post.delays) == pytest.approx(found.post.rows, rel=0.1)
    assert max(found.limits, key=lambda name: found.limits[name]) == "cpu"
    assert 0 < found.exchange_cpu < 0.2


def test_more_shards_fetch_more_and_send_smaller_records() -> None:
    few, many = cluster(2), cluster(16)
    assert sum(many.pages) == pytest.approx(8 * sum(few.pages), rel=0.15)
    assert many.post.bytes / many.post.records < few.post.bytes / few.post.records
    assert many.post.records / sum(many.pages) > few.post.records / sum(few.pages)


def test_brokers_that_are_too_slow_stop_the_shards() -> None:
    found = cluster(4, broker_cores=0.01)
    assert max(found.limits, key=lambda name: found.limits[name]) == "brokers"
    assert sum(found.pages) < 0.7 * sum(cluster(4).pages)


def test_the_same_seed_gives_the_same_cluster() -> None:
    assert cluster(3).pages == cluster(3).pages


COMMAND = ["simulate", "--shards", "4", "--cores", "4", "--hosts", "80k", "--days", "0.0004"]


def test_the_command_answers_in_lines_and_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(COMMAND) == 0
    told = capsys.readouterr().out
    for word in ("pages a second", "messages", "hand-over", "brokers", "binds"):
        assert word in told
    assert main([*COMMAND, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["shards"] == 4 and found["pages_per_s"] > 100
    assert list(found["handover_s"].values()) == sorted(found["handover_s"].values())


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--days", "1"], "an hour at most"),
        (["--picture", "a.svg"], "--picture cannot be used with --shards"),
        (["--workers", "2"], "--workers cannot be used with --shards"),
        (["--hosts", "5"], "too few for 4 shards"),
    ],
)
def test_what_does_not_fit_is_told_in_a_line(
    more: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMAND[:5], "--hosts", "80k", *more]) == 2
    assert told in capsys.readouterr().err
