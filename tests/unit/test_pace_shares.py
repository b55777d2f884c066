"""The pace of a crawl whose workers hand over partitions, and whose limits change."""

from __future__ import annotations

from lycosa.base.config.sections import FetchSection
from lycosa.stages.politeness.crawl_pace import CrawlPace


def test_bytes_that_arrive_after_the_last_partition_went_stop_nothing_for_days() -> None:
    share = [0.5]
    pace = CrawlPace(FetchSection(bytes_per_s=1_000_000), lambda: share[0], lambda: 0.0)
    pace.note_request(10.0)
    share[0] = 0.0
    pace.note_bytes(2_000_000)
    share[0] = 0.5
    assert 3.0 < pace.wait_s(10.0) <= 4.0  # two million at half of the rate


def test_a_worker_without_partitions_reserves_no_days() -> None:
    share = [0.0]
    pace = CrawlPace(FetchSection(request_rate=10.0), lambda: share[0], lambda: 0.0)
    pace.note_request(10.0)
    share[0] = 1.0
    assert pace.wait_s(10.0) < 1.0


def test_a_higher_limit_counts_at_once_and_another_setting_forgives_nothing() -> None:
    slow = FetchSection(request_rate=0.001, bytes_per_s=10)
    pace = CrawlPace(slow, lambda: 1.0, lambda: 0.0)
    pace.note_request(10.0)
    assert pace.wait_s(10.0) > 900
    pace.follow(FetchSection(request_rate=0.001, bytes_per_s=10, http2=False))
    assert pace.wait_s(10.0) > 900
    pace.follow(FetchSection(request_rate=100.0, bytes_per_s=1_000_000))
    assert pace.wait_s(10.0) <= 0
