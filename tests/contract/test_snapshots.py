"""What every store of snapshots must do under a shard; each test runs on the tables of a folder and
on objects in memory.

The shard is opened by the code that a crawl uses (``open_shard``). After a crash at any commit its
table is the fold of the commits in the log, and its URL-seen answers for exactly the URLs in the
table. The commits are made here, without a crawl, so that many can be.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, MutableMapping
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lycosa.base.config.sections import Config
from lycosa.base.system.clock import ThreadOffload
from lycosa.inspect.audit.snapshot_check import check_snapshots
from lycosa.state.commit import (
    MARK_KEY,
    NOTHING,
    Commit,
    CommitLog,
    Fenced,
    FileLog,
    Mark,
    MemoryChangelog,
    MemoryLog,
    PartitionBatch,
    marked,
)
from lycosa.state.folder.names import mark_of, stamp_of
from lycosa.state.kv.memory_table import MemoryKeyValue, MemoryTables
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.kv.table_records import known_key
from lycosa.state.objects.folder import FolderStore
from lycosa.state.objects.object_errors import ObjectMissing
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.seen.seen_port import hashes_of
from lycosa.state.seen.urls_sorted import SortedSeenUrls
from lycosa.state.shard.folder_snapshots import FolderSnapshots
from lycosa.state.shard.object_snapshots import ObjectSnapshots
from lycosa.state.shard.opened_shard import PartitionData, Shard, ShardStorage, open_shard
from lycosa.state.shard.usable_snapshots import SnapshotUnusable, commit_needed
from lycosa.state.shard.view import ShardPosition
from lycosa.state.store.segment_files import SegmentFiles
from lycosa.worker.commit.snapshot_saver import SnapshotSaver
from lycosa.worker.intake.inbox_topic import InboxTopic
from memory_segments import MemorySegments
from memory_snapshots import MemorySnapshots
from s3_server import needs_s3, s3_program, s3_store, shared_server

CRAWL = "2f0cf3d2"
URL8S = [bytes([byte]) * 8 for byte in range(20, 250, 23)]
NEVER8S = [bytes([byte]) * 8 for byte in range(21, 250, 23)]

Rows = dict[bytes, bytes | None]


def url_row(number: int) -> bytes:
    return b"U" + b"hosthost" + URL8S[number]


class Place(Protocol):
    """Where a shard is kept while its owners come and go."""

    def storage(self) -> ShardStorage:
        """What the next owner stands on."""
        ...

    def end(self, shard: Shard) -> None:
        """Its owner dies: what it did not make safe is gone."""
        ...

    def pass_time(self, seconds: float) -> None:
        """Time goes on."""
        ...

    def stored(self) -> int:
        """How many files, or objects, there are of tables and URL-seen."""
        ...


class Folder:
    def __init__(self, folder: Path) -> None:
        self._folder, self._stores, self._term = folder, MemoryTables(), 0

    def storage(self) -> ShardStorage:
        self._term += 1
        log = FileLog(CommitLog(self._folder / "log", 0, file_bytes=200), self._term)
        return ShardStorage(
            log,
            SegmentFiles(self._folder, 0),
            FolderSnapshots(self._folder, Config(), self._open, [0]),
        )

    def end(self, shard: Shard) -> None:
        self._stores.crash()
        shard.storage.log.close()
        for each in shard.data.values():
            each.seen.close()

    def pass_time(self, seconds: float) -> None:
        """No file of a folder waits for a time."""

    def stored(self) -> int:
        return sum(path.is_file() for path in (self._folder / "state").rglob("*"))

    def _open(self, folder: Path) -> MemoryKeyValue:
        folder.mkdir(parents=True, exist_ok=True)
        return self._stores(folder)


class Cluster:
    def __init__(self, folder: Path) -> None:
        self._folder, self._numbers = folder, count()
        self.objects: MutableMapping[str, bytes] = {}
        self._now = 0.0
        self.changelog = MemoryChangelog(CRAWL, 0)

    def storage(self) -> ShardStorage:
        log = MemoryLog(self.changelog)
        return ShardStorage(
            log,
            MemorySegments(self.objects, 0),
            MemorySnapshots(self.objects, 0, log, self._make, lambda: self._now),
        )

    def end(self, shard: Shard) -> None:
        """Nothing is closed: an owner that only seems dead may still save a snapshot, with all that
        it has seen.
        """

    def pass_time(self, seconds: float) -> None:
        self._now += seconds

    def stored(self) -> int:
        return sum(key.startswith(("files/", "snapshots/")) for key in self.objects)

    def saved(self) -> list[Mark]:
        """The snapshots, from the oldest to the newest."""
        names = [
            key.rpartition("/")[2].partition("-")
            for key in self.objects
            if key.startswith("snapshots/")
        ]
        return sorted(Mark(int(term), int(sequence)) for term, _, sequence in names)

    def damage(self, mark: Mark) -> None:
        (key,) = (
            key for key in self.objects if key.endswith(f"{mark.term:010d}-{mark.sequence:020d}")
        )
        self.objects[key] = self.objects[key][: len(self.objects[key]) // 2]

    def _make(self) -> PartitionData:
        return PartitionData(
            MemoryKeyValue(), SortedSeenUrls(self._folder / f"seen-{next(self._numbers)}")
        )


class StoredObjects(MutableMapping[str, bytes]):
    """An object store as the dictionary that the tests of objects in memory look at."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    def __getitem__(self, key: str) -> bytes:
        try:
            return self.store.get(key)
        except ObjectMissing as error:
            raise KeyError(key) from error

    def __setitem__(self, key: str, data: bytes) -> None:
        self.store.put(key, data)

    def __delitem__(self, key: str) -> None:
        self.store.delete([key])

    def __iter__(self) -> Iterator[str]:
        return iter([each.key for each in self.store.list()])

    def __len__(self) -> int:
        return sum(1 for _ in self.store.list())


class Stored(Cluster):
    """RocksDB's tables, with snapshots of them in an object store. What an owner has locally no
    other owner ever looks at.
    """

    def __init__(self, folder: Path, store: ObjectStore, root: Path) -> None:
        """``root`` is the folder in which the store keeps its objects as files."""
        super().__init__(folder)
        self.objects: StoredObjects = StoredObjects(store)
        self._root = root

    def pass_time(self, seconds: float) -> None:
        super().pass_time(seconds)
        for path in self._root.rglob("*"):
            if path.is_file():
                date = path.stat().st_mtime - seconds
                os.utime(path, (date, date))

    def storage(self) -> ShardStorage:
        log, folder = MemoryLog(self.changelog), self._folder / f"owner-{next(self._numbers)}"
        local = FolderSnapshots(
            folder, Config(), rocks_opener(1 << 20, 1 << 20), [0], earlier=self.earlier()
        )
        store, now = self.objects.store, lambda: self._now
        snapshots = ObjectSnapshots(store, 0, log, local, now)
        return ShardStorage(log, MemorySegments({}, 0), snapshots)

    def earlier(self) -> list[Path]:
        """The folders of dead owners that the next one may use."""
        return []


class SameMachine(Stored):
    """An owner on the machine of those before it uses what they have locally."""

    def earlier(self) -> list[Path]:
        return sorted(self._folder.glob("owner-*"))


def in_folder(folder: Path) -> Stored:
    (folder / "store").mkdir()
    root = folder / "store"
    return Stored(folder, FolderStore(root.as_uri(), root), root)


def on_one_machine(folder: Path) -> SameMachine:
    (folder / "store").mkdir()
    root = folder / "store"
    return SameMachine(folder, FolderStore(root.as_uri(), root), root)


def on_s3(folder: Path) -> Stored:
    prefix = f"{folder.name}-{uuid.uuid4()}"
    return Stored(folder, s3_store(prefix), shared_server().bucket / prefix)


PLACES: dict[str, Callable[[Path], Place]] = {
    "folder": Folder,
    "memory": Cluster,
    "folder store": in_folder,
    "same machine": on_one_machine,
}
MARKED = [
    "folder",
    "memory",
    "folder store",
    "same machine",
    pytest.param("s3", marks=[needs_s3, pytest.mark.service]),
]
if s3_program() is not None:
    PLACES["s3"] = on_s3


@pytest.fixture(params=MARKED)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return PLACES[request.param](tmp_path)


class Owner:
    """An owner of the shard, which commits like a worker does: log, table, URL-seen."""

    def __init__(self, place: Place) -> None:
        self.shard, self.recovered = open_shard(0, [0], place.storage())
        self.data = self.shard.data[0]
        self.next = self.shard.next_sequence

    def commit(self, writes: Rows, is_applied: bool = True) -> Commit:
        batches = [PartitionBatch(0, writes)] if writes else []
        before = {0: mark_of(self.data.table)}
        made = Commit(
            term=self.shard.term,
            sequence=self.next,
            wall=1e9,
            batches=batches,
            before=before,
            crawl=CRAWL,
            shard=0,
        )
        self.shard.storage.log.append(made)
        self.next += 1
        if writes and is_applied:
            self.data.table.write(marked(batches[0], made.mark, 0))
            if url8s := [
                key[9:] for key, value in writes.items() if key[:1] == b"U" and value is not None
            ]:
                self.data.seen.unseen(hashes_of(url8s))
            self.data.seen.seal(stamp_of(made.mark))
        return made

    def save(self) -> None:
        self.shard.storage.snapshots.save_partition(0, self.data, mark_of(self.data.table))

    def snapshot(self) -> None:
        """As a worker takes one from time to time."""
        self.save()
        self.shard.storage.log.trim(self.next - 1)

    def rows(self) -> dict[bytes, bytes]:
        return {key: value for key, value in self.data.table.scan(b"", b"\xff") if key != MARK_KEY}

    def check_seen(self) -> None:
        """It remembers what it was asked for, so nothing is committed by this owner afterwards."""
        known = {key[9:] for key in self.rows() if key[:1] == b"U"}
        told = self.data.seen.unseen(hashes_of(URL8S + NEVER8S)).tolist()
        assert told == [url8 not in known for url8 in URL8S + NEVER8S]


class History:
    """A place with what was committed there."""

    def __init__(self, place: Place) -> None:
        self.place, self.owner = place, Owner(place)
        self.fold: dict[bytes, bytes] = {}
        self.mark = NOTHING

    def commit(self, writes: Rows, is_applied: bool = True) -> None:
        made = self.owner.commit(writes, is_applied)
        self.fold.update({key: value for key, value in writes.items() if value is not None})
        for key in [key for key, value in writes.items() if value is None]:
            self.fold.pop(key, None)
        if writes:
            self.mark = made.mark

    def crash(self) -> Owner:
        """The owner dies, and so does the next one, which is looked at; a third takes over.
        Gives the first one.
        """
        died = self.owner
        self.place.end(died.shard)
        probe = Owner(self.place)
        self._check(probe)
        probe.check_seen()
        self.place.end(probe.shard)
        self.owner = Owner(self.place)
        self._check(self.owner)
        return died

    def _check(self, owner: Owner) -> None:
        assert owner.rows() == self.fold
        assert mark_of(owner.data.table) == self.mark
        assert owner.next == self.owner.next


def test_a_shard_that_was_never_owned_is_empty(place: Place) -> None:
    history = History(place)
    assert history.owner.rows() == {}
    assert history.owner.shard.next_sequence == 1
    history.crash()


def test_what_was_committed_and_not_yet_in_the_table_is_there_after_a_crash(place: Place) -> None:
    history = History(place)
    history.commit({url_row(0): b"a", b"k": b"1"})
    history.commit({url_row(1): b"b", b"k": None}, is_applied=False)
    history.crash()
    assert history.owner.recovered.captures == {0: 0}


def test_a_commit_that_writes_nothing_to_the_partition_is_counted(place: Place) -> None:
    history = History(place)
    history.commit({b"k": b"1"})
    history.commit({})
    history.owner.snapshot()
    history.commit({})
    history.crash()
    assert history.owner.shard.next_sequence == 4


def test_the_log_is_short_behind_snapshots(place: Place) -> None:
    history = History(place)
    for number in range(60):
        history.commit({b"k": b"%d" % number})
        if number % 10 == 9:
            history.owner.snapshot()
    assert 1 <= len(list(history.owner.shard.storage.log.read())) <= 20
    history.crash()


def test_what_older_snapshots_needed_is_deleted_in_the_end(place: Place) -> None:
    history = History(place)
    for number in range(40):
        history.commit({url_row(number % len(URL8S)): b"%d" % number, b"k": b"%d" % number})
        history.owner.snapshot()
        place.pass_time(6 * 3600.0)
    few = place.stored()
    for number in range(40):
        history.commit({url_row(number % len(URL8S)): b"%d" % -number, b"k": b"%d" % number})
        history.owner.snapshot()
        place.pass_time(6 * 3600.0)
    assert max(few, place.stored()) <= 40
    history.crash()


STEPS = st.one_of(
    st.tuples(
        st.sampled_from(["commit", "commit", "commit and crash"]),
        st.dictionaries(
            st.integers(0, len(URL8S) - 1).map(url_row),
            st.binary(min_size=1, max_size=2),
            max_size=3,
        ),
        st.dictionaries(
            st.sampled_from([b"k%d" % n for n in range(5)]),
            st.none() | st.binary(max_size=2),
            max_size=3,
        ),
    ),
    st.tuples(
        st.sampled_from(["snapshot", "save and crash", "crash", "zombie saves"]),
        st.just({}),
        st.just({}),
    ),
)


@pytest.mark.parametrize("kind", ["folder", "memory"])
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, max_size=24))
def test_after_any_history_the_shard_is_the_fold_of_its_log(
    kind: str, steps: list[tuple[str, Rows, Rows]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    run_history(PLACES[kind](tmp_path_factory.mktemp("history")), steps)


@pytest.mark.parametrize("kind", MARKED[2:])
@settings(max_examples=12, deadline=None)
@given(steps=st.lists(STEPS, max_size=24))
@example(
    steps=[
        ("commit", {url_row(1): b"a"}, {}),
        ("snapshot", {}, {}),
        ("commit", {url_row(0): b"a"}, {}),
        ("crash", {}, {}),
        ("zombie saves", {}, {}),
    ]
)
def test_after_any_history_over_real_tables_the_shard_is_the_fold_of_its_log(
    kind: str, steps: list[tuple[str, Rows, Rows]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    run_history(PLACES[kind](tmp_path_factory.mktemp("history")), steps)


def run_history(place: Place, steps: list[tuple[str, Rows, Rows]]) -> None:
    history = History(place)
    zombies: list[tuple[Owner, PartitionData, Mark]] = []
    for what, urls, others in steps:
        if what.startswith("commit"):
            history.commit({**urls, **others}, is_applied=what == "commit")
        elif what == "snapshot":
            history.owner.snapshot()
        elif what == "save and crash":
            history.owner.save()
        if what == "zombie saves" and isinstance(place, Cluster) and zombies:
            owner, data, mark = zombies[0]
            owner.shard.storage.snapshots.save_partition(0, data, mark)
            with pytest.raises(Fenced):
                owner.shard.storage.log.trim(mark.sequence)
        if what.endswith("crash"):
            died = history.crash()
            zombies.append(
                (died, died.data, mark_of(died.data.table))
                if isinstance(place, Cluster)
                else (died, died.data, NOTHING)
            )
    history.crash()


# Snapshots as objects.


@pytest.fixture(params=["memory", "folder store"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Cluster:
    place = PLACES[request.param](tmp_path)
    assert isinstance(place, Cluster)
    return place


def with_snapshots(cluster: Cluster, *sequences: int, upto: int) -> History:
    """Commits up to ``upto``, with snapshots of these."""
    history = History(cluster)
    for sequence in range(1, upto + 1):
        history.commit({url_row(sequence % len(URL8S)): b"%d" % sequence, b"k%d" % sequence: b""})
        if sequence in sequences:
            history.owner.snapshot()
    return history


def test_two_snapshots_are_kept(cluster: Cluster) -> None:
    with_snapshots(cluster, 2, 4, 6, 8, upto=9)
    assert cluster.saved() == [Mark(1, 6), Mark(1, 8)]


def test_a_snapshot_of_the_same_commit_again_is_the_same_one(cluster: Cluster) -> None:
    history = with_snapshots(cluster, 2, 4, upto=4)
    before = dict(cluster.objects)
    for _ in range(3):
        history.crash()
    assert cluster.objects == before


def test_a_file_that_no_snapshot_names_is_kept_for_a_day(cluster: Cluster) -> None:
    history = with_snapshots(cluster, 2, upto=2)
    cluster.objects["files/00000/0-of-a-snapshot-that-is-being-saved"] = b""
    cluster.objects["files/00001/0-of-another-shard"] = b""
    history.owner.save()
    cluster.pass_time(86_000.0)
    history.commit({b"k": b"1"})
    history.owner.snapshot()
    assert "files/00000/0-of-a-snapshot-that-is-being-saved" in cluster.objects
    cluster.pass_time(3600.0)
    history.commit({b"k": b"2"})
    history.owner.snapshot()
    assert "files/00000/0-of-a-snapshot-that-is-being-saved" not in cluster.objects
    assert "files/00001/0-of-another-shard" in cluster.objects
    history.crash()


def test_a_file_that_has_just_left_the_snapshots_is_kept_for_an_hour(cluster: Cluster) -> None:
    """However old it is: a reader may have begun to restore a snapshot that names it."""
    history = with_snapshots(cluster, 2, upto=2)
    old = {key for key in cluster.objects if key.startswith("files/")}
    cluster.pass_time(10 * 86_400.0)
    for number in range(3):
        history.commit({url_row(number): b"", b"k": b"%d" % number})
        history.owner.snapshot()
        assert old <= cluster.objects.keys()
        cluster.pass_time(600.0)


@pytest.mark.parametrize("kind", ["folder store", "same machine"])
def test_files_are_deleted_although_no_owner_lives_for_a_day(kind: str, tmp_path: Path) -> None:
    place = PLACES[kind](tmp_path)
    history, counts = History(place), list[int]()
    for number in range(20):  # five days, a new owner every 12 hours
        history.commit({url_row(number % len(URL8S)): b"%d" % number, b"k": b"%d" % number})
        history.owner.snapshot()
        place.pass_time(6 * 3600.0)
        if number % 2:
            place.end(history.owner.shard)
            history.owner = Owner(place)
        counts.append(place.stored())
    assert max(counts) <= 40


def test_no_file_is_deleted_while_the_list_of_a_snapshot_cannot_be_read(cluster: Cluster) -> None:
    history = with_snapshots(cluster, 2, 4, upto=4)
    files = {key for key in cluster.objects if key.startswith("files/")}
    cluster.damage(Mark(1, 2))
    for _ in range(3):
        history.owner.save()
        cluster.pass_time(86_400.0)
    assert files <= cluster.objects.keys()


def test_the_newest_is_the_one_of_the_latest_term_and_sequence_and_not_the_one_saved_last(
    cluster: Cluster,
) -> None:
    history = with_snapshots(cluster, 2, upto=3)
    zombie = history.owner
    rows = history.fold.copy()
    history.crash()
    for sequence in (4, 5, 6):
        history.commit({b"k%d" % sequence: b""})
    history.owner.snapshot()
    zombie.save()
    assert zombie.rows() == rows
    assert cluster.saved()[-1] == history.mark
    history.crash()


def test_the_other_snapshot_is_used_when_the_newest_cannot_be_read(cluster: Cluster) -> None:
    history = with_snapshots(cluster, 3, 6, upto=8)
    cluster.damage(Mark(1, 6))
    history.crash()


def test_the_other_snapshot_is_used_although_the_commits_behind_it_wrote_nothing(
    cluster: Cluster,
) -> None:
    history = with_snapshots(cluster, upto=2)
    history.commit({})
    history.commit({})
    history.owner.snapshot()  # of commit 2, and the log may go up to 4
    history.commit({b"k": b"5"})
    history.owner.snapshot()
    assert cluster.saved() == [Mark(1, 2), Mark(1, 5)]
    assert [each.sequence for each in history.owner.shard.storage.log.read()] == [5]
    cluster.damage(Mark(1, 5))
    history.crash()


def test_without_a_snapshot_that_the_log_continues_a_takeover_stops(cluster: Cluster) -> None:
    history = with_snapshots(cluster, 3, 6, upto=8)
    cluster.damage(Mark(1, 6))
    history.owner.shard.storage.log.trim(7)
    history.owner.shard.storage.log.trim(8)
    with pytest.raises(SnapshotUnusable, match="commit 8"):
        Owner(cluster)


def test_a_takeover_stops_when_all_snapshots_are_gone_and_the_log_does_not_begin_with_the_first_commit(
    cluster: Cluster,
) -> None:
    with_snapshots(cluster, 3, 6, upto=8)
    for key in [key for key in cluster.objects if key.startswith("snapshots/")]:
        del cluster.objects[key]
    with pytest.raises(SnapshotUnusable, match="commit 4"):
        Owner(cluster)


def test_a_takeover_stops_when_there_is_a_snapshot_of_a_commit_that_the_log_has_lost(
    cluster: Cluster,
) -> None:
    history = with_snapshots(cluster, 3, upto=5)
    history.owner.save()
    cluster.changelog._entries = cluster.changelog._entries[:-1]
    with pytest.raises(SnapshotUnusable, match="snapshot of commit 5, but the log ends at 4"):
        Owner(cluster)


def test_a_snapshot_of_nothing_is_not_kept(cluster: Cluster) -> None:
    history = History(cluster)
    history.owner.snapshot()
    history.commit({})
    history.owner.snapshot()
    assert cluster.saved() == []
    history.crash()


def test_each_owner_has_a_table_of_its_own(cluster: Cluster) -> None:
    history = with_snapshots(cluster, 2, upto=3)
    before = history.owner
    after = Owner(cluster)
    after.commit({b"k": b"after"})
    assert b"k" not in before.rows()
    with pytest.raises(Fenced):
        before.commit({b"k": b"before"})


def _with_a_table(place: Stored) -> tuple[dict[bytes, bytes], set[str]]:
    """The rows of a dead owner, and the contents of its table files by the store."""
    history = with_snapshots(place, 2, upto=3)
    rows = history.owner.rows()
    history.crash()
    listed = place.objects.store.list("files/00000/")
    return rows, {each.key.rpartition("/")[2] for each in listed}


def test_table_files_that_are_here_are_linked_and_not_read_from_the_store(tmp_path: Path) -> None:
    place = on_one_machine(tmp_path)
    rows, contents = _with_a_table(place)
    tables = list(tmp_path.glob("owner-*/state/p00000/*.sst"))
    here = {sha256(path.read_bytes()).hexdigest() for path in tables} & contents
    assert here
    place.objects.store.delete(f"files/00000/{content}" for content in here)
    assert Owner(place).rows() == rows


def test_a_table_file_with_another_content_is_read_from_the_store(tmp_path: Path) -> None:
    place = on_one_machine(tmp_path)
    rows, _ = _with_a_table(place)
    for path in tmp_path.glob("owner-*/state/p00000/*.sst"):
        path.write_bytes(bytes(path.stat().st_size))
    assert Owner(place).rows() == rows


def test_url_seen_confirms_nothing_that_only_an_index_holds(cluster: Cluster) -> None:
    history = History(cluster)
    history.commit({url_row(0): b"a", known_key(URL8S[1]): b"hosthost"})
    history.crash()


async def test_owners_without_writes_leave_the_log_to_both_snapshots(tmp_path: Path) -> None:
    """As after an import into more shards, some of which have nothing to fetch."""
    place = in_folder(tmp_path)
    for life in range(5):
        owner, writes = Owner(place), life < 2
        saver = SnapshotSaver(
            owner.shard,
            ThreadOffload(),
            lambda point: None,
            owner.next - 1,
            InboxTopic(None, 0, lambda error: None),
            lambda: 0.0,
            {0: mark_of(owner.data.table)},
        )
        if writes:
            owner.commit({url_row(life): b"row"})
        for _ in range(3):  # they renew the lease
            last = owner.commit({})
        await saver.finish(last.sequence, 0, {0: mark_of(owner.data.table)})
        place.end(owner.shard)
    log, marks = MemoryLog(place.changelog), place.saved()
    needed = commit_needed(log, marks[::-1], 0)
    position = ShardPosition(0, last.term, last.mark, 1e9, 1e9, 0, 0, True, marks[-1], needed, 0)
    check = check_snapshots(place.objects.store, [position])
    assert len(marks) == 2 and check.checked and not check.breaches
