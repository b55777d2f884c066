"""What is left of each shard when the log of a crawl is lost, read before anything is changed.

A shard has its newest snapshot that is complete, and captures behind it in segments. Between the
shards parcels are missing: those that one shard had handed over by its snapshot and another had
not taken by its own. Their content came from captures of the sender. So each shard has a **point of
view** from which the links of its captures are handed in again: its snapshot if no parcel is
missing; else the snapshot before it, if all missing parcels were made after that; else nothing, so
that all its captures count.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path

import msgspec

from lycosa.cluster.shards.stored_crawl import StoredCrawl
from lycosa.moves.new_generation import OnStep
from lycosa.moves.new_shards import SnapshotPlace
from lycosa.moves.returned_records import return_records
from lycosa.state.attempts.read import head_of, read_attempt_files
from lycosa.state.attempts.shipping import parse_shipped_key, shipped_files
from lycosa.state.commit import NOTHING, Commit, Mark
from lycosa.state.commit.memory_log import MemoryChangelog, MemoryLog
from lycosa.state.exchange.agreement import ParcelNumbers
from lycosa.state.exchange.renumbering import numbers_of
from lycosa.state.kv.kv_port import KeyValue, Opener
from lycosa.state.kv.table_records import decode_url, prefix_end
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.shard.object_snapshots import ObjectSnapshots, stored_marks
from lycosa.state.shard.opened_shard import PartitionData
from lycosa.state.store import layout
from lycosa.state.store.lost_parts import LostPart

_UNSEEN_TERMS = 100
"""Terms that are left out, because an owner that stored nothing left no trace of its term."""
_LOST_COMMITS = 1_000_000
"""Sequences that are left out, because no one knows how many commits were lost."""
_ATTEMPT_FILE_S = 600.0  # a file of attempts is closed after five minutes


class PointOfView(Enum):
    """From where on the links of a shard's captures are handed in again."""

    SNAPSHOT = "its snapshot"
    EARLIER = "the snapshot before"
    NOTHING = "the beginning"


class RescuePlace(msgspec.Struct, frozen=True):
    """Where a rescue works: the crawl's objects, and a local folder for tables.

    ``on_step`` is called with what is done.
    """

    crawl: StoredCrawl
    store: ObjectStore
    work: Path
    open_table: Opener
    on_step: OnStep

    @property
    def shards(self) -> range:
        return range(self.crawl.manifest.identity.partitions)

    def folder(self, shard: int) -> Path:
        """The local folder of a shard."""
        return self.work / f"s{shard:05d}"

    def snapshots(self, shard: int, folder: Path | None = None) -> SnapshotPlace:
        """Where the tables of a shard are opened and saved; ``folder`` is for another snapshot."""
        at = folder or self.folder(shard)
        return SnapshotPlace(self.store, at, self.crawl.config, self.open_table)


class LostCapture(msgspec.Struct, frozen=True):
    """A capture that is lost: its URL's hashes, its digest and record."""

    host8: bytes
    url8: bytes
    digest: bytes
    record_id: str


class LeftShard(msgspec.Struct, frozen=True):
    """What is left of a shard.

    ``snapshot`` is the commit of the snapshot that can be used, ``newest`` that of the newest one;
    they differ when that is not complete. ``places`` are URLs whose places are in scope. ``lost``
    are captures that the snapshot knows, and that are in lost parts, or whose body is.
    """

    shard: int
    snapshot: Mark | None
    newest: Mark | None
    numbers: ParcelNumbers
    places: frozenset[str]
    lost: Sequence[LostCapture] = ()

    def handed_over(self, destination: int) -> int:
        """The last parcel for a shard that the outbox does not have any more."""
        waiting = self.numbers.waiting.get(destination)
        return min(waiting) - 1 if waiting else self.numbers.made.get(destination, 0)


def newest_mark(place: RescuePlace, shard: int) -> Mark:
    """A mark above all that a shard can have had, by the objects that carry a term."""
    marks = stored_marks(place.store, shard)
    terms = [mark.term for mark in marks]
    attempts = (parse_shipped_key(each.key) for each in place.store.list(f"attempts/{shard:05d}/"))
    terms += [file.term for file in attempts if file is not None]
    names = {each.key.split("/")[2] for each in place.store.list(f"parts/{shard:05d}/")}
    names |= {layout.stem_of(each.key) for each in place.store.list(f"{layout.JOURNAL}/")}
    terms += [layout.segment_term(name) for name in names if layout.segment_worker(name) == shard]
    sequences = [mark.sequence for mark in marks]
    return Mark(max(terms, default=0) + _UNSEEN_TERMS, max(sequences, default=0) + _LOST_COMMITS)


def survey_shard(
    place: RescuePlace, shard: int, before: Mark, parts: Sequence[LostPart] = ()
) -> LeftShard:
    """Restore the newest complete snapshot before a mark into the shard's folder, and read it.

    All its records are read if ``parts`` are lost, of this shard or another one.

    Raises ``ObjectError`` or ``OSError``.
    """
    marks = [mark for mark in stored_marks(place.store, shard) if mark < before]
    data, used = _restored(place, shard, place.folder(shard), before)
    try:
        table = data.table
        numbers = numbers_of(table.scan)
        places = frozenset(key[1:].decode() for key, _ in table.scan(b"J", prefix_end(b"J")))
        lost = list(_lost_captures(table, parts)) if parts else []
    finally:
        data.close()
    return LeftShard(shard, used, marks[-1] if marks else None, numbers, places, lost)


def _lost_captures(table: KeyValue, parts: Sequence[LostPart]) -> Iterator[LostCapture]:
    """The captures whose record or body is lost."""
    for key, value in table.scan(b"U", prefix_end(b"U")):
        history = decode_url(value).history
        if history is None:
            continue
        places = (history.segment, history.offset), history.body_place
        if any(each.has(*place) for each in parts for place in places):
            yield LostCapture(key[1:9], key[9:], history.digest, history.record_id)


def point_of_view(place: RescuePlace, shard: int, remains: Mapping[int, LeftShard]) -> PointOfView:
    """From where on the links of a shard's captures are handed in again.

    For ``EARLIER`` that snapshot is restored for ``open_earlier``. Raises like ``survey_shard``.
    """
    own = remains[shard]
    taken = {
        each.shard: each.numbers.taken.get(shard, 0)
        for each in remains.values()
        if each.shard != shard
    }
    if all(own.handed_over(other) <= number for other, number in taken.items()):
        return PointOfView.SNAPSHOT
    if own.snapshot is not None:
        folder = _earlier_folder(place, shard)
        data, used = _restored(place, shard, folder, own.snapshot)
        made = numbers_of(data.table.scan).made
        data.close()
        if used is not None and all(
            made.get(other, 0) <= number for other, number in taken.items()
        ):
            return PointOfView.EARLIER
        shutil.rmtree(folder, ignore_errors=True)
    return PointOfView.NOTHING


def open_earlier(place: RescuePlace, shard: int) -> KeyValue:
    """The table of the snapshot before the one that is used."""
    data = place.snapshots(shard, _earlier_folder(place, shard)).open_partition(shard)
    data.seen.close()
    return data.table


def _earlier_folder(place: RescuePlace, shard: int) -> Path:
    return place.folder(shard).with_name(f"{place.folder(shard).name}-earlier")


def _restored(
    place: RescuePlace, shard: int, folder: Path, before: Mark
) -> tuple[PartitionData, Mark | None]:
    """The newest complete snapshot before a mark, with its cold records as rows; an empty partition
    when there is none.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    snapshots = ObjectSnapshots(
        place.store,
        shard,
        _AnyLog(shard),
        place.snapshots(shard, folder).local_snapshots(shard),
        told=lambda done, total: place.on_step(
            f"shard {shard}: MB of its snapshot", done >> 20, total >> 20
        ),
        before=before,
    )
    data = snapshots.restore_partition(shard)
    # A cold URL must not look unknown to what enters captures, or it would be requested again.
    return_records(data.table, place.store)
    return data, snapshots.restored


def waits_of_hosts(store: ObjectStore, shard: int, since: float, work: Path) -> dict[str, float]:
    """Until when (seconds since 1970) hosts wait after their last known request.

    Files that end before ``since`` are not read; with 0 only the last ones are. ``work`` is a local
    folder. Each attempt has the delay that was decided at its end, with Retry-After and back-off.
    The last minutes of a lost machine are in no file. Raises ``ObjectError`` or ``OSError``.
    """
    paths: list[Path] = []
    for each in reversed(shipped_files(store, shard)):
        path = work / each.key.rpartition("/")[2]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.get(each.key))
        paths.append(path)
        head = head_of(path)
        since = since or (head.wall - _ATTEMPT_FILE_S if head is not None else 0.0)
        if head is not None and head.wall < since:
            break
    waits: dict[str, float] = {}
    for attempt in read_attempt_files({shard: paths[::-1]}):
        until = attempt.ended_wall + attempt.delay_s
        waits[attempt.host] = max(until, waits.get(attempt.host, 0.0))
    return waits


class _AnyLog(MemoryLog):
    """Stands in for a lost log: accepts every snapshot."""

    def __init__(self, shard: int) -> None:
        super().__init__(MemoryChangelog("", shard))
        self._shard = shard

    def read(self) -> Iterator[Commit]:
        yield Commit(
            term=1 << 31,
            sequence=1 << 39,
            wall=0.0,
            shard=self._shard,
            before={self._shard: NOTHING},
        )
