"""A log is followed while its worker appends, begins new files, trims it, and is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa.feeds.log_tail import TailReader
from lycosa.state.commit import LogDamaged
from lycosa.state.folder.names import last_commit_path
from written_crawl import WALL, WrittenCrawl, url_write


@pytest.fixture
def crawl(tmp_path: Path) -> Iterator[WrittenCrawl]:
    made = WrittenCrawl(tmp_path)
    yield made
    made.close()


def tail_of(crawl: WrittenCrawl) -> TailReader:
    return TailReader(crawl.folder / "log", 0, last_commit_path(crawl.folder, 0))


def sequences(tail: TailReader) -> list[int]:
    return [commit.sequence for commit in tail.commits()]


def add(crawl: WrittenCrawl, count: int) -> None:
    for number in range(count):
        crawl.commit(url_write(f"https://a.example/{number}"))


def test_each_commit_is_given_once_over_several_files(crawl: WrittenCrawl) -> None:
    tail = tail_of(crawl)
    assert sequences(tail) == []
    add(crawl, 3)
    assert sequences(tail) == [1, 2, 3]
    assert sequences(tail) == []
    add(crawl, 2)
    assert tail.waiting == 2
    assert sequences(tail) == [4, 5]
    assert tail.waiting == 0


def test_several_commits_of_one_file_are_read_from_where_the_last_ended(tmp_path: Path) -> None:
    crawl = WrittenCrawl(tmp_path, file_bytes=1 << 20)
    tail = tail_of(crawl)
    add(crawl, 2)
    assert sequences(tail) == [1, 2]
    add(crawl, 1)
    assert sequences(tail) == [3]
    assert len(list((tmp_path / "log").glob("commit-*"))) == 1
    crawl.close()


def test_a_trimmed_log_is_given_from_its_oldest_commit(crawl: WrittenCrawl) -> None:
    tail = tail_of(crawl)
    add(crawl, 1)
    assert sequences(tail) == [1]
    add(crawl, 5)
    crawl.trim()
    assert sequences(tail) == [6]


def test_an_unfinished_record_is_waited_for(crawl: WrittenCrawl) -> None:
    add(crawl, 2)
    path = max((crawl.folder / "log").glob("commit-*"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    tail = tail_of(crawl)
    assert sequences(tail) == [1]
    path.write_bytes(whole)
    assert sequences(tail) == [2]


def test_the_last_record_waits_until_its_worker_noted_it(crawl: WrittenCrawl) -> None:
    crawl.wall = time.time()
    add(crawl, 1)
    noted = last_commit_path(crawl.folder, 0)
    mark = noted.read_bytes()
    noted.unlink()
    tail = tail_of(crawl)
    assert sequences(tail) == []
    assert tail.waiting == 1
    noted.write_bytes(mark)
    assert sequences(tail) == [1]


def test_the_last_record_of_a_killed_worker_is_given_after_some_seconds(
    crawl: WrittenCrawl,
) -> None:
    assert time.time() - WALL > 10
    add(crawl, 1)
    last_commit_path(crawl.folder, 0).unlink()
    assert sequences(tail_of(crawl)) == [1]


def test_a_missing_file_in_the_middle_is_damage(crawl: WrittenCrawl) -> None:
    add(crawl, 3)
    sorted((crawl.folder / "log").glob("commit-*"))[1].unlink()
    with pytest.raises(LogDamaged, match="record 2 is missing"):
        sequences(tail_of(crawl))
