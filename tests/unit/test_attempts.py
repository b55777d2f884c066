"""The attempt log: what is read back after every kind of end, what it proves."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.base.model.fetched import FetchKind
from lycosa.base.model.pool_time import PoolTime
from lycosa.base.reasons import Reason
from lycosa.state.attempts import (
    Attempt,
    AttemptLog,
    Keeping,
    LogOwner,
    Since,
    address_use,
    crashed_attempts,
    gaps,
    last_contacts,
    read_attempts,
)
from lycosa.state.attempts.gaps import overlaps


class Writer:
    """An attempt log with a clock: monotonic time ``now``, wall time a thousand seconds ahead."""

    def __init__(
        self,
        folder: Path,
        worker: int = 0,
        now: float = 0.0,
        boot: str = "boot-a",
        term: int = 0,
        **keeping: int,
    ) -> None:
        self.log = AttemptLog(
            folder,
            worker,
            now + 1000,
            now,
            owner=LogOwner(term),
            boot=boot,
            keeping=Keeping(**keeping),
        )
        self.now = now

    def begin(
        self,
        at: float,
        host: str = "a.test",
        url: str = "",
        address: str = "192.0.2.1",
        at_once: int = 1,
    ) -> int:
        self.now = at
        url = url or f"http://{host}/{at:g}"
        return self.log.begin_attempt(
            host, address, url, FetchKind.PAGE, at, at + 1000, at_once=at_once
        )

    def end(self, attempt: int, at: float, delay_s: float = 1.0) -> None:
        self.now = at
        self.log.end_attempt(attempt, Reason.NONE, 200, 0.5, at, at + 1000, delay_s)

    def fetch(self, start: float, end: float, host: str = "a.test", **more: str) -> None:
        self.end(self.begin(start, host, **more), end)

    def close(self) -> None:
        self.log.close(self.now + 1000, self.now)


def test_an_attempt_comes_back_as_it_was(tmp_path: Path) -> None:
    log = AttemptLog(tmp_path, 3, 1.7e9, 12.0, boot="b")
    number = log.begin_attempt(
        "a.test", "2001:db8::1", "http://a.test/x?y=1", FetchKind.ROBOTS, 12.5, 1.7e9 + 0.5
    )
    log.end_attempt(number, Reason.HTTP_SERVER_ERROR, 503, 0.25, 12.75, 1.7e9 + 0.75, 30.0)
    log.close(1.7e9 + 1, 13.0)
    assert list(read_attempts(tmp_path)) == [
        Attempt(
            worker=3,
            run=log.run,
            boot="b",
            number=1,
            kind=FetchKind.ROBOTS,
            host="a.test",
            address="2001:db8::1",
            url="http://a.test/x?y=1",
            started=12.5,
            started_wall=1.7e9 + 0.5,
            ended=12.75,
            ended_wall=1.7e9 + 0.75,
            outcome=Reason.HTTP_SERVER_ERROR,
            status=503,
            duration_s=0.25,
            delay_s=30.0,
        )
    ]


def test_lines_are_in_the_file_before_the_call_returns(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.begin(1)
    (path,) = tmp_path.iterdir()
    assert path.name == "attempts-w000-000001.log"
    assert path.read_text().splitlines()[1].split("\t") == [
        "B",
        "1",
        "1000000",
        "1001000000",
        "0",
        "192.0.2.1",
        "a.test",
        "http://a.test/1",
    ]
    writer.close()


def test_a_url_with_line_ends_stays_on_one_line(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.fetch(1, 2, url="http://a.test/\n\t\r\udc80é")
    writer.close()
    (attempt,) = read_attempts(tmp_path)
    assert attempt.url == "http://a.test/%0A%09%0D\\udc80é"


def test_what_was_in_flight_at_a_crash_is_found_and_only_of_the_last_run(tmp_path: Path) -> None:
    first = Writer(tmp_path, now=0)
    first.begin(1, url="http://a.test/old")
    second = Writer(tmp_path, now=10)
    second.fetch(11, 12)
    second.begin(13, url="http://a.test/new")
    other = Writer(tmp_path, worker=1, now=10)
    other.begin(14, url="http://b.test/other")
    assert [attempt.url for attempt in crashed_attempts(tmp_path, {})] == [
        "http://a.test/new",
        "http://b.test/other",
    ]
    assert not any(attempt.is_finished for attempt in crashed_attempts(tmp_path, {}))


def test_two_runs_that_start_at_the_same_instant_are_two_runs(tmp_path: Path) -> None:
    Writer(tmp_path, now=0).begin(0, url="http://a.test/old")
    Writer(tmp_path, now=0).begin(0, url="http://a.test/new")
    assert [attempt.url for attempt in crashed_attempts(tmp_path, {})] == ["http://a.test/new"]


def test_what_was_in_flight_at_an_end_on_purpose_is_no_crash(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.begin(1)
    writer.close()
    assert crashed_attempts(tmp_path, {}) == []
    (attempt,) = read_attempts(tmp_path)
    assert not attempt.is_finished


def test_after_a_crash_what_was_being_stored_is_in_question_too(tmp_path: Path) -> None:
    Writer(tmp_path).fetch(1, 2, url="http://a.test/stored")  # an earlier run
    writer = Writer(tmp_path, now=9)
    writer.fetch(10, 11, url="http://a.test/old")
    writer.fetch(12, 13, url="http://a.test/stored")
    writer.begin(14, url="http://a.test/open")
    found = crashed_attempts(tmp_path, {0: "http://a.test/stored", 1: "http://a.test/old"})
    assert [(attempt.url, attempt.started) for attempt in found] == [
        ("http://a.test/open", 14.0),
        ("http://a.test/stored", 12.0),
    ]


def test_after_an_end_on_purpose_nothing_is_in_question(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.fetch(1, 2, url="http://a.test/stored")
    writer.close()
    assert crashed_attempts(tmp_path, {0: "http://a.test/stored"}) == []


def test_an_unfinished_attempt_ends_at_the_latest_when_the_next_run_starts(tmp_path: Path) -> None:
    first = Writer(tmp_path, now=0)
    first.begin(1)
    first.fetch(2, 3, "b.test")
    assert [attempt.ended for attempt in crashed_attempts(tmp_path, {})] == [3.0]
    Writer(tmp_path, now=10).fetch(15, 16)
    (gap,) = gaps(read_attempts(tmp_path))
    assert (gap.gap_s, gap.previous.is_finished, gap.previous.ended_wall) == (5.0, False, 1010.0)


@pytest.mark.parametrize("torn", [1, 5, 30])
def test_a_torn_last_line_is_skipped_and_told(tmp_path: Path, torn: int) -> None:
    writer = Writer(tmp_path)
    writer.fetch(1, 2)
    writer.begin(3)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-torn])
    damage: list[tuple[Path, int]] = []
    assert [
        attempt.started
        for attempt in read_attempts(tmp_path, lambda where, line: damage.append((where, line)))
    ] == [1.0]
    assert damage == [(path, 4)]
    Writer(tmp_path, now=10).fetch(11, 12)
    assert [attempt.started for attempt in read_attempts(tmp_path)] == [1.0, 11.0]


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=200), st.integers(0, 300))
def test_nothing_in_a_file_stops_the_start(
    tmp_path_factory: pytest.TempPathFactory, rubbish: bytes, at: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    writer = Writer(folder)
    writer.fetch(1, 2)
    writer.begin(3)
    (path,) = folder.iterdir()
    data = path.read_bytes()
    path.write_bytes(data[:at] + rubbish + data[at + len(rubbish) :])
    crashed_attempts(folder, {})
    last_contacts(folder, Since(0))
    list(gaps(read_attempts(folder)))
    writer.close()


def test_rotation_goes_on_in_a_new_file_and_pairs_lines_across_files(tmp_path: Path) -> None:
    writer = Writer(tmp_path, file_bytes=500)
    open_attempt, time = writer.begin(1, "b.test"), 2.0
    while not writer.log.is_full(0.0):
        writer.fetch(time, time + 0.5)
        time += 2
    work = writer.log.rotate_file(time + 1000, time)
    writer.end(open_attempt, time + 1)
    before = list(read_attempts(tmp_path))
    work()
    work()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "attempts-w000-000001.log.zst",
        "attempts-w000-000002.log",
    ]
    assert list(read_attempts(tmp_path)) == before
    assert [attempt.host for attempt in before][-1] == "b.test"
    assert all(attempt.is_finished for attempt in before)
    assert crashed_attempts(tmp_path, {}) == []


def test_the_oldest_files_go_when_there_are_too_many(tmp_path: Path) -> None:
    writer = Writer(tmp_path, files=2)
    for round_ in range(5):
        writer.fetch(round_ * 10, round_ * 10 + 1)
        writer.log.rotate_file(round_ * 10 + 1002, round_ * 10 + 2)()
    assert [path.name[14:20] for path in sorted(tmp_path.iterdir())] == [
        "000004",
        "000005",
        "000006",
    ]
    assert [attempt.started for attempt in read_attempts(tmp_path)] == [30.0, 40.0]


def test_a_crash_between_compressing_and_deleting_leaves_one_file(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.fetch(1, 2)
    path = tmp_path / "attempts-w000-000001.log"
    plain = path.read_bytes()
    work = writer.log.rotate_file(1003, 3)
    work()
    path.write_bytes(plain)
    assert len(list(read_attempts(tmp_path))) == 1
    work()
    assert not path.exists()
    assert len(list(read_attempts(tmp_path))) == 1


def test_last_contacts_tell_end_or_start_of_each_host_across_workers_and_files(
    tmp_path: Path,
) -> None:
    writer = Writer(tmp_path)
    writer.fetch(1, 2, "old.test")
    writer.log.rotate_file(1003, 3)()
    writer.fetch(4, 5, "a.test")
    writer.fetch(6, 7, "a.test")
    writer.begin(8, "b.test")
    Writer(tmp_path, worker=1, now=8).fetch(9, 10, "a.test")
    contacts = last_contacts(tmp_path, Since(1003.5))
    assert {
        host: (contact.wall, contact.is_unfinished, contact.delay_s)
        for host, contact in contacts.items()
    } == {
        "a.test": (1010.0, False, 1.0),
        "b.test": (1008.0, True, 0.0),
    }
    assert contacts["a.test"].boot == "boot-a"
    assert set(last_contacts(tmp_path, Since(0))) == {"old.test", "a.test", "b.test"}


def _write(log: AttemptLog, host: str, at: float, wall: float, delay_s: float = 1.0) -> None:
    log.end_attempt(
        log.begin_attempt(host, "192.0.2.1", f"http://{host}/{at:g}", FetchKind.PAGE, at, wall),
        Reason.NONE,
        200,
        0.5,
        at + 0.5,
        wall + 0.5,
        delay_s,
    )


def test_contacts_are_recent_by_the_clock_that_nobody_sets(tmp_path: Path) -> None:
    _write(AttemptLog(tmp_path, 0, 1000.0, 10.0, boot="a"), "a.test", 20.0, 1010.0, 5.0)
    # the wall clock was set forward by an hour
    _write(AttemptLog(tmp_path, 0, 4600.0, 22.0, boot="a"), "b.test", 23.0, 4601.0)
    assert set(last_contacts(tmp_path, Since(4500.0))) == {"b.test"}
    found = last_contacts(tmp_path, Since(4500.0, 15.0, "a"))
    assert found["a.test"].delay_s == 5.0 and set(found) == {"a.test", "b.test"}
    assert set(last_contacts(tmp_path, Since(4500.0, 15.0, "another boot"))) == {"b.test"}


def test_the_later_of_two_contacts_is_told_by_the_clock_that_nobody_sets(tmp_path: Path) -> None:
    _write(AttemptLog(tmp_path, 0, 5000.0, 10.0, boot="a"), "a.test", 10.0, 5000.0)
    # set back, and another worker has the host
    _write(AttemptLog(tmp_path, 1, 1500.0, 110.0, boot="a"), "a.test", 110.0, 1500.0, 7.0)
    assert last_contacts(tmp_path, Since(0.0))["a.test"].delay_s == 7.0
    assert [attempt.started for attempt in read_attempts(tmp_path)] == [10.0, 110.0]


def test_gaps_use_the_monotonic_clock_within_a_boot_and_the_wall_clock_across(
    tmp_path: Path,
) -> None:
    log = AttemptLog(tmp_path, 0, 1000.0, 50.0, boot="a")
    # the wall clock was set
    log.end_attempt(
        log.begin_attempt("h", "x", "u", FetchKind.PAGE, 50.0, 1000.0),
        Reason.NONE,
        200,
        1,
        51.0,
        2000.0,
        1.0,
    )
    log.end_attempt(
        log.begin_attempt("h", "x", "u", FetchKind.PAGE, 52.5, 2001.5),
        Reason.NONE,
        200,
        1,
        53.0,
        2002.0,
        1.0,
    )
    log.close(2002.0, 53.0)
    log = AttemptLog(tmp_path, 0, 2100.0, 3.0, boot="b")
    log.end_attempt(
        log.begin_attempt("h", "x", "u", FetchKind.PAGE, 4.0, 2101.0),
        Reason.NONE,
        200,
        1,
        5.0,
        2102.0,
        1.0,
    )
    log.close(2103.0, 6.0)
    assert [round(gap.gap_s, 6) for gap in gaps(read_attempts(tmp_path))] == [1.5, 99.0]


def test_an_attempt_without_an_end_was_over_when_the_crawl_began_anew_without_its_worker(
    tmp_path: Path,
) -> None:
    Writer(tmp_path, worker=0, now=10, term=1)
    # then all are killed, and one worker goes on
    Writer(tmp_path, worker=1, now=10, term=1).begin(12)
    Writer(tmp_path, worker=0, now=30, term=2).fetch(40, 41)
    Writer(tmp_path, worker=0, now=50, term=3)
    Writer(tmp_path, worker=1, now=50, term=3).fetch(60, 61)
    found = list(read_attempts(tmp_path))
    assert [(attempt.started, attempt.ended) for attempt in found] == [(12, 30), (40, 41), (60, 61)]
    assert [gap.gap_s for gap in gaps(found)] == [10, 19]


def test_an_attempt_without_an_end_may_go_on_until_its_own_worker_is_started_again(
    tmp_path: Path,
) -> None:
    Writer(tmp_path, worker=0, now=10, term=1)
    Writer(tmp_path, worker=1, now=10, term=1).begin(12)
    Writer(tmp_path, worker=0, now=30, term=1)  # the other one died
    Writer(tmp_path, worker=1, now=35, term=1)
    assert [attempt.ended for attempt in read_attempts(tmp_path)] == [35]


def test_an_overlap_is_a_negative_gap_whichever_ends_first(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    outer = writer.begin(1)
    writer.fetch(2, 3)
    writer.end(outer, 10)
    assert [gap.gap_s for gap in gaps(read_attempts(tmp_path))] == [-2.0]


def _overlaps(folder: Path) -> list[tuple[str, int, float]]:
    """The wrong starts by the path of their URL: how many were open, or how much too early."""
    found = overlaps(list(read_attempts(folder)), lambda each: each.delay_s, 0.0)
    return [(each.attempt.url[13:], each.number, round(each.early_s, 6)) for each in found]


def test_marked_attempts_may_be_open_together_up_to_their_number(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    first, second = writer.begin(1, at_once=2), writer.begin(2, at_once=2)
    writer.end(first, 3, 0)
    third = writer.begin(3, at_once=2)
    assert _overlaps(tmp_path) == []
    fourth = writer.begin(4, at_once=2)
    for number in (second, third, fourth):
        writer.end(number, 5, 0)
    assert _overlaps(tmp_path) == [("/4", 3, 0.0)]


def test_one_that_is_not_marked_is_alone(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    marked = writer.begin(1, at_once=4)
    writer.end(writer.begin(2), 3, 0)
    writer.end(marked, 4, 0)
    assert _overlaps(tmp_path) == [("/2", 2, 0.0)]


def test_the_pause_after_one_counts_for_all_that_begin_later(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    first, second = writer.begin(1, at_once=4), writer.begin(2, at_once=4)
    writer.end(first, 3, 30)
    writer.end(second, 4, 0)  # began before, so it may go on
    writer.end(writer.begin(10, at_once=4), 11, 0)
    writer.end(writer.begin(33, at_once=4), 34, 0)
    assert _overlaps(tmp_path) == [("/10", 0, 23.0)]


def test_of_attempts_at_once_one_without_an_end_is_the_last_contact(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.begin(1, at_once=4)
    writer.end(writer.begin(2, at_once=4), 3, 0)
    assert last_contacts(tmp_path, Since(0))["a.test"].is_unfinished


def test_address_use_counts_starts_and_concurrency_over_all_hosts(tmp_path: Path) -> None:
    writer, other = Writer(tmp_path), Writer(tmp_path, worker=1)
    first, second = writer.begin(1, "a.test"), other.begin(1.5, "b.test")
    third = writer.begin(1.7, "c.test", address="192.0.2.9")
    writer.end(first, 2)
    writer.fetch(2, 4, "d.test")
    other.end(second, 5)
    writer.end(third, 6)
    uses = {
        use.address: (use.requests, round(use.min_gap_s, 6), use.most_at_once)
        for use in address_use(read_attempts(tmp_path))
    }
    assert uses == {"192.0.2.1": (3, 0.5, 2), "192.0.2.9": (1, float("inf"), 1)}


def test_the_slot_of_a_killed_worker_counts_until_its_last_line(tmp_path: Path) -> None:
    killed, other = Writer(tmp_path), Writer(tmp_path, worker=1)
    killed.begin(1, "a.test")
    ended = killed.begin(2, "b.test")
    other.fetch(2.5, 2.7, "c.test")  # the first two are open at its start
    killed.end(ended, 3)
    other.fetch(4, 5, "d.test")  # this worker may be dead by now
    Writer(tmp_path, now=6).fetch(7, 8, "a.test")
    assert [use.most_at_once for use in address_use(read_attempts(tmp_path))] == [3]


def test_a_killed_workers_request_after_its_last_line_is_not_counted(tmp_path: Path) -> None:
    killed, other = Writer(tmp_path), Writer(tmp_path, worker=1)
    killed.begin(1, "a.test")
    other.fetch(2, 3, "c.test")
    Writer(tmp_path, now=6).fetch(7, 8, "a.test")
    assert [use.most_at_once for use in address_use(read_attempts(tmp_path))] == [1]


def _pooled(
    address: str, place: str, start: float, seconds: float, slot: str, host: str = "h"
) -> Attempt:
    """A request whose machine's clocks show something else than the pool's."""
    off = 1000.0 if place == "far" else 0.0
    return Attempt(
        worker=0, run=place, boot=place, number=1, kind=FetchKind.PAGE, host=host, address=address,
        url="/", started=start + off, started_wall=start + 3 * off, ended=start + off + seconds,
        ended_wall=start + 3 * off + seconds, place=place, slot=slot,
    )  # fmt: skip


def test_requests_of_two_machines_are_compared_by_the_clock_of_the_pool() -> None:
    def slot(how: str, us: int) -> str:
        return PoolTime(how == "shared", "server", us, 2_000).text()

    a = "192.0.2.1"
    uses = address_use(
        [
            _pooled(a, "near", 1.0, 0.5, slot("divided", 1_000_000)),
            _pooled(a, "far", 1.2, 0.1, slot("shared", 1_200_000)),
            _pooled(a, "near", 1.4, 0.1, slot("shared", 1_400_000)),
            _pooled(a, "far", 1.41, 0.1, ""),
        ]
    )
    found = {
        (use.server, use.place, use.is_shared): (
            use.requests,
            round(use.min_gap_s, 6),
            use.most_at_once,
        )
        for use in uses
    }
    assert found == {
        ("", "near", False): (1, float("inf"), 1),
        ("", "near", True): (1, 0.4, 2),
        ("", "far", True): (1, float("inf"), 1),
        ("", "far", False): (1, 0.21, 1),
        # the first start was up to 2 ms earlier, so the gap is certainly not less than this
        ("server", "", True): (2, 0.202, 2),
    }


@pytest.mark.parametrize("slot", ["shared", "shared:s:1", "halved:s:1:2", "shared:s:x:2"])
def test_a_slot_that_cannot_be_read_is_a_damaged_line(tmp_path: Path, slot: str) -> None:
    log = AttemptLog(tmp_path, 0, 1.0, 1.0)
    log.begin_attempt("h", "192.0.2.1", "/", FetchKind.PAGE, 1.0, 1.0, slot)
    log.close(2.0, 2.0)
    damaged: list[int] = []
    assert list(read_attempts(tmp_path, lambda path, line: damaged.append(line))) == []
    assert damaged == [2]
