"""What readers need of a crawl's items: tables, the versions that are seen, headers of segments.

Views of crawls give rows of captures; the columns of items stand in the header of a segment, and
tables of versions that were extracted again are in no journal.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Protocol

from lycosa.state.objects.folder import FolderStore
from lycosa.state.objects.objects_port import StoredObject
from lycosa.state.store import layout
from lycosa.state.store.derived_files import ITEMS
from lycosa.state.store.item_versions import CurrentVersion, ItemListing, list_items, stored_version
from lycosa.state.store.journal import read_header
from lycosa.state.store.journal_rows import SegmentHeader
from lycosa.state.store.removed_files import open_removed, removed_files
from lycosa.state.store.segments_port import StoredSegment


class ItemSource(Protocol):
    """The items of a crawl. Calls block, and raise ``ObjectError`` or ``OSError``."""

    def list_tables(self) -> ItemListing:
        """What there is of items now."""
        ...

    def current_version(self, listing: ItemListing, name: str) -> CurrentVersion:
        """The greatest version that readers see of those that were extracted again."""
        ...

    def local_table(self, table: StoredObject, work: Path) -> Path:
        """The file of a table, which may be put into the folder ``work``."""
        ...

    def read_header(self, segment: StoredSegment) -> SegmentHeader:
        """The header of a segment's journal. Raises ``JournalError`` too."""
        ...


class FolderItems:
    """The items of a crawl folder, with the tables that were removed after their upload."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._store = folder, FolderStore(f"file://{folder}", folder)

    def list_tables(self) -> ItemListing:
        """See ``ItemSource``."""
        removed = [
            StoredObject(name, each.bytes)
            for name, each in removed_files(self._folder).items()
            if name.startswith(f"{ITEMS}/") and not (self._folder / name).exists()
        ]
        return list_items([*removed, *self._store.list(f"{ITEMS}/")])

    def current_version(self, listing: ItemListing, name: str) -> CurrentVersion:
        """See ``ItemSource``."""
        return stored_version(self._store, name, listing.changes.get(name, 0))

    def local_table(self, table: StoredObject, work: Path) -> Path:
        """See ``ItemSource``."""
        path = self._folder / table.key
        if path.exists():
            return path
        copy = work / table.key
        copy.parent.mkdir(parents=True, exist_ok=True)
        with open_removed(removed_files(self._folder)[table.key]) as source, copy.open("wb") as to:
            shutil.copyfileobj(source, to)
        return copy

    def read_header(self, segment: StoredSegment) -> SegmentHeader:
        """See ``ItemSource``. The segment may be closed meanwhile."""
        return read_header(layout.existing(self._folder, layout.JOURNAL, segment.name))
