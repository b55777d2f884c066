"""Uploading the closed segments of a crawl folder to a store, whose layout is the folder's.

No progress is stored: the files to upload follow from the files in the folder and the listing of
the store. So an upload may be killed at any instant, or run twice at once, and the next one resumes
it: an object appears complete or not at all, and the same file gives the same object.

The first object is ``crawl.json``, created and never replaced. It names the owner of the place:
another crawl is refused there. A segment is uploaded when all its files exist, its WARC first and
its CDXJ last, so that an index never names a WARC that the store lacks.

With ``remove``, the files of a segment are deleted after the store was verified to have the content
of each (``objects.sameness``). The removal is recorded first (``store.removed_files``).

The last good copy of a file is never overwritten or deleted. A store that is the crawl folder, in
it or around it is refused. Where the store has another content of a file, the copies are judged by
what the crawl recorded (``file_copies``). The one here is uploaded again only when the stored one
is the damaged one; otherwise both stay as they are and the file is reported as doubtful.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from lycosa.base.config.sections import UploadSection
from lycosa.base.model.progress_parts import UploadState
from lycosa.base.system.durable import sync_folder
from lycosa.base.system.frames import UNREADABLE
from lycosa.state.folder import manifest as manifests
from lycosa.state.objects.object_errors import (
    ObjectMissing,
    StoreFailed,
    StoreRefused,
    StoreUnusable,
)
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.objects.sameness import (
    FileContent,
    create_or_read,
    file_content,
    holds,
    object_pieces,
)
from lycosa.state.objects.store_opening import check_create_only, store_folder
from lycosa.state.store import layout
from lycosa.state.store.closing import missing_files
from lycosa.state.store.derived_files import CDXJ, DERIVED_KINDS, ITEMS, folders_of_kinds
from lycosa.state.store.journal import JournalError, read_header
from lycosa.state.store.removed_files import RemovedFile, note_removed, removed_files

_ATTEMPTS = "attempts"
_LOG = "log"
_FOLDERS = (layout.WARC, layout.JOURNAL, *DERIVED_KINDS, ITEMS, _LOG)
_MAX_SHOWN = 10


class PlaceTaken(StoreRefused):
    """Another crawl was uploaded to this place."""


class OwnFolder(StoreUnusable):
    """The place is the crawl folder itself, or one of the two is in the other."""


class _Owner(msgspec.Struct):
    """The fields that are read of a ``crawl.json`` in a store."""

    crawl: str
    created: str = ""


class LocalFile(msgspec.Struct, frozen=True):
    """A file to upload. ``name`` is relative to the folder, and its key."""

    name: str
    size: int


class SealedSegment(msgspec.Struct, frozen=True):
    """The files of one closed segment in the folder, in the order of their upload."""

    name: str
    files: tuple[LocalFile, ...]


def owner_of(store: ObjectStore, url: str) -> str:
    """The UUID of the crawl that was uploaded to this place; empty when there is none.

    Raises ``ObjectError``.
    """
    try:
        return msgspec.json.decode(store.get(manifests.MANIFEST_NAME), type=_Owner).crawl
    except ObjectMissing:
        return ""
    except UNREADABLE as error:
        raise PlaceTaken(
            f"{url}: {manifests.MANIFEST_NAME} there is not that of a crawl; give another prefix"
        ) from error


def reserve(store: ObjectStore, url: str, folder: Path, crawl: str) -> None:
    """Make the place this crawl's.

    Raises ``PlaceTaken``, ``OwnFolder``, ``CreateOnlyIgnored`` (the place is this crawl's all the
    same) or another ``ObjectError``.
    """
    refuse_own_folder(url, folder)
    owner = owner_of(store, url)
    if not owner:
        own = (folder / manifests.MANIFEST_NAME).read_bytes()
        create_or_read(store, manifests.MANIFEST_NAME, own)
        owner = owner_of(store, url)  # another crawl may have been first
    refuse_others(owner, crawl, url)
    check_create_only(store, manifests.MANIFEST_NAME, url)


def refuse_others(owner: str, crawl: str, url: str) -> None:
    """Raise ``PlaceTaken`` for another owner; ``crawl`` is empty for a crawl that has not begun."""
    if owner and owner != crawl:
        mine = f"this is crawl {crawl[:8]}" if crawl else "this is a new crawl"
        raise PlaceTaken(
            f"{url}: crawl {owner[:8]} was uploaded there, and {mine}; give another prefix"
        )


def refuse_own_folder(url: str, folder: Path) -> None:
    """Raise ``OwnFolder`` for a store whose objects are, or lie among, the files of the crawl.

    Folders are compared by device and inode, which links and bind mounts do not change. The folder
    of a new crawl may be missing.
    """
    if (root := store_folder(url)) is None:
        return
    ours, theirs = ({each, *(each / name for name in _FOLDERS)} for each in (folder, root))
    is_same = _inodes(ours) & (_inodes(theirs) | _inodes(root.resolve().parents))
    if is_same or _inodes(theirs) & _inodes(folder.resolve().parents):
        raise OwnFolder(
            f"{url}: this is the crawl folder {folder}, in it, or around it, so an object there"
            " would be the file itself and no copy; give a folder outside"
        )


def _inodes(paths: Iterable[Path]) -> set[tuple[int, int]]:
    found = (path.stat() for path in paths if path.exists())
    return {(each.st_dev, each.st_ino) for each in found}


class Upload:
    """One crawl folder and one store. All calls block, and raise ``ObjectError`` or ``OSError``."""

    def __init__(self, folder: Path, section: UploadSection, store: ObjectStore) -> None:
        self._folder, self._section, self._store = folder, section, store
        self._kinds = [kind for kind in section.kinds if kind not in (CDXJ, _ATTEMPTS)]
        self._kinds.sort(key=lambda kind: kind != layout.WARC)
        if CDXJ in section.kinds:
            self._kinds.append(CDXJ)
        self._whole: set[str] = set()
        self._held: dict[str, int] = {}
        self._is_listed = False
        self._apart = set[str]()
        self.doubtful: dict[str, str] = {}
        """Files that stay here, with the reason and what to do."""

    def waiting(self, is_final: bool = False) -> list[LocalFile]:
        """The files to upload now, by a new listing of the store.

        ``is_final``: also segments that lack files, as no process will build those any more.
        """
        self._list()
        return self.not_held(is_final)

    def not_held(self, is_final: bool) -> list[LocalFile]:
        """The same by the last listing, without a request to the store."""
        files = [file for each in self.segments(is_final) for file in each.files]
        return [
            file
            for file in (*files, *self._attempts(), *self._item_notes())
            if self._held.get(file.name) != file.size and file.name not in self.doubtful
        ]

    def put(self, file: LocalFile) -> None:
        """Upload one file, unless the store has another content of it that may be the right one.

        A missing file was removed by another upload, or by a person.
        """
        path = self._folder / file.name
        if not path.exists() or (file.name in self._held and not self._is_better(file.name)):
            return
        self._store.put(file.name, path)
        found = self._store.find(file.name)
        if found is None or found.size != file.size:
            size = "nothing" if found is None else f"{found.size} bytes"
            raise StoreFailed(
                f"{self._section.url}: the store accepted {file.name} with {file.size} bytes and"
                f" has {size}; it is uploaded again"
            )
        self._held[file.name] = file.size

    def removable(self, is_final: bool = False) -> list[SealedSegment]:
        """Segments whose files are all in the store, by name and size."""
        if not self._section.remove:
            return []
        return [
            each
            for each in self.segments(is_final)
            if all(
                self._held.get(file.name) == file.size and file.name not in self.doubtful
                for file in each.files
            )
        ]

    def remove(self, segment: SealedSegment) -> None:
        """Delete a segment's files here, when the store has the content of each.

        A file whose object is damaged is uploaded again first. The segment stays when a file is
        doubtful.
        """
        contents = {}
        for file in segment.files:
            try:
                contents[file.name] = file_content(self._folder / file.name)
            except FileNotFoundError:
                # A folder of a kind that this crawl has no file of.
                continue  # another upload was quicker
            if not self._is_held(file, contents[file.name]):
                return
        known = removed_files(self._folder)
        place = self._section.url, self._section.options
        lines = [RemovedFile(name, x.size, x.sha256, *place) for name, x in contents.items()]
        if lines := [line for line in lines if known.get(line.file) != line]:
            note_removed(self._folder, lines)
        for file in segment.files:  # the WARC first: without it no start builds the others again
            path = self._folder / file.name
            path.unlink(missing_ok=True)
            sync_folder(path.parent)

    def _is_held(self, file: LocalFile, content: FileContent) -> bool:
        """Whether the store has the content of a file, in a separate object."""
        root = store_folder(self._section.url)
        is_linked = root is not None and bool(
            _inodes([root / file.name]) & _inodes([self._folder / file.name])
        )
        if is_linked or self._shows_ours(layout.file_kind(file.name)):
            self.doubtful[file.name] = (
                f"{file.name}: the object in {self._section.url} is the same file as the one here,"
                " so there is only one copy; give a folder outside the crawl folder"
            )
            return False
        if holds(self._store, file.name, content):
            return True
        if self._store.find(file.name) is not None and not self._is_better(file.name):
            return False
        self._held.pop(file.name, None)
        self.put(file)
        if not holds(self._store, file.name, content):
            raise StoreFailed(
                f"{self._section.url}: the store holds another content of {file.name} than"
                " it was sent; nothing is removed here"
            )
        return True

    def _shows_ours(self, kind: str) -> bool:
        """Whether a file that is made here appears in the store.

        So it does where the store is this folder by another way, such as a network file system or a
        server that gives access to it.
        """
        if kind in self._apart:
            return False
        probe = self._folder / kind / f".{uuid.uuid4()}.tmp"
        probe.touch()
        try:
            is_seen = self._store.find(f"{kind}/{probe.name}") is not None
        finally:
            probe.unlink(missing_ok=True)
        if not is_seen:
            self._apart.add(kind)
        return is_seen

    def _is_better(self, name: str) -> bool:
        """Whether the copy here may replace an object with another content.

        If not, the file is noted as doubtful.
        """
        # Imported here: it loads libraries that a crawl without a damaged file never needs.
        from lycosa.state.folder.file_copies import (
            CopyVerdict,
            judge_copies,
            may_replace,
            spooled_copy,
        )

        path = self._folder / name
        # The object is copied here to be judged: both copies are read more than once.
        with spooled_copy(self._folder) as folder:
            stored = Path(folder, "stored")
            found = self._store.find(name)
            with stored.open("wb") as target:
                target.writelines(object_pieces(self._store, name, found.size if found else 0))
            here, there = judge_copies(self._folder, name, (path, stored))
        if may_replace(here, there):
            return True
        advice = (
            "replace the file here by that object"
            if there is CopyVerdict.RIGHT
            else "keep the right one in both places; if neither is right, restore it from elsewhere"
        )
        self.doubtful[name] = (
            f"{name}: the file here is {here.value}, and {self._section.url} has another content of"
            f" it, which is {there.value}. Neither was overwritten or removed: {advice}"
        )
        return False

    def forget(self) -> None:
        """Make the next upload list the store again, as another process may have changed it."""
        self._is_listed = False

    def state(self, waiting: list[LocalFile]) -> UploadState:
        """Counts; ``waiting`` is not uploaded yet."""
        removed = removed_files(self._folder).values()
        return UploadState(
            self._section.url,
            len(self._held),
            sum(self._held.values()),
            len(waiting),
            sum(file.size for file in waiting),
            len(removed),
            sum(each.bytes for each in removed),
            doubtful_files=len(self.doubtful),
            doubtful=tuple(self.doubtful.values())[:_MAX_SHOWN],
        )

    def segments(self, is_final: bool) -> list[SealedSegment]:
        """The closed segments that have files here, oldest first."""
        found: dict[str, list[LocalFile]] = {}
        for kind in self._folders():
            for name, file in self._files(kind):
                found.setdefault(name, []).append(file)
        return [
            SealedSegment(name, tuple(files))
            for name, files in sorted(found.items())
            if is_final or self._is_whole(name)
        ]

    def _folders(self) -> Iterator[str]:
        """The folders whose files belong to segments; items have one for each version."""
        for kind in self._kinds:
            if kind == ITEMS:
                yield from (each for each in folders_of_kinds(self._folder) if "/" in each)
            else:
                yield kind

    def _files(self, kind: str) -> Iterator[tuple[str, LocalFile]]:
        """Closed files of one kind with their segments.

        A file may disappear while the folder is listed.
        """
        try:
            with os.scandir(self._folder / kind) as entries:
                for entry in entries:
                    name = layout.stem_of(entry.name)
                    if f"{kind}/{entry.name}" == layout.file_name(kind, name):
                        yield name, LocalFile(f"{kind}/{entry.name}", entry.stat().st_size)
        except FileNotFoundError:
            return

    def _is_whole(self, name: str) -> bool:
        """Whether the segment is closed, and its derived files are built or cannot be."""
        if name in self._whole:
            return True
        if not layout.is_closed(self._folder, layout.WARC, name):
            return False
        if (self._folder / layout.file_name(layout.JOURNAL, name)).exists():
            try:
                header = read_header(self._folder / layout.file_name(layout.JOURNAL, name))
            except JournalError:
                pass  # nothing can be built from it
            else:
                if missing_files(self._folder, header):
                    return False
        self._whole.add(name)
        return True

    def _attempts(self) -> list[LocalFile]:
        """Closed attempt logs. They are never removed: the next start and the audit read them."""
        if _ATTEMPTS not in self._section.kinds:
            return []
        paths = sorted((self._folder / _LOG).glob("attempts-w*.log.zst"))
        return [LocalFile(f"{_LOG}/{path.name}", path.stat().st_size) for path in paths]

    def _item_notes(self) -> list[LocalFile]:
        """Which versions of items there are and which readers see: small files that never change
        (``store.item_versions``). They stay here, because the readers of this folder need them.
        """
        if ITEMS not in self._section.kinds:
            return []
        paths = sorted((self._folder / ITEMS).glob("*/**/[!.]*.json"))
        return [
            LocalFile(path.relative_to(self._folder).as_posix(), path.stat().st_size)
            for path in paths
        ]

    def _list(self) -> None:
        """The listing of these kinds in the store, requested once."""
        if self._is_listed:
            return
        folders = [*self._kinds, *([_LOG] if _ATTEMPTS in self._section.kinds else [])]
        self._held = {
            each.key: each.size for folder in folders for each in self._store.list(f"{folder}/")
        }
        self._is_listed = True
