"""The store after a crash: everything committed is there, nothing else is, whatever was under
way.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from judging import file_bytes
from lycosa.base.config.sections import StoreSection
from lycosa.state.store import layout
from lycosa.state.store.closing import ClosedSegment, build_derived, give_final_names, lacking_files
from lycosa.state.store.damage import StoreDamaged
from lycosa.state.store.journal import JournalError
from lycosa.state.store.layout import stem_of
from lycosa.state.store.segment_recovery import recover
from lycosa.state.store.stored_data import location_of, read_record
from store_samples import (
    INFO,
    START,
    capture,
    close_all,
    commit,
    crawl_rows,
    digest,
    fetched,
    numbered,
    open_store,
)

OPEN = ".open"


def urls(folder: Path) -> list[str]:
    """The captures of all closed and open segments, each checked against its record."""
    found = []
    for row in crawl_rows(folder):
        record = read_record(folder, location_of(row))
        assert record.fields["WARC-Target-URI"] == row.url
        assert digest(record.body) == row.digest
        found.append(row.url)
    for path in (folder / "warc").glob("*"):
        with path.open("rb") as file:
            responses = sum(record.rec_type == "response" for record in ArchiveIterator(file))
        assert responses == sum(row.segment in path.name for row in crawl_rows(folder))
    return found


def page_url(number: int) -> str:
    return f"https://www.example.org/page/{number}"


def with_uncommitted_tail(folder: Path) -> dict[str, int]:
    """Two committed captures and two that were written and not committed; gives the committed
    lengths.
    """
    store = open_store(folder)
    for number in (1, 2):
        store.append_capture(numbered(number))
    lengths = commit(store)
    for number in (3, 4):
        store.append_capture(numbered(number))
    commit(store)
    return lengths


def test_what_was_written_but_not_committed_is_cut_back(tmp_path: Path) -> None:
    lengths = with_uncommitted_tail(tmp_path)
    report = recover(tmp_path, lengths)
    assert sorted(report.cut) == sorted(lengths)
    assert {name: (tmp_path / name).stat().st_size for name in lengths} == lengths
    assert urls(tmp_path) == [page_url(1), page_url(2)]


def test_recovering_twice_changes_nothing_more(tmp_path: Path) -> None:
    lengths = with_uncommitted_tail(tmp_path)
    recover(tmp_path, lengths)
    before = file_bytes(tmp_path)
    assert recover(tmp_path, lengths).is_clean
    assert file_bytes(tmp_path) == before


@pytest.mark.parametrize("kind", ["warc", "journal"])
def test_a_file_shorter_than_its_commit_is_damage_and_nothing_is_changed(
    tmp_path: Path, kind: str
) -> None:
    lengths = with_uncommitted_tail(tmp_path)
    (name,) = [name for name in lengths if name.startswith(kind)]
    os.truncate(tmp_path / name, lengths[name] - 1)
    before = file_bytes(tmp_path)
    with pytest.raises(StoreDamaged) as caught:
        recover(tmp_path, lengths)
    assert (caught.value.length, caught.value.committed) == (lengths[name] - 1, lengths[name])
    assert (
        name in str(caught.value)
        and str(lengths[name]) in str(caught.value)
        and str(lengths[name] - 1) in str(caught.value)
    )
    assert file_bytes(tmp_path) == before


def test_a_committed_file_that_is_gone_is_damage(tmp_path: Path) -> None:
    lengths = with_uncommitted_tail(tmp_path)
    (tmp_path / min(lengths)).unlink()
    with pytest.raises(StoreDamaged, match="is missing"):
        recover(tmp_path, lengths)


def test_a_closed_file_that_is_not_as_long_as_committed_is_damage(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append_capture(numbered(1))
    lengths = commit(store)
    close_all(store)
    (warc,) = (tmp_path / "warc").iterdir()
    warc.write_bytes(warc.read_bytes() + b"x")
    with pytest.raises(StoreDamaged):
        recover(tmp_path, lengths)


def test_files_created_after_the_last_commit_are_removed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append_capture(numbered(1))
    commit(store)
    report = recover(tmp_path, {})
    assert len(report.removed) == 2
    assert file_bytes(tmp_path) == {}


def test_an_open_file_without_a_single_byte_is_removed(tmp_path: Path) -> None:
    lengths = with_uncommitted_tail(tmp_path)
    (tmp_path / "warc" / f"test-crawl-w000-000002-20260921141320.warc.gz{OPEN}").touch()
    recover(tmp_path, lengths)
    assert sorted(file_bytes(tmp_path)) == sorted(lengths)


def test_the_open_segment_is_continued_at_its_committed_length(tmp_path: Path) -> None:
    lengths = with_uncommitted_tail(tmp_path)
    recover(tmp_path, lengths)
    store = open_store(tmp_path, seed=1)
    assert store.roll_segment(START) is None
    store.append_capture(numbered(5))
    (segment,) = close_all(store)
    assert urls(tmp_path) == [page_url(1), page_url(2), page_url(5)]
    assert [path.name for path in (tmp_path / "warc").iterdir()] == [f"{segment.name}.warc.gz"]


def test_a_segment_of_other_settings_is_closed_and_a_new_one_begun(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append_capture(numbered(1))
    commit(store)
    other = open_store(
        tmp_path,
        seed=1,
        info=type(INFO)(crawl="test-crawl", software="lycosa/1", user_agent="other"),
    )
    other.append_capture(numbered(2))
    assert len(close_all(other)) == 2
    assert len(list((tmp_path / "warc").glob("*.warc.gz"))) == 2
    assert sorted(urls(tmp_path)) == [page_url(1), page_url(2)]


def test_segments_of_workers_that_are_no_more_are_closed(tmp_path: Path) -> None:
    lengths: dict[str, int] = {}
    for worker in (0, 3):
        store = open_store(tmp_path, seed=worker, worker=worker)
        store.append_capture(numbered(worker))
        lengths |= commit(store)
    report = recover(tmp_path, lengths, workers=2)
    assert [name.split("-w")[1][:3] for name in report.closed] == ["003"]
    assert len(list((tmp_path / "pages").glob("*.parquet"))) == 1
    assert recover(tmp_path, lengths, workers=2).is_clean


def closing_states(folder: Path, states: Path) -> tuple[dict[str, int], list[Path]]:
    """The folder as it is at each point where closing a segment could be cut off, and the
    committed lengths.
    """
    store = open_store(folder)
    for number in range(20):
        store.append_capture(numbered(number))
    lengths = commit(store)
    closed = store.roll_segment(START, force=True)
    assert closed is not None
    found = []

    def keep(name: str) -> None:
        found.append(states / name)
        shutil.copytree(folder, states / name)

    keep("committed")
    journal, warc = sorted(folder / name for name in lengths)
    journal.rename(journal.with_name(journal.name.removesuffix(OPEN)))
    keep("journal-renamed")
    warc.rename(warc.with_name(warc.name.removesuffix(OPEN)))
    keep("both-renamed")
    (folder / "pages").mkdir()
    (folder / "pages" / f".{closed.name}.parquet.tmp").write_bytes(b"half")
    keep("half-built")
    store.finish(closed)
    for kind in ("cdxj", "pages", "links", "text"):
        shutil.copytree(folder, states / f"without-{kind}")
        found.append(states / f"without-{kind}")
        next((states / f"without-{kind}" / kind).iterdir()).unlink()
    keep("done")
    return lengths, found


def test_closing_that_was_cut_off_anywhere_is_finished_with_the_same_bytes(tmp_path: Path) -> None:
    lengths, states = closing_states(tmp_path / "crawl", tmp_path / "states")
    done = file_bytes(states[-1])
    assert sorted(name.split("/")[0] for name in done) == [
        "cdxj",
        "journal",
        "links",
        "log",
        "pages",
        "text",
        "warc",
    ]
    for state in states:
        recover(state, lengths)
        if state.name == "committed":  # nothing says that it was to be closed: it is continued
            assert len(list((state / "warc").glob(f"*{OPEN}"))) == 1
            close_all(open_store(state))
        assert file_bytes(state) == done, state.name


def test_closing_states_also_recover_when_a_later_commit_no_longer_names_the_segment(
    tmp_path: Path,
) -> None:
    _, states = closing_states(tmp_path / "crawl", tmp_path / "states")
    done = file_bytes(states[-1])
    for state in states:
        # until both names are on disk, commits do name it
        if state.name not in (
            "committed",
            "journal-renamed",
        ):
            recover(state, {})
            assert file_bytes(state) == done, state.name


def test_commits_name_a_closing_segment_until_its_final_names_are_on_disk(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append_capture(numbered(1))
    first = commit(store)
    closed = store.roll_segment(START, force=True)
    assert closed is not None
    store.append_capture(numbered(2))
    second = commit(store)
    assert first.items() <= second.items() and len(second) == 4
    store.finish(closed)
    third = commit(store)
    assert len(third) == 2 and not first.keys() & third.keys()
    for lengths in (second, third):
        recover(tmp_path, lengths)
    assert urls(tmp_path) == [page_url(1), page_url(2)]


def test_a_sealed_segment_is_closed_only_once_its_last_capture_is_committed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append_capture(numbered(1))
    pending = store.freeze()
    store.append_capture(numbered(2))  # while the write is under way, into the same segment
    store.files.put_records(pending)
    assert store.roll_segment(START + 10_000) is None
    store.append_capture(numbered(3))
    commit(store)
    closed = store.roll_segment(START + 10_000)
    assert closed is not None
    store.finish(closed)
    assert sum(row.segment == closed.name for row in crawl_rows(tmp_path)) == 2
    assert urls(tmp_path)[:2] == [page_url(1), page_url(2)]


def test_a_write_that_failed_can_be_repeated(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append_capture(numbered(1))
    (tmp_path / "journal").write_text("in the way")
    pending = store.freeze()
    with pytest.raises(OSError):
        store.files.put_records(pending)
    with pytest.raises(RuntimeError):
        _ = pending.lengths
    (tmp_path / "journal").unlink()
    store.files.put_records(pending)
    recover(tmp_path, pending.lengths)
    assert urls(tmp_path) == [page_url(1)]


def test_a_second_freeze_waits_for_the_first_write(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append_capture(numbered(1))
    store.freeze()
    with pytest.raises(RuntimeError):
        store.freeze()


def test_a_spooled_body_survives_until_it_is_stored(tmp_path: Path) -> None:
    spool = tmp_path / "spool" / "1"
    spool.parent.mkdir()
    spool.write_bytes(bytes(3_000_000))
    store = open_store(tmp_path / "crawl")
    store.append_capture(capture(fetched(page_url(9), b"", spool=str(spool))))
    pending = store.freeze()
    assert spool.exists()
    store.files.put_records(pending)
    assert list(spool.parent.iterdir()) == []
    assert urls(tmp_path / "crawl") == [page_url(9)]


def test_derived_files_whose_journal_is_gone_are_reported(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.append_capture(numbered(1))
    (closed,) = close_all(store)
    (tmp_path / "journal" / f"{closed.name}.jsonl.zst").unlink()
    assert recover(tmp_path, {}).is_clean
    (tmp_path / "cdxj" / f"{closed.name}.cdxj").unlink()
    assert list(recover(tmp_path, {}).unbuildable) == [f"cdxj/{closed.name}.cdxj"]
    assert [(each.file, "is missing" in each.reason) for each in lacking_files(tmp_path)] == [
        (f"cdxj/{closed.name}.cdxj", True)
    ]


@pytest.mark.parametrize(
    ("text", "links"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_only_files_that_a_segment_was_to_have_are_reported_as_missing(
    tmp_path: Path, text: bool, links: bool
) -> None:
    store = open_store(tmp_path, section=StoreSection(text=text, links=links))
    store.append_capture(numbered(1))
    commit(store)  # a frame of its own
    store.append_capture(numbered(2))
    (closed,) = close_all(store)
    assert lacking_files(tmp_path) == []
    wanted = ["cdxj", "pages", *(["links"] if links else []), *(["text"] if text else [])]
    for kind in wanted:
        (tmp_path / layout.file_name(kind, closed.name)).unlink()
    assert [(each.file.split("/")[0], each.reason) for each in lacking_files(tmp_path)] == [
        (kind, "") for kind in wanted
    ]
    journal = tmp_path / "journal" / f"{closed.name}.jsonl.zst"
    data = journal.read_bytes()
    # its head is whole, so it still says what the segment was to have
    journal.write_bytes(data[:-40] + bytes(40))
    assert list(recover(tmp_path, {}).unbuildable) == [
        layout.file_name(kind, closed.name) for kind in wanted
    ]
    journal.unlink()
    assert list(recover(tmp_path, {}).unbuildable) == [
        layout.file_name(kind, closed.name) for kind in wanted[:2]
    ]


def test_a_damaged_journal_of_a_closed_segment_is_an_error_not_a_shorter_table(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    store.append_capture(numbered(1))
    lengths = commit(store)
    (name,) = {Path(name).name.split(".")[0] for name in lengths}
    give_final_names(tmp_path, name)
    journal = tmp_path / "journal" / f"{name}.jsonl.zst"
    os.truncate(journal, journal.stat().st_size - 5)
    with pytest.raises(JournalError):
        build_derived(tmp_path, name)
    assert sorted({key.split("/")[0] for key in file_bytes(tmp_path)}) == ["journal", "warc"]
    with pytest.raises(StoreDamaged):
        recover(tmp_path, lengths)


CHILD = """
import json, sys, threading
from pathlib import Path
from store_samples import crawl_rows, START, commit, numbered, open_store
from lycosa.base.config.sections import StoreSection
folder, first = Path(sys.argv[1]), int(sys.argv[2])
store = open_store(folder, seed=first, section=StoreSection(segment_bytes=100_000))
done = []
def close(closed):
    store.files.close_segment(closed.name)
    done.append(closed)
for number in range(first, first + 4000):
    store.append_capture(numbered(number, size=20_000))
    if number % 3 == 0:
        while done:
            store.note_closed(done.pop())
        lengths = commit(store)
        print(json.dumps([number, lengths]), flush=True)
        while (closed := store.roll_segment(START)) is not None:
            threading.Thread(target=close, args=(closed,)).start()
"""


def run_and_kill(folder: Path, first: int, commits: int) -> tuple[int, dict[str, int]]:
    """Lets a process store captures until some commits were told, kills it, and gives the last
    one told.
    """
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-c", CHILD, str(folder), str(first)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(tests)}
    )
    assert process.stdout is not None
    told = [process.stdout.readline() for _ in range(commits)]
    process.kill()
    told += process.stdout.read().splitlines(keepends=True)
    process.wait()
    process.stdout.close()
    number, lengths = json.loads([line for line in told if line.endswith(b"\n")][-1])
    return number, lengths


def test_a_killed_process_loses_nothing_that_it_told(tmp_path: Path) -> None:
    first = 1
    for commits in (1, 7, 40):
        last, lengths = run_and_kill(tmp_path, first, commits)
        recover(tmp_path, lengths)
        assert recover(tmp_path, lengths).is_clean
        assert sorted(urls(tmp_path)) == sorted(page_url(number) for number in range(1, last + 1))
        first = last + 1


STEP = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4)),
    st.just(("commit", 0)),
    st.just(("write", 0)),
    st.just(("roll", 0)),
    st.just(("finish", 0)),
    st.tuples(st.just("crash"), st.integers(0, 3)),
)


class History:
    """A store with crashes, and beside it the list of what was committed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number, self.runs = folder, 0, 0
        self.committed: list[str] = []
        self.lengths: dict[str, int] = {}
        self.start()

    def start(self) -> None:
        recover(self.folder, self.lengths)
        assert recover(self.folder, self.lengths).is_clean
        assert sorted(urls(self.folder)) == sorted(self.committed)
        self.store = open_store(
            self.folder, seed=self.runs, section=StoreSection(segment_bytes=100_000)
        )
        self.fresh: list[str] = []
        self.closing: list[ClosedSegment] = []
        self.runs += 1

    def append(self, count: int) -> None:
        for _ in range(count):
            self.number += 1
            self.store.append_capture(numbered(self.number, size=40_000))
            self.fresh.append(page_url(self.number))

    def commit(self, _: int) -> None:
        self.lengths = commit(self.store)
        self.committed += self.fresh
        self.fresh = []

    def write(self, _: int) -> None:
        """Writes and dies before the commit."""
        commit(self.store)
        self.start()

    def roll(self, _: int) -> None:
        self.commit(0)
        while (closed := self.store.roll_segment(START, force=self.number % 3 == 0)) is not None:
            self.closing.append(closed)

    def finish(self, _: int) -> None:
        while self.closing:
            self.store.finish(self.closing.pop(0))

    def crash(self, how: int) -> None:
        """Dies; a write may have got part of the way, a closing to its first rename."""
        before = {path: path.stat().st_size for path in self.folder.rglob(f"*{OPEN}")}
        pending = self.store.freeze()
        if how:
            self.store.files.put_records(pending)
            chance = Random(self.number)
            for path in sorted(self.folder.rglob(f"*{OPEN}")):
                kept = before.get(path, 0)
                os.truncate(path, kept + chance.randrange(path.stat().st_size - kept + 1))
        if how == 3 and self.closing:
            journal = self.folder / "journal" / f"{self.closing[0].name}.jsonl.zst{OPEN}"
            journal.rename(journal.with_name(journal.name.removesuffix(OPEN)))
        self.start()


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEP, max_size=14))
def test_any_history_of_writes_crashes_and_closings_keeps_exactly_what_was_committed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    history = History(tmp_path_factory.mktemp("history"))
    for name, argument in steps:
        getattr(history, name)(argument)
    history.commit(0)
    history.finish(0)
    close_all(history.store)
    assert sorted(urls(history.folder)) == sorted(history.committed)
    closed = sorted(
        path.name.removesuffix(".warc.gz") for path in (history.folder / "warc").glob("*")
    )
    for kind in ("journal", "cdxj", "pages", "links", "text"):
        assert sorted(stem_of(path) for path in (history.folder / kind).glob("*")) == closed


# -- closed files


def closed_store(folder: Path) -> Path:
    """One closed segment of three captures; gives its WARC."""
    store = open_store(folder)
    for number in range(3):
        store.append_capture(numbered(number))
    commit(store)
    close_all(store)
    return next((folder / "warc").glob("*.warc.gz"))


@pytest.mark.parametrize("kind", ["warc", "journal"])
@pytest.mark.parametrize("by", [-1, 1])
def test_a_closed_file_of_another_length_stops_the_start(
    tmp_path: Path, kind: str, by: int
) -> None:
    closed_store(tmp_path)
    file = next((tmp_path / kind).iterdir())
    length = file.stat().st_size
    file.write_bytes((file.read_bytes() + b"x")[: length + by])
    before = file_bytes(tmp_path)
    with pytest.raises(StoreDamaged) as caught:
        recover(tmp_path, {})
    assert (caught.value.path, caught.value.length, caught.value.committed) == (
        file,
        length + by,
        length,
    )
    assert file_bytes(tmp_path) == before


def test_a_closed_file_that_was_taken_away_is_no_damage(tmp_path: Path) -> None:
    closed_store(tmp_path).unlink()
    recover(tmp_path, {})


def test_closed_files_without_a_length_get_one_at_the_next_start(tmp_path: Path) -> None:
    warc = closed_store(tmp_path)
    ledger = next((tmp_path / "log").glob("closed-w*"))
    whole = sorted(ledger.read_text().split())
    ledger.write_bytes(ledger.read_bytes()[:-10])  # a crash in the middle of the last line
    recover(tmp_path, {})
    assert sorted(set(ledger.read_text().split())) == sorted(set(whole))
    with warc.open("ab") as file:
        file.write(b"x")
    with pytest.raises(StoreDamaged):
        recover(tmp_path, {}, only=0)
    recover(tmp_path, {}, only=1)
