"""A worker process of a cluster over a real broker and a folder of objects: from an empty topic,
after ``kill -9``, and when another owner takes its shard.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster_workers import Bed
from judging import quick_config
from kafka_broker import PATIENCE_S, Broker, started
from lycosa.base.config.sections import (
    Config,
    DnsSection,
    FetchSection,
    FrontierSection,
    PolitenessSection,
    RetrySection,
    StoreSection,
)
from lycosa.base.messages.progress import Progress
from lycosa.base.messages.worker_messages import Ended, Failed
from lycosa.base.model.end import End
from lycosa.cluster.kafka.changelog import _RECORDS, ClaimRecord, CommitRecord, SnapshotRecord
from lycosa.cluster.kafka.upkeep import make_topics
from lycosa.state.commit import LEASE_S
from lycosa.state.folder.manifest import MANIFEST_NAME, encoded_manifest
from lycosa.synthetic import SyntheticWeb, WebPlan
from serving import served_with_log

pytestmark = pytest.mark.service
WEB = SyntheticWeb(
    WebPlan(seed=3, hosts=4, pages=8, page_bytes=400, links=6, cross_links=0.3, gone=0.15)
)


def settings(delay_s: float = 0.05, total_s: float = 2.0) -> Config:
    return quick_config(
        dns=DnsSection(pins=("*=127.0.0.1",)),
        fetch=FetchSection(allow_addresses=("127.0.0.0/8",), total_s=total_s, slots=8),
        frontier=FrontierSection(partitions=1, bands=3, head=5, finish_wait_s=60.0),
        politeness=PolitenessSection(
            delay_s=delay_s, address_delay_s=0.0, adaptive_factor=0.0, max_crawl_delay_s=0.1
        ),
        retry=RetrySection(first_s=0.5, max_s=1.0),
        store=StoreSection(commit_s=0.5),
    )


def rows(bed: Bed, kind: str) -> list[dict[str, Any]]:
    """What readers of a feed get."""
    return [json.loads(each) for each in bed.broker.values(bed.topics.named(kind), 0)]


def captures(bed: Bed) -> Counter[tuple[str, int]]:
    """The pages in the feed, by URL and fetch number."""
    pages = [row for row in rows(bed, "pages") if not row.get("kind")]
    return Counter((row["url"], row["fetch_number"]) for row in pages)


def records(bed: Bed) -> list[ClaimRecord | CommitRecord | SnapshotRecord]:
    values = bed.broker.values(bed.topics.changelog, 0)
    return [_RECORDS.decode(each) for each in values]


async def test_a_worker_crawls_from_an_empty_topic_and_an_empty_store_to_the_end(
    tmp_path: Path, kafka: Broker
) -> None:
    with served_with_log(WEB) as (port, _):
        seeds = [WEB.seed_url(0, port)]
        bed = Bed(tmp_path, kafka, settings())
        worker = bed.start("n1", 1)
        status = await worker.opened()
        assert (status.term, status.counted, status.routes) == (1, 0, 0)
        assert status.address.startswith("127.0.0.1:")
        await worker.give_seeds(seeds)
        await worker.tell_routes({0: status.address}, 3)
        ended = await worker.finished()
        assert isinstance(ended, Ended) and ended.end == End.FINISHED.value, ended
        assert worker.status is not None and worker.status.routes == 3
        found = captures(bed)
        truth = WEB.survey(seeds)
        assert {url for url, _ in found} == set(truth.requested) and truth.failed
        assert set(found.values()) == {1}
        assert sorted(row["url"] for row in rows(bed, "dlq")) == sorted(truth.failed)
        again = bed.start("n2", 2)
        assert (await again.opened()).term == 2
        assert isinstance(await again.finished(), Ended)
        assert captures(bed) == found, "an orderly end leaves nothing to do"


@pytest.mark.parametrize("owners", [1, 2])
async def test_an_owner_of_a_log_that_was_lost_deletes_nothing_and_says_what_to_do(
    tmp_path: Path, kafka: Broker, owners: int
) -> None:
    """The second owner saves a snapshot when it opens the shard; without one the parts show that
    commits are missing.
    """
    with served_with_log(WEB) as (port, _):
        bed = Bed(tmp_path, kafka, settings(delay_s=0.3))
        for term in range(1, owners + 1):
            worker = bed.start("n1", 1, previous_term=term - 1, previous_crashed=True)
            await worker.opened()
            await worker.give_seeds([WEB.seed_url(0, port)])
            await worker.until(
                lambda worker=worker, term=term: worker.progress.captures >= 6 * term
            )  # type: ignore[misc]
            await worker.kill()
        remake_topic(bed, bed.topics.changelog)
        before = parts_in(bed)
        assert len(before) > 1
        failed = await bed.start("n2", 2).ended()
        assert parts_in(bed) == before
        assert isinstance(failed, Failed) and "lycosa cluster rescue" in failed.text, failed
        assert ("there is a snapshot of commit" in failed.text) == (owners == 2)


async def test_a_damaged_part_is_told_and_does_not_stop_the_crawl(
    tmp_path: Path, kafka: Broker
) -> None:
    with served_with_log(WEB) as (port, _):
        seeds = [WEB.seed_url(0, port)]
        bed = Bed(tmp_path, kafka, settings(delay_s=0.3))
        worker = bed.start("n1", 1)
        status = await worker.opened()
        await worker.give_seeds(seeds)
        await worker.tell_routes({0: status.address})
        await worker.until(lambda: worker.progress.captures >= 4)
        damaged, *_ = parts_in(bed)
        path = bed.objects / damaged
        path.write_bytes(path.read_bytes()[:-1])
        ended = await worker.finished()
        assert isinstance(ended, Ended) and ended.end == End.FINISHED.value, ended
        assert ended.progress.damaged_segments == 1
        (note,) = (bed.objects / "damaged" / "00000").iterdir()
        assert damaged in note.read_text() and damaged in parts_in(bed)
        again = bed.start("n2", 2)
        await again.opened()
        await again.until(lambda: again.progress.damaged_segments == 1)
        assert {url for url, _ in captures(bed)} == set(WEB.survey(seeds).requested)
        assert isinstance(await again.finished(), Ended)


def parts_in(bed: Bed) -> dict[str, int]:
    """The parts of open segments, with their sizes."""
    paths = (bed.objects / "parts").glob("*/*/*")
    return {str(path.relative_to(bed.objects)): path.stat().st_size for path in paths}


def remake_topic(bed: Bed, name: str) -> None:
    """Delete a topic and make it again, empty, as an operator of topics does."""
    admin = bed.broker.client.admin()
    for deleted in admin.delete_topics([name]).values():
        deleted.result(PATIENCE_S)
    while name not in make_topics(bed.broker.client, bed.topics):
        pass  # the broker deletes it after its answer


@pytest.mark.long
async def test_a_killed_worker_continues_at_once_here_and_after_the_hold_elsewhere(
    tmp_path: Path, kafka: Broker
) -> None:
    with served_with_log(WEB) as (port, log):
        seeds = [WEB.seed_url(0, port)]
        bed = Bed(tmp_path, kafka, settings(delay_s=0.6))
        worker = bed.start("n1", 1)
        await worker.opened()
        await worker.give_seeds(seeds)
        await worker.until(lambda: worker.progress.captures >= 4)
        await worker.kill()
        killed = time.monotonic()
        again = bed.start("n1", 1, previous_term=1, previous_crashed=True)
        assert (await again.opened()).term == 2
        await again.until(lambda: again.progress.captures >= 8)
        assert time.monotonic() - killed < LEASE_S
        await again.kill()
        before, killed = captures(bed), time.monotonic()
        other = bed.start("n2", 2)
        assert (await other.opened()).term == 3
        assert isinstance(await other.finished(), Ended)
        found = captures(bed)
        assert {url for url, _ in found} == set(WEB.survey(seeds).requested)
        assert set(found.values()) == {1} and before.keys() <= found.keys()
        first = min(each.start for each in log.exchanges if each.start > killed)
        assert first - killed >= LEASE_S + bed.config.fetch.total_s
        shortest = min(min(log.gaps(host), default=1.0) for host in log.hosts())
        assert shortest >= bed.config.politeness.delay_s


@pytest.mark.long
async def test_a_stopped_owner_that_wakes_after_its_shard_moved_sends_nothing_and_says_why_it_ends(
    tmp_path: Path, kafka: Broker
) -> None:
    with served_with_log(WEB) as (port, log):
        bed = Bed(tmp_path, kafka, settings(delay_s=0.4, total_s=30.0))
        first = bed.start("n1", 1)
        await first.opened()
        await first.give_seeds([WEB.seed_url(0, port)])
        await first.until(lambda: first.progress.captures >= 4)
        first.send_signal(signal.SIGSTOP)
        lease_ends = time.monotonic() + LEASE_S
        second = bed.start("n2", 2)
        assert (await second.opened()).term == 2
        await second.until(lambda: time.monotonic() > lease_ends)
        known, asked = len(records(bed)), len(log)
        first.send_signal(signal.SIGCONT)
        failed = await first.ended()
        assert (
            isinstance(failed, Failed) and failed.kind == "lycosa.state.commit.log_port.Fenced"
        ), failed
        assert "later owner" in failed.text
        assert len(log) == asked, "the first one has no lease, the second one holds all hosts"
        later = [each for each in records(bed)[known:] if not isinstance(each, SnapshotRecord)]
        assert {each.term for each in later if isinstance(each, CommitRecord)} <= {2}
        assert not [each for each in later if isinstance(each, ClaimRecord)]
        assert isinstance(await second.stopped(), Ended)
        late = bed.start("n3", 1)
        failed = await late.ended()
        assert isinstance(failed, Failed) and "assignment 2 is newer than 1" in failed.text


async def test_a_worker_says_what_it_waits_for_before_its_shard_is_open_and_ends_when_told(
    tmp_path: Path, kafka: Broker
) -> None:
    bed = Bed(tmp_path, kafka, settings())
    bed.write_file(("127.0.0.1:1",))
    worker = bed.start("n1", 1)
    await worker.until(lambda: "127.0.0.1:1" in worker.progress.waits_for)
    assert worker.status is None
    assert await worker.stopped() == Ended(End.STOPPED.value, Progress())


@pytest.mark.parametrize("is_empty", [True, False])
async def test_a_shard_is_not_claimed_when_the_file_names_another_store_than_the_node_read(
    tmp_path: Path, kafka: Broker, is_empty: bool
) -> None:
    bed = Bed(tmp_path, kafka, settings())
    manifest = bed.objects / MANIFEST_NAME
    if is_empty:
        manifest.unlink()
    else:
        theirs = msgspec.structs.replace(bed.manifest, crawl="c5d0a6b1")
        manifest.write_bytes(encoded_manifest(theirs))
    failed = await bed.start("n1", 1).ended()
    assert isinstance(failed, Failed) and failed.kind.endswith("SettingsError"), failed
    assert "objects.url = " in failed.text and bed.manifest.crawl in failed.text
    assert kafka.values(bed.topics.changelog, 0) == []


async def test_a_shard_is_opened_once_the_store_is_back_by_one_claim(
    tmp_path: Path, kafka: Broker
) -> None:
    bed = Bed(tmp_path, kafka, settings())
    away = bed.objects.rename(bed.objects.with_name("away"))
    worker = bed.start("n1", 1)
    await worker.until(lambda: "no such folder" in worker.progress.waits_for)
    away.rename(bed.objects)
    assert (await worker.opened()).term == 1
    assert isinstance(await worker.stopped(), Ended)


async def test_a_worker_waits_for_kafka_and_for_the_store_says_so_and_continues_by_itself(
    tmp_path: Path,
) -> None:
    with started() as kafka, served_with_log(WEB) as (port, _):
        seeds = [WEB.seed_url(0, port)]
        bed = Bed(tmp_path, kafka, settings(delay_s=0.4))
        worker = bed.start("n1", 1)
        await worker.opened()
        await worker.give_seeds(seeds)
        away = bed.objects.with_name("away")
        bed.objects.rename(away)
        await worker.until(lambda: "no such folder" in worker.progress.waits_for)
        away.rename(bed.objects)
        committed = worker.progress.captures
        await worker.until(lambda: worker.progress.captures > committed)
        assert worker.progress.waits_for == ""
        kafka.kill()
        await worker.until(lambda: f"{kafka.addresses[0]}" in worker.progress.waits_for)
        kafka.start()
        assert isinstance(await worker.finished(), Ended)
        found = captures(bed)
        assert {url for url, _ in found} == set(WEB.survey(seeds).requested)
        assert set(found.values()) == {1}
