"""The versions of one extractor that were extracted again, as objects of a folder or a bucket.

    items/NAME/VERSION/version.json       first: what the version is; hides it until it is current
    items/NAME/VERSION/STEM.failed.json   the captures without items, before their table
    items/NAME/VERSION/STEM.parquet       created once

See ``state.store.item_versions`` for what readers see. Calls block and raise ``ObjectError``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from lycosa.base.system.frames import UNREADABLE
from lycosa.feeds.extraction.extraction_versions import (
    ExtractionRefused,
    KnownItems,
    VersionRecord,
)
from lycosa.feeds.extraction.segment_extraction import CaptureFailure
from lycosa.state.objects.object_errors import ObjectMissing
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.objects.sameness import create_or_read, object_pieces
from lycosa.state.store import item_versions as versions
from lycosa.state.store.derived_files import item_kind
from lycosa.state.store.item_versions import ItemListing
from lycosa.state.store.journal_rows import Extractor

_IN_MEMORY = 16 << 20  # a larger table cannot be created only if it is new
_encode = msgspec.json.encode


class ExtractedTables:
    """The tables of the extractor ``name`` in a store."""

    def __init__(self, store: ObjectStore, name: str) -> None:
        self._store, self.name = store, name

    def listing(self) -> ItemListing:
        """What there is now."""
        return versions.list_items(self._store.list(f"items/{self.name}/"))

    def known(self, crawled: Mapping[int, Extractor]) -> KnownItems:
        """The versions that there are; ``crawled`` are those that headers of segments name."""
        listing = self.listing()
        made = {version: self._record(version) for version in listing.made.get(self.name, set())}
        current = versions.read_current(self._store, self.name)
        return KnownItems(made, crawled, current.version)

    def begin(self, record: VersionRecord) -> None:
        """Begin a version, or continue it. Raises ``ExtractionRefused`` if another program began
        it with other code at the same moment.
        """
        data = _encode(record) + b"\n"
        key = versions.note_key(self.name, record.version)
        if create_or_read(self._store, key, data) != data:
            made = self._record(record.version)
            if (made.code, made.base, made.fields) != (record.code, record.base, record.fields):
                raise ExtractionRefused(
                    f"version {record.version} of {self.name} was begun with other code at the same"
                    " time; give the same command again"
                )

    def has_table(self, version: int, segment: str) -> bool:
        """Whether a segment has a table of this version."""
        return self._store.find(versions.table_key(self.name, version, segment)) is not None

    def create_table(
        self, version: int, segment: str, path: Path, failures: Collection[CaptureFailure]
    ) -> None:
        """Store a table, unless there is one, and before it the captures without items."""
        key = versions.table_key(self.name, version, segment)
        if failures:
            self._store.put(self._failed_key(version, segment), _encode(list(failures)) + b"\n")
        if path.stat().st_size <= _IN_MEMORY:
            create_or_read(self._store, key, path.read_bytes())
        elif self._store.find(key) is None:
            # Of two programs that store it at this moment, one replaces the bytes of the other,
            # which are the same.
            self._store.put(key, path)

    def failures(self, version: int, segment: str) -> list[CaptureFailure]:
        """The captures of a segment without items in a version that was extracted again."""
        try:
            data = self._store.get(self._failed_key(version, segment))
            return msgspec.json.decode(data, type=list[CaptureFailure])
        except ObjectMissing:
            return []
        except UNREADABLE as error:
            key = self._failed_key(version, segment)
            raise ExtractionRefused(
                f"{key} cannot be read ({error}); give --again instead of --failed"
            ) from error

    def copy_table(self, version: int, segment: str, path: Path) -> None:
        """Copy a table into a new file. Raises ``OSError`` too."""
        key = versions.table_key(self.name, version, segment)
        found = self._store.find(key)
        if found is None:
            raise ObjectMissing(f"{key} is missing")
        with path.open("xb") as file:
            file.writelines(object_pieces(self._store, key, found.size))

    def publish(self, version: int) -> None:
        """Let readers see this version, if it is greater than the one they see."""
        while True:
            before = versions.read_current(self._store, self.name)
            if before.version >= version or versions.set_current(
                self._store, self.name, version, before
            ):
                return

    def forget(self, version: int, crawled: Collection[str]) -> int:
        """Remove a version that was extracted again; returns the number of its tables.

        ``crawled`` are the segments whose table of this version is that of their journal. Readers
        see the version before, and then the tables are deleted, the note of the version last: until
        then no reader takes them for those of the crawl.
        """
        while True:
            before = versions.read_current(self._store, self.name)
            if before.version != version:
                break
            made = self.listing().made.get(self.name, set())
            lower = max((each for each in made if each < version), default=0)
            if versions.set_current(self._store, self.name, lower, before):
                break
        note = versions.note_key(self.name, version)
        keys = [
            each.key
            for each in self._store.list(f"{item_kind(self.name, version)}/")
            if each.key != note and _stem(each.key) not in crawled
        ]
        self._store.delete(keys)
        self._store.delete([note])
        return sum(key.endswith(".parquet") for key in keys)

    def _record(self, version: int) -> VersionRecord:
        key = versions.note_key(self.name, version)
        try:
            return msgspec.json.decode(self._store.get(key), type=VersionRecord)
        except UNREADABLE as error:
            raise ExtractionRefused(
                f"{key} cannot be read ({error}); `--forget {self.name} {version}` removes it"
            ) from error

    def _failed_key(self, version: int, segment: str) -> str:
        return versions.failed_key(self.name, version, segment)


def _stem(key: str) -> str:
    name = key.rpartition("/")[2]
    return name.removesuffix(versions.FAILED).removesuffix(".parquet")
