"""Brings a stopped crawl to shards of a cluster: from a crawl folder, or from fewer shards.

    gather (nothing changes where the crawl is) -> take all parcels -> divide, save, begin logs
    -> make sure that the crawl did not continue -> put the new generation in force

Up to the last step the crawl is what it was, and the import may be dropped or repeated.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from lycosa.base.config.cluster_file import ClusterFile
from lycosa.base.config.fields import value_of
from lycosa.base.config.sections import Config
from lycosa.base.messages.control_records import (
    DrainSaved,
    Record,
    SettingsSaved,
    decode_records,
    folded,
)
from lycosa.base.system.software import SOFTWARE
from lycosa.base.urls.identity import Sites
from lycosa.cluster.kafka import KafkaControl, crawl_topics, missing_topics
from lycosa.cluster.kafka.generations import close_log
from lycosa.cluster.shards.opened_cluster import OpenedCluster
from lycosa.cluster.shards.stored_crawl import (
    MACHINE_SETTINGS,
    CrawlFrozen,
    NoStoredCrawl,
    newest_manifest,
    read_crawl,
    reserve_place,
)
from lycosa.moves.drain_run import drain_parcels
from lycosa.moves.new_generation import ClusterPlaces, NewGeneration, new_generation_name
from lycosa.moves.reshard.from_cluster import gather_cluster
from lycosa.moves.reshard.from_folder import gather_folder
from lycosa.moves.reshard.gathered import GatheredState
from lycosa.moves.stored_segments import SegmentSender, send_attempts
from lycosa.stages.frontier.alike_pages import find_alike
from lycosa.state.commit import Mark
from lycosa.state.folder.imported import note_import
from lycosa.state.folder.lock import CrawlLock
from lycosa.state.folder.manifest import MANIFEST_FORMAT, EarlierOwners, Manifest, load_manifest
from lycosa.state.folder.names import suffix_list, table_folder
from lycosa.state.folder.upload import PlaceTaken
from lycosa.state.kv.kv_port import KeyValue
from lycosa.state.objects.generation import generation_prefix
from lycosa.state.objects.object_errors import ObjectMissing
from lycosa.state.shard.counters import Counters
from lycosa.state.shard.folder_view import FolderView
from lycosa.state.store import layout
from lycosa.state.store.object_segments import ObjectSegments

_LOGS_AT_ONCE = 8
_NOT_ORDERLY = (
    "not all shards were ended in order, so their last requests may have been lost with their"
    " machines: every host waits a while when the crawl continues"
)


class CrawlRuns(Exception):
    """The crawl on the cluster was not stopped."""


class ImportReport(msgspec.Struct, frozen=True):
    """What an import did. ``is_new`` is false when it had been done before.

    ``notes`` are lines for the operator.
    """

    manifest: Manifest
    is_new: bool
    urls: int = 0
    captures: int = 0
    segments: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


def import_folder(folder: Path, places: ClusterPlaces) -> ImportReport:
    """Bring the crawl of a folder, which nothing may be using, to an empty place of a cluster.

    Blocks. Raises ``ManifestError``, ``CrawlInUse``, ``PlaceTaken``, ``CommittedDataMissing``,
    ``StateDamaged``, ``TopicsUnfit``, and the errors of the services and of files.
    """
    began = time.monotonic()
    crawl = load_manifest(folder).crawl
    with CrawlLock(folder).acquire(time.time()):
        if (there := _imported(places, crawl)) is not None:
            note_import(folder, places.given.name, places.given.objects, time.time())
            return ImportReport(there, is_new=False)
        missing_topics(places.client, crawl_topics(places.given))  # whether Kafka answers
        work = places.work / "gathered"
        count = load_manifest(folder).identity.partitions
        state = gather_folder(
            folder, work, places.open_table, lambda done: places.told("partitions", done, count)
        )
        reserve_place(places.objects, places.given, suffix_list(work).read_bytes())
        generation = new_generation_name(1)
        place = f"{generation_prefix(generation)}machine/"
        view = FolderView(folder)
        sender = SegmentSender(places.objects, folder, places.work / "segment", places.tell)
        segments = sender.send_all(view, lambda done, total: places.told("segments", done, total))
        owners = send_attempts(places.objects, work, place)
        config, notes = _cluster_config(state.config, places.given.shards)
        before = EarlierOwners(place, owners, is_machine=True, term=state.term)
        made = NewGeneration(places, _next_manifest(state, config, generation, before), config)
        counters = _write(made, state, places)
        made.put_in_force(1, [])
        note_import(folder, places.given.name, places.given.objects, time.time())
    notes.append(made.delete_others())
    return _report(made.manifest, counters, segments, time.monotonic() - began, notes)


def import_shards(places: ClusterPlaces, shards: int) -> ImportReport:
    """Divide a stopped crawl on a cluster into more shards.

    Blocks. Raises ``CrawlRuns``, ``LogWentOn``, ``ManifestError``, ``StateDamaged``,
    ``TopicsUnfit``, and the errors of the services and of files.
    """
    began = time.monotonic()
    try:
        manifest, number = newest_manifest(places.objects)
    except ObjectMissing as error:
        raise NoStoredCrawl(
            f"{places.given.objects} has no crawl that could be divided; check objects.url"
        ) from error
    before = manifest.identity.partitions
    given = msgspec.structs.replace(places.given, shards=before)
    read_crawl(places.objects, given)
    if before == shards:
        left = NewGeneration(places, manifest, Config()).delete_others()
        return ImportReport(manifest, is_new=False, notes=(left,) if left else ())
    if shards < before:
        raise CrawlFrozen(
            f"the crawl {given.name!r} has {before} shards, which cannot become fewer; give a"
            f" number greater than {before}"
        )
    records = _records_of_stopped(places, manifest)
    state, ends = _gathered_shards(places, given)
    config = _divided_config(state.config, shards)
    place = generation_prefix(manifest.generation)
    earlier = EarlierOwners(place, before, is_machine=False, term=state.term)
    generation = new_generation_name(number + 1)
    made = NewGeneration(places, _next_manifest(state, config, generation, earlier), config)
    counters = _write(made, state, places)
    ends.close_logs()
    segments = ends.seal_segments()
    made.put_in_force(number + 1, records)
    notes = [made.delete_others(), "" if state.is_orderly else _NOT_ORDERLY]
    return _report(made.manifest, counters, segments, time.monotonic() - began, notes)


def _gathered_shards(places: ClusterPlaces, given: ClusterFile) -> tuple[GatheredState, _Ends]:
    """The state of all shards, and their ends."""
    opened = OpenedCluster(given, places.work / "read", tell=places.tell)
    try:
        state = gather_cluster(
            opened,
            places.work / "gathered",
            places.open_table,
            lambda done: places.told("shards", done, given.shards),
        )
        return state, _Ends(places, opened, state)
    finally:
        opened.close()


class _Ends:
    """The ends of the old shards: their last commits, and the segments that are open in them."""

    def __init__(self, places: ClusterPlaces, opened: OpenedCluster, state: GatheredState) -> None:
        self._places, self._crawl, self._state = places, opened.crawl, state
        self._topics, self._objects = opened.topics, opened.objects
        self._last = {number: each.last for number, each in opened.view.shards.items()}
        self._lengths = opened.view.seen.last.lengths
        self._sums = opened.view.seen.last.sums

    def close_logs(self) -> None:
        """Let no owner of an old shard commit any more. Raises ``LogWentOn``."""

        def close(item: tuple[int, Mark]) -> None:
            places, (shard, last) = self._places, item
            close_log(places.client, self._topics, self._crawl, shard, last, places.tell)

        with ThreadPoolExecutor(_LOGS_AT_ONCE) as pool:
            for done, _ in enumerate(pool.map(close, self._last.items()), 1):
                self._places.told("closing logs", done, len(self._last))

    def seal_segments(self) -> int:
        """Give all open segments their final form, as the next owners would; returns their number.
        Damaged ones are reported.

        Raises ``NotStored``, ``StoreDamaged`` or ``OSError``.
        """
        sealed = 0
        for shard in self._last:
            lengths = {
                name: length
                for name, length in self._lengths.items()
                if layout.segment_worker(layout.stem_of(name)) == shard
            }
            work = self._places.work / "segment"
            segments = ObjectSegments(self._objects, shard, work)
            segments.recover_segments(lengths, self._sums)
            table = self._places.open_table(table_folder(self._state.folder, shard))
            try:
                for name in sorted({layout.stem_of(each) for each in lengths}):
                    if damage := segments.close_segment(name, partial(find_alike, table.get)):
                        self._places.tell(damage)
                    sealed += 1
            finally:
                table.close()
        return sealed

    def __repr__(self) -> str:
        return f"<_Ends {self._last}>"


def _imported(places: ClusterPlaces, crawl: str) -> Manifest | None:
    """The manifest of a crawl that was imported before; ``None`` if the place has no crawl.

    Raises ``PlaceTaken`` if it has another one.
    """
    try:
        manifest, _ = newest_manifest(places.objects)
    except ObjectMissing:
        return None
    if manifest.crawl == crawl and manifest.earlier and manifest.earlier[0].is_machine:
        return manifest
    raise PlaceTaken(
        f"{places.given.objects} has the crawl {manifest.crawl[:8]} already, and this is"
        f" {crawl[:8]}; an import needs a place where no crawl was created, also not by `lycosa"
        " cluster init`: give another prefix in objects.url, and another name"
    )


def _records_of_stopped(places: ClusterPlaces, manifest: Manifest) -> list[Record]:
    """What the coordinators of the new generation must know. Raises ``CrawlRuns``."""
    topics = crawl_topics(places.given, manifest.generation, manifest.identity.partitions)
    control = KafkaControl(places.client, topics, manifest.crawl, places.tell)
    try:
        known = decode_records(control.read().values.values())
    finally:
        control.close()
    if not folded(known).end.end:
        raise CrawlRuns(
            f"the crawl {places.given.name!r} was not stopped: `lycosa cluster stop"
            f" {places.given.path}` ends it, and `lycosa cluster status` shows when it has ended"
        )
    return [each for each in known if isinstance(each, SettingsSaved | DrainSaved)]


def _write(made: NewGeneration, state: GatheredState, places: ClusterPlaces) -> list[Counters]:
    """Take all parcels, and write the shards."""
    places.told("taking parcels", 0, 0)
    held = asyncio.run(drain_parcels(state))
    made.make_topics()
    tables: dict[int, KeyValue] = {}
    try:
        for number in range(state.manifest.identity.partitions):
            tables[number] = places.open_table(table_folder(state.folder, number))
        return made.write_shards(state, tables, Sites(suffix_list(state.folder)).site_of, held)
    finally:
        for table in tables.values():
            table.close()


def _next_manifest(
    state: GatheredState, config: Config, generation: str, earlier: EarlierOwners
) -> Manifest:
    """The manifest of the crawl in its new generation."""
    before = state.manifest
    return msgspec.structs.replace(
        before,
        format=MANIFEST_FORMAT,
        software=SOFTWARE,
        term=0,
        workers=0,
        identity=msgspec.structs.replace(before.identity, partitions=config.frontier.partitions),
        generation=generation,
        earlier=(*before.earlier, earlier),
    )


def _divided_config(config: Config, shards: int) -> Config:
    frontier = msgspec.structs.replace(config.frontier, partitions=shards)
    return msgspec.structs.replace(config, frontier=frontier)


def _cluster_config(config: Config, shards: int) -> tuple[Config, list[str]]:
    """The settings of a folder for a cluster, and a line for each that is left out."""
    plain = Config()
    notes = [
        f"{key} is left out: {why}"
        for key, why in MACHINE_SETTINGS.items()
        if value_of(config, key) != value_of(plain, key)
    ]
    limits = msgspec.structs.replace(config.limits, max_time_s=plain.limits.max_time_s)
    config = msgspec.structs.replace(
        config, workers=plain.workers, limits=limits, upload=plain.upload
    )
    return _divided_config(config, shards), notes


def _report(
    manifest: Manifest,
    counters: Sequence[Counters],
    segments: int,
    seconds: float,
    notes: list[str],
) -> ImportReport:
    urls, captures = (
        sum(getattr(each, name) for each in counters) for name in ("discovered", "captures")
    )
    told = tuple(filter(None, notes))
    return ImportReport(manifest, True, urls, captures, segments, seconds, told)
