"""Where extraction reads and writes: a crawl folder, a cluster's bucket, or files and a folder.

None of them needs a lock, a running crawl or Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from lycosa.base.config.cluster_file import ClusterFile
from lycosa.base.config.sections import Config
from lycosa.base.system.private_folder import private_folder
from lycosa.cluster.shards.stored_crawl import read_crawl
from lycosa.feeds.extraction.crawl_captures import BucketContent, CrawlCaptures, FolderContent
from lycosa.feeds.extraction.extracted_tables import ExtractedTables
from lycosa.feeds.extraction.extraction_source import ExtractionSource
from lycosa.feeds.extraction.extraction_versions import ExtractionRefused
from lycosa.feeds.extraction.foreign_captures import ForeignCaptures
from lycosa.state.folder.folder_notes import saved_settings
from lycosa.state.folder.manifest import load_manifest
from lycosa.state.objects.folder import FolderStore
from lycosa.state.objects.generation import placed_objects
from lycosa.state.objects.object_errors import ObjectExists, ObjectMissing, StoreFailed
from lycosa.state.objects.objects_port import ObjectStore, StoredObject
from lycosa.state.objects.store_opening import open_store
from lycosa.state.store.derived_files import item_kind
from lycosa.state.store.removed_files import RemovedFile, open_removed, removed_files


class ExtractionPlace(msgspec.Struct, frozen=True):
    """Captures, where the tables go, and the settings of the crawl.

    ``removed`` gives the stores of files with this beginning that are no longer in a folder.
    """

    source: ExtractionSource
    store: ObjectStore
    config: Config
    removed: Callable[[str], Collection[str]] = lambda prefix: ()


def folder_place(folder: Path) -> ExtractionPlace:
    """A crawl folder; the crawl may run. Raises a ``ManifestError``."""
    load_manifest(folder)
    config = saved_settings(folder)
    captures = CrawlCaptures(str(folder), FolderContent(folder))
    store = FolderWithUploads(folder)
    return ExtractionPlace(
        captures,
        store,
        config or Config(),
        lambda prefix: {each.url for each in store.removed(prefix).values()},
    )


@contextmanager
def cluster_place(given: ClusterFile) -> Iterator[ExtractionPlace]:
    """The bucket of a cluster's crawl. Raises ``ExtractionRefused`` or ``ObjectError``."""
    if not given.objects:
        raise ExtractionRefused(f"{given.path} has no [objects] url, so there is no crawl to read")
    store = open_store(given.objects)
    stored = read_crawl(store, given)
    objects = placed_objects(store, stored.manifest.generation)
    with private_folder("extract") as work:
        captures = CrawlCaptures(given.name, BucketContent(objects, work))
        yield ExtractionPlace(captures, objects, stored.config or Config())


def files_place(
    files: Sequence[Path], target: Path, tell: Callable[[str], object]
) -> ExtractionPlace:
    """WARC files of other programs, and the folder for their tables, which is made.

    Raises ``ExtractionRefused`` or ``OSError``.
    """
    try:
        source = ForeignCaptures(files, tell)
    except ValueError as error:
        raise ExtractionRefused(str(error)) from None
    for path in files:
        path.open("rb").close()  # raises now what it would raise after hours
    target.mkdir(parents=True, exist_ok=True)
    return ExtractionPlace(source, FolderStore(str(target), target), Config())


def forget_version(place: ExtractionPlace, name: str, version: int | None) -> dict[int, int]:
    """Remove a version that was extracted again, or all; returns the number of tables of each.

    Raises ``ExtractionRefused`` if there is none.
    """
    tables = ExtractedTables(place.store, name)
    made = sorted(tables.listing().made.get(name, set()))
    if version is not None and version not in made:
        there = f"there are {', '.join(map(str, made))}" if made else "there is none"
        raise ExtractionRefused(
            f"version {version} of {name} was not extracted again ({there}); the items that a crawl"
            " made itself are in its journals"
        )
    if not made:
        raise ExtractionRefused(f"no version of {name} was extracted again")
    wanted = made if version is None else [version]
    for number in wanted:
        if elsewhere := place.removed(f"{item_kind(name, number)}/"):
            raise ExtractionRefused(
                f"version {number} of {name} has tables that were removed here after their upload"
                f" to {', '.join(sorted(elsewhere))}, where this command deletes nothing; --again"
                " with corrected code makes a version that takes its place"
            )
    crawled: dict[int, set[str]] = {}
    for segment in place.source.closed_segments():
        for each in place.source.extractors(segment):
            if each.name == name:
                crawled.setdefault(each.version, set()).add(segment)
    return {each: tables.forget(each, crawled.get(each, ())) for each in reversed(wanted)}


# A crawl folder as a store that also has the files which were removed there after their upload.
#
# Otherwise an extraction would take tables that are in another store alone for missing, and make
# them again.


class FolderWithUploads:
    """The files of a crawl folder as an ``ObjectStore``. What was removed is read where it is."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._here = folder, FolderStore(str(folder), folder)

    def create(self, key: str, data: bytes) -> None:
        if (removed := self._removed(key)) is not None:
            raise ObjectExists(f"{key} was removed here after its upload to {removed.url}")
        self._here.create(key, data)

    def put(self, key: str, content: bytes | Path) -> None:
        self._here.put(key, content)

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        try:
            return self._here.get(key, start, length)
        except ObjectMissing:
            if (removed := self._removed(key)) is None:
                raise
        try:
            with open_removed(removed) as file:
                file.seek(start)
                return file.read(-1 if length is None else max(length, 0))
        except OSError as error:
            raise StoreFailed(str(error)) from error

    def find(self, key: str) -> StoredObject | None:
        if (found := self._here.find(key)) is not None:
            return found
        removed = self._removed(key)
        return StoredObject(key, removed.bytes) if removed is not None else None

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        for name, each in self.removed(prefix).items():
            yield StoredObject(name, each.bytes)
        yield from self._here.list(prefix)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete files of the folder; copies in other stores stay."""
        self._here.delete(keys)

    def removed(self, prefix: str) -> dict[str, RemovedFile]:
        """The files with this beginning that are elsewhere alone."""
        found = removed_files(self._folder)
        return {
            name: each
            for name, each in found.items()
            if name.startswith(prefix) and not (self._folder / name).exists()
        }

    def _removed(self, key: str) -> RemovedFile | None:
        return None if (self._folder / key).exists() else removed_files(self._folder).get(key)

    def __repr__(self) -> str:
        return f"FolderWithUploads({str(self._folder)!r})"
