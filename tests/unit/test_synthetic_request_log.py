"""The judge of politeness: gaps, overlaps and parallel requests of histories that were worked
out by hand.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.synthetic import RequestLog, read_log


def log_of(*rows: tuple[str, str, float, float]) -> RequestLog:
    log = RequestLog()
    for host, address, start, end in rows:
        log.finish_request(log.begin_request(host, address, "/", start, start), end)
    return log


def test_gaps_run_from_end_to_start_and_hosts_are_apart() -> None:
    log = log_of(
        ("a:80", "1", 0, 2), ("b:80", "1", 1, 1.5), ("a:80", "1", 3, 4), ("A:80", "2", 4.25, 5)
    )
    assert log.gaps("a") == [1.0, 0.25]
    assert log.gaps("b") == [] and log.shortest_gap() == 0.25
    assert log.hosts() == {"a", "b"} and log.addresses() == {"1", "2"}


def test_an_overlap_is_a_negative_gap_also_with_one_that_began_long_before() -> None:
    log = log_of(("a", "1", 0, 10), ("a", "1", 2, 3), ("a", "1", 9, 11), ("a", "1", 12, 13))
    assert log.gaps("a") == [-8.0, -1.0, 1.0]
    assert log.overlaps("a") == 2


def test_a_request_that_goes_on_overlaps_all_that_follow() -> None:
    log = RequestLog()
    log.begin_request("a", "1", "/", 0.0, 0.0)
    log.finish_request(log.begin_request("a", "1", "/", 5.0, 5.0), 6.0)
    assert log.overlaps("a") == 1 and log.max_parallel("1") == 2


def test_parallel_requests_are_counted_per_address_and_touching_ones_do_not_count() -> None:
    log = log_of(
        ("a", "1", 0, 2),
        ("b", "1", 1, 3),
        ("c", "1", 1.5, 1.75),
        ("d", "1", 3, 4),
        ("e", "2", 0, 9),
    )
    assert log.max_parallel("1") == 3 and log.max_parallel("2") == 1 and log.max_parallel("3") == 0
    assert log.start_gaps("1") == [1.0, 0.5, 1.5]


def test_the_file_says_the_same_as_memory(tmp_path: Path) -> None:
    log = RequestLog(tmp_path / "requests.tsv")
    for number in range(20):
        exchange = log.begin_request(
            "a:8080", "127.0.0.1", f"/page?x={number}", number * 1.5, 1_750_000_000 + number * 1.5
        )
        exchange.status = 200
        log.finish_request(exchange, number * 1.5 + 0.25)
    log.close()
    again = read_log(tmp_path / "requests.tsv")
    assert again.urls() == log.urls() and len(again) == 20
    assert again.gaps("a") == pytest.approx(log.gaps("a"), abs=2e-6)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 10)), max_size=25))
@settings(deadline=None)
def test_the_most_parallel_is_that_of_counting_at_every_instant(
    spans: list[tuple[int, int]],
) -> None:
    log = log_of(*(("a", "1", float(start), float(start + length)) for start, length in spans))
    instants = (
        sum(start <= instant + 0.5 < start + length for start, length in spans)
        for instant in range(61)
    )
    assert log.max_parallel("1") == max(instants)
    assert (log.overlaps("a") == 0) == (log.max_parallel("1") <= 1)
