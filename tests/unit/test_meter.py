"""The meter: counted once, merged by addition, bounded labels, and its text for Prometheus."""

from __future__ import annotations

import msgspec
import pytest

from lycosa.base.messages.progress import ContinuedProgress, Progress, total
from lycosa.base.model.url_state import UrlState
from lycosa.base.system.meter import Meter, MeterSnapshot, carried, merged_snapshot
from lycosa.base.system.metric_catalogue import METRICS, SECONDS, URL_STATES, MetricKind
from lycosa.base.system.metrics_text import metrics_text
from lycosa.cluster.coordinator.crawl_metrics import progress_metrics
from progress_making import progress_with


def test_names_follow_the_conventions_of_prometheus() -> None:
    for metric in METRICS.values():
        assert metric.name.startswith("lycosa_"), metric.name
        is_counter = metric.kind is MetricKind.COUNTER
        assert metric.name.endswith("_total") is is_counter, metric.name
        assert bool(metric.bounds) is (metric.kind is MetricKind.HISTOGRAM), metric.name
        assert metric.meaning.endswith("."), metric.name
        assert not metric.is_stored or is_counter, metric.name


def test_the_labels_of_states_are_those_of_urls() -> None:
    assert tuple(state.label for state in UrlState) == URL_STATES


def test_no_metric_has_the_name_of_a_host_as_a_label() -> None:
    free = {metric.label for metric in METRICS.values() if metric.label and not metric.values}
    # the extractors of a crawl are those that its operator named
    assert free == {"process", "extractor"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lycosa_nothing", ""),
        ("lycosa_urls", "a.example"),
        ("lycosa_urls", ""),
        ("lycosa_captures_total", "fetched"),
        ("lycosa_fetch_seconds", "total"),
    ],
)
def test_an_unknown_name_or_label_value_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=name):
        Meter().counter(name, value)


def test_a_histogram_counts_up_to_its_bounds() -> None:
    meter = Meter()
    times = meter.histogram("lycosa_fetch_seconds", "total")
    for value in (0.0, SECONDS[0], SECONDS[0] + 1e-9, SECONDS[-1], 1e9):
        times.observe(value)
    found = meter.snapshot().distributions["lycosa_fetch_seconds"]["total"]
    assert (found.counts[0], found.counts[1], found.counts[-2], found.counts[-1]) == (2, 1, 1, 1)
    assert found.count == times.count == 5
    assert meter.histogram("lycosa_fetch_seconds", "total") is times


def test_readers_set_what_other_parts_count() -> None:
    meter, waiting = Meter(), {"queued": 3, "parked": 1}
    meter.watch(lambda: meter.set_table("lycosa_urls", dict(waiting)))
    assert meter.snapshot().table("lycosa_urls") == {"queued": 3, "parked": 1}
    del waiting["parked"]
    assert meter.snapshot().table("lycosa_urls") == {"queued": 3, "parked": 0}


def test_closed_parts_are_read_no_more_and_their_last_numbers_stay() -> None:
    meter, is_open = Meter(), [True]

    def read() -> None:
        assert is_open, "used after close"
        meter.set("lycosa_url_seen_keys", 7)

    meter.watch(read)
    assert meter.snapshot().whole("lycosa_url_seen_keys") == 7
    meter.stop_watching()
    is_open.clear()
    assert meter.snapshot().whole("lycosa_url_seen_keys") == 7


def _snapshot(number: int) -> MeterSnapshot:
    meter = Meter()
    meter.set("lycosa_captures_total", number)
    meter.set("lycosa_dns_failures_total", number)
    meter.set("lycosa_loop_turn_seconds_max", number / 2)
    meter.set("lycosa_disk_free_bytes", number * 1000)
    meter.set("lycosa_urls", number, "queued")
    meter.histogram("lycosa_parse_seconds").observe(number)
    return meter.snapshot()


def test_snapshots_are_merged_by_addition() -> None:
    whole = merged_snapshot(map(_snapshot, (1, 2, 7)))
    assert whole.whole("lycosa_captures_total") == 10
    assert whole.table("lycosa_urls") == {"queued": 10}
    assert whole.number("lycosa_loop_turn_seconds_max") == 3.5
    assert whole.number("lycosa_disk_free_bytes") == 1000
    times = whole.distributions["lycosa_parse_seconds"][""]
    assert (times.count, times.sum) == (3, 10.0)


def test_merging_does_not_depend_on_order_or_grouping() -> None:
    one, two, three = map(_snapshot, (1, 2, 7))
    whole = merged_snapshot([one, two, three])
    assert merged_snapshot([three, merged_snapshot([two, one])]) == whole
    assert merged_snapshot([whole, MeterSnapshot()]) == whole


def test_a_snapshot_is_the_same_after_the_wire() -> None:
    given = Progress(meter=_snapshot(3))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(given), type=Progress) == given
    assert msgspec.json.decode(msgspec.json.encode(given), type=Progress) == given


def test_an_ended_process_leaves_its_own_counts_and_no_stored_ones() -> None:
    left = carried(_snapshot(5))
    assert left.numbers == {"lycosa_dns_failures_total": {"": 5}}
    assert left.distributions["lycosa_parse_seconds"][""].count == 1


def test_the_numbers_of_a_worker_do_not_fall_when_its_process_is_replaced() -> None:
    heard = ContinuedProgress()
    heard.begin_process()
    heard.receive(Progress(meter=_discovered(_snapshot(5))))
    heard.begin_process()
    assert heard.latest.meter.whole("lycosa_dns_failures_total") == 5  # until the next reports
    heard.receive(Progress(waits_for="Kafka").with_numbers({"lycosa_memory_held_bytes": 9}))
    assert heard.latest.waits_for == "Kafka" and heard.latest.memory_bytes == 9
    assert heard.latest.captures == 5  # it opens its shard
    heard.receive(Progress(meter=_discovered(_snapshot(1))))
    latest = heard.latest.meter
    assert latest.whole("lycosa_dns_failures_total") == 6
    assert latest.distributions["lycosa_parse_seconds"][""].count == 2
    heard.begin_process()
    heard.receive(Progress(meter=_discovered(_snapshot(1))))
    assert heard.latest.meter.whole("lycosa_dns_failures_total") == 7


def _discovered(snapshot: MeterSnapshot) -> MeterSnapshot:
    numbers = {**snapshot.numbers, "lycosa_urls_discovered_total": {"": 9}}
    return MeterSnapshot(numbers, snapshot.distributions)


def test_the_progress_of_several_workers_is_added() -> None:
    whole = total(
        [
            progress_with(captures=2, states={"queued": 1}, needs={3: 1}, hosts_ready=1),
            progress_with(captures=3, states={"fetched": 5}, needs={3: 2, 9: 1}, hosts_ready=4),
        ]
    )
    assert (whole.captures, whole.states, whole.hosts_ready) == (5, {"queued": 1, "fetched": 5}, 5)
    assert whole.needs == {3: 3, 9: 1}


def test_the_text_has_help_type_and_cumulative_buckets() -> None:
    meter = Meter()
    meter.set("lycosa_captures_total", 7)
    meter.set("lycosa_urls", 0.5, "queued")
    for seconds in (0.001, 0.3, 99.0):
        meter.histogram("lycosa_commit_seconds").observe(seconds)
    lines = metrics_text(meter.snapshot()).splitlines()
    assert lines[:3] == [
        "# HELP lycosa_urls Known URLs by state.",
        "# TYPE lycosa_urls gauge",
        'lycosa_urls{state="queued"} 0.5',
    ]
    assert "# TYPE lycosa_captures_total counter" in lines and "lycosa_captures_total 7" in lines
    assert 'lycosa_commit_seconds_bucket{le="0.005"} 1' in lines
    assert 'lycosa_commit_seconds_bucket{le="0.5"} 2' in lines
    assert 'lycosa_commit_seconds_bucket{le="60"} 2' in lines
    assert 'lycosa_commit_seconds_bucket{le="+Inf"} 3' in lines
    assert "lycosa_commit_seconds_count 3" in lines
    assert metrics_text(MeterSnapshot()) == ""


def test_what_was_not_measured_is_left_out_and_a_label_cannot_break_a_line() -> None:
    odd = MeterSnapshot(
        {
            "lycosa_of_a_later_version": {"": 1},
            "lycosa_process_memory_bytes": {'a "b"\\\n': 5},
        }
    )
    assert metrics_text(odd).splitlines()[2:] == [
        'lycosa_process_memory_bytes{process="a \\"b\\"\\\\\\n"} 5'
    ]


def test_the_hosts_of_the_metrics_add_up() -> None:
    metrics = progress_metrics(progress_with(hosts=9, hosts_ready=2, hosts_front=3))
    assert sum(metrics.table("lycosa_hosts").values()) == 9
    assert metrics.whole("lycosa_hosts", "resting") == 4
