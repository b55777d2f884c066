"""The items of a crawl on many machines, from its object storage. Implements ``ItemSource``."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path

from lycosa.state.objects.cached import CachedObjects
from lycosa.state.objects.object_errors import ObjectMissing
from lycosa.state.objects.objects_port import ObjectStore, StoredObject
from lycosa.state.store import StoredSegment, layout
from lycosa.state.store.item_versions import (
    CurrentVersion,
    ItemListing,
    change_of,
    stored_items,
)
from lycosa.state.store.journal import JournalError, header_from, header_in
from lycosa.state.store.journal_rows import SegmentHeader
from lycosa.state.store.object_segments import ObjectSegments
from lycosa.state.store.stored_parts import PieceFile

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
        return change_of(self._objects, name, listing.changes.get(name, 0))

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
