"""Who may count on what of the owner before: whether it ended in order, and what has passed
since its last commit.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.stages.frontier.crawl_clock import CLOCK_TOLERANCE_S, LATEST, time_after_takeover
from lycosa.stages.politeness.robots_cache import RobotsRecord
from lycosa.state.commit import Commit, CommitLog, MemoryChangelog, MemoryLog
from lycosa.state.folder.names import log_folder
from lycosa.state.kv.table_records import encode_record
from lycosa.state.shard.opened_shard import Shard, ShardStorage
from lycosa.worker.job import WorkerJob
from lycosa.worker.visit.robots_reader import earlier
from memory_segments import MemorySegments
from memory_snapshots import MemorySnapshots
from scripted import page, scripted_crawl

URL = "http://a.test/"


def shard(term: int, last: Commit | None) -> Shard:
    log = MemoryLog(MemoryChangelog("", 0))
    storage = ShardStorage(
        log,
        MemorySegments({}, 0),
        MemorySnapshots({}, 0, log, lambda: pytest.fail("nothing is opened")),
    )
    return Shard(0, term, storage, {}, last)


def commit(term: int, is_final: bool) -> Commit:
    return Commit(term=term, sequence=7, wall=1.0, is_final=is_final)


@pytest.mark.parametrize(
    ("term", "last", "is_orderly"),
    [
        (1, None, True),  # there was no owner
        (2, None, False),  # the first one never committed, and may have asked hosts
        (4, commit(3, True), True),
        (4, commit(3, False), False),
        (4, commit(2, True), False),  # the owner of term 3 never committed
        (4, commit(1, False), False),
    ],
)
def test_only_the_very_owner_before_can_have_ended_in_order(
    term: int, last: Commit | None, is_orderly: bool
) -> None:
    assert shard(term, last).was_left_orderly is is_orderly


@pytest.mark.parametrize(("held_s", "is_final"), [(0.0, True), (1e9, False)])
def test_a_last_commit_is_not_final_while_hosts_are_held_for_the_owner_before(
    held_s: float, is_final: bool, tmp_path: Path
) -> None:
    crawl, _ = scripted_crawl(tmp_path / "crawl", {URL: page()})

    def held(job: WorkerJob) -> WorkerJob:
        return msgspec.structs.replace(job, held_until=held_s)

    crawl.told = held
    crawl.run(
        [URL] if is_final else [],
        meanwhile=lambda assembled: None if is_final else assembled.worker.stop(),
    )
    log = CommitLog(log_folder(crawl.folder), 0)
    log.close()
    assert log.last is not None
    assert log.last.is_final is is_final


_S = st.floats(0.0, 1e6)


@given(
    last_wall=st.floats(1.0, 2e9),
    behind=_S,
    passed=_S,
    off=st.floats(-CLOCK_TOLERANCE_S, CLOCK_TOLERANCE_S),
)
def test_crawl_time_after_a_takeover_is_never_ahead_of_what_has_passed(
    last_wall: float, behind: float, passed: float, off: float
) -> None:
    """Whatever the two clocks say, within their tolerance; and it loses at most twice that."""
    last_time = max(last_wall - behind, 1.0)
    time = time_after_takeover(last_wall + passed + off, last_wall, last_time)
    assert last_time <= time <= last_time + passed + 1e-6
    assert time >= last_time + passed - 2 * CLOCK_TOLERANCE_S - 1e-6


def test_crawl_time_of_a_new_shard_is_the_wall_clock_and_none_is_beyond_the_latest() -> None:
    assert time_after_takeover(1e9, 0.0, 0.0) == 1e9
    assert time_after_takeover(5e9, 1e9, 1e9) == LATEST


def test_a_robots_record_of_an_owner_whose_time_is_ahead_is_moved_to_ours() -> None:
    record = RobotsRecord(status=200, fetched=1000.0, expires=87_400.0)
    moved = msgspec.msgpack.decode(earlier(encode_record(record), 25.0), type=RobotsRecord)
    assert (moved.fetched, moved.expires, moved.next_try) == (975.0, 87_375.0, 0.0)
    assert moved.status == 200
