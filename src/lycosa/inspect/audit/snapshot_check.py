"""Snapshots in object storage: whether the next owner of each shard could start from them.

A reader may have a snapshot's files in its cache, so that it reads a crawl whose stored files are
lost. Therefore the store itself is asked: all files that the lists of the kept snapshots name must
be there in their sizes, and the log must continue each snapshot. Contents are compared with their
hashes whenever a file is downloaded.
"""

from __future__ import annotations

from lycosa.inspect.audit.audit_report import Check
from lycosa.state.commit import Mark
from lycosa.state.objects.object_errors import ObjectMissing
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.shard.object_snapshots import (
    decode_snapshot_list,
    snapshot_file_key,
    snapshot_key,
    stored_marks,
)
from lycosa.state.shard.view import ShardPosition


def check_snapshots(store: ObjectStore, positions: list[ShardPosition]) -> Check:
    """Check the kept snapshots of all shards. Raises ``ObjectError``."""
    check = Check("snapshots", "kept snapshots: their files are stored, and the log continues them")
    for position in positions:
        marks = stored_marks(store, position.shard)
        check.expect(
            bool(marks) or not position.needed,
            f"shard {position.shard} has no snapshot, and its log begins after commit"
            f" {position.needed}",
        )
        prefix = snapshot_file_key(position.shard, "")
        sizes = {each.key.removeprefix(prefix): each.size for each in store.list(prefix)}
        for mark in marks:
            _check_one(check, store, position, mark, sizes)
    return check


def _check_one(
    check: Check, store: ObjectStore, position: ShardPosition, mark: Mark, sizes: dict[str, int]
) -> None:
    shard = position.shard
    told = f"shard {shard}, snapshot of commit {mark.sequence} of term {mark.term}"
    try:
        listed = decode_snapshot_list(store.get(snapshot_key(shard, mark)))
    except ObjectMissing:
        # A running worker deletes old snapshots, so the list is read once more before it is a
        # fault.
        if mark in stored_marks(store, shard):
            check.expect(False, f"{told}: its list is missing")
        return  # a newer one replaced it
    except ValueError as error:
        check.expect(False, f"{told}: its list cannot be read ({error})")
        return
    for file in listed.files:
        check.expect(
            sizes.get(file.sha256) == file.bytes,
            f"{told}: {file.name}, {file.bytes} bytes, is"
            f" {_found(sizes.get(file.sha256))} ({snapshot_file_key(shard, file.sha256)})",
        )
    # an owner that continues may be about to delete the older one, and has trimmed its log
    is_leaving = not position.is_final and mark < position.snapshot
    check.expect(
        mark.sequence >= position.needed or is_leaving,
        f"{told}: the log continues only commit {position.needed} or a later one",
    )


def _found(size: int | None) -> str:
    return "missing" if size is None else f"{size} bytes long"
