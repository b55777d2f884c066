"""Segments as files of a crawl folder.

Every part has a fixed offset and is written there, and is reported only when it is durable. So a
write that failed half-way (a full disk) can be repeated. Bytes of an interrupted write beyond a
committed length are overwritten or cut, and nothing is appended to them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from lycosa.base.model.capture import ELSEWHERE
from lycosa.base.system.durable import named, sync_data, sync_folder, write_all
from lycosa.state.store import journal, layout
from lycosa.state.store.closed_lengths import record_closed_lengths
from lycosa.state.store.closing import build_derived, give_final_names
from lycosa.state.store.damage import StoreDamaged
from lycosa.state.store.earlier_bodies import ArchiveFiles, noted_archives
from lycosa.state.store.journal_rows import JournalRow
from lycosa.state.store.pending import PendingWrite, pieces
from lycosa.state.store.removed_files import removed_files
from lycosa.state.store.segment_recovery import Recovery, recover
from lycosa.state.store.segments_port import FoundSegments, OpenSegment, StoredSegment
from lycosa.state.store.stored_data import StoredRecord, committed_rows, read_record_at


class SegmentFiles:
    """The segments of one worker in a crawl folder, or of all its workers when ``worker`` is -1.
    Implements ``Segments`` and ``SegmentReader``.

    ``workers`` is the number of workers of this run. The recovery closes open segments of workers
    beyond it, because no worker continues them.
    """

    def __init__(self, folder: Path, worker: int = -1, workers: int | None = None) -> None:
        self._folder, self._worker, self._workers = folder, worker, workers

    def recover_segments(
        self, lengths: Mapping[str, int], sums: Mapping[str, int] | None = None
    ) -> Recovery:
        """See ``Segments``. Raises ``StoreDamaged`` before anything is changed."""
        return recover(
            self._folder, lengths, self._workers, None if self._worker < 0 else self._worker
        )

    def find_segments(self, term: int = 0) -> FoundSegments:
        """See ``Segments``; the names have no term.

        An open segment is committed to its last byte, because ``recover_segments`` ran before.
        """
        number, found = 0, []
        for kind in (layout.WARC, layout.JOURNAL):
            for path in (self._folder / kind).glob("*"):
                if layout.segment_worker(layout.stem_of(path)) == self._worker:
                    number = max(number, layout.segment_number(layout.stem_of(path)))
        for name in layout.removed_names(self._folder, layout.WARC, layout.JOURNAL):
            if layout.segment_worker(name) == self._worker:
                number = max(number, layout.segment_number(name))
        for path in layout.open_files(self._folder):
            name = layout.stem_of(path)
            if path.parent.name == layout.WARC and layout.segment_worker(name) == self._worker:
                rows = self._folder / (layout.file_name(layout.JOURNAL, name) + layout.OPEN)
                found.append(
                    OpenSegment(journal.read_header(rows), path.stat().st_size, rows.stat().st_size)
                )
        return FoundSegments(number, found)

    def put_records(self, pending: PendingWrite) -> None:
        """See ``Segments``. Writes WARC bytes to disk, then journal lines.

        Raises ``DiskFull`` or another ``OSError``; then it may be called again. Raises
        ``StoreDamaged`` when a file has become shorter.
        """
        if pending.is_written:
            return
        lengths: dict[str, int] = {}
        journal_lengths: dict[str, int] = {}
        # All WARC bytes before any journal line: a line never names a record that is not on disk.
        for part, _ in pending.parts:
            lengths[self._write(layout.WARC, part.name, part.start, pieces(part))] = part.end
        for part, journal_length in pending.parts:
            frame = journal.encode_journal_frame(part.lines) if part.lines else b""
            journal_lengths[part.name] = journal_length + len(frame)
            lengths[self._write(layout.JOURNAL, part.name, journal_length, iter((frame,)))] = (
                journal_length + len(frame)
            )
        pending.written(lengths, journal_lengths)

    def close_segment(self, name: str, find_similar: journal.FindSimilar | None = None) -> str:
        """See ``Segments``. Takes about a minute per gigabyte, for the derived files.

        Commits name the segment's open files until the final names are on disk, so a crash at any
        point in between is recovered. The second half (``closing.build_derived``) may run in
        another process.
        """
        give_final_names(self._folder, name)
        record_closed_lengths(self._folder, name)
        with suppress(journal.JournalError, ValueError, OverflowError):
            # The captures are safe in the WARC, so a bad row must not stop the crawl.
            # ``lacking_files`` reports what is missing, and ``rebuild`` retries at the next start
            # and reports the reason of a failure.
            build_derived(self._folder, name)
        return ""

    def read_record(self, segment: str, offset: int) -> StoredRecord:
        if segment.startswith(ELSEWHERE):
            return ArchiveFiles(noted_archives(self._folder).folders).read_record(segment, offset)
        return read_record_at(self._folder, segment, offset)

    def read_warc(self, segment: str, start: int, end: int) -> bytes:
        """The bytes of a segment's WARC between two offsets, fewer if it is shorter.

        Raises ``OSError``.
        """
        path = self._folder / layout.file_name(layout.WARC, segment)
        with layout.open_segment_file(path) as file:
            file.seek(start)
            return file.read(end - start)

    def list_segments(self, lengths: Mapping[str, int]) -> list[StoredSegment]:
        names = sorted(layout.segment_names(self._folder, layout.WARC, layout.JOURNAL))
        found = (
            self._listed(name, lengths)
            for name in names
            if self._worker < 0 or layout.segment_worker(name) == self._worker
        )
        return [segment for segment in found if segment is not None]

    def read_rows(self, segment: StoredSegment, having: bytes = b"") -> Iterator[JournalRow]:
        """See ``SegmentReader``. The segment may be closed meanwhile."""
        path = layout.existing(self._folder, layout.JOURNAL, segment.name)
        name = layout.file_name(layout.JOURNAL, segment.name) + layout.OPEN
        return committed_rows(path, {name: segment.journal_length or 0}, having)

    def _listed(self, name: str, lengths: Mapping[str, int]) -> StoredSegment | None:
        """``None`` for a segment that was begun after the known commits."""
        is_closed = layout.is_closed(self._folder, layout.WARC, name)
        warc, journal = (
            _committed(self._folder, kind, name, lengths) for kind in (layout.WARC, layout.JOURNAL)
        )
        return (
            StoredSegment(name, is_closed, warc or 0, journal)
            if warc is not None or journal is not None
            else None
        )

    def _write(self, kind: str, name: str, start: int, data: Iterator[bytes]) -> str:
        relative = layout.file_name(kind, name) + layout.OPEN
        path = self._folder / relative
        try:
            write_at(path, start, data)
        except OSError as error:
            raise named(error, path) from error
        return relative


def _committed(folder: Path, kind: str, name: str, lengths: Mapping[str, int]) -> int | None:
    """The committed bytes of a file.

    ``None`` when there is none, or it is open and no commit names it.
    """
    closed = layout.file_name(kind, name)
    opened = closed + layout.OPEN
    for relative in (closed, opened, closed):  # it may be closed between two attempts
        with suppress(FileNotFoundError):
            size = (folder / relative).stat().st_size
            return lengths.get(opened) if relative == opened else size
    removed = removed_files(folder).get(closed)
    return removed.bytes if removed else None


def write_at(path: Path, start: int, data: Iterator[bytes]) -> None:
    """Write data at ``start``, truncate the file after them, and sync it to disk.

    Creates the file if ``start`` is 0.
    """
    is_new = start == 0 and not path.exists()
    if is_new and not path.parent.exists():
        # Another worker may create it at the same moment.
        path.parent.mkdir(parents=True, exist_ok=True)
        sync_folder(path.parent.parent)
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | (os.O_CREAT if start == 0 else 0), 0o644)
    try:
        if is_new:
            sync_folder(path.parent)
        length = os.fstat(fd).st_size
        if length < start:
            raise StoreDamaged(path, length, start)
        end = os.lseek(fd, start, os.SEEK_SET)
        for piece in data:
            write_all(fd, piece)
            end += len(piece)
        if length > end:
            os.ftruncate(fd, end)
        sync_data(fd)
    finally:
        os.close(fd)
