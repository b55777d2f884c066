"""The segments and attempt logs of a crawl folder, sent to object storage as those of a cluster.

A segment has the same names there as in the folder, so the locations in the crawl's state stay
valid. An open one is sent up to its committed length, with its derived files, as if it were closed;
in the folder nothing changes. Every step may be repeated: what is there in the right size is
skipped.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from lycosa.state.attempts.attempt_files import attempt_files_of, tidy
from lycosa.state.attempts.shipping import AttemptShipper
from lycosa.state.folder.names import attempts_folder
from lycosa.state.objects.generation import PlacedObjects
from lycosa.state.objects.objects_port import ObjectStore
from lycosa.state.shard.folder_view import FolderView
from lycosa.state.store import NotStored, StoredSegment, layout
from lycosa.state.store.closing import build_derived, wanted_or_certain
from lycosa.state.store.derived_files import CDXJ
from lycosa.state.store.journal import JournalError

_PIECE = 8 << 20
_MOST_FILES = 1 << 30


class SegmentSender:
    """Sends the segments of ``folder``; ``work`` is a local folder for what must be built.

    ``tell`` gets lines about segments that are not complete.
    """

    def __init__(
        self, store: ObjectStore, folder: Path, work: Path, tell: Callable[[str], None]
    ) -> None:
        self._store, self._folder, self._work, self._tell = store, folder, work, tell

    def send_all(self, view: FolderView, told: Callable[[int, int], None]) -> int:
        """Send all segments of a view; returns their number.

        ``told`` is called with the number sent and all. Raises ``ObjectError`` or ``OSError``.
        """
        segments = view.list_segments()
        for number, segment in enumerate(segments, 1):
            self._send(segment)
            told(number, len(segments))
        return len(segments)

    def _send(self, segment: StoredSegment) -> None:
        if segment.journal_length is None:
            self._tell(
                f"the journal of {segment.name} is missing: its captures are readable, but are in"
                " no export; `lycosa audit` shows them"
            )
        source = self._folder if segment.is_closed else self._copied(segment)
        kinds = self._kinds(source, segment)
        if any(not (source / layout.file_name(kind, segment.name)).exists() for kind in kinds):
            source = self._copied(segment)
        try:
            for kind in kinds:
                path = source / layout.file_name(kind, segment.name)
                if path.exists():
                    self._put(layout.file_name(kind, segment.name), path)
        finally:
            shutil.rmtree(self._work, ignore_errors=True)

    def _kinds(self, source: Path, segment: StoredSegment) -> list[str]:
        """The kinds of files, in the order in which they are sent: see ``ObjectSegments``."""
        if segment.journal_length is None:
            return [layout.WARC]
        kinds, why = wanted_or_certain(source, segment.name)
        if why and (source / layout.file_name(layout.JOURNAL, segment.name)).exists():
            self._tell(why)
        order = [kind for kind in kinds if kind != CDXJ]
        return [layout.WARC, *order, CDXJ, layout.JOURNAL]

    def _put(self, key: str, path: Path) -> None:
        found = self._store.find(key)
        if found is None or found.size != path.stat().st_size:
            self._store.put(key, path)

    def _copied(self, segment: StoredSegment) -> Path:
        """A copy of the committed part of a segment, with all derived files, in a folder.

        The files may be in another store, if they were removed here after an upload.
        """
        shutil.rmtree(self._work, ignore_errors=True)
        lengths = {layout.WARC: segment.length, layout.JOURNAL: segment.journal_length}
        for kind, length in lengths.items():
            name = layout.file_name(kind, segment.name)
            if length is not None:
                (self._work / kind).mkdir(parents=True, exist_ok=True)
                _copy(self._folder / name, self._work / name, length)
        if segment.journal_length is not None:
            try:
                build_derived(self._work, segment.name)
            except (JournalError, ValueError, OverflowError) as error:
                self._tell(f"{segment.name}: {error}; it has no derived files")
        return self._work

    def __repr__(self) -> str:
        return f"SegmentSender({self._folder})"


def _copy(source: Path, target: Path, length: int) -> None:
    left = length
    with layout.open_segment_file(source) as file, target.open("xb") as copy:
        while left and (piece := file.read(min(_PIECE, left))):
            copy.write(piece)
            left -= len(piece)


def send_attempts(store: ObjectStore, folder: Path, place: str) -> int:
    """Send the attempt logs of all workers below ``place``; returns the number of workers.

    ``folder`` is a work folder, whose logs are compressed. Raises ``NotStored`` or ``OSError``.
    """
    logs, placed = attempts_folder(folder), PlacedObjects(store, place)
    workers = list(attempt_files_of(logs))
    for worker in workers:
        tidy(logs, worker, _MOST_FILES, None)
        shipper = AttemptShipper(placed, logs, worker)
        shipper.ship_closed()
        if shipper.failure:
            raise NotStored(shipper.failure)
    return max(workers, default=-1) + 1
