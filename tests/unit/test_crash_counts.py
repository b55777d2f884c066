"""Counts of crashes: rows of the partitions that change in their commits, and survive anything
that a commit survives.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lycosa.base.model.end import PreviousEnd
from lycosa.base.model.fetched import FetchKind
from lycosa.base.reasons import Reason
from lycosa.base.urls.identity import host_of
from lycosa.state.attempts import AttemptLog, CrashCounts, Suspicion, crashed_attempts
from lycosa.state.kv.memory_table import MemoryKeyValue
from lycosa.state.kv.overlay import Overlay

A, B, C = "http://a.test/1", "http://b.test/2", "http://c.test/3"


class Shard:
    """Two partitions, of which the first has the hosts up to ``b.test``, and the attempt logs of
    their workers.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stores = {0: MemoryKeyValue(), 1: MemoryKeyValue()}
        self.now = 0.0
        self.start()

    def start(
        self, previous: PreviousEnd = PreviousEnd.CRASH, owned: tuple[int, ...] = (0, 1)
    ) -> CrashCounts:
        """Another worker begins with what is committed. It has no attempt log yet."""
        self.tables = {number: Overlay(self.stores[number]) for number in owned}
        self.counts = CrashCounts(self.tables, lambda host: int(host > "b.test"), self.folder)
        accused = [
            each
            for each in crashed_attempts(self.folder, {})
            if int(host_of(each.url) > "b.test") in owned
        ]
        self.counts.after_restart(accused, previous)
        return self.counts

    def run(self, *urls: str, finish: tuple[str, ...] = (), worker: int = 0) -> None:
        """Fetches ``finish``, commits, and dies with ``urls`` in flight."""
        self.now += 100.0
        log = AttemptLog(self.folder, worker, self.now + 1000, self.now, boot="b")
        for url in (*finish, *urls):
            number = log.begin_attempt(
                host_of(url), "192.0.2.1", url, FetchKind.PAGE, self.now, self.now
            )
            if url in finish:
                log.end_attempt(number, Reason.NONE, 200, 0.1, self.now, self.now, 1.0)
                self.counts.clear_suspicion(url)
        self.commit()

    def commit(self) -> None:
        for number, table in self.tables.items():
            self.stores[number].write(table.freeze())
            table.settle()

    def told(self) -> dict[str, Suspicion]:
        return {url: self.counts.suspicion_of(url) for url in self.counts.suspects()}


@pytest.fixture
def shard(tmp_path: Path) -> Shard:
    return Shard(tmp_path)


def test_a_url_in_flight_at_successive_crashes_becomes_poison_and_the_others_are_cleared(
    shard: Shard,
) -> None:
    shard.run(A, B)
    shard.start()
    assert shard.counts.has_news
    assert shard.told() == {A: Suspicion.SUSPECT, B: Suspicion.SUSPECT}
    shard.run(A, finish=(B,))
    shard.start()
    assert shard.told() == {A: Suspicion.POISON}
    shard.run(A)
    shard.start()
    assert shard.told() == {A: Suspicion.HOPELESS}
    shard.run(finish=(A,))
    shard.start()
    assert not shard.counts.has_suspects and not shard.counts.has_news


def test_a_suspect_that_was_not_tried_again_stays_a_suspect(shard: Shard) -> None:
    shard.run(A)
    shard.start()
    shard.run(C)
    shard.start()
    assert shard.told() == {A: Suspicion.SUSPECT, C: Suspicion.SUSPECT}


def test_one_crash_is_counted_once_however_often_the_start_is_repeated(shard: Shard) -> None:
    shard.run(A, worker=5)
    for _ in range(3):
        shard.start()
    assert shard.told() == {A: Suspicion.SUSPECT}
    shard.commit()
    for _ in range(3):
        shard.start()  # fewer workers than before: no worker opens the log of worker 5 again
        shard.run(worker=0)
    assert shard.told() == {A: Suspicion.SUSPECT}
    shard.run(finish=(A,))
    shard.start()
    assert shard.told() == {}


def test_what_was_cleared_is_a_suspect_again_when_the_commit_is_lost(shard: Shard) -> None:
    shard.run(A)
    shard.start()
    shard.commit()
    shard.counts.clear_suspicion(A)
    assert shard.told() == {}
    shard.start()
    assert shard.told() == {A: Suspicion.SUSPECT}


def test_counts_move_with_their_partition(shard: Shard) -> None:
    shard.run(A, C)
    shard.start(owned=(0,))
    assert shard.told() == {A: Suspicion.SUSPECT}
    shard.commit()
    shard.start(owned=(1,))
    assert shard.told() == {C: Suspicion.SUSPECT}
    shard.commit()
    shard.folder = shard.folder / "another machine"
    shard.folder.mkdir()
    shard.start()
    assert shard.told() == {A: Suspicion.SUSPECT, C: Suspicion.SUSPECT}


@pytest.mark.parametrize("previous", [PreviousEnd.LOST, PreviousEnd.ORDERLY])
def test_an_end_that_is_no_crash_accuses_no_url_then_nor_later(
    shard: Shard, previous: PreviousEnd
) -> None:
    shard.run(A, worker=3)
    shard.start(previous)
    assert shard.told() == {}
    shard.commit()
    shard.start(PreviousEnd.CRASH)
    assert shard.told() == {}


@pytest.mark.parametrize("previous", PreviousEnd)
def test_what_a_commit_had_named_is_accused_unless_the_end_was_orderly(
    shard: Shard, previous: PreviousEnd
) -> None:
    shard.counts.name_urls((A, B))
    assert shard.told() == {} and shard.counts.suspicion_of(A) is Suspicion.NONE
    shard.counts.unname_urls((B,))
    shard.commit()
    for _ in range(2):  # the first of the two dies before its commit
        shard.start(previous)
    assert shard.told() == ({} if previous is PreviousEnd.ORDERLY else {A: Suspicion.SUSPECT})
    shard.commit()
    shard.start(previous)
    assert shard.told() == ({} if previous is PreviousEnd.ORDERLY else {A: Suspicion.SUSPECT})


def test_what_was_named_and_in_flight_is_counted_once(shard: Shard) -> None:
    shard.counts.name_urls((A,))
    shard.run(A)
    shard.start()
    assert shard.told() == {A: Suspicion.SUSPECT}


def test_a_suspect_that_was_named_and_came_back_stays_one_until_it_has_ended(shard: Shard) -> None:
    shard.run(A)
    shard.start()
    shard.counts.name_urls((A,))
    shard.commit()
    shard.counts.unname_urls((A,))
    shard.commit()
    shard.start(PreviousEnd.LOST)
    assert shard.told() == {A: Suspicion.SUSPECT}
    shard.counts.name_urls((A,))
    shard.counts.clear_suspicion(A)
    shard.counts.unname_urls((A,))
    shard.commit()
    shard.start()
    assert shard.told() == {}


def test_the_file_of_an_older_program_is_taken_over_once(shard: Shard) -> None:
    shard.run(B, worker=2)
    [run] = {each.run for each in crashed_attempts(shard.folder, {})}
    shard.stores = {0: MemoryKeyValue(), 1: MemoryKeyValue()}
    counts = {A: 2, B: 1, "no URL": 1, "": 3}
    (shard.folder / "crashes.json").write_text(
        json.dumps({"format": 1, "crashes": counts, "counted": {"2": run}})
    )
    shard.start(owned=(0,))
    assert shard.counts.has_news
    assert shard.told() == {
        A: Suspicion.POISON,
        B: Suspicion.SUSPECT,
    }, "the run of worker 2 was counted"
    shard.counts.clear_suspicion(A)
    shard.commit()
    shard.start()
    assert shard.told() == {B: Suspicion.SUSPECT}


@pytest.mark.parametrize(
    "data", [b"{not json", b'{"crashes": {"\xff', b'{"crashes": {"http://a.test/": -5}}']
)
def test_an_old_file_that_cannot_be_read_suspects_nobody(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "crashes.json").write_bytes(data)
    assert Shard(tmp_path).told() == {}
