"""The commit log: order, torn ends, damage, full disks, many workers."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lycosa.base.system.durable import DiskFull, FileTooShort, cut_back, replace_file
from lycosa.state.commit import (
    MARK_KEY,
    Commit,
    CommitLog,
    LastCommit,
    LogDamaged,
    Mark,
    PartitionBatch,
    all_logs,
    is_begun,
    last_mark,
    maker_of,
    marked,
    merged_by_worker,
    read_logs,
)


def record(sequence: int, term: int = 1, partition: int = 0, size: int = 10) -> Commit:
    batch = PartitionBatch(partition, [(b"k%d" % sequence, b"v" * size), (b"gone", None)])
    return Commit(
        term=term,
        sequence=sequence,
        wall=1e9 + sequence,
        lengths={"warc/a.warc.gz": sequence * 100},
        batches=[batch],
    )


def filled(folder: Path, count: int, worker: int = 0, **settings: int) -> CommitLog:
    log = CommitLog(folder, worker, **settings)
    for sequence in range(1, count + 1):
        log.append(record(sequence))
    return log


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("commit-*.log"))


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """A disk that is full: no file of this process may grow beyond ``size``."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    log = filled(tmp_path, 5)
    assert list(log.records()) == [record(sequence) for sequence in range(1, 6)]
    log.close()
    again = CommitLog(tmp_path, 0)
    assert again.last == record(5)
    assert again.next_sequence == 6
    assert [found.sequence for found in again.records(after=3)] == [4, 5]
    again.close()


def test_an_empty_log_has_no_last_record(tmp_path: Path) -> None:
    log = CommitLog(tmp_path / "log", 3)
    assert (log.last, log.next_sequence, list(log.records())) == (None, 1, [])
    log.drop_until(10)
    log.close()


def test_large_logs_are_split_and_read_across_files(tmp_path: Path) -> None:
    log = filled(tmp_path, 20, file_bytes=230)
    assert [path.name for path in files(tmp_path)][:2] == [
        "commit-w000-000000000001.log",
        "commit-w000-000000000004.log",
    ]
    assert [found.sequence for found in log.records()] == list(range(1, 21))
    assert [found.sequence for found in log.records(after=9)] == list(range(10, 21))
    log.close()


def test_dropping_deletes_whole_files_and_never_the_last_record(tmp_path: Path) -> None:
    log = filled(tmp_path, 20, file_bytes=230)
    log.drop_until(9)
    assert next(iter(log.records())).sequence <= 10
    assert [found.sequence for found in log.records(after=9)] == list(range(10, 21))
    log.drop_until(1000)
    assert len(files(tmp_path)) == 1
    log.close()
    again = CommitLog(tmp_path, 0)
    assert again.last == record(20)
    again.append(record(21))
    again.close()


def test_a_log_cut_anywhere_keeps_all_records_that_are_whole(tmp_path: Path) -> None:
    log = filled(tmp_path, 3)
    ends = [0]
    log.close()
    whole = files(tmp_path)[0].read_bytes()
    for length in range(len(whole), -1, -1):
        files_now = tmp_path / "commit-w000-000000000001.log"
        files_now.write_bytes(whole[:length])
        cut = CommitLog(tmp_path, 0)
        count = len(list(cut.records()))
        ends.append(count)
        cut.append(record(count + 1))
        assert [found.sequence for found in cut.records()] == list(range(1, count + 2))
        cut.close()
    assert set(ends) == {0, 1, 2, 3}
    assert ends[1] == 3


@pytest.mark.parametrize(
    "tail",
    [b"\x00" * 100, b"\xff" * 7, b"\xc5LyR" + b"\x00" * 40, b"\xc5LyR\x00\x00\x00\x04abcdefghabcd"],
)
def test_rubbish_behind_the_last_record_is_cut_off(tmp_path: Path, tail: bytes) -> None:
    filled(tmp_path, 2).close()
    with files(tmp_path)[0].open("ab") as file:
        file.write(tail)
    log = CommitLog(tmp_path, 0)
    log.append(record(3))
    assert [found.sequence for found in log.records()] == [1, 2, 3]
    log.close()


def test_a_bad_record_with_a_good_one_behind_it_is_damage(tmp_path: Path) -> None:
    filled(tmp_path, 3).close()
    path = files(tmp_path)[0]
    data = bytearray(path.read_bytes())
    for offset in range(len(data) // 2):  # the head too: with another salt no record is good
        changed = data.copy()
        changed[offset] ^= 0x40
        path.write_bytes(changed)
        with pytest.raises(LogDamaged, match=r"commit-w000-000000000001\.log, byte \d+"):
            CommitLog(tmp_path, 0)


def test_a_bad_record_at_the_end_of_an_earlier_file_is_damage(tmp_path: Path) -> None:
    filled(tmp_path, 10, file_bytes=230).close()
    first = files(tmp_path)[0]
    first.write_bytes(first.read_bytes()[:-3])
    log = CommitLog(tmp_path, 0)
    with pytest.raises(LogDamaged, match="checksum"):
        list(log.records())
    assert [found.sequence for found in log.records(after=5)] == [6, 7, 8, 9, 10]
    log.close()


def test_a_missing_file_is_damage(tmp_path: Path) -> None:
    filled(tmp_path, 10, file_bytes=230).close()
    files(tmp_path)[1].unlink()
    log = CommitLog(tmp_path, 0)
    with pytest.raises(LogDamaged, match="record 4 is missing"):
        list(log.records())
    log.close()
    with pytest.raises(LogDamaged, match="record 4 is missing"):
        list(read_logs(tmp_path))


def test_a_head_that_was_lost_is_damage_and_a_newer_format_is_named(tmp_path: Path) -> None:
    filled(tmp_path, 2).close()
    path = files(tmp_path)[0]
    data = path.read_bytes()
    path.write_bytes(bytes(16) + data[16:])
    with pytest.raises(LogDamaged, match="not the head"):
        CommitLog(tmp_path, 0)
    path.write_bytes(data[:7] + b"\x09" + data[8:])
    with pytest.raises(LogDamaged, match="format 9"):
        CommitLog(tmp_path, 0)


def test_a_log_of_format_1_is_read_and_goes_on_in_a_new_file(tmp_path: Path) -> None:
    filled(tmp_path, 2).close()  # its batches are lists of pairs, as those of format 1 were
    path = files(tmp_path)[0]
    data = path.read_bytes()
    path.write_bytes(data[:7] + b"\x01" + data[8:])
    log = CommitLog(tmp_path, 0)
    log.append(record(3))
    assert [each.sequence for each in log.records()] == [1, 2, 3]
    log.close()
    assert [file.read_bytes()[7] for file in files(tmp_path)] == [1, 2]


def test_bytes_inside_a_record_never_pass_for_a_record(tmp_path: Path) -> None:
    filled(tmp_path / "other", 1).close()
    frame = files(tmp_path / "other")[0].read_bytes()[16:]
    log = CommitLog(tmp_path, 0)
    log.append(Commit(term=1, sequence=1, wall=0.0, batches=[PartitionBatch(0, [(b"k", frame)])]))
    log.close()
    path = files(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:-1])
    log = CommitLog(tmp_path, 0)
    assert log.last is None
    log.close()


def test_a_full_disk_leaves_the_log_usable(tmp_path: Path) -> None:
    log = filled(tmp_path, 3)
    size = files(tmp_path)[0].stat().st_size
    with largest_file(size + 40), pytest.raises(DiskFull) as caught:
        log.append(record(4, size=1000))
    assert caught.value.errno == errno.EFBIG
    assert caught.value.filename == str(files(tmp_path)[0])
    assert files(tmp_path)[0].stat().st_size == size
    assert log.last == record(3)
    log.append(record(4, size=1000))
    assert [found.sequence for found in log.records()] == [1, 2, 3, 4]
    log.close()


def test_a_disk_too_full_for_a_new_file_leaves_the_log_usable(tmp_path: Path) -> None:
    log = filled(tmp_path, 3, file_bytes=10)
    with largest_file(4), pytest.raises(DiskFull):
        log.append(record(4))
    assert len(files(tmp_path)) == 3
    log.append(record(4))
    assert [found.sequence for found in log.records()] == [1, 2, 3, 4]
    log.close()


def test_sequences_must_follow_each_other(tmp_path: Path) -> None:
    log = filled(tmp_path, 1)
    with pytest.raises(AssertionError):
        log.append(record(3))
    with pytest.raises(AssertionError):
        log.append(record(2, term=0))
    log.close()


def test_logs_of_more_workers_than_now_are_found_and_merged_by_run(tmp_path: Path) -> None:
    for worker, records in {0: [(1, 1), (1, 2), (3, 3)], 2: [(1, 1), (2, 2)], 11: [(2, 1)]}.items():
        log = CommitLog(tmp_path, worker)
        for term, sequence in records:
            log.append(record(sequence, term, partition=worker))
        log.close()
    logs = all_logs(tmp_path)
    assert [log.worker for log in logs] == [0, 2, 11]
    assert [found.mark for _, found in merged_by_worker(logs)] == [
        (1, 1),
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 2),
        (3, 3),
    ]
    assert [found.mark for _, found in merged_by_worker(logs, lambda worker: 2)] == [(3, 3)]
    for log in logs:
        log.close()


def test_a_log_that_was_begun_stays_and_takes_the_first_record(tmp_path: Path) -> None:
    log = CommitLog(tmp_path, 0, file_bytes=1)
    log.make_first_file()
    log.make_first_file()
    assert [path.stat().st_size for path in files(tmp_path)] == [16]
    log.close()
    with files(tmp_path)[0].open("ab") as file:
        file.write(b"what a crash left of the first record")
    again = CommitLog(tmp_path, 0, file_bytes=1)
    assert again.last is None
    again.append(record(1))
    assert [path.name for path in files(tmp_path)] == ["commit-w000-000000000001.log"]
    assert list(again.records()) == [record(1)]
    again.close()


def test_a_head_that_a_crash_tore_is_made_again(tmp_path: Path) -> None:
    for torn in (b"", b"LYCLOG", bytes(16)):
        (tmp_path / "commit-w000-000000000001.log").write_bytes(torn)
        log = CommitLog(tmp_path, 0)
        log.make_first_file()
        log.close()
        assert is_begun(files(tmp_path)[0])


def test_the_last_commit_is_said_once_it_is_on_disk_and_never_before(tmp_path: Path) -> None:
    path = tmp_path / "state" / "last-commit-w000"
    log = CommitLog(tmp_path / "log", 0, last_commit=LastCommit(path))
    assert last_mark(path) is None
    for sequence in (1, 2):
        log.append(record(sequence))
        assert last_mark(path) == Mark(1, sequence)
    with largest_file(200), pytest.raises(DiskFull):
        log.append(record(3, size=1000))
    assert last_mark(path) == Mark(1, 2)
    log.close()
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole[:12] + b"\xff" + whole[13:]):
        path.write_bytes(damaged)
        assert last_mark(path) is None


def test_a_mark_in_a_table_names_its_worker_and_one_of_an_earlier_version_does_not() -> None:
    value = marked(PartitionBatch(0, {}), Mark(3, 70), 5)[MARK_KEY]
    assert (Mark.unpack(value), maker_of(value)) == (Mark(3, 70), 5)
    assert (Mark.unpack(Mark(3, 70).pack()), maker_of(Mark(3, 70).pack()), maker_of(None)) == (
        Mark(3, 70),
        None,
        None,
    )


def test_marks_pack_in_their_order() -> None:
    assert Mark.unpack(None) == Mark(0, 0)
    assert Mark.unpack(Mark(7, 9).pack()) == Mark(7, 9)
    assert Mark(1, 99).pack() < Mark(2, 1).pack()


def test_an_output_file_is_cut_back_and_a_short_one_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    assert cut_back(path, 0) == 0
    path.write_bytes(b"x" * 100)
    assert cut_back(path, 60) == 40
    assert path.stat().st_size == 60
    with pytest.raises(FileTooShort, match="60 bytes, but 61 were committed"):
        cut_back(path, 61)


def test_replacing_a_file_keeps_the_old_content_when_the_disk_is_full(tmp_path: Path) -> None:
    path = tmp_path / "f"
    replace_file(path, b"old")
    with largest_file(10), pytest.raises(DiskFull):
        replace_file(path, b"n" * 100)
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["f"]
