"""A worker process of a cluster over a real broker and a folder of objects: from an empty topic,
after ``kill -9``, and when another owner takes its shard.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_workers import Bed
from judging import quick_config
from kafka_broker import Broker, started
from lycosa.cluster.worker_messages import Ended
from lycosa.config.sections import (
    Config,
    DnsSection,
    FetchSection,
    FrontierSection,
    PolitenessSection,
    StoreSection,
)
from lycosa.model.end import End
from lycosa.synthetic import SyntheticWeb, WebPlan
from serving import served_with_log

pytestmark = pytest.mark.service
WEB = SyntheticWeb(WebPlan(seed=3, hosts=4, pages=8, page_bytes=400, links=6, cross_links=0.3))


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with started() as broker:
        yield broker


def settings(delay_s: float = 0.05, **fetch: object) -> Config:
    return quick_config(
        dns=DnsSection(pins=("*=127.0.0.1",)),
        fetch=FetchSection(allow_addresses=("127.0.0.0/8",), total_s=2.0, slots=8, **fetch),
        frontier=FrontierSection(partitions=1, bands=3, head=5, finish_wait_s=1.0),
        politeness=PolitenessSection(
            delay_s=delay_s, address_delay_s=0.0, adaptive_factor=0.0, max_crawl_delay_s=0.1
        ),
        store=StoreSection(commit_s=0.5),
    )


async def test_a_worker_crawls_from_an_empty_topic_and_an_empty_store_to_the_end(
    tmp_path: Path, kafka: Broker
) -> None:
    with served_with_log(WEB) as (port, log):
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
        truth = WEB.survey(seeds)
        asked = Counter(each.path for each in log.exchanges)
        assert asked
        rows = [json.loads(each) for each in kafka.values(bed.topics.named("pages"), 0)]
        assert {row["url"] for row in rows if not row.get("kind")} == set(truth.requested)
        keys = Counter((row["url8"], row["fetch_number"]) for row in rows if not row.get("kind"))
        assert set(keys.values()) == {1}
