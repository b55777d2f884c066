"""A stopped crawl in a folder as the source of a move to a cluster.

Nothing is changed in the folder. Table files that never change are linked, all others copied. Then
the commits that the tables lack are applied from the logs, as a start would, and cold records
become rows again. Bytes that no commit names are left behind.

A segment has the same names in object storage as in the folder, so the locations in the crawl's
state stay valid. An open one is sent up to its committed length, with its derived files, as if it
were closed. Every step may be repeated: what is there in the right size is skipped.
"""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from lycosa.base.messages.control_records import FormatsSaved
from lycosa.base.model.compatibility import PROTOCOL
from lycosa.cluster.kafka.topics import crawl_topics
from lycosa.cluster.kafka.upkeep import missing_topics
from lycosa.cluster.shards.stored_crawl import newest_manifest, reserve_place
from lycosa.moves.gathered import GatheredState, open_tables, prepare_gathering
from lycosa.moves.move import MoveReport, delete_other_generations, move_crawl
from lycosa.moves.new_generation import ClusterPlaces
from lycosa.moves.returned_records import return_records
from lycosa.state.attempts.attempt_files import attempt_files_of, tidy
from lycosa.state.attempts.shipping import AttemptShipper
from lycosa.state.commit import MARK_KEY, Mark, marked, merged_by_worker, saved_logs
from lycosa.state.folder.folder_notes import note_import, settings_of
from lycosa.state.folder.lock import CrawlLock
from lycosa.state.folder.manifest import EarlierOwners, Manifest, load_manifest
from lycosa.state.folder.names import (
    attempts_folder,
    crawl_sites,
    log_folder,
    suffix_list,
    table_folder,
)
from lycosa.state.folder.start_check import check_crawl
from lycosa.state.folder.upload import PlaceTaken
from lycosa.state.kv.kv_port import KeyValue, Opener
from lycosa.state.kv.read_only import table_reader
from lycosa.state.objects.folder import FolderStore
from lycosa.state.objects.generation import PlacedObjects, generation_prefix
from lycosa.state.objects.object_errors import ObjectMissing
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.objects.stored_code import CODE_FOLDER, CODE_NAME
from lycosa.state.ranks.rank_results import RANKS_FOLDER, WORK_FOLDER
from lycosa.state.shard.folder_view import FolderView
from lycosa.state.shard.item_source import FolderItems
from lycosa.state.shard.object_snapshots import CONSTANT_SUFFIX
from lycosa.state.store import layout
from lycosa.state.store.closing import build_derived, wanted_or_certain
from lycosa.state.store.derived_files import CDXJ, ITEMS
from lycosa.state.store.item_versions import CURRENT_FOLDER
from lycosa.state.store.journal import JournalError
from lycosa.state.store.segments_port import NotStored, StoredSegment

_NO_LINKS = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP})
_PIECE = 8 << 20
_MAX_FILES = 1 << 30


def import_folder(folder: Path, places: ClusterPlaces) -> MoveReport:
    """Bring the crawl of a folder, which nothing may be using, to an empty place of a cluster.

    Blocks. Raises ``ManifestError``, ``CrawlInUse``, ``PlaceTaken``, ``CommittedDataMissing``,
    ``StateDamaged``, ``TopicsUnfit``, and the errors of the services and of files.
    """
    load_manifest(folder)  # before the lock, whose file must not be left in any other folder
    with CrawlLock(folder).acquire(time.time()):
        report = move_crawl(StoppedFolder(folder, places), places, places.given.shards)
        # before the lock is released: a folder whose crawl is elsewhere must not be crawled
        note_import(folder, places.given.name, places.given.objects, time.time())
    return delete_other_generations(report, places)


class StoppedFolder:
    """A crawl folder, whose lock the caller holds; implements ``MoveSource``."""

    number = 1

    def __init__(self, folder: Path, places: ClusterPlaces) -> None:
        self._folder, self._places = folder, places

    def find_moved(self) -> Manifest | None:
        crawl, given = load_manifest(self._folder).crawl, self._places.given
        try:
            manifest, _ = newest_manifest(self._places.objects)
        except ObjectMissing:
            return None
        if manifest.crawl == crawl and manifest.earlier and manifest.earlier[0].is_machine:
            return manifest
        raise PlaceTaken(
            f"{given.objects} has the crawl {manifest.crawl[:8]} already, and this is"
            f" {crawl[:8]}; an import needs a place where no crawl was created, also not by `lycosa"
            " cluster init`: give another prefix in objects.url, and another name"
        )

    def gather(self, generation: str) -> GatheredState:
        """See ``MoveSource``. The attempt logs are sent too."""
        places, work = self._places, self._places.work / "gathered"
        missing_topics(places.client, crawl_topics(places.given))  # whether Kafka answers
        count = load_manifest(self._folder).identity.partitions
        state = gather_folder(
            self._folder,
            work,
            places.open_table,
            lambda done: places.on_step("partitions", done, count),
        )
        reserve_place(places.objects, places.given, suffix_list(work).read_bytes())
        place = f"{generation_prefix(generation)}machine/"
        owners = EarlierOwners(
            place, _send_attempts(places.objects, work, place), is_machine=True, term=state.term
        )
        # only programs that can read the records of the folder may work on the cluster
        records = [FormatsSaved(PROTOCOL)]
        return msgspec.structs.replace(
            state, earlier=(*state.manifest.earlier, owners), records=records
        )

    def complete_segments(self, state: GatheredState) -> int:
        """Send all segments; nothing can add to them, because the folder is locked."""
        segments = FolderView(self._folder).list_segments()
        for number, segment in enumerate(segments, 1):
            self._send(segment)
            self._places.on_step("segments", number, len(segments))
        self._send_items()
        self._send_code()
        self._send_ranks()
        return len(segments)

    # -- segments

    def _send(self, segment: StoredSegment) -> None:
        work = self._places.work / "segment"
        if segment.journal_length is None:
            self._places.tell(
                f"the journal of {segment.name} is missing: its captures are readable, but are in"
                " no export; `lycosa audit` shows them"
            )
        source = self._folder if segment.is_closed else self._copied(segment, work)
        kinds = self._kinds(source, segment)
        # A file that was removed here after its upload is made again from the committed part.
        if any(not (source / layout.file_name(kind, segment.name)).exists() for kind in kinds):
            source = self._copied(segment, work)
        try:
            for kind in kinds:
                path = source / layout.file_name(kind, segment.name)
                if path.exists():
                    self._put(layout.file_name(kind, segment.name), path)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _send_items(self) -> None:
        """Send items that were extracted again, and which version readers see, last.

        Tables may be in another store, if they were removed here after an upload.
        """
        source, work = FolderItems(self._folder), self._places.work / "items"
        for versions in source.list_tables().tables.values():
            for table in (each for tables in versions.values() for each in tables.values()):
                if self._places.objects.find(table.key) is None:
                    self._places.objects.put(table.key, source.local_table(table, work))
        shutil.rmtree(work, ignore_errors=True)
        notes = sorted((self._folder / ITEMS).glob("*/**/[!.]*.json"))
        for path in sorted(notes, key=lambda each: each.parent.name == CURRENT_FOLDER):
            self._put(path.relative_to(self._folder).as_posix(), path)

    def _send_code(self) -> None:
        """Send the user code that the crawl runs and ran; nodes run of it what they allow."""
        for path in sorted((self._folder / CODE_FOLDER).glob("[!.]*")):
            self._put(f"{CODE_FOLDER}/{path.name}", path)
        if (records := self._folder / CODE_NAME).exists():
            self._places.objects.put(CODE_NAME, records)

    def _send_ranks(self) -> None:
        """Send results of ranks and the ranks in use, each with the file that completes it last."""
        for path in sorted((self._folder / RANKS_FOLDER).glob("[!.]*/**/[!.]*")):
            name = path.relative_to(self._folder).as_posix()
            if path.is_file() and "/." not in name and not name.startswith(f"{WORK_FOLDER}/"):
                self._put(name, path)

    def _kinds(self, source: Path, segment: StoredSegment) -> list[str]:
        """The kinds of files, in the order in which they are sent: see ``ObjectSegments``."""
        if segment.journal_length is None:
            return [layout.WARC]
        kinds, why = wanted_or_certain(source, segment.name)
        if why and (source / layout.file_name(layout.JOURNAL, segment.name)).exists():
            self._places.tell(why)
        return [layout.WARC, *(kind for kind in kinds if kind != CDXJ), CDXJ, layout.JOURNAL]

    def _put(self, key: str, path: Path) -> None:
        found = self._places.objects.find(key)
        # A move that was killed is repeated with the same segments, which are large.
        if found is None or found.size != path.stat().st_size:
            self._places.objects.put(key, path)

    def _copied(self, segment: StoredSegment, work: Path) -> Path:
        """A copy of the committed part of a segment, with all derived files, in ``work``.

        The files may be in another store, if they were removed here after an upload.
        """
        shutil.rmtree(work, ignore_errors=True)
        lengths = {layout.WARC: segment.length, layout.JOURNAL: segment.journal_length}
        for kind, length in lengths.items():
            name = layout.file_name(kind, segment.name)
            if length is not None:
                (work / kind).mkdir(parents=True, exist_ok=True)
                _copy_beginning(self._folder / name, work / name, length)
        if segment.journal_length is not None:
            try:
                build_derived(work, segment.name)
            except (JournalError, ValueError, OverflowError) as error:
                # the captures are readable all the same, and an audit shows what is missing
                self._places.tell(f"{segment.name}: {error}; it has no derived files")
        return work


def gather_folder(
    folder: Path, work: Path, open_table: Opener, on_partition: Callable[[int], None]
) -> GatheredState:
    """Gather the tables and attempt logs of a crawl folder in the folder ``work``. Blocks.

    ``on_partition`` is called with the number of partitions that are there. Raises
    ``ManifestError``, ``CommittedDataMissing``, ``TableLocked``, ``LogDamaged``, ``StoreDamaged``
    or ``OSError``.
    """
    manifest, config = load_manifest(folder), settings_of(folder)
    check_crawl(folder, manifest, config.seen.urls, table_reader())
    crawl_sites(folder, manifest.identity.suffixes)  # whether its list is the crawl's own
    prepare_gathering(work, suffix_list(folder).read_bytes())
    with open_tables() as tables:
        for number in range(manifest.identity.partitions):
            target = table_folder(work, number)
            if table_folder(folder, number).exists():
                _copy_table(table_folder(folder, number), target)
            tables[number] = open_table(target)
            on_partition(number + 1)
        wall, crawl_time, sequence = _apply_logs(folder, tables)
        for table in tables.values():
            return_records(table, FolderStore(str(folder), folder))
        newest = max(Mark.unpack(table.get(MARK_KEY)) for table in tables.values())
    for pattern in ("attempts-w*", "settling-w*", "crashes.json"):
        for path in attempts_folder(folder).glob(pattern):
            shutil.copyfile(path, attempts_folder(work) / path.name)
    return GatheredState(
        work,
        manifest,
        config,
        Mark(newest.term, sequence),
        manifest.term,
        wall,
        crawl_time,
    )


def _copy_table(source: Path, target: Path) -> None:
    """Copy the files of a closed table; those that never change are linked. Raises ``OSError``."""
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.suffix == CONSTANT_SUFFIX:
            try:
                (target / path.name).hardlink_to(path)
                continue
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
        # The lock belongs to a table that is open, and the copy is not.
        if path.name != "LOCK":
            shutil.copyfile(path, target / path.name)


def _apply_logs(folder: Path, tables: dict[int, KeyValue]) -> tuple[float, float, int]:
    """Apply the commits that tables lack.

    Returns wall time and crawl time of the last commit, and the greatest sequence.
    """
    marks = {number: Mark.unpack(table.get(MARK_KEY)) for number, table in tables.items()}
    wall = crawl_time = 0.0
    sequence = max((mark.sequence for mark in marks.values()), default=0)
    for worker, commit in merged_by_worker(saved_logs(log_folder(folder)).values()):
        # Commits of early versions have no crawl time; wall time was used then.
        if (commit.time or commit.wall) >= crawl_time:
            wall, crawl_time = commit.wall, commit.time or commit.wall
        sequence = max(sequence, commit.sequence)
        for batch in commit.batches:
            # The table may have the commit already: tables are written after the log.
            if commit.mark > marks[batch.partition]:
                tables[batch.partition].write(marked(batch, commit.mark, worker))
                marks[batch.partition] = commit.mark
    return wall, crawl_time, sequence


def _copy_beginning(source: Path, target: Path, length: int) -> None:
    left = length
    with layout.open_segment_file(source) as file, target.open("xb") as copy:
        while left and (piece := file.read(min(_PIECE, left))):
            copy.write(piece)
            left -= len(piece)


def _send_attempts(store: ObjectStore, folder: Path, place: str) -> int:
    """Send the attempt logs of all workers below ``place``; returns the number of workers.

    ``folder`` is a work folder, whose logs are compressed. Raises ``NotStored`` or ``OSError``.
    """
    logs, placed = attempts_folder(folder), PlacedObjects(store, place)
    workers = list(attempt_files_of(logs))
    for worker in workers:
        tidy(logs, worker, _MAX_FILES, None)
        shipper = AttemptShipper(placed, logs, worker)
        shipper.ship_closed()
        if shipper.failure:
            raise NotStored(shipper.failure)
    return max(workers, default=-1) + 1
