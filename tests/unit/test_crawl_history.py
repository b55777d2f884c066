"""The charts of the operator's page: what shards report first after a start is not new."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lycosa.base.messages.coordinator_messages import ClusterStatus, ShardStatus
from lycosa.cluster.coordinator.crawl_metrics import crawl_metrics
from lycosa.service.page.chart_samples import CrawlHistory
from progress_making import progress_with


def shard(number: int) -> ShardStatus:
    return ShardStatus(number, "a", 1, 1, "running", "", "", False, "", 5, 2, 8, False, "")


def status(captures: int, reported: int = 2, **changed: Any) -> ClusterStatus:
    progress = progress_with(captures=captures, states={"queued": 40}).with_numbers(
        {}, {"lycosa_workers": {"busy": reported, "idle": 0}}
    )
    found = ClusterStatus(
        crawl="news",
        coordinator=3,
        nodes=[],
        most_nodes=4,
        shards=[shard(0), shard(1)],
        progress=progress,
        end="",
        at_once=False,
        is_over=False,
        is_quiet=False,
        expects_asks=False,
        open_requests=0,
        settings_version=0,
        settings={},
    )
    return msgspec.structs.replace(found, **changed)


def test_captures_that_shards_report_after_a_start_are_no_rate() -> None:
    history = CrawlHistory(None)  # type: ignore[arg-type]
    for wall, seen in enumerate(
        [
            status(19_000),
            status(19_002),
            status(0, reported=0),  # stopped and resumed: no worker has reported
            status(9000, reported=1),
            status(19_002),
            status(19_005),
            status(18_990),  # a crash undid what was not committed
            status(18_994),
        ]
    ):
        history.add_status(seen, float(wall))
    times, rates, waiting, *_ = history.columns()
    assert (times, rates) == ([1.0, 5.0, 7.0], [2.0, 3.0, 4.0])
    assert waiting == [40, 40, 40]


@pytest.mark.parametrize(
    ("changed", "state"),
    [
        ({}, "running"),
        ({"is_paused": True}, "paused"),
        ({"end": "stopped", "is_paused": True}, "stopping"),
        ({"end": "stopped", "is_over": True}, "stopped"),
    ],
)
def test_a_metric_says_what_state_the_crawl_is_in(changed: dict[str, Any], state: str) -> None:
    found = crawl_metrics(status(5, **changed)).table("lycosa_crawl_state")
    assert found.pop(state) == 1
    assert len(found) == 3 and not any(found.values())
