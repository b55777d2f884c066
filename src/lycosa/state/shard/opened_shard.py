"""A shard: everything that one worker owns, opened and closed as one.

    log, segments and snapshots are the three ports under a commit;
    the tables and URL-seen are the result of the commits

The state is the result of applying all commits in the log. A snapshot avoids reading all of them.
``bring_up`` claims the log, restores each table from the newest snapshot, drops output that no
commit names and applies the commits that the tables lack, exactly as they were written. No decision
is made again. The same code serves the files of a crawl folder and a shard of a cluster. Every step
may be repeated, so the next start repairs a crash in this module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from typing import Protocol

import msgspec

from lycosa.base.model.recovered import Recovered
from lycosa.state.commit import Claim, Commit, Log, Mark, marked
from lycosa.state.folder.names import mark_of, stamp_of
from lycosa.state.folder.url_seen import known_hashes
from lycosa.state.kv.kv_port import KeyValue, pairs_of
from lycosa.state.kv.table_records import prefix_end
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.seen.seen_port import SeenUrls, hashes_of
from lycosa.state.shard.counters import counters_of
from lycosa.state.store.segment_recovery import Recovery
from lycosa.state.store.segments_port import FoundSegments, Segments


class PartitionData(msgspec.Struct, frozen=True):
    """The parts of one partition: its table and its URL-seen.

    The table contains the mark of the last commit.
    """

    table: KeyValue
    seen: SeenUrls

    def close(self) -> None:
        self.seen.close()
        self.table.close()


class Snapshots(Protocol):
    """Stores the result of the commits, so that the log need not be read from its beginning.

    All calls block. A snapshot belongs to one commit: it contains all writes of this commit and
    those before it, and nothing else. Files that only deleted snapshots need are deleted later.
    """

    def saved_partitions(self) -> Collection[int]:
        """The partitions that have a snapshot."""
        ...

    def restore_partition(self, partition: int) -> PartitionData:
        """The partition from its newest usable snapshot, or empty.

        Raises ``StoreDamaged``, ``TableLocked`` or ``OSError``.
        """
        ...

    def save_partition(self, partition: int, data: PartitionData, mark: Mark) -> None:
        """Save a snapshot of commit ``mark``; returns when it is safe.

        ``data`` contains that commit and perhaps later ones.
        """
        ...


class SnapshotLimit(msgspec.Struct, frozen=True):
    """When the next snapshot is due: after so many commits, seconds or bytes of writes.

    The bytes are those of keys and values, before the log compresses them. On one machine a
    snapshot is a flush of the table, and commits bound what is read again after a crash. In a
    cluster it is an upload: time and bytes bound what a takeover downloads and replays.
    """

    commits: float = 300
    seconds: float = inf
    write_bytes: float = inf


CLUSTER_LIMIT = SnapshotLimit(commits=inf, seconds=600.0, write_bytes=256_000_000)


class ShardStorage(msgspec.Struct, frozen=True):
    """The three ports under the commits of a shard.

    A snapshot is due at ``snapshot_limit``. ``on_claim`` is called when the log has
    accepted the claim, before anything is restored. With ``saves_in_background`` commits continue
    while a snapshot is being saved. ``cold`` has the cold files, if the shard can have any.
    """

    log: Log
    segments: Segments
    snapshots: Snapshots
    snapshot_limit: SnapshotLimit = SnapshotLimit()
    on_claim: Callable[[Claim], None] = lambda claim: None
    saves_in_background: bool = False
    cold: ObjectStore | None = None


class Shard(msgspec.Struct, frozen=True):
    """An open shard.

    ``number`` is the number of the shard, or of the worker on one machine. ``term`` counts its
    owners; ``last`` is the last commit in its log. ``found`` are the segments that are not closed,
    if they were looked up when it was opened: that may wait for a store. ``damaged`` are closed
    segments that are known to be damaged.
    """

    number: int
    term: int
    storage: ShardStorage
    data: Mapping[int, PartitionData]
    last: Commit | None = None
    found: FoundSegments | None = None
    damaged: Collection[str] = ()

    @property
    def tables(self) -> dict[int, KeyValue]:
        """The committed tables, by partition."""
        return {number: each.table for number, each in self.data.items()}

    @property
    def next_sequence(self) -> int:
        """The sequence of the first commit after the claim."""
        return self.last.sequence + 1 if self.last else 1

    @property
    def was_left_orderly(self) -> bool:
        """Whether the previous owner, if any, ended with a final commit and nothing in flight.

        An owner that claimed the shard and never committed may still have sent requests. So the
        final commit must be of the owner directly before this one.
        """
        if self.last is None:
            return self.term == 1
        return self.last.is_final and self.last.term == self.term - 1

    def close(self) -> None:
        """Close everything. Uncommitted data is lost, as in a crash."""
        self.storage.log.close()
        for each in self.data.values():
            each.close()


def open_shard(
    number: int, partitions: Collection[int], storage: ShardStorage
) -> tuple[Shard, Recovered]:
    """Take a shard over from any state in which its last owner left it. Blocks.

    Raises the errors of the ports.
    """
    with _brought_up(storage, frozenset(partitions)) as (claim, opened, recovered):
        for partition in sorted(set(partitions) - opened.keys()):
            opened[partition] = storage.snapshots.restore_partition(partition)
        found = storage.segments.find_segments(claim.term)
        data = dict(sorted(opened.items()))
        shard = Shard(number, claim.term, storage, data, claim.latest, found, recovered.damaged)
        return shard, recovered


def bring_up(storage: ShardStorage, owned: Collection[int] | None = None) -> Recovered:
    """Bring a shard, or only the partitions ``owned``, to its last commit and close it. Blocks."""
    with _brought_up(storage, None if owned is None else frozenset(owned)) as (
        _,
        opened,
        recovered,
    ):
        for each in opened.values():
            each.close()
        storage.log.close()
        return recovered


@contextmanager
def _brought_up(
    storage: ShardStorage, owned: frozenset[int] | None
) -> Iterator[tuple[Claim, dict[int, PartitionData], Recovered]]:
    """The claim, the partitions at their last commit, and a report.

    If the caller's block raises, everything is closed.
    """
    log, snapshots = storage.log, storage.snapshots
    opened: dict[int, PartitionData] = {}
    try:
        claim = log.claim()
        storage.on_claim(claim)
        # The snapshots come first, because they show whether the log has lost commits. What such a
        # log does not name may be all that is left of these commits.
        existing = [
            number for number in snapshots.saved_partitions() if owned is None or number in owned
        ]
        opened.update((number, snapshots.restore_partition(number)) for number in existing)
        report = storage.segments.recover_segments(
            {name: length for last in claim.last for name, length in last.lengths.items()},
            {name: value for last in claim.last for name, value in last.sums.items()},
        )
        replayed, rebuilt = _catch_up(storage, claim, opened, owned)
        # Without writes there is no newer snapshot, and the log must continue both that are kept.
        if replayed:
            log.trim(max((last.sequence for last in claim.last), default=0))
        yield claim, opened, _recovered(claim, report, opened, replayed, rebuilt)
    except BaseException:
        # Tables hold locks of this process, so a second try in it would find them in use.
        for each in opened.values():
            each.close()
        log.close()
        raise


def _catch_up(
    storage: ShardStorage,
    claim: Claim,
    opened: dict[int, PartitionData],
    owned: frozenset[int] | None,
) -> tuple[int, int]:
    """Apply the batches that partitions lack.

    Returns how many were applied, and how many URL-seen were rebuilt.
    """
    marks = {number: mark_of(each.table) for number, each in opened.items()}
    # URL-seen catches up from the log if the log reaches back far enough. Otherwise it is rebuilt
    # from the table.
    reach = stamp_of(claim.reach)
    stale = {
        number
        for number, each in opened.items()
        if each.seen.stamp < 0
        or (each.seen.stamp < stamp_of(marks[number]) and each.seen.stamp + 1 < reach)
    }
    replayed = 0
    for commit in storage.log.read():
        for batch in commit.batches:
            number = batch.partition
            if owned is not None and number not in owned:
                continue
            # It has no snapshot: the log has all of its commits, from the first one on.
            if number not in opened:
                opened[number] = storage.snapshots.restore_partition(number)
                marks[number] = mark_of(opened[number].table)
            if commit.mark > marks[number]:
                opened[number].table.write(marked(batch, commit.mark, commit.shard))
                marks[number] = commit.mark
                replayed += 1
            seen = opened[number].seen
            # The file of URL-seen may be older than the table, because both are saved apart.
            if number not in stale and stamp_of(commit.mark) > seen.stamp:
                _remember(
                    seen,
                    (key for key, value in pairs_of(batch.writes) if value is not None),
                    stamp_of(commit.mark),
                )
    for number, each in opened.items():
        if number in stale:
            each.seen.rebuild(known_hashes(each.table, storage.cold), stamp_of(marks[number]))
        storage.snapshots.save_partition(number, each, marks[number])
    return replayed, len(stale)


def _remember(seen: SeenUrls, keys: Iterable[bytes], stamp: int) -> None:
    url8s = [key[9:] for key in keys if key[:1] == b"U"]
    if url8s:
        seen.unseen(hashes_of(url8s))
    seen.seal(stamp)


def _recovered(
    claim: Claim, report: Recovery, opened: Mapping[int, PartitionData], replayed: int, rebuilt: int
) -> Recovered:
    last = max((commit.wall for commit in claim.last), default=0.0)
    latest = (
        (claim.latest.time or claim.latest.wall, claim.latest.wall) if claim.latest else (0.0, 0.0)
    )
    captures = {number: counters_of(each.table).captures for number, each in opened.items()}
    places = [
        key[1:].decode()
        for each in opened.values()
        for key, _ in each.table.scan(b"J", prefix_end(b"J"))
    ]
    settings = max((commit.settings for commit in claim.last), default=0)
    return Recovered(
        replayed,
        rebuilt,
        report.unbuildable,
        last,
        captures,
        places,
        latest,
        settings,
        report.damaged,
    )
