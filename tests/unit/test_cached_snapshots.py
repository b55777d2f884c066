"""What a reader of snapshots downloads, keeps, and does when something is not as it should be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lycosa.base.config.sections import Config
from lycosa.state.commit import Commit, Mark, MemoryChangelog, MemoryLog, PartitionBatch, marked
from lycosa.state.folder.names import mark_of
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.shard.cached_snapshots import CachedSnapshots, new_work_folder
from lycosa.state.shard.folder_snapshots import FolderSnapshots
from lycosa.state.shard.object_snapshots import ObjectSnapshots, snapshot_key
from lycosa.state.shard.usable_snapshots import SnapshotUnusable
from memory_objects import MemoryStore

CRAWL, SHARD = "2f0cf3d2", 3
OPENER = rocks_opener(8 << 20, 4 << 20)


class Owner:
    """A shard whose owner commits and takes snapshots."""

    def __init__(self, folder: Path) -> None:
        self.store = MemoryStore()
        self.downloads: list[str] = []
        self.changelog = MemoryChangelog(CRAWL, SHARD)
        self.log = MemoryLog(self.changelog)
        self.log.claim()
        local = FolderSnapshots(folder, Config(), OPENER, [SHARD])
        self.data = local.restore_partition(SHARD)
        self.snapshots = ObjectSnapshots(self.store, SHARD, self.log, local)
        self._sequence = 0

    def commit(self) -> None:
        self._sequence += 1
        rows: dict[bytes, bytes | None] = {b"k%d" % self._sequence: os.urandom(4000)}
        commit = Commit(
            term=1,
            sequence=self._sequence,
            wall=1.0,
            crawl=CRAWL,
            shard=SHARD,
            batches=[PartitionBatch(SHARD, rows)],
        )
        self.log.append(commit)
        self.data.table.write(marked(commit.batches[0], commit.mark, SHARD))

    def save(self) -> Mark:
        mark = mark_of(self.data.table)
        self.snapshots.save_partition(SHARD, self.data, mark)
        self.log.trim(mark.sequence)
        return mark

    def watch(self) -> None:
        """From now on, note what is downloaded."""
        self.downloads.clear()
        self.store.fail = lambda call, key: self.downloads.append(key) if call == "get" else None


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    return Owner(tmp_path / "owner")


def restored(owner: Owner, cache: Path) -> tuple[Mark | None, int]:
    """The snapshot that a reader restores, and the number of rows in it."""
    work = new_work_folder(cache)
    snapshots = CachedSnapshots(owner.store, SHARD, MemoryLog(owner.changelog), cache, work, OPENER)
    data = snapshots.restore_partition(SHARD)
    rows = len(list(data.table.scan(b"k", b"l")))
    data.close()
    return snapshots.restored, rows


def files(owner: Owner) -> list[str]:
    return [key for key in owner.downloads if key.startswith("files/")]


def test_a_second_reader_downloads_only_new_files(owner: Owner, tmp_path: Path) -> None:
    owner.commit()
    first = owner.save()
    owner.watch()
    assert restored(owner, tmp_path / "cache") == (first, 1)
    assert files(owner)
    assert not any("seen" in key for key in owner.downloads)
    owner.watch()
    assert restored(owner, tmp_path / "cache") == (first, 1)
    assert files(owner) == []
    owner.commit()
    second = owner.save()
    owner.watch()
    assert restored(owner, tmp_path / "cache") == (second, 2)
    assert 0 < len(files(owner)) < len(list((tmp_path / "cache").glob("tables/*/*")))


def test_a_reader_does_not_change_cached_files(owner: Owner, tmp_path: Path) -> None:
    owner.commit()
    owner.save()
    restored(owner, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.glob("tables/*/*")}
    work = new_work_folder(tmp_path)
    snapshots = CachedSnapshots(
        owner.store, SHARD, MemoryLog(owner.changelog), tmp_path, work, OPENER
    )
    data = snapshots.restore_partition(SHARD)
    data.table.write({b"k9": b"more"})
    data.table.flush()
    data.close()
    assert {path: path.read_bytes() for path in tmp_path.glob("tables/*/*")} == before


@pytest.mark.parametrize("damage", ["missing", "changed", "list"])
def test_the_older_snapshot_is_used_when_the_newest_is_damaged(
    owner: Owner, tmp_path: Path, damage: str
) -> None:
    owner.commit()
    older = owner.save()
    before = set(owner.store.objects)
    owner.commit()
    newest = owner.save()
    new = sorted(key for key in owner.store.objects.keys() - before if key.startswith("files/"))
    if damage == "missing":
        del owner.store.objects[new[0]]
    elif damage == "changed":
        owner.store.objects[new[0]] = bytes(len(owner.store.objects[new[0]]))
    else:
        owner.store.objects[snapshot_key(SHARD, newest)] = b"{"
    assert restored(owner, tmp_path / "cache") == (older, 1)


def test_without_a_snapshot_an_empty_table_is_enough_for_a_whole_log(
    owner: Owner, tmp_path: Path
) -> None:
    owner.commit()
    assert restored(owner, tmp_path / "cache") == (None, 0)


def test_a_log_that_continues_no_snapshot_is_an_error(owner: Owner, tmp_path: Path) -> None:
    for _ in range(3):
        owner.commit()
        owner.save()
    for key in [key for key in owner.store.objects if key.startswith("snapshots/")]:
        del owner.store.objects[key]
    with pytest.raises(SnapshotUnusable, match="shard 3: the log begins at commit"):
        restored(owner, tmp_path / "cache")


def test_a_cached_file_that_was_cut_is_downloaded_again(owner: Owner, tmp_path: Path) -> None:
    owner.commit()
    mark = owner.save()
    restored(owner, tmp_path)
    for path in tmp_path.glob("tables/*/*"):
        path.write_bytes(path.read_bytes()[:-1])
    assert restored(owner, tmp_path) == (mark, 1)


def test_files_that_no_reader_needs_are_deleted_after_an_hour(owner: Owner, tmp_path: Path) -> None:
    owner.commit()
    owner.save()
    restored(owner, tmp_path)
    odd = [tmp_path / "tables" / f"{SHARD:05d}" / name for name in ("old", "new")]
    for path in odd:
        path.write_bytes(b"x")
    os.utime(odd[0], (1.0, 1.0))
    restored(owner, tmp_path)
    assert [path.exists() for path in odd] == [False, True]


def test_what_a_killed_reader_left_is_deleted(tmp_path: Path) -> None:
    alive = new_work_folder(tmp_path)
    dead = tmp_path / "open-999999999-x"
    dead.mkdir()
    new_work_folder(tmp_path)
    assert alive.exists()
    assert not dead.exists()
