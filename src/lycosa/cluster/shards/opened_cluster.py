"""Opens a view of a crawl by its ``cluster.toml``, on any machine that reaches the services.

What is downloaded is kept in a cache folder of the crawl: files of snapshots, tables of sealed
segments, attempt logs, the public suffix list. The folder may be deleted at any time.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from lycosa.base.config.cluster_file import ClusterFile
from lycosa.base.system.durable import replace_file
from lycosa.base.urls.identity import Sites
from lycosa.cluster.kafka.kafka_clients import KafkaClient, KafkaSettings
from lycosa.cluster.kafka.log_reader import KafkaInboxReader, KafkaLogReader
from lycosa.cluster.kafka.partition_reader import PartitionReader
from lycosa.cluster.kafka.topics import PAGES, crawl_topics
from lycosa.cluster.kafka.upkeep import missing_topics
from lycosa.cluster.shards.cluster_view import ClusterView, OnReading
from lycosa.cluster.shards.stored_crawl import StoredCrawl, read_crawl
from lycosa.state.attempts.shipping import shipped_files
from lycosa.state.exchange.exchange_port import Parcel
from lycosa.state.folder.manifest import EarlierOwners
from lycosa.state.kv.rocks import rocks_opener
from lycosa.state.objects.cached import CachedObjects, OnPiece
from lycosa.state.objects.generation import PlacedObjects, placed_objects
from lycosa.state.objects.object_errors import ObjectMissing
from lycosa.state.objects.objects_port import ObjectStore, StoredObject
from lycosa.state.objects.store_opening import open_store
from lycosa.state.shard.view import CrawlOrigin, rank_reader
from lycosa.state.store import layout
from lycosa.state.store.item_versions import (
    CurrentVersion,
    ItemListing,
    stored_items,
    stored_version,
)
from lycosa.state.store.journal import JournalError, header_from, header_in
from lycosa.state.store.journal_rows import SegmentHeader
from lycosa.state.store.object_segments import ObjectSegments
from lycosa.state.store.segments_port import StoredSegment
from lycosa.state.store.stored_parts import PieceFile


class NotInitialized(Exception):
    """The services are there, but not the crawl."""


class CacheDamaged(Exception):
    """Downloaded files are not as they were downloaded; the message says which to delete."""


def default_cache() -> Path:
    """The user's folder for crawls that are read from other machines."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "lycosa" / "crawls"


class OpenedCluster:
    """A crawl of a cluster, opened for reading: ``view`` and the services behind it.

    ``cache`` is the folder under which the crawl gets its own folder. ``tell`` is called with
    what a call waits for, ``on_piece`` with the bytes of other downloads than snapshots. With
    ``reads_attempts`` attempt logs are downloaded for the requests to a single URL. Raises
    ``NotInitialized``, ``KafkaAway``, ``ObjectError``.
    """

    def __init__(
        self,
        given: ClusterFile,
        cache: Path,
        told: OnReading = lambda progress: None,
        tell: Callable[[str], None] = lambda text: None,
        on_piece: OnPiece = lambda number: None,
        reads_attempts: bool = False,
    ) -> None:
        self.given = given
        if not given.objects:
            raise NotInitialized(f"{given.path} has no [objects] url, so there is no crawl to read")
        store = self._all_objects = open_store(given.objects)
        self.stored: StoredCrawl = read_crawl(store, given)
        self.objects = placed_objects(store, self.stored.manifest.generation)
        self.crawl = self.stored.manifest.crawl
        self.client = KafkaClient(KafkaSettings(given.kafka.addresses, given.kafka.security))
        self.topics = crawl_topics(given, self.stored.manifest.generation)
        if missing := missing_topics(self.client, self.topics):
            raise NotInitialized(
                f"topic {missing[0]} is missing; `lycosa cluster init {given.path}` creates those"
                " of a new crawl; if it was lost, `lycosa cluster rescue` continues the crawl"
            )
        self.tell = tell
        self.cache = cache / self.crawl
        self._reads_attempts = reads_attempts
        self._cached = CachedObjects(self.objects, self.cache / "objects", on_piece)
        self.view = self._new_view(told)

    def close(self) -> None:
        self.view.close()

    def again(self) -> ClusterView:
        """Another view of the crawl, as it is committed now."""
        return self._new_view(lambda progress: None)

    def read_inbox(self, shard: int, position: int) -> Iterator[Parcel]:
        """The parcels in a shard's topic behind a position of its commits."""
        reader = KafkaInboxReader(self.client, self.topics, self.crawl, shard, self.tell)
        try:
            yield from reader.read_after(position)
        finally:
            reader.close()

    def read_feed(self, shard: int) -> Iterator[bytes | None]:
        """The rows of a shard in the topic of captures, as they are stored."""
        reader = PartitionReader(self.client, self.topics.named(PAGES), shard, self.tell)
        try:
            for _, value in reader.read(None, None):
                yield value
        finally:
            reader.close()

    def _new_view(self, told: OnReading) -> ClusterView:
        origin = CrawlOrigin(
            self.given.name,
            self.stored.manifest,
            self._sites,
            lambda: self.stored.config,
            find_derived=self._find_derived,
            find_attempts=self._find_attempts,
            is_cluster=True,
            items=ClusterItems(self.objects, self._cached, self.cache),
            ranks=rank_reader(self.cache, self.objects, self.stored.manifest.identity.partitions),
        )
        return ClusterView(
            origin,
            self.objects,
            lambda shard: KafkaLogReader(self.client, self.topics, self.crawl, shard, self.tell),
            rocks_opener(64 << 20, 32 << 20),  # for all shards together
            self.cache,
            told,
        )

    def _sites(self) -> Sites:
        path = self.cache / "public_suffix_list.dat"
        if not path.exists() or path.read_bytes() != self.stored.suffixes:
            self.cache.mkdir(parents=True, exist_ok=True)
            replace_file(path, self.stored.suffixes)
        return Sites(path)

    def _find_derived(self, kind: str) -> Sequence[Path]:
        """Local files of the sealed segments in the view."""
        names = {segment.name for segment in self.view.list_segments() if segment.is_closed}
        return sorted(
            self._cached.local_file(each)
            for each in self.objects.list(f"{kind}/")
            if layout.stem_of(each.key) in names
        )

    def _find_attempts(self, partition: int) -> Mapping[int, Sequence[Path]] | None:
        return {partition: self.attempt_files(partition)} if self._reads_attempts else None

    def attempt_files(self, shard: int) -> list[Path]:
        """The attempt logs of a shard that its workers sent, downloaded, oldest first."""
        return [self._cached.local_file(each) for each in shipped_files(self.objects, shard)]

    def objects_of(self, owners: EarlierOwners) -> ObjectStore:
        """The store as the owners before an import saw it."""
        return PlacedObjects(self._all_objects, owners.place)

    def earlier_files(self, owners: EarlierOwners, number: int) -> list[Path]:
        """The attempt logs that one of the owners before an import sent, downloaded."""
        folder = self.cache / "earlier" / owners.place
        cached = CachedObjects(self.objects_of(owners), folder)
        return [cached.local_file(each) for each in shipped_files(self.objects_of(owners), number)]


_BEGINNING = 256 << 10


class ClusterItems:
    """The items in ``objects``. Tables never change, so they are kept in ``cached``."""

    def __init__(self, objects: ObjectStore, cached: CachedObjects, work: Path) -> None:
        self._objects, self._cached, self._work = objects, cached, work

    def list_tables(self) -> ItemListing:
        """See ``ItemSource``."""
        return stored_items(self._objects)

    def current_version(self, listing: ItemListing, name: str) -> CurrentVersion:
        """See ``ItemSource``."""
        return stored_version(self._objects, name, listing.changes.get(name, 0))

    def local_table(self, table: StoredObject, work: Path) -> Path:
        """See ``ItemSource``."""
        return self._cached.local_file(table)

    def read_header(self, segment: StoredSegment) -> SegmentHeader:
        """See ``ItemSource``."""
        name = layout.file_name(layout.JOURNAL, segment.name)
        # Of a sealed journal its beginning is enough.
        with suppress(ObjectMissing, JournalError):
            return header_in(self._objects.get(name, 0, _BEGINNING), segment.name)
        reader = ObjectSegments(self._objects, layout.segment_worker(segment.name), self._work)
        source = io.BufferedReader(PieceFile(reader.read_journal(segment)))
        return header_from(source, segment.name)
