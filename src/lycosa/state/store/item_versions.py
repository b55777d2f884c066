"""The versions of items that a crawl has, and which of them readers see.

    items/NAME/VERSION/STEM.parquet    the items of one segment, created once, never replaced
    items/NAME/VERSION/version.json    of a version that `lycosa extract` made, before its tables
    items/NAME/VERSION/STEM.failed.json  the captures of a segment without items in it, if any
    items/NAME/current/REVISION.json   the greatest version that readers see of those

A table of the version that the header of its segment names is derived from the journal, and every
reader sees it. One that was extracted again is seen when the **current** version is at least its
own. Of one segment the greatest version counts that is seen. So a version that is being made is not
seen before it is complete, and a segment that closes later has its items all the same.

The current version changes by compare-and-set: each change is a new object whose number is one
higher than that of the change before, and of two programs that create the same number one fails.
Nothing is replaced, so a folder and every object store can do it. The functions take an
``ObjectStore``: ``FolderStore`` for a crawl folder. They raise ``ObjectError``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from lycosa.base.system.frames import UNREADABLE
from lycosa.state.objects.object_errors import StoreFailed
from lycosa.state.objects.objects_port import ObjectStore, StoredObject
from lycosa.state.objects.sameness import create_or_read
from lycosa.state.store import layout
from lycosa.state.store.derived_files import ITEMS, item_kind, item_version

MADE_NOTE = "version.json"
"""The file of a version that was not made by the crawl itself."""
FAILED = ".failed.json"
"""The end of the names of lists of captures at which user code failed."""
CURRENT_FOLDER = "current"
"""The folder of the changes of the current version."""
_CHANGE = re.compile(r"items/([a-z][a-z0-9_]*)/current/([0-9]{6,})\.json")
_FORMAT = 1


class CurrentVersion(msgspec.Struct, frozen=True):
    """The greatest version that readers see of those that were extracted again (0 = of none).

    ``revision`` is the number of the change that said so (0 = there was none).
    """

    version: int = 0
    revision: int = 0


class _Change(msgspec.Struct, frozen=True):
    """The content of a change."""

    version: int
    format: int = _FORMAT


class ItemListing(msgspec.Struct, frozen=True):
    """What there is of items: for each extractor its tables by version and segment.

    ``made`` are the versions that were extracted again, ``changes`` the newest change of the
    current version, by extractor.
    """

    tables: dict[str, dict[int, dict[str, StoredObject]]] = {}
    made: dict[str, set[int]] = {}
    changes: dict[str, int] = {}

    def versions(self, name: str) -> list[int]:
        """The versions of an extractor that have tables or are being made."""
        return sorted(self.tables.get(name, {}).keys() | self.made.get(name, set()))


def list_items(objects: Iterable[StoredObject]) -> ItemListing:
    """What a listing of ``items/`` has; other files in it are not looked at."""
    found = ItemListing({}, {}, {})
    for each in objects:
        folder, _, file = each.key.rpartition("/")
        if (of := item_version(folder)) is not None:
            name, version = of
            if file == MADE_NOTE:
                found.made.setdefault(name, set()).add(version)
            elif file.endswith(".parquet") and not file.startswith("."):
                segments = found.tables.setdefault(name, {}).setdefault(version, {})
                segments[layout.stem_of(file)] = each
        elif (match := _CHANGE.fullmatch(each.key)) is not None:
            found.changes[match[1]] = max(found.changes.get(match[1], 0), int(match[2]))
    return found


def stored_items(store: ObjectStore) -> ItemListing:
    """What a store has of items."""
    return list_items(store.list(f"{ITEMS}/"))


def read_current(store: ObjectStore, name: str) -> CurrentVersion:
    """The current version of an extractor's items."""
    listed = list_items(store.list(f"{ITEMS}/{name}/{CURRENT_FOLDER}/"))
    return stored_version(store, name, listed.changes.get(name, 0))


def stored_version(store: ObjectStore, name: str, revision: int) -> CurrentVersion:
    """What a change says. Raises ``StoreFailed`` if it cannot be read."""
    if not revision:
        return CurrentVersion()
    key = _key(name, revision)
    try:
        change = msgspec.json.decode(store.get(key), type=_Change)
    except UNREADABLE as error:
        raise StoreFailed(f"{key} cannot be read: {error}") from error
    if change.format > _FORMAT:
        raise StoreFailed(f"{key} has format {change.format}; this version reads up to {_FORMAT}")
    return CurrentVersion(change.version, revision)


def set_current(store: ObjectStore, name: str, version: int, before: CurrentVersion) -> bool:
    """Let readers see all versions up to this one; 0 is that of the journal alone.

    Returns whether it was done: not if another program made a change since ``before`` was read.
    """
    data = msgspec.json.encode(_Change(version)) + b"\n"
    return create_or_read(store, _key(name, before.revision + 1), data) == data


def seen_version(
    listing: ItemListing, name: str, current: CurrentVersion, segment: str, own: int | None
) -> int | None:
    """The version of a segment's items that readers see; ``None`` if it has none.

    ``own`` is the version that the header of the segment names, or ``None`` if it is not known:
    then a version that was extracted again, and is not seen yet, is taken for another one.
    """
    made = listing.made.get(name, set())
    seen = [
        version
        for version, segments in listing.tables.get(name, {}).items()
        if segment in segments
        and (version not in made or version <= current.version or version == own)
    ]
    return max(seen, default=None)


def has_tables(listing: ItemListing, name: str, segment: str) -> bool:
    """Whether a segment has tables of this extractor at all."""
    return any(segment in tables for tables in listing.tables.get(name, {}).values())


def table_key(name: str, version: int, segment: str) -> str:
    """The name of a table of items, relative to a crawl folder or a store."""
    return layout.file_name(item_kind(name, version), segment)


def note_key(name: str, version: int) -> str:
    """The name of the file that says that a version was extracted again."""
    return f"{item_kind(name, version)}/{MADE_NOTE}"


def failed_key(name: str, version: int, segment: str) -> str:
    """The name of the list of a segment's captures of which a version has no items."""
    return f"{item_kind(name, version)}/{segment}{FAILED}"


def _key(name: str, revision: int) -> str:
    return f"{ITEMS}/{name}/{CURRENT_FOLDER}/{revision:06d}.json"
